//! How a command fails: one message a person can act on, and an exit code a script can rely on.

use std::fmt;

/// Every exit code there is. `docs/exit-codes.md` is made from this table and a test keeps them equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Records are missing, or slices ended without proof.
    Incomplete = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A source definition has mistakes.
    Definition = 3,
    /// What was asked for does not exist.
    NotFound = 4,
    /// The database cannot be used.
    Database = 5,
    /// A source refuses us, or is paused.
    Source = 6,
    /// Stopped by a signal; everything committed stays, run the same command to go on.
    Stopped = 7,
    /// A defect of patra.
    Internal = 70,
}

pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Incomplete, "something is missing: slices failed or ended without proof, or the demo found a difference"),
    (Exit::Usage, "the command line is wrong"),
    (Exit::Definition, "a source definition has mistakes; each is shown with its line and column"),
    (Exit::NotFound, "the source, plan, task, record ... that was asked for does not exist"),
    (Exit::Database, "the database cannot be opened, is full, or was written by a newer release"),
    (Exit::Source, "the source refuses us or is paused"),
    (Exit::Stopped, "stopped by a signal; what was committed stays, the same command goes on from there"),
    (Exit::Internal, "a defect of patra; please report it"),
];

/// The text of `docs/exit-codes.md`.
pub fn exit_table() -> String {
    let mut text = String::from(
        "# Exit codes\n\nMade by `patra doctor --exit-codes`; a test keeps it equal to the program.\n\n\
         | Code | Meaning |\n|---:|---|\n| 0 | it is done, and nothing is missing |\n",
    );
    for (exit, meaning) in EXITS {
        text.push_str(&format!("| {} | {meaning} |\n", *exit as u8));
    }
    text
}

/// A failure ready to be shown.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, message: message.to_string(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Diagnostics carry their own `error:`.
        match self.message.starts_with("error: ") {
            true => write!(f, "{}", self.message)?,
            false => write!(f, "error: {}", self.message)?,
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<patra_core::ports::LedgerError> for Failure {
    fn from(error: patra_core::ports::LedgerError) -> Failure {
        use patra_core::ports::LedgerError as E;
        let exit = match &error {
            E::Missing { .. } => Exit::NotFound,
            E::LeaseLost { .. } | E::Struck(_) => Exit::Internal,
            _ => Exit::Database,
        };
        Failure::new(exit, error)
    }
}

impl From<patra_engine::planner::PlanError> for Failure {
    fn from(error: patra_engine::planner::PlanError) -> Failure {
        use patra_core::plan::build::NoPlan;
        use patra_engine::planner::PlanError as E;
        match error {
            E::UnknownSource { provenance } => {
                Failure::new(Exit::NotFound, format!("there is no source `{provenance}`"))
                    .hint("`patra source list` shows the sources, `patra registry apply FILE` adds one; `patra harvest` also takes a file")
            }
            E::UnknownChannel { .. } => {
                Failure::new(Exit::NotFound, error).hint("`patra registry apply FILE --channel NAME` makes a channel")
            }
            E::Mistakes { mistakes, .. } => mistaken(&mistakes),
            E::Paused { provenance, reason } => stopped(&provenance, &reason),
            E::Held { .. } => Failure::new(Exit::Source, error)
                .hint("too much of it failed lately; what is planned goes on, and planning after that time"),
            E::NotByWindow { .. } => Failure::new(Exit::Usage, error)
                .hint("run `patra update` again"),
            E::NoPlan(error @ NoPlan::Zone(_)) => Failure::new(Exit::Definition, error),
            E::NoPlan(error @ NoPlan::OutOfRange { .. }) => Failure::new(Exit::Usage, error)
                .hint("the source declares `window.out_of_range: fail`; ask for a time inside its range"),
            E::Ledger(error) => error.into(),
        }
    }
}

/// Somebody, or its fuse, has stopped a source.
pub fn stopped(provenance: &str, reason: &str) -> Failure {
    Failure::new(Exit::Source, format!("`{provenance}` is stopped: {reason}"))
        .hint(format!("when the cause is mended: `patra source resume {provenance} --reason TEXT`"))
}

/// All mistakes of a definition, one after the other.
pub fn mistaken(mistakes: &[patra_core::registry::Diagnostic]) -> Failure {
    let text: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Definition, text.join("\n\n"))
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(Exit::Internal, error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::new(Exit::Internal, error)
    }
}
