//! Settings of the loops, with the defaults of the design.

use patra_core::healing::Thresholds;
use patra_core::time::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Life of a lease; a heartbeat renews it at a third of this.
    pub lease_ttl: Span,
    /// Without a committed page for this long the heartbeat ends (INV-25).
    pub progress_limit: Span,
    /// Tasks of one partition that a process runs at a time (`C_max`).
    pub partition_max: u32,
    /// Workers of a process for each core (`C_total`).
    pub workers_per_core: u16,
    /// Connections to the database beside one for each worker.
    pub spare_connections: u32,
    /// An answer of the registry is used for so long before it is asked again.
    pub registry_life: Span,
    /// How often an idle worker looks for tasks.
    pub poll: Span,
    /// A request that cannot start within this is not waited for: the task is given back (INV-44).
    pub gate_deadline: Span,
    /// Requests of one partition in a row while others of the same process wait for the same limit.
    pub gate_quantum: u32,
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
    /// How often plans of which some slices have no task yet are gone on with; `None` where planners do it.
    pub dispatch_every: Option<Span>,
    /// When healers act.
    pub thresholds: Thresholds,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_ttl: Span::from_seconds(60),
            progress_limit: Span::from_seconds(600),
            partition_max: 4,
            workers_per_core: 2,
            spare_connections: 4,
            registry_life: Span::from_seconds(5),
            poll: Span::from_millis(500),
            gate_deadline: Span::from_seconds(120),
            gate_quantum: 10,
            park_after: Span::from_seconds(900),
            failures_max: 5,
            outage_runs_max: 20,
            lost_max: 3,
            slot_ttl: Span::MINUTE.times(10),
            reconcile_every: Span::MINUTE,
            dispatch_every: Some(Span::from_seconds(2)),
            thresholds: Thresholds::default(),
        }
    }
}

impl Settings {
    /// `C_total`: tasks that a process on so many cores works on at a time.
    pub fn workers(&self, cores: usize) -> u16 {
        u16::try_from(cores).unwrap_or(u16::MAX).saturating_mul(self.workers_per_core).max(1)
    }

    /// `C_max`: of so many workers at most these are for one of so many sources.
    pub fn partition_share(&self, workers: u16, sources: usize) -> u32 {
        let sources = u32::try_from(sources).unwrap_or(u32::MAX).max(1);
        (u32::from(workers) / sources).clamp(1, self.partition_max)
    }

    /// Connections of a process with so many workers.
    pub fn connections(&self, workers: u16) -> u32 {
        u32::from(workers) + self.spare_connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_design() {
        let settings = Settings::default();
        assert_eq!((settings.workers(8), settings.connections(16)), (16, 20));
        for (workers, sources, want) in [(16, 1, 4), (16, 4, 4), (16, 5, 3), (4, 7, 1), (2, 1, 2), (4, 0, 4)] {
            assert_eq!(settings.partition_share(workers, sources), want, "{workers} over {sources}");
        }
    }
}
