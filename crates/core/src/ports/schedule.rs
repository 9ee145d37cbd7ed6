//! Schedules in the ledger: each firing happens once, whoever and however many look.

use async_trait::async_trait;
use serde_json::Value;

use crate::id::Id;
use crate::ports::{Intervention, LedgerError};
use crate::schedule::{Schedule, Turn};
use crate::time::{Span, Timestamp};

/// What a person orders for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleOrder {
    Pause,
    /// It goes on at this due time; what was missed meanwhile is not fired.
    Resume {
        next_due: Timestamp,
    },
    Remove,
}

/// A firing that somebody has to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// Also the id of the schedule instance it opens, so that planning it twice is planning it once.
    pub id: Id,
    pub schedule: Schedule,
    pub due: Timestamp,
    /// CRON, or MANUAL for a person who did not want to wait.
    pub trigger_type: String,
}

/// What became of a firing.
#[derive(Clone, Debug, PartialEq)]
pub enum FiringEnd {
    /// It has an outcome, and possibly a plan.
    Done { status: &'static str, plan: Option<Id>, remarks: Value },
    /// It waits for a live plan, or for the database, until then.
    Later { until: Timestamp, remarks: Value },
}

#[async_trait]
pub trait Schedules: Send + Sync {
    /// Adds a schedule; false when its name is taken.
    async fn add_schedule(&self, schedule: Schedule, act: &Intervention) -> Result<bool, LedgerError>;

    /// All schedules, by name.
    async fn schedules(&self) -> Result<Vec<Schedule>, LedgerError>;

    /// Stops, resumes or removes one; false when it was so before.
    async fn order_schedule(&self, id: Id, order: ScheduleOrder, act: &Intervention) -> Result<bool, LedgerError>;

    /// Moves a schedule on and opens the firing, together; false when another planner did.
    async fn fire(&self, schedule: &Schedule, turn: &Turn) -> Result<bool, LedgerError>;

    /// A firing beside the expression, due now.
    async fn fire_now(&self, schedule: &Schedule, due: Timestamp, act: &Intervention) -> Result<Id, LedgerError>;

    /// Takes firings that nobody plans, the oldest of each schedule first, for so long.
    async fn take_firings(&self, who: &str, ttl: Span, limit: u32) -> Result<Vec<Firing>, LedgerError>;

    /// Ends a firing, or puts it off; false when someone else has taken it meanwhile.
    async fn end_firing(&self, id: Id, who: &str, end: FiringEnd) -> Result<bool, LedgerError>;

    /// The newest firings of a schedule.
    async fn firings(&self, schedule: Id, limit: u32) -> Result<Vec<Value>, LedgerError>;
}
