//! `patra export`: records as JSON lines, CSV or Parquet. A file is there whole or not at all, a cut run goes on, and an
//! export under a name tells only what has changed since the last one.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use patra_core::export::{Changes, Exported, Place, Selection, Wanted};
use patra_core::hash::Hash32;
use patra_core::ports::{Export, Progress, Registry, Work};
use patra_core::time::{Span, Timestamp};
use patra_export::{ExportError, Format, Part};
use serde_json::json;

use crate::cli::Global;
use crate::commands::query::parsed;
use crate::counting::Counting;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

/// A piece is written when it has so many records, or so many bytes of fields.
const PIECE_RECORDS: usize = 20_000;
const PIECE_BYTES: usize = 16 << 20;
/// Our transactions on a server are short: one that idles is ended after 20 s, one that waits after 10 s. That none takes
/// longer than this in all is expected, not enforced; `--settle` is for those who want to be surer.
const SETTLE_DEFAULT: u32 = 120;

#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Only this source; all by default
    #[arg(long)]
    pub source: Option<String>,
    /// Only what matches, in the query language; what a record does not say is not held against it
    #[arg(long, value_name = "EXPR")]
    pub query: Option<String>,
    /// Only records that their source dates at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<Timestamp>,
    /// Only records that changed here at this time or later, in the order of their changes
    #[arg(long, value_name = "TIME")]
    pub changed_since: Option<Timestamp>,
    /// Only what has changed since the last export of this name; the first one has everything
    #[arg(long, value_name = "NAME", conflicts_with = "changed_since")]
    pub cursor: Option<String>,
    /// Leave changes younger than this to the next export; on a server 120 by default, as their commits may be on their way
    #[arg(long, value_name = "SECONDS")]
    pub settle: Option<u32>,
    /// Records of one piece
    #[arg(long, hide = true, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub piece: Option<u32>,
    /// By the ending of the file, else lines of JSON
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,
    /// Where to write; `-` is the standard output
    #[arg(short, long, value_name = "PATH|-")]
    pub output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    Jsonl,
    Csv,
    Parquet,
}

impl ExportArgs {
    fn format(&self) -> Format {
        let named = self.format.or_else(|| match self.output.extension()?.to_str()? {
            "csv" => Some(FormatName::Csv),
            "parquet" => Some(FormatName::Parquet),
            _ => None,
        });
        match named {
            Some(FormatName::Csv) => Format::Csv,
            Some(FormatName::Parquet) => Format::Parquet,
            Some(FormatName::Jsonl) | None => Format::Jsonl,
        }
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let query = self.query.as_deref().map(parsed).transpose()?.map(|query| query.to_string());
        Ok(Selection { source: self.source.clone(), query, since: self.since })
    }

    fn to_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }
}

pub async fn run(global: &Global, args: &ExportArgs) -> Result<(), Failure> {
    // A name is kept in the database, and read where the changes are: a replica may be behind.
    let desk = match args.cursor {
        Some(_) => Desk::open_to_act(global).await?,
        None => Desk::open_existing(global).await?,
    };
    let told = exported(&desk, global, args).await;
    desk.store.close().await;
    let told = told?;
    match (args.to_stdout(), global.json) {
        (true, _) => {}
        (false, true) => println!("{told}"),
        (false, false) => println!("{} records in {}", told["records"], args.output.display()),
    }
    Ok(())
}

async fn exported(desk: &Desk, global: &Global, args: &ExportArgs) -> Result<serde_json::Value, Failure> {
    let selection = args.selection()?;
    if let Some(source) = &selection.source
        && desk.store.versions(Some(source)).await?.is_empty()
    {
        let unknown = Failure::new(Exit::NotFound, format!("there is no source `{source}`"));
        return Err(unknown.hint("`patra source list` shows the sources"));
    }
    let known = match &args.cursor {
        Some(name) => Cursor::read(desk, name, &selection).await?,
        None => Cursor::default(),
    };
    let changes = changes(desk, args, &known).await?;
    let mut run = Run {
        desk,
        wanted: Wanted::of(&selection).map_err(|error| Failure::new(Exit::Usage, error))?,
        source: selection.source.clone(),
        changes,
        counting: Counting::new(global.quiet, desk.clock.clone()),
        piece_records: args.piece.map_or(PIECE_RECORDS, |count| count as usize),
        records: 0,
    };
    let told = if args.to_stdout() { stream(&mut run, args).await? } else { file(&mut run, args, &selection).await? };
    run.counting.end();
    if let (Some(name), Some(done)) = (&args.cursor, told.changes) {
        known.advance(desk, name, &selection, done).await?;
    }
    if let Some(part) = told.part {
        part.remove()?;
    }
    Ok(json!({
        "records": told.records,
        "format": args.format().name(),
        "path": args.output.display().to_string(),
        "changed": told.changes.map(|changes| json!({ "from": changes.from, "to": changes.to })),
        "resumed_after": told.resumed_after,
    }))
}

