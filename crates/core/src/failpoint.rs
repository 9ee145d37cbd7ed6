//! Named places where a test may break the program: return an error, crash, or stall past the lease.
//!
//! In a normal build the handle is empty and [`Failpoints::hit`] is one comparison.

use std::sync::Arc;

/// Every failpoint there is, in the order of the flow.
pub const ALL: &[&str] = &[
    "plan.instance",
    "plan.compiled",
    "plan.publish.begin",
    "plan.publish.slices",
    "plan.publish.commit",
    "plan.published",
    "dispatch.begin",
    "dispatch.tasks",
    "dispatch.commit",
    "claim.select",
    "claim.take",
    "claim.run",
    "claim.commit",
    "claim.done",
    "heartbeat.before",
    "heartbeat.after",
    "fetch.before",
    "fetch.after",
    "page.parsed",
    "t1.begin",
    "t1.fence",
    "t1.read",
    "t1.records",
    "t1.outbox",
    "t1.quarantine",
    "t1.body",
    "t1.batch",
    "t1.commit",
    "t1.done",
    "pass.begin",
    "pass.commit",
    "t2.begin",
    "t2.fence",
    "t2.plan",
    "t2.walk",
    "t2.event",
    "t2.cursor",
    "t2.commit",
    "t2.done",
    "split.begin",
    "split.parent",
    "split.children",
    "split.commit",
    "cancel.begin",
    "cancel.commit",
    "release.begin",
    "release.commit",
    "reconcile.begin",
    "reconcile.commit",
    "rate.take",
    "bisect",
    "shutdown.begin",
    "shutdown.done",
];

/// What a test wants to happen at a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    Pass,
    /// The step reports an error and its transaction is rolled back.
    Error,
    /// The process dies here.
    Abort,
}

/// Decides at each hit; may also stall before it answers.
pub trait Striker: Send + Sync {
    fn strike(&self, name: &'static str) -> Strike;
}

/// Payload of the panic that stands for a dead process inside a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashed(pub &'static str);

/// The planted error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failpoint {0}")]
pub struct Struck(pub &'static str);

/// Handle given to everything that has failpoints.
#[derive(Clone, Default)]
pub struct Failpoints(Option<Arc<dyn Striker>>);

impl Failpoints {
    pub fn none() -> Failpoints {
        Failpoints(None)
    }

    pub fn with(striker: Arc<dyn Striker>) -> Failpoints {
        Failpoints(Some(striker))
    }

    /// Passes, fails or crashes as the test wants.
    pub fn hit(&self, name: &'static str) -> Result<(), Struck> {
        debug_assert!(ALL.contains(&name), "failpoint {name} is not in the list");
        let Some(striker) = &self.0 else { return Ok(()) };
        match striker.strike(name) {
            Strike::Pass => Ok(()),
            Strike::Error => Err(Struck(name)),
            Strike::Abort => std::panic::panic_any(Crashed(name)),
        }
    }
}
