//! An archive of evidence, `tar.gz`: written beside its target and named when it is whole, read back part by part.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use patra_core::hash::Hash32;
use patra_core::proof::blackbox::{Listed, MANIFEST, Manifest};
use patra_core::time::Timestamp;
use tar::{Builder, EntryType, Header};
use tempfile::NamedTempFile;

use crate::failure::{Exit, Failure};

/// No manifest is larger.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// For the operator alone: an archive holds what is not meant for everybody.
const MODE: u32 = 0o600;

/// An archive that is being written; dropped before its end it leaves nothing.
pub struct Archive {
    tar: Builder<GzEncoder<NamedTempFile>>,
    target: PathBuf,
    made_at: Timestamp,
    listed: Vec<Listed>,
}

impl Archive {
    pub fn begin(target: &Path, made_at: Timestamp) -> Result<Archive, Failure> {
        if target.symlink_metadata().is_ok() {
            return Err(taken(target));
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = NamedTempFile::new_in(folder).map_err(|error| unwritten(target, &error))?;
        let tar = Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Archive { tar, target: target.to_owned(), made_at, listed: Vec::new() })
    }

    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.append(name, bytes).map_err(|error| unwritten(&self.target, &error))?;
        let (name, size) = (name.to_owned(), bytes.len() as u64);
        self.listed.push(Listed { name, bytes: size, sha256: Hash32::of(bytes) });
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(u64::try_from(self.made_at.micros() / 1_000_000).unwrap_or_default());
        self.tar.append_data(&mut header, name, bytes)
    }

    /// Writes the manifest and gives the archive its name; nothing that has this name meanwhile is overwritten.
    pub fn end(mut self, manifest: impl FnOnce(Vec<Listed>) -> Manifest) -> Result<Manifest, Failure> {
        let manifest = manifest(std::mem::take(&mut self.listed));
        let text = serde_json::to_vec_pretty(&manifest)?;
        let target = self.target.clone();
        let failed = |error: io::Error| unwritten(&target, &error);
        self.append(MANIFEST, &text).map_err(failed)?;
        let file = self.tar.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        match file.persist_noclobber(&target) {
            Ok(_) => Ok(manifest),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(taken(&target)),
            Err(error) => Err(unwritten(&target, &error.error)),
        }
    }
}

fn taken(target: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("`{}` is there already", target.display()))
        .hint("evidence is never overwritten; name another file")
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot write `{}`: {error}", target.display()))
}

/// The manifest of an archive and what its other parts really are.
pub fn read(file: &Path) -> Result<(Manifest, Vec<Listed>), Failure> {
    let shown = file.display();
    let opened =
        File::open(file).map_err(|error| Failure::new(Exit::NotFound, format!("cannot read `{shown}`: {error}")))?;
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("`{shown}` is no whole black box: {what}"))
            .hint("`patra blackbox export RUN -o FILE` makes one")
    };
    let (text, parts) = parts(opened).map_err(|error| wrong(&error))?;
    let text = text.ok_or_else(|| wrong(&"it has no manifest"))?;
    let manifest = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    Ok((manifest, parts))
}

fn parts(file: File) -> io::Result<(Option<Vec<u8>>, Vec<Listed>)> {
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let (mut manifest, mut listed) = (None, Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_dir() {
            continue;
        }
        // Who packs it anew with ordinary tools has other spellings of the same names.
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        if name == MANIFEST {
            let mut text = Vec::new();
            entry.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
            manifest = Some(text);
            continue;
        }
        let (bytes, sha256) = digest(&mut entry)?;
        listed.push(Listed { name, bytes, sha256 });
    }
    Ok((manifest, listed))
}

/// Length and hash, without holding the part in memory.
fn digest(part: &mut impl Read) -> io::Result<(u64, Hash32)> {
    let mut hashing = patra_core::hash::Hashing::default();
    let (mut buffer, mut length) = (vec![0; 64 * 1024], 0);
    loop {
        match part.read(&mut buffer)? {
            0 => return Ok((length, hashing.end())),
            read => {
                hashing.put(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}
