//! A file on its way: everything is gathered in a folder `<target>.part`, and the target appears whole by one rename.
//!
//! A piece is on the disk before the state names it, so what the state does not name is cut off or overwritten by the run
//! that goes on. The folder is taken away last: an export whose target is there but whose cursor was not moved yet still
//! finds its state and moves it.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use patra_core::export::{Changes, Exported, Place};
use patra_core::hash::Hash32;
use serde::{Deserialize, Serialize};

use crate::{ExportError, Format, columnar};

/// What is on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Of selection, format and cursor.
    pub fingerprint: Hash32,
    /// Fixed by the run that began.
    pub changes: Option<Changes>,
    pub pieces: u64,
    pub bytes: u64,
    pub records: u64,
    /// After the last record that is on the disk.
    pub place: Option<Place>,
    /// The target has its name.
    pub named: bool,
}

/// The folder of one export; held by one process at a time.
#[derive(Debug)]
pub struct Part {
    target: PathBuf,
    folder: PathBuf,
    format: Format,
    state: State,
    _held: File,
}

impl Part {
    /// Opens the folder of a target. A run that was cut is gone on with; one of another export is refused.
    pub fn open(target: &Path, format: Format, fingerprint: Hash32) -> Result<Part, ExportError> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let folder = PathBuf::from(name);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(at(&folder)(error)),
            _ => {}
        }
        let held = held(&folder)?;
        let fresh = State { fingerprint, changes: None, pieces: 0, bytes: 0, records: 0, place: None, named: false };
        let state = read_state(&folder)?.unwrap_or(fresh);
        if state.fingerprint != fingerprint {
            return Err(ExportError::Another { path: folder, fingerprint: state.fingerprint });
        }
        Ok(Part { target: target.to_owned(), folder, format, state, _held: held })
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The run that begins says which changes are exported; one that goes on keeps to it.
    pub fn begin(&mut self, changes: Option<Changes>) -> Result<(), ExportError> {
        self.state.changes = changes;
        self.write_state()
    }

    /// Puts a piece on the disk; the export has come to `place` with it.
    pub fn append(&mut self, records: &[Exported], place: &Place) -> Result<(), ExportError> {
        let piece = self.format.piece(records, self.state.pieces == 0)?;
        let (path, from) = match self.format.is_stream() {
            true => (self.rows(), self.state.bytes),
            false => (self.piece(self.state.pieces), 0),
        };
        write_from(&path, from, &piece).map_err(at(&path))?;
        self.state.pieces += 1;
        self.state.bytes += piece.len() as u64;
        self.state.records += records.len() as u64;
        self.state.place = Some(place.clone());
        self.write_state()
    }

    /// The target has its name; only what comes after that is left to do.
    pub fn is_published(&self) -> bool {
        self.state.named && !self.rows().exists()
    }

    /// Gives the whole file its name.
    pub fn publish(&mut self) -> Result<(), ExportError> {
        if self.is_published() {
            return Ok(());
        }
        let rows = self.rows();
        let mut file = match self.format.is_stream() {
            true => self.whole_stream()?,
            false => {
                let pieces: Vec<PathBuf> = (0..self.state.pieces).map(|number| self.piece(number)).collect();
                columnar::joined(&pieces, File::create(&rows).map_err(at(&rows))?)?
            }
        };
        file.flush().and_then(|()| file.sync_all()).map_err(at(&rows))?;
        drop(file);
        // Said before it is done: whoever finds the state then looks whether the rows have gone.
        self.state.named = true;
        self.write_state()?;
        std::fs::rename(&rows, &self.target).map_err(at(&self.target))?;
        sync_folder(&self.target);
        Ok(())
    }

    /// Takes the folder away.
    pub fn remove(self) -> Result<(), ExportError> {
        std::fs::remove_dir_all(&self.folder).map_err(at(&self.folder))
    }

    /// A stream without records has its header alone.
    fn whole_stream(&self) -> Result<File, ExportError> {
        let rows = self.rows();
        if self.state.pieces == 0 {
            write_from(&rows, 0, &self.format.piece(&[], true)?).map_err(at(&rows))?;
        }
        let file = OpenOptions::new().write(true).open(&rows).map_err(at(&rows))?;
        if self.state.pieces > 0 {
            file.set_len(self.state.bytes).map_err(at(&rows))?;
        }
        Ok(file)
    }

    fn rows(&self) -> PathBuf {
        self.folder.join("rows")
    }

    fn piece(&self, number: u64) -> PathBuf {
        self.folder.join(format!("rows-{number:06}"))
    }

    fn write_state(&self) -> Result<(), ExportError> {
        let (path, next) = (self.folder.join("state.json"), self.folder.join("state.next"));
        let text = serde_json::to_vec(&self.state)
            .map_err(|error| ExportError::Broken { path: path.clone(), message: error.to_string() })?;
        let written = write_from(&next, 0, &text).and_then(|()| std::fs::rename(&next, &path));
        written.map_err(at(&path))
    }
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::File { path, error }
}

