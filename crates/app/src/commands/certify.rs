//! `patra certify`: what the ledger proves about a source, as a paper that anyone can check against the ledger.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use patra_core::id::Id;
use patra_core::page::{PageAsk, PageStep};
use patra_core::pass::{Pass, Place};
use patra_core::plan::build::namespace_of;
use patra_core::ports::{DigestAsk, Namespace, Prove};
use patra_core::proof::{Basis, Certificate, Columns, Digests, Evidence, Flaw, Leaf, Subject, Terms, Verdict};
use patra_core::spec::snapshot::{Operation, SpecSnapshot};
use patra_core::window::Window;
use patra_engine::planner::Trigger;
use patra_source::install_crypto;
use serde_json::{Value, json};

use crate::asker::Asker;
use crate::cli::{Global, TriggerArgs};
use crate::commands::certify_html;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

/// Slices whose rows are digested in one look at the database.
const SLICES_AT_ONCE: usize = 64;
/// Holes shown to a person; the certificate has all of them.
const HOLES_SHOWN: usize = 20;
/// Width of the coverage picture in a terminal.
const BAR_WIDTH: i64 = 72;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", from), mut_arg("until", to))]
pub struct CertifyArgs {
    /// A source (`patra source list`)
    #[arg(value_name = "SOURCE", required_unless_present = "verify")]
    pub source: Option<String>,
    #[command(flatten)]
    pub trigger: TriggerArgs,
    /// Ask the source again how many records each window holds
    #[arg(long)]
    pub recount: bool,
    /// For people, for programs (the certificate itself), or one page for a browser
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write it here instead of showing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Check a certificate (`--format json`) against the ledger
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "recount", "output"])]
    pub verify: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Html,
}

fn from(arg: clap::Arg) -> clap::Arg {
    arg.long("from").help("First moment of the window [default: the first that was ever planned]")
}

fn to(arg: clap::Arg) -> clap::Arg {
    arg.long("to").help("First moment after it [default: after the last that was ever planned]")
}

pub async fn run(global: &Global, args: &CertifyArgs) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let result = match (&args.verify, &args.source) {
        (Some(file), _) => verify(global, &desk, file).await,
        (None, Some(source)) => certify(global, args, &desk, source).await,
        (None, None) => Err(Failure::new(Exit::Usage, "name a source, or a certificate with `--verify`")),
    };
    desk.store.close().await;
    result
}

async fn certify(global: &Global, args: &CertifyArgs, desk: &Desk, source: &str) -> Result<(), Failure> {
    let certificate = made(args, desk, source).await?;
    let format = if global.json { Format::Json } else { args.format };
    let text = match format {
        Format::Text => for_people(&certificate),
        Format::Json => serde_json::to_string_pretty(&certificate).unwrap_or_default(),
        Format::Html => certify_html::page(&certificate),
    };
    match &args.output {
        None => println!("{text}"),
        Some(file) => std::fs::write(file, text).map_err(|error| unwritten(file, &error))?,
    }
    let judgement = &certificate.judgement;
    match judgement.verdict {
        Verdict::Complete => Ok(()),
        Verdict::Incomplete => Err(Failure::new(Exit::Incomplete, format!("{source} is not complete"))
            .hint(judgement.reasons.first().cloned().unwrap_or_default())),
    }
}

fn unwritten(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot write `{}`: {error}", file.display()))
}

async fn made(args: &CertifyArgs, desk: &Desk, source: &str) -> Result<Certificate, Failure> {
    let asked = Trigger { operation: Operation::Harvest, since: None, ..desk.trigger(source, &args.trigger).await? };
    let spec = desk.planner().compile(&asked).await?.spec;
    let namespace = namespace_of(&spec);
    let subject = subject(args, desk, &spec, &namespace).await?;
    let mut evidence = desk.store.evidence(&namespace, &subject.entity, subject.window).await?;
    let columns = desk.store.basis_columns().await?;
    let digests = digests(desk, &subject, &evidence, &columns).await?;
    if args.recount {
        recount(&Asker::new(desk, spec), &mut evidence).await?;
    }
    let watermark = desk.store.watermark(namespace.hash()).await?;
    Ok(Certificate::new(subject, evidence, Basis::new(columns, digests), desk.clock.now(), watermark))
}

