//! What can go wrong between the ledger and its database, sorted by what to do about it.

use patra_core::failpoint::Struck;
use patra_core::ports::LedgerError;
use patra_core::states::IllegalTransition;

/// Why a store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the database {place}: {message}")]
    Open { place: String, message: String },
    #[error(
        "the database is at schema version {found} and works only with builds of patra that know version {needed}, \
         this one knows versions up to {known}: use a newer build"
    )]
    TooNew { found: i64, needed: i64, known: i64 },
    #[error("the database lacks schema version {wanted}: run `patra migrate` with a role that may change tables")]
    TooOld { wanted: i64 },
    #[error("cannot {step} the tables: {message}")]
    Schema { step: &'static str, message: String },
    #[error("migration {version} ({name}) was applied to this database with another content")]
    Changed { version: i64, name: String },
    #[error("migration {version} ({name}) failed: {message}")]
    Migration { version: i64, name: String, message: String },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// An error inside a step. The step, not the statement, decides what the caller sees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DbError {
    /// Known to have changed nothing: run the whole step again.
    Busy(String),
    /// As `Busy`, but the connection has prepared statements that do not fit the schema any more.
    Stale(String),
    /// A unique key was there already.
    Unique(String),
    /// The content of a row was refused.
    Data(String),
    Unavailable(String),
    /// There is no space, and a moment later there is none either: the step is left to a later look, also when it was
    /// the COMMIT that was refused.
    Full(String),
    /// Nobody can say yet whether the COMMIT happened: run the step again, which looks first.
    CommitUnknown(String),
    Ledger(LedgerError),
}

impl DbError {
    /// The error as the caller of `step` sees it.
    pub fn into_ledger(self, step: &'static str) -> LedgerError {
        match self {
            DbError::Ledger(error) => error,
            DbError::Data(message) => LedgerError::Data { message },
            DbError::Busy(message)
            | DbError::Stale(message)
            | DbError::Unique(message)
            | DbError::Unavailable(message)
            | DbError::Full(message)
            | DbError::CommitUnknown(message) => LedgerError::Unavailable { step, message },
        }
    }

    pub fn message(&self) -> String {
        match self {
            DbError::Ledger(error) => error.to_string(),
            DbError::Busy(message)
            | DbError::Stale(message)
            | DbError::Unique(message)
            | DbError::Data(message)
            | DbError::Unavailable(message)
            | DbError::Full(message)
            | DbError::CommitUnknown(message) => message.clone(),
        }
    }
}

impl From<LedgerError> for DbError {
    fn from(error: LedgerError) -> Self {
        DbError::Ledger(error)
    }
}

impl From<Struck> for DbError {
    fn from(struck: Struck) -> Self {
        DbError::Ledger(LedgerError::Struck(struck))
    }
}

/// A stored state that does not allow the step was written by no version of this program.
impl From<IllegalTransition> for DbError {
    fn from(illegal: IllegalTransition) -> Self {
        DbError::Ledger(LedgerError::Corrupt {
            table: illegal.machine,
            column: "status_code".into(),
            row: 0,
            message: illegal.to_string(),
        })
    }
}