/// One process writes; the lock ends with it.
fn held(folder: &Path) -> Result<File, ExportError> {
    let path = folder.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(ExportError::Held { path: folder.to_owned() }),
        Err(std::fs::TryLockError::Error(error)) => Err(at(&path)(error)),
    }
}

fn read_state(folder: &Path) -> Result<Option<State>, ExportError> {
    let path = folder.join("state.json");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(&path)(error)),
    };
    let state = serde_json::from_slice(&text);
    state.map(Some).map_err(|error| ExportError::Broken { path, message: error.to_string() })
}

/// Writes at a place, cuts off what lay behind it, and waits for the disk.
fn write_from(path: &Path, from: u64, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    file.set_len(from)?;
    file.seek(SeekFrom::Start(from))?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// So that the name survives a power cut too; not every file system lets a folder be synced.
fn sync_folder(target: &Path) {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::record;

    fn records(from: i64, to: i64) -> Vec<Exported> {
        (from..to).map(|number| record(number, r#"{"title":"T"}"#)).collect()
    }

    fn place(records: &[Exported]) -> Place {
        records.last().map(|last| last.place(None)).unwrap()
    }

    /// What an export without any accident gives.
    fn plain(format: Format) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let mut part = Part::open(&target, format, Hash32::default()).unwrap();
        for (from, to) in [(0, 3), (3, 6), (6, 7)] {
            part.append(&records(from, to), &place(&records(from, to))).unwrap();
        }
        part.publish().unwrap();
        std::fs::read(&target).unwrap()
    }

    #[test]
    fn an_export_that_is_cut_anywhere_ends_as_one_that_is_not() {
        for format in [Format::Jsonl, Format::Csv, Format::Parquet] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("out");
            let mut part = Part::open(&target, format, Hash32::default()).unwrap();
            part.append(&records(0, 3), &place(&records(0, 3))).unwrap();
            drop(part);
            // Cut in the middle of the next piece: its bytes are there, the state does not name them.
            let half = folder.path().join("out.part").join(if format.is_stream() { "rows" } else { "rows-000001" });
            let mut torn = OpenOptions::new().create(true).append(true).open(&half).unwrap();
            torn.write_all(b"torn").unwrap();
            drop(torn);
            assert!(!target.exists(), "nothing has the name before it is whole");
            let mut part = Part::open(&target, format, Hash32::default()).unwrap();
            assert_eq!((part.state().records, part.state().place.clone()), (3, Some(place(&records(0, 3)))));
            for (from, to) in [(3, 6), (6, 7)] {
                part.append(&records(from, to), &place(&records(from, to))).unwrap();
            }
            part.publish().unwrap();
            part.publish().unwrap();
            part.remove().unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), plain(format), "{format:?}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_part_of_another_export_and_one_that_is_held_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let mut part = Part::open(&target, Format::Jsonl, Hash32::of(b"a")).unwrap();
        part.begin(None).unwrap();
        assert!(matches!(Part::open(&target, Format::Jsonl, Hash32::of(b"a")), Err(ExportError::Held { .. })));
        drop(part);
        assert!(matches!(Part::open(&target, Format::Jsonl, Hash32::of(b"b")), Err(ExportError::Another { .. })));
    }

    #[test]
    fn an_empty_export_is_a_whole_file_too() {
        let folder = tempfile::tempdir().unwrap();
        for (format, want) in [(Format::Jsonl, 0), (Format::Csv, 1)] {
            let target = folder.path().join(format.name());
            Part::open(&target, format, Hash32::default()).unwrap().publish().unwrap();
            assert_eq!(std::fs::read_to_string(&target).unwrap().lines().count(), want);
        }
    }
}