/// Which changes are told: those since the cursor or the time that was given, up to a moment before which all is known.
async fn changes(desk: &Desk, args: &ExportArgs, known: &Cursor) -> Result<Option<Changes>, Failure> {
    let from = match (&args.cursor, args.changed_since) {
        (Some(_), _) => known.to.unwrap_or(Timestamp::MIN),
        (None, Some(since)) => since,
        (None, None) => return Ok(None),
    };
    let moment = desk.store.moment().await?;
    let usual = if moment.settled { 0 } else { SETTLE_DEFAULT };
    let settle = Span::from_seconds(i64::from(args.settle.unwrap_or(usual)));
    Ok(Some(Changes { from, to: moment.now.minus(settle).max(from) }))
}

/// How far the exports of one name have come.
#[derive(Default)]
struct Cursor {
    step_no: i64,
    to: Option<Timestamp>,
}

impl Cursor {
    async fn read(desk: &Desk, name: &str, selection: &Selection) -> Result<Cursor, Failure> {
        let Some(known) = desk.store.progress(Work::Export, name).await? else { return Ok(Cursor::default()) };
        if known.fingerprint != selection.fingerprint() {
            let other = format!("the cursor `{name}` belongs to exports of another selection");
            return Err(
                Failure::new(Exit::Usage, other).hint("ask for the same source, query and time, or take another name")
            );
        }
        let to = known.position.parse().map_err(|error| Failure::new(Exit::Database, error))?;
        Ok(Cursor { step_no: known.step_no, to: Some(to) })
    }

    async fn advance(&self, desk: &Desk, name: &str, selection: &Selection, done: Changes) -> Result<(), Failure> {
        let next =
            Progress { fingerprint: selection.fingerprint(), position: done.to.to_string(), step_no: self.step_no + 1 };
        match desk.store.note_progress(Work::Export, name, &next).await? {
            true => Ok(()),
            false => Err(Failure::new(Exit::Incomplete, format!("somebody else has exported `{name}` meanwhile"))
                .hint("the file is whole; the next export of that name goes on from theirs")),
        }
    }
}

/// What a run has come to.
struct Told {
    records: u64,
    changes: Option<Changes>,
    resumed_after: u64,
    part: Option<Part>,
}

async fn file(run: &mut Run<'_>, args: &ExportArgs, selection: &Selection) -> Result<Told, Failure> {
    let mut part = opened(args, selection)?;
    let resumed_after = part.state().records;
    match part.state().place.is_some() || part.state().named {
        true => run.changes = part.state().changes,
        false if args.cursor.is_some() && args.output.exists() => {
            return Err(Failure::new(Exit::Usage, format!("`{}` is there already", args.output.display()))
                .hint("every export of a cursor is a file of its own, or changes would be lost"));
        }
        false => part.begin(run.changes)?,
    }
    if !part.is_published() {
        run.records = resumed_after;
        let place = part.state().place.clone();
        run.pieces(place, &mut |records, place| Ok(part.append(records, place)?)).await?;
        part.publish()?;
    }
    Ok(Told { records: part.state().records, changes: run.changes, resumed_after, part: Some(part) })
}

/// A run that is over but for its folder is nothing to go on with, unless its cursor was not moved.
fn opened(args: &ExportArgs, selection: &Selection) -> Result<Part, Failure> {
    let what = json!({ "selection": selection, "format": args.format().name(), "cursor": args.cursor, "changed_since": args.changed_since });
    let fingerprint = Hash32::of_json(&what);
    let part = Part::open(&args.output, args.format(), fingerprint)?;
    if part.is_published() && args.cursor.is_none() {
        part.remove()?;
        return Ok(Part::open(&args.output, args.format(), fingerprint)?);
    }
    Ok(part)
}

