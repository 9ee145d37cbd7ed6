//! A database with the schema, the dictionaries and the definitions, made once and copied for every run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use patra_core::failpoint::Failpoints;
use patra_engine::notice::Silent;

use crate::lab::{Lab, LabPlan, LabResult};

static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();

/// Puts a fresh database for `plan` in its place. The template is made with the plan's own start of time, so all
/// plans of one process must share their history.
pub fn place(plan: &LabPlan) -> LabResult<()> {
    let bytes = match TEMPLATE.get() {
        Some(bytes) => bytes,
        None => {
            let made = make(plan)?;
            TEMPLATE.get_or_init(|| made)
        }
    };
    std::fs::write(&plan.database, bytes).map_err(|error| error.to_string())
}

fn make(plan: &LabPlan) -> LabResult<Vec<u8>> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut first = LabPlan::new(0, 0, folder.path().join("template.db"));
    first.history = plan.history;
    first.records = 7;
    let lab = Lab::open(first, Failpoints::none(), Arc::new(Silent))?;
    lab.runtime.block_on(lab.store.close());
    drop(lab);
    std::fs::read(folder.path().join("template.db")).map_err(|error| error.to_string())
}

/// A folder in memory where there is one: a simulation needs no disk.
pub fn scratch() -> LabResult<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).map_err(|error| error.to_string())
}

/// The database of a run in its scratch folder.
pub fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("run.db")
}
