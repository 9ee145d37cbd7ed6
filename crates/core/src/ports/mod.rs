//! Where the engine meets the outside: each port method is one step of the ledger or one question to a source.

mod alarm;
mod batch;
mod budget;
mod clock;
mod export;
mod gate;
mod healing;
mod inspect;
mod ledger;
mod operate;
mod outbox;
mod partition;
mod prove;
mod quarantine;
mod registry;
mod remap;
mod schedule;
mod source;

pub use alarm::{Alarms, KeptAlarm, Settled};
pub use batch::*;
pub use budget::{BudgetDraw, BudgetDrawn, Budgets};
pub use clock::{Clock, Random};
pub use export::{Export, Moment, Progress, Work};
pub use gate::{
    Decision, Gate, GateAsk, GateLost, GateMode, GateModes, GatePlace, Permit, PermitAsk, RateKey, RejectReason,
    SharedGate, Signal, Told,
};
pub use healing::{Healing, Hold};
pub use inspect::{Inspect, ListFilter, Noun, Shown, SourceSummary};
pub use ledger::*;
pub use operate::*;
pub use outbox::{Outbox, OutboxCounts, Publisher, Republish, SentEvent, ShardLease, Stream, StreamError, StreamView};
pub use partition::Partition;
pub use prove::{DigestAsk, LifeAsk, Prove, Rehearsal, Rehearsed};
pub use quarantine::{Mended, Quarantine, Quarantined};
pub use registry::{Cell, DictionaryRows, NewVersion, Registry, RegistryRow, StoredVersion};
pub use remap::{Remap, RemapPage};
pub use schedule::{Firing, FiringEnd, ScheduleOrder, Schedules};
pub use source::{HttpAnswer, HttpRequest, Secrets, Source, Transport, TransportError};
