//! `patra why`: the life of a record, or why it is not here.

use clap::Args;
use patra_core::ports::{Inspect, LifeAsk, Prove};
use patra_core::proof::{Life, Place};
use patra_core::time::Timestamp;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

/// Pages searched for an id of which nothing is known, unless more are asked for.
const SEARCH_DEFAULT: u64 = 20_000;

#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// The provider's id of a record (`10.1234/example`, a PMID ...)
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only this source; all that the ledger knows by default
    #[arg(long)]
    pub source: Option<String>,
    /// When the source says it was last changed, to look into the windows of that time
    #[arg(long, value_name = "TIME")]
    pub dated: Option<Timestamp>,
    /// Most pages to search for an id of which nothing is known
    #[arg(long, value_name = "COUNT", default_value_t = SEARCH_DEFAULT)]
    pub search: u64,
}

pub async fn run(global: &Global, args: &WhyArgs) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let lives = lives(&desk, args).await;
    desk.store.close().await;
    let lives = lives?;
    match global.json {
        true => println!("{}", json!(lives)),
        false => lives.iter().for_each(|life| println!("{}", for_people(life, args))),
    }
    match lives.iter().all(Life::is_unknown) {
        true => Err(Failure::new(Exit::NotFound, format!("`{}` was never seen", args.id)).hint(advice(&lives, args))),
        false => Ok(()),
    }
}

/// The life in each source that was asked for; of several only those that know the id.
async fn lives(desk: &Desk, args: &WhyArgs) -> Result<Vec<Life>, Failure> {
    let sources = match &args.source {
        Some(source) => vec![source.clone()],
        None => {
            let mut known: Vec<String> = desk.store.summary().await?.into_iter().map(|one| one.provenance).collect();
            known.dedup();
            known
        }
    };
    let mut lives = Vec::new();
    for provenance in sources {
        let ask = LifeAsk { provenance, id: args.id.clone(), dated: args.dated, search_max: args.search };
        lives.push(desk.store.life(&ask).await?);
    }
    if args.source.is_none() && lives.iter().any(|life| !life.is_unknown()) {
        lives.retain(|life| !life.is_unknown());
    }
    Ok(lives)
}

fn advice(lives: &[Life], args: &WhyArgs) -> String {
    match (args.dated, lives.iter().any(|life| life.search_cut)) {
        (_, true) => {
            "not all pages were searched: `--search COUNT` searches more, `--dated TIME` looks in one place".into()
        }
        (None, _) => "`--dated TIME` says whether the window of that time was read".into(),
        (Some(_), _) => "the ids of a source are compared letter by letter".into(),
    }
}

fn for_people(life: &Life, args: &WhyArgs) -> String {
    let mut parts = vec![format!("{} in {}", life.id, life.source)];
    let mut section = |title: &str, rows: Vec<Value>, columns: &[&str]| {
        if !rows.is_empty() {
            parts.push(format!("\n{title}\n{}", table::of_rows(&rows, columns)));
        }
    };
    let shown = |rows: &[patra_core::ports::Shown]| rows.iter().map(|row| Value::Object(row.clone())).collect();
    let record = ["endpoint_name", "version_no", "updated_at", "deleted", "first_seen_at", "changed_at", "checked_at"];
    section("stored", shown(&life.records), &record);
    let pages = life.sightings.iter().map(|one| {
        let mut row = json!(one);
        (row["window_from"], row["window_to"]) = (json!(one.window.from()), json!(one.window.to()));
        row["page"] = format!("{}.{}", one.pass_no, one.seq_no).into();
        row
    });
    let page = ["fetched_at", "operation", "window_from", "window_to", "phase", "page", "batch", "decision"];
    section("pages that showed it", pages.collect(), &page);
    section(
        "changes told",
        shown(&life.events),
        &["version_no", "change_code", "updated_at", "status_code", "sent_at"],
    );
    section("in quarantine", shown(&life.quarantined), &["id", "reason_code", "path", "message", "status_code"]);
    section(
        "asked for and not returned",
        shown(&life.missing),
        &["sightings", "last_asked_at", "next_try_at", "status_code"],
    );
    if life.is_unknown() {
        parts.push(absence(life, args));
    }
    parts.join("\n")
}

/// Why it is not here, as far as the windows tell.
fn absence(life: &Life, args: &WhyArgs) -> String {
    let Some(dated) = args.dated else {
        let cut = if life.search_cut { ", there are more" } else { "" };
        return format!("none of the {} pages that were searched shows it{cut}", life.pages_searched);
    };
    if life.places.is_empty() {
        return format!("{dated} is not covered: no window of that time was ever planned");
    }
    let rows: Vec<String> = life.places.iter().map(told).collect();
    format!("where it belongs by its time {dated}:\n{}", rows.join("\n"))
}

fn told(place: &Place) -> String {
    let Place { window, operation, status, slice, .. } = place;
    match (status.as_str(), place.read_at) {
        ("SUCCEEDED", Some(read_at)) => {
            format!("  {window} {operation}: read whole at {read_at}, the source did not list it then (slice {slice})")
        }
        (_, _) => {
            let reason = place.reason.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
            format!("  {window} {operation}: not covered, {status}{reason} (slice {slice})")
        }
    }
}
