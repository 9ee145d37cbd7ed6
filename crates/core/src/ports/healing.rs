//! What healers share: one row of the ledger for each endpoint, so that a fleet acts as one.

use async_trait::async_trait;

use crate::healing::{Circuit, Site};
use crate::ports::LedgerError;
use crate::time::{Span, Timestamp};

/// Planning of an endpoint is held, because what is planned already is not got done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Timestamp,
    pub reason: String,
    /// The next plan, and only that, ends so much earlier.
    pub lag: Span,
}

#[async_trait]
pub trait Healing: Send + Sync {
    /// The circuit of an endpoint; closed where none was ever opened.
    async fn circuit(&self, site: &Site) -> Result<Circuit, LedgerError>;

    /// Writes `next` if the circuit is still as it was seen; false when someone was faster.
    async fn move_circuit(&self, site: &Site, seen: Circuit, next: Circuit) -> Result<bool, LedgerError>;

    /// Nobody plans the endpoint before the hold is over.
    async fn hold_planning(&self, site: &Site, hold: &Hold) -> Result<(), LedgerError>;
}
