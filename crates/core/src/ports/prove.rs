//! The port of proof: what a certificate rests on, and the life of one record. It reads in short looks; what it writes it
//! takes back.

use async_trait::async_trait;

use crate::hash::Hash32;
use crate::id::Id;
use crate::page::BadItem;
use crate::ports::{Counts, LedgerError, Namespace};
use crate::proof::blackbox::Decisions;
use crate::proof::{Columns, Digests, Evidence, KeptPage, Life, Pages, ReadRecord};
use crate::record::NewRecord;
use crate::refit::Policy;
use crate::spec::snapshot::Operation;
use crate::time::Timestamp;
use crate::window::Window;

/// Which rows are to be digested.
#[derive(Clone, Debug)]
pub struct DigestAsk {
    pub provenance: String,
    pub entity: String,
    /// Each with its plan, task, runs, pages, quarantined records and missing ids.
    pub slices: Vec<Id>,
    pub waivers: Vec<Id>,
    pub columns: Columns,
}

/// Which record's life is asked for.
#[derive(Clone, Debug)]
pub struct LifeAsk {
    pub provenance: String,
    pub id: String,
    /// When it was last changed, as somebody knows it.
    pub dated: Option<Timestamp>,
    /// Most pages that are searched for an id of which nothing else is known.
    pub search_max: u64,
}

/// What a page makes of its records, to be committed as it was and taken back.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    pub batch: Id,
    pub entity: String,
    pub operation: Operation,
    pub policy: Policy,
    pub mapping_hash: Hash32,
    /// Sorted and without repetition.
    pub records: Vec<NewRecord>,
    pub bad: Vec<BadItem>,
}

/// What the commit would have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    pub counts: Counts,
    /// What the database says against the page.
    pub refused: Option<String>,
}

#[async_trait]
pub trait Prove: Send + Sync {
    /// From the first planned moment of a namespace to the last; `None` when nothing was ever planned.
    async fn planned_window(&self, namespace: &Namespace) -> Result<Option<Window>, LedgerError>;

    /// Every slice of a namespace that touches a window, and every waiver; `entity` is the name of its records.
    async fn evidence(&self, namespace: &Namespace, entity: &str, window: Window) -> Result<Evidence, LedgerError>;

    /// The columns that digests are taken over, in this database as it is now.
    async fn basis_columns(&self) -> Result<Columns, LedgerError>;

    /// Digests of what is asked for, over the columns that are named. What is gone has none.
    async fn digests(&self, ask: &DigestAsk) -> Result<Digests, LedgerError>;

    /// The watermark of a namespace.
    async fn watermark(&self, namespace: Hash32) -> Result<Option<Timestamp>, LedgerError>;

    /// Everything that is known of one id.
    async fn life(&self, ask: &LifeAsk) -> Result<Life, LedgerError>;

    /// The next committed pages after one, with the answers that were kept; none when there are no more.
    async fn kept_pages(&self, pages: &Pages, after: Id) -> Result<Vec<KeptPage>, LedgerError>;

    /// Of these records those that a page stored and that nobody has changed since.
    async fn stored_by(
        &self,
        provenance: &str,
        entity: &str,
        batch: Id,
        ids: Vec<String>,
    ) -> Result<Vec<ReadRecord>, LedgerError>;

    /// What a page decided of these ids, which it shows, and of those that it put into quarantine.
    async fn decisions(
        &self,
        provenance: &str,
        entity: &str,
        batch: Id,
        ids: Vec<String>,
    ) -> Result<Decisions, LedgerError>;

    /// Commits the records of a page in a transaction that is rolled back whatever comes of it.
    async fn rehearse(&self, page: Rehearsal) -> Result<Rehearsed, LedgerError>;
}
