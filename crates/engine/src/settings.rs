//! Settings of the loops, with the defaults of the design.

use patra_core::time::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Life of a lease; a heartbeat renews it at a third of this.
    pub lease_ttl: Span,
    /// Without a committed page for this long the heartbeat ends (INV-25).
    pub progress_limit: Span,
    /// Tasks of one partition that a process runs at a time (`C_max`).
    pub partition_max: u32,
    /// How often an idle worker looks for tasks.
    pub poll: Span,
    /// A request that cannot start within this is not waited for: the task is given back (INV-44).
    pub gate_deadline: Span,
    /// A Retry-After beyond this parks the task instead of holding a worker (INV-50).
    pub park_after: Span,
    /// Failures of a task before it is FAILED.
    pub failures_max: u32,
    /// Runs without end after which a source's outage counts as failure.
    pub outage_runs_max: u32,
    /// Leases lost at the same page before the task is FAILED(POISON).
    pub lost_max: u32,
    /// Life of a worker slot; it is renewed at a fifth of this.
    pub slot_ttl: Span,
    /// How often the coverage of the namespaces worked for is walked again.
    pub reconcile_every: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_ttl: Span::from_seconds(60),
            progress_limit: Span::from_seconds(600),
            partition_max: 4,
            poll: Span::from_millis(500),
            gate_deadline: Span::from_seconds(120),
            park_after: Span::from_seconds(900),
            failures_max: 5,
            outage_runs_max: 20,
            lost_max: 3,
            slot_ttl: Span::MINUTE.times(10),
            reconcile_every: Span::MINUTE,
        }
    }
}
