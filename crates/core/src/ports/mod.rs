//! Where the engine meets the outside: each port method is one step of the ledger or one question to a source.

mod batch;
mod clock;
mod gate;
mod inspect;
mod ledger;
mod outbox;
mod registry;
mod source;

pub use batch::*;
pub use clock::{Clock, Random};
pub use gate::{
    Decision, Gate, GateAsk, GateLost, GateMode, GateModes, GatePlace, Permit, RateKey, RejectReason, SharedGate,
    Signal, Told,
};
pub use inspect::{Inspect, ListFilter, Noun, Shown, SourceSummary};
pub use ledger::*;
pub use outbox::{Outbox, OutboxCounts, Publisher, Republish, SentEvent, ShardLease, Stream, StreamError, StreamView};
pub use registry::{Cell, DictionaryRows, NewVersion, Registry, RegistryRow, StoredVersion};
pub use source::{HttpAnswer, HttpRequest, Secrets, Source, Transport, TransportError};
