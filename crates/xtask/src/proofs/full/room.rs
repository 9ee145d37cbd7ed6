//! A file system of limited size, and the ballast that fills it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// Tried one after the other: the last byte must be gone too.
const PIECES: [usize; 3] = [1 << 20, 1 << 12, 1];

/// Mounted until this is dropped.
pub struct Room {
    folder: TempDir,
    ballast: PathBuf,
}

impl Room {
    pub fn mount(mib: u32) -> Result<Room> {
        let folder = tempfile::Builder::new().prefix("patra-full-").tempdir()?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mib}m,mode=755"), "patra-full"]).arg(folder.path());
        let output = command.output().context("mount cannot be started")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("no file system of limited size can be mounted here, which this proof needs: {why}");
        }
        let ballast = folder.path().join("ballast");
        Ok(Room { folder, ballast })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the space that is left, also what has become free since the last time.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(&self.ballast)?;
        for piece in PIECES {
            let zeros = vec![0; piece];
            loop {
                match ballast.write_all(&zeros) {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::WriteZero) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    pub fn free(&self) -> Result<()> {
        Ok(std::fs::remove_file(&self.ballast)?)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Whoever still has a file open there keeps it until he ends; nobody else sees it any more.
        Command::new("umount").arg("--lazy").arg(self.folder.path()).status().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_room_takes_nothing_until_the_ballast_is_gone() {
        let room = match Room::mount(1) {
            Ok(room) => room,
            Err(refused) => return println!("skipped: {refused}"),
        };
        let file = room.path().join("file");
        room.fill().unwrap();
        assert_eq!(std::fs::write(&file, [1; 4_096]).unwrap_err().kind(), ErrorKind::StorageFull);
        room.free().unwrap();
        std::fs::write(&file, [1; 4_096]).unwrap();
    }
}