async fn subject(
    args: &CertifyArgs,
    desk: &Desk,
    spec: &SpecSnapshot,
    namespace: &Namespace,
) -> Result<Subject, Failure> {
    let planned = desk.store.planned_window(namespace).await?.ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("nothing was ever harvested from {} with this query", spec.provenance))
            .hint("`patra cursor list` shows what was; the options of the harvest (`--query`, `--set`) belong here too")
    })?;
    let from = args.trigger.since.unwrap_or(planned.from());
    let to = args.trigger.until.unwrap_or(planned.to());
    let window = Window::new(from, to).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the window from {from} to {to} is empty"))
            .hint("`--from` comes before `--to`")
    })?;
    Ok(Subject {
        source: spec.provenance.clone(),
        endpoint: spec.endpoint.clone(),
        entity: spec.entity.clone(),
        operation: spec.operation.code().into(),
        query: args.trigger.query.clone().or_else(|| args.trigger.native_query.clone()),
        namespace: namespace.hash(),
        window,
        terms: Terms { settling_lag: spec.window.safety_lag, total_tolerance: spec.response.total_tolerance },
    })
}

async fn digests(desk: &Desk, subject: &Subject, evidence: &Evidence, columns: &Columns) -> Result<Digests, Failure> {
    let settled: Vec<Id> = evidence.leaves.iter().filter(|leaf| leaf.is_settled()).map(|leaf| leaf.slice).collect();
    let waivers: Vec<Id> = evidence.waivers.iter().map(|waiver| waiver.id).collect();
    let ask = |slices: &[Id], waivers: Vec<Id>| DigestAsk {
        provenance: subject.source.clone(),
        entity: subject.entity.clone(),
        slices: slices.to_vec(),
        waivers,
        columns: columns.clone(),
    };
    let mut all = desk.store.digests(&ask(&[], waivers)).await?;
    for some in settled.chunks(SLICES_AT_ONCE) {
        all.slices.extend(desk.store.digests(&ask(some, Vec::new())).await?.slices);
    }
    Ok(all)
}

/// Asks for the first page of every window that has a total.
async fn recount(asker: &Asker, evidence: &mut Evidence) -> Result<(), Failure> {
    install_crypto();
    for leaf in evidence.leaves.iter_mut().filter(|leaf| leaf.total.is_some()) {
        let Place::Search(position) = Pass::first_place(&asker.spec, leaf.window) else { continue };
        let part = leaf.part.as_deref().map(serde_json::from_str).transpose().map_err(|error| {
            Failure::new(Exit::Database, format!("the part of slice {} cannot be read: {error}", leaf.slice))
        })?;
        let ask = PageAsk {
            spec: asker.spec.clone(),
            window: leaf.window,
            part,
            as_of: leaf.window.to(),
            step: PageStep::Search { position, size: asker.spec.pagination.size },
            received: 0,
            correlation: "recount".into(),
        };
        let page = asker.fetch(&ask).await.map_err(|error| {
            Failure::new(Exit::Source, format!("{} cannot be counted again: {error}", leaf.window))
                .hint("without `--recount` the totals of the harvest stand")
        })?;
        leaf.recount = page.total;
    }
    Ok(())
}

async fn verify(global: &Global, desk: &Desk, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(Exit::NotFound, format!("cannot read `{shown}`: {error}")))?;
    let certificate: Certificate = serde_json::from_str(&text).map_err(|error| {
        Failure::new(Exit::Usage, format!("`{shown}` is no certificate: {error}"))
            .hint("`patra certify SOURCE --format json -o FILE` makes one")
    })?;
    let mut flaws = certificate.flaws();
    let now = digests(desk, &certificate.subject, &certificate.evidence, &certificate.basis.columns).await?;
    flaws.extend(certificate.flaws_against(&now));
    tell(global, &certificate, &flaws);
    match flaws.len() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Incomplete, format!("`{shown}` does not hold: {count} flaws"))),
    }
}

fn tell(global: &Global, certificate: &Certificate, flaws: &[Flaw]) {
    let verdict = certificate.judgement.verdict.word();
    if global.json {
        println!("{}", json!({ "ok": flaws.is_empty(), "verdict": verdict, "flaws": flaws }));
        return;
    }
    for flaw in flaws.iter().take(HOLES_SHOWN) {
        let place = flaw.window.map(|window| format!("{window}: ")).unwrap_or_default();
        let slice = flaw.slice.map(|slice| format!(" (slice {slice})")).unwrap_or_default();
        println!("{place}{}{slice}", flaw.what);
    }
    if flaws.is_empty() {
        let rows = certificate.basis.digests.slices.len();
        println!("the certificate holds: {verdict}, {rows} slices read again, digest {}", certificate.basis.digest);
    }
}

