//! The ledger: every method is one transaction, and its first sentence is the invariant it keeps.

/// Why a step of the ledger did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Someone else holds the task now: stop, write nothing more.
    #[error("the lease of task {task} was lost")]
    LeaseLost { task: i64 },
    /// A row holds what no version of this program writes.
    #[error("{table}.{column} of row {row} holds nonsense: {message}")]
    Corrupt { table: &'static str, column: String, row: i64, message: String },
    /// The database is out of reach, full or broken; nothing was written.
    #[error("the database refused {step}: {message}")]
    Unavailable { step: &'static str, message: String },
    /// One record was refused by the database; the page can be committed without it.
    #[error("the database refused a record: {message}")]
    Data { message: String },
    /// Written by a newer release.
    #[error("{what} was written by a newer release of patra")]
    TooNew { what: String },
    /// A planted failure of a test.
    #[error("failpoint {name}")]
    Failpoint { name: String },
}
