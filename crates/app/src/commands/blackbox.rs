//! `patra blackbox export|show`: the evidence of a run or a page as one archive, with an expiry and an audit row.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{Noun, Operate};
use patra_core::proof::blackbox::{Bodies, FORMAT, Manifest};
use patra_core::time::Span;
use serde_json::{Value, json};

use crate::archive::{self, Archive};
use crate::cli::Global;
use crate::clock::SystemClock;
use crate::commands::evidence::Evidence;
use crate::commands::operator::{act, find, told};
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::{Desk, actor};

#[derive(Debug, Subcommand)]
pub enum BlackboxCommand {
    /// Write the evidence of a run or a page into one archive (`tar.gz`)
    Export(BlackboxExportArgs),
    /// Show what an archive holds, check it against its manifest, and say whether it may still be used
    Show {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub struct BlackboxExportArgs {
    /// A run (`patra run list`) or a page (`patra batch list`), by its id or a unique beginning of it
    #[arg(value_name = "RUN|BATCH")]
    pub id: String,
    /// Where to; a file that is there is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Why, for the manifest and the audit
    #[arg(long, value_name = "TEXT", default_value = "blackbox export")]
    pub reason: String,
    /// How long the archive may be used
    #[arg(long, value_name = "SPAN", default_value = "P7D", value_parser = positive)]
    pub valid_for: Span,
    /// Whole answers as they were kept, instead of a masked sample of each; they may name persons
    #[arg(long)]
    pub whole: bool,
}

fn positive(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|_| "wants a length of time, e.g. `P7D` or `PT12H`".to_owned())?;
    if span > Span::ZERO { Ok(span) } else { Err("wants a length above zero".into()) }
}

pub async fn run(global: &Global, command: &BlackboxCommand) -> Result<(), Failure> {
    match command {
        BlackboxCommand::Export(args) => {
            let manifest = Desk::act(global, async |desk| export(desk, args).await).await?;
            let text = format!(
                "{}: {} pages of {}, {} parts, may be used until {}",
                args.output.display(),
                manifest.pages,
                manifest.target,
                manifest.parts.len(),
                manifest.expires_at
            );
            told(global, json!(manifest), &text)
        }
        BlackboxCommand::Show { file } => show(global, file),
    }
}

/// A page, or all pages of a run, whichever has this id.
enum Target {
    Page(Id),
    Run(Id),
}

async fn target(desk: &Desk, text: &str) -> Result<Target, Failure> {
    if let Ok(id) = find(desk, Noun::Batch, "page", text).await {
        return Ok(Target::Page(id));
    }
    if let Ok(id) = find(desk, Noun::Run, "run", text).await {
        return Ok(Target::Run(id));
    }
    Err(Failure::new(Exit::NotFound, format!("there is no run or page `{text}`"))
        .hint("`patra run list` and `patra batch list` show their ids"))
}

async fn export(desk: &Desk, args: &BlackboxExportArgs) -> Result<Manifest, Failure> {
    let (name, run, pages) = match target(desk, &args.id).await? {
        Target::Page(id) => {
            let (run, page) = Evidence::page(desk, id).await?;
            (format!("page {id}"), run, vec![page])
        }
        Target::Run(id) => (format!("run {id}"), id, Evidence::pages_of(desk, id).await?),
    };
    let made_at = desk.clock.now();
    let expires_at = made_at.plus(args.valid_for);
    let mut archive = Archive::begin(&args.output, made_at)?;
    let detail = json!({ "pages": pages.len(), "whole": args.whole, "expiresAt": expires_at });
    desk.store.note("BLACKBOX", &name, &act(&args.reason), detail).await?;
    let evidence = Evidence::of_run(desk, run, args.whole).await?;
    evidence.write(&mut archive, &pages).await?;
    archive.end(|parts| {
        Manifest {
            format: FORMAT.into(),
            version: Manifest::VERSION,
            target: name,
            source: evidence.source(),
            pages: pages.len() as u64,
            bodies: if args.whole { Bodies::WholeUnmasked } else { Bodies::MaskedSample },
            operator: actor(),
            reason: args.reason.clone(),
            made_at,
            expires_at,
            parts,
            seal: Hash32::default(),
        }
        .sealed()
    })
}

fn show(global: &Global, file: &std::path::Path) -> Result<(), Failure> {
    use patra_core::ports::Clock;
    let (manifest, parts) = archive::read(file)?;
    let flaws = manifest.flaws(&parts);
    let expired = manifest.is_expired(SystemClock::start().now());
    match global.json {
        true => println!("{}", json!({ "manifest": manifest, "flaws": flaws, "expired": expired })),
        false => println!("{}", for_people(&manifest, &flaws)),
    }
    let shown = file.display();
    match (flaws.len(), expired) {
        (0, false) => Ok(()),
        (0, true) => Err(Failure::new(
            Exit::Incomplete,
            format!("`{shown}` is whole, but was to be used until {} only", manifest.expires_at),
        )
        .hint("delete it; `patra blackbox export` makes a new one")),
        (count, _) => Err(Failure::new(Exit::Incomplete, format!("`{shown}` is not what was exported: {count} flaws"))),
    }
}

fn for_people(manifest: &Manifest, flaws: &[String]) -> String {
    let bodies = match manifest.bodies {
        Bodies::MaskedSample => "a masked sample of each",
        Bodies::WholeUnmasked => "whole and not masked: they may name persons",
    };
    let parts: Vec<Value> = manifest.parts.iter().map(|part| json!(part)).collect();
    let mut lines = vec![
        format!("black box of {} in {}, {} pages", manifest.target, manifest.source, manifest.pages),
        format!("answers   {bodies}"),
        format!("made      {} by {}: {}", manifest.made_at, manifest.operator, manifest.reason),
        format!("usable    until {}", manifest.expires_at),
        table::of_rows(&parts, &["name", "bytes", "sha256"]).to_string(),
    ];
    match flaws {
        [] => lines.push(format!("all {} parts are what was exported", parts.len())),
        flaws => lines.extend(flaws.iter().map(|flaw| format!("flaw: {flaw}"))),
    }
    lines.join("\n")
}