fn for_people(certificate: &Certificate) -> String {
    let Certificate { subject, judgement, sums, .. } = certificate;
    let within = if judgement.within > 0 { format!(" within ±{}", judgement.within) } else { String::new() };
    let mut lines = vec![
        format!("{}/{} {}", subject.source, subject.endpoint, subject.query.as_deref().unwrap_or("everything")),
        format!("window   {}", subject.window),
        format!("verdict  {}{within}", judgement.verdict.word()),
        format!("coverage {}", bar(certificate)),
        table::of_rows(&[account(certificate)], &ACCOUNT).to_string(),
    ];
    let holes: Vec<Value> = judgement.coverage.iter().filter(|one| one.is_hole()).map(|one| json!(one)).collect();
    if !holes.is_empty() {
        let rows: Vec<Value> = holes.iter().take(HOLES_SHOWN).map(hole).collect();
        lines.push(table::of_rows(&rows, &["from", "to", "status", "reason", "slice"]).to_string());
    }
    if holes.len() > HOLES_SHOWN {
        lines.push(format!("and {} more holes (`--format json` has all)", holes.len() - HOLES_SHOWN));
    }
    let lacking = judgement.reasons.iter().skip(holes.len());
    lines.extend(lacking.map(|reason| format!("lacking: {reason}")));
    lines.push(format!("{} windows, digest {}", sums.windows, certificate.basis.digest));
    lines.join("\n")
}

fn hole(stretch: &Value) -> Value {
    json!({
        "from": stretch["window"]["from"], "to": stretch["window"]["to"], "status": stretch["status"],
        "reason": stretch["reason"], "slice": stretch["slice"],
    })
}

pub const ACCOUNT: [&str; 10] = [
    "counted_by_source",
    "counted_now",
    "distinct_ids",
    "stored",
    "unchanged",
    "superseded",
    "twice",
    "filtered",
    "quarantined",
    "not_delivered",
];

/// What became of everything the windows held.
pub fn account(certificate: &Certificate) -> Value {
    let sums = &certificate.sums;
    let readings = certificate.readings();
    let now: Option<u64> = readings.iter().map(|leaf| leaf.recount).sum();
    json!({
        "counted_by_source": sums.total,
        "counted_now": now.filter(|_| !readings.is_empty()),
        "distinct_ids": sums.distinct,
        "stored": sums.counts.inserted + sums.counts.updated,
        "unchanged": sums.counts.unchanged,
        "superseded": sums.counts.stale,
        "twice": sums.counts.duplicate,
        "filtered": sums.counts.filtered,
        "quarantined": sums.counts.quarantined,
        "not_delivered": sums.missing + certificate.evidence.asked_again,
    })
}

/// One letter for each part of the window: `#` proven, `w` waived, `.` a hole.
fn bar(certificate: &Certificate) -> String {
    let window = certificate.subject.window;
    let width = window.width().micros();
    let letter = |place: i64| {
        let from = window.from().plus(patra_core::time::Span::from_micros(width / BAR_WIDTH * place));
        let to = window.from().plus(patra_core::time::Span::from_micros(width / BAR_WIDTH * (place + 1)));
        let Some(piece) = Window::new(from, to) else { return '#' };
        let touched = certificate.judgement.coverage.iter().filter(|one| one.window.intersect(&piece).is_some());
        touched.map(|one| sign(&one.status)).min().unwrap_or('.')
    };
    (0..BAR_WIDTH).map(letter).map(|sign| if sign == '~' { '#' } else { sign }).collect()
}

/// Of several in one place the least sign is shown, so that no hole hides behind what is proven.
fn sign(status: &str) -> char {
    match status {
        "PROVEN" => '~',
        "WAIVED" => 'w',
        _ => '.',
    }
}

/// What one reading came to, for tables.
pub fn reading(leaf: &Leaf) -> Value {
    json!({
        "from": leaf.window.from(),
        "to": leaf.window.to(),
        "part": leaf.part,
        "counted_by_source": leaf.total,
        "counted_now": leaf.recount,
        "distinct_ids": leaf.distinct,
        "stored": leaf.counts.inserted + leaf.counts.updated,
        "unchanged": leaf.counts.unchanged,
        "superseded": leaf.counts.stale,
        "twice": leaf.counts.duplicate,
        "filtered": leaf.counts.filtered,
        "quarantined": leaf.counts.quarantined,
        "not_delivered": leaf.missing,
        "read_at": leaf.read_at,
        "passes": leaf.passes,
    })
}