async fn stream(run: &mut Run<'_>, args: &ExportArgs) -> Result<Told, Failure> {
    let format = args.format();
    if !format.is_stream() {
        return gathered(run, format).await;
    }
    let (mut out, mut first) = (std::io::stdout().lock(), true);
    run.pieces(None, &mut |records, _| {
        out.write_all(&format.piece(records, first)?)?;
        first = false;
        Ok(())
    })
    .await?;
    if first {
        out.write_all(&format.piece(&[], true)?)?;
    }
    out.flush()?;
    Ok(Told { records: run.records, changes: run.changes, resumed_after: 0, part: None })
}

/// A format that ends with its table of contents is gathered in a folder first.
async fn gathered(run: &mut Run<'_>, format: Format) -> Result<Told, Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("out");
    let mut part = Part::open(&path, format, Hash32::default())?;
    run.pieces(None, &mut |records, place| Ok(part.append(records, place)?)).await?;
    part.publish()?;
    copy_out(&path)?;
    Ok(Told { records: run.records, changes: run.changes, resumed_after: 0, part: None })
}

fn copy_out(path: &Path) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    std::io::copy(&mut std::fs::File::open(path)?, &mut out)?;
    Ok(out.flush()?)
}

/// One walk over the records that are wanted.
struct Run<'a> {
    desk: &'a Desk,
    wanted: Wanted,
    source: Option<String>,
    changes: Option<Changes>,
    counting: Counting,
    piece_records: usize,
    records: u64,
}

type Taker<'t> = &'t mut dyn FnMut(&[Exported], &Place) -> Result<(), Failure>;

impl Run<'_> {
    /// Hands the records on in pieces, from after a place on.
    async fn pieces(&mut self, after: Option<Place>, take: Taker<'_>) -> Result<(), Failure> {
        let mut place = match after {
            Some(place) => Some(place),
            None => self.first().await?,
        };
        let mut piece = Piece::default();
        while let Some(here) = place {
            let some = self.desk.store.exported(&here, self.changes).await?;
            let Some(last) = some.last() else {
                place = self.next_source(&here.source).await?;
                continue;
            };
            let end = last.place(self.changes);
            piece.add(some, &self.wanted);
            if piece.is_full(self.piece_records) {
                self.hand_on(&mut piece, &end, take)?;
            }
            piece.end = Some(end.clone());
            place = Some(end);
        }
        match piece.end.take() {
            Some(end) if !piece.records.is_empty() => self.hand_on(&mut piece, &end, take),
            _ => Ok(()),
        }
    }

    fn hand_on(&mut self, piece: &mut Piece, end: &Place, take: Taker<'_>) -> Result<(), Failure> {
        take(&piece.records, end)?;
        self.records += piece.records.len() as u64;
        let (records, source) = (self.records, &end.source);
        self.counting.say(|| format!("{records} records, now {source}"));
        *piece = Piece::default();
        Ok(())
    }

    async fn first(&self) -> Result<Option<Place>, Failure> {
        match &self.source {
            Some(source) => Ok(Some(Place::before(source, self.changes))),
            None => self.next_source("").await,
        }
    }

    async fn next_source(&self, after: &str) -> Result<Option<Place>, Failure> {
        if self.source.is_some() && !after.is_empty() {
            return Ok(None);
        }
        let next = self.desk.store.source_after(after).await?;
        Ok(next.map(|source| Place::before(&source, self.changes)))
    }
}

/// Records that wait to be written together.
#[derive(Default)]
struct Piece {
    records: Vec<Exported>,
    bytes: usize,
    end: Option<Place>,
}

impl Piece {
    fn add(&mut self, records: Vec<Exported>, wanted: &Wanted) {
        for record in records.into_iter().filter(|record| wanted.takes(record)) {
            self.bytes += record.fields.len();
            self.records.push(record);
        }
    }

    fn is_full(&self, records_max: usize) -> bool {
        self.records.len() >= records_max || self.bytes >= PIECE_BYTES
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Failure {
        match &error {
            ExportError::Another { path, .. } => {
                let hint = format!("ask for the same export to go on with it, or remove `{}`", path.display());
                Failure::new(Exit::Usage, error).hint(hint)
            }
            ExportError::Held { .. } => Failure::new(Exit::Usage, error).hint("wait for it, or write elsewhere"),
            ExportError::File { .. } | ExportError::Broken { .. } => Failure::new(Exit::Usage, error),
            ExportError::Record { .. } | ExportError::Columns(_) => Failure::new(Exit::Internal, error),
        }
    }
}
