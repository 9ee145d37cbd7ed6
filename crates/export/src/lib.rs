//! Records written as JSON lines, CSV or Parquet.
//!
//! Records come in pieces (`row` says what each column holds; `lines` and `columnar` write a piece), and a `part` folder
//! beside the target gathers them. Only a whole file ever gets the name that was asked for, and an export that was cut
//! goes on after the last piece that is on the disk.

mod columnar;
mod lines;
mod neutral;
mod part;
mod row;

use std::path::PathBuf;

pub use part::{Part, State};
pub use row::{COLUMNS, Column, Kind};

use patra_core::export::Exported;
use patra_core::hash::Hash32;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jsonl,
    Csv,
    Parquet,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    /// Pieces follow each other as they are; else they are joined at the end.
    pub fn is_stream(self) -> bool {
        self != Format::Parquet
    }

    /// A piece of the file. The first of a stream carries its header.
    pub fn piece(self, records: &[Exported], first: bool) -> Result<Vec<u8>, ExportError> {
        match self {
            Format::Jsonl => lines::jsonl(records),
            Format::Csv => lines::csv(records, first),
            Format::Parquet => columnar::piece(records),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("`{}`: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("`{}` belongs to another export", path.display())]
    Another { path: PathBuf, fingerprint: Hash32 },
    #[error("`{}` is written by somebody else", path.display())]
    Held { path: PathBuf },
    #[error("`{}` cannot be read: {message}", path.display())]
    Broken { path: PathBuf, message: String },
    #[error("record `{id}` cannot be written: {message}")]
    Record { id: String, message: String },
    #[error("the columns cannot be written: {0}")]
    Columns(#[from] parquet::errors::ParquetError),
}
