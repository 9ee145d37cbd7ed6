//! `patra replay`: kept pages read again, under the spec of their plan or another one, or asked for again. It writes
//! nothing but a row of the audit.

use clap::Args;
use patra_core::id::Id;
use patra_core::ports::{Noun, Operate};
use patra_core::proof::{Pages, Replayed};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::commands::operator::{act, find};
use crate::commands::replay_live;
use crate::commands::reread::Rereading;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

/// Pages shown to a person; `--json` has all.
const SHOWN_MAX: usize = 50;

#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub struct ReplayArgs {
    /// A page (`patra batch list`), a run or a task, by its id or a unique beginning of it
    #[arg(value_name = "BATCH|RUN|TASK", group = "what")]
    pub id: Option<String>,
    /// Every kept page of a source
    #[arg(long, value_name = "SOURCE", group = "what")]
    pub source: Option<String>,
    /// Of a source only the pages of windows that touch this time (`2026-11-01..2026-11-08`)
    #[arg(long, value_name = "FROM..TO", requires = "source", conflicts_with = "id", value_parser = range)]
    pub range: Option<Window>,
    /// What would change under another mapping: a version (`patra registry history`), a definition file, or `current` for
    /// the one in force
    #[arg(long, value_name = "VERSION|FILE|current")]
    pub spec: Option<String>,
    /// Also commit the records of each page, in a transaction that is taken back, and say what that would have done
    #[arg(long)]
    pub full_chain: bool,
    /// Ask the source for the page again, through its rate limit, and compare; the answer is not stored
    #[arg(long, conflicts_with_all = ["source", "spec", "full_chain"])]
    pub live: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "replay")]
    pub reason: String,
}

fn range(text: &str) -> Result<Window, String> {
    let (from, to) = text.split_once("..").ok_or("wants two times, e.g. `2026-11-01..2026-11-08`")?;
    let time = |text: &str| text.parse::<Timestamp>().map_err(|error| error.to_string());
    Window::new(time(from)?, time(to)?).ok_or_else(|| "ends before it begins".into())
}

pub async fn run(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    match args.live {
        true => live(global, args).await,
        false => offline(global, args).await,
    }
}

async fn live(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let told = Desk::act(global, async |desk| {
        let pages = pages_asked(desk, args).await?;
        let Pages::Batch(batch) = pages else {
            return Err(Failure::new(Exit::Usage, "`--live` asks for one page")
                .hint("`patra batch list --run ID` shows the pages of a run, `--task ID` those of a task"));
        };
        note(desk, args, &pages).await?;
        replay_live::asked_again(desk, batch).await
    })
    .await?;
    let message = told["message"].as_str().unwrap_or_default();
    match global.json {
        true => println!("{told}"),
        false => println!("page {}: {message}", table::text_of(&told["batch"])),
    }
    match told["outcome"] == "SAME" {
        true => Ok(()),
        false => Err(Failure::new(Exit::Incomplete, "the source has changed since the page was read")
            .hint("a harvest reads what has changed; `patra backfill` reads a past window again")),
    }
}

async fn offline(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let (told, sums) = Desk::act(global, async |desk| {
        let pages = pages_asked(desk, args).await?;
        note(desk, args, &pages).await?;
        Rereading::new(desk, args).replayed(&pages, global.quiet).await
    })
    .await?;
    show(global, &told, &sums);
    match (told.len(), sums.different + sums.broken) {
        (0, _) => Err(Failure::new(Exit::NotFound, "there is no committed page of that name")),
        (_, 0) => Ok(()),
        (_, _) if args.spec.is_some() && sums.broken == 0 => Ok(()),
        (all, bad) => Err(Failure::new(Exit::Incomplete, format!("{bad} of {all} pages do not read as they did"))),
    }
}

async fn note(desk: &Desk, args: &ReplayArgs, pages: &Pages) -> Result<(), Failure> {
    let detail =
        json!({ "pages": format!("{pages:?}"), "spec": args.spec, "fullChain": args.full_chain, "live": args.live });
    let target = args.id.as_deref().or(args.source.as_deref()).unwrap_or_default();
    Ok(desk.store.note("REPLAY", target, &act(&args.reason), detail).await?)
}

/// A page, a run or a task, whichever has this id.
async fn pages_asked(desk: &Desk, args: &ReplayArgs) -> Result<Pages, Failure> {
    match (&args.source, args.range) {
        (Some(source), Some(range)) => return Ok(Pages::Range(source.clone(), range)),
        (Some(source), None) => return Ok(Pages::Source(source.clone())),
        (None, _) => {}
    }
    let text = args.id.as_deref().unwrap_or_default();
    for (noun, pages) in [
        (Noun::Batch, Pages::Batch as fn(Id) -> Pages),
        (Noun::Run, Pages::Run as fn(Id) -> Pages),
        (Noun::Task, Pages::Task as fn(Id) -> Pages),
    ] {
        if let Ok(id) = find(desk, noun, "row", text).await {
            return Ok(pages(id));
        }
    }
    Err(Failure::new(Exit::NotFound, format!("there is no page, run or task `{text}`"))
        .hint("`patra batch list`, `patra run list` and `patra task list` show their ids"))
}

fn show(global: &Global, told: &[Value], sums: &Replayed) {
    if global.json {
        println!("{}", json!({ "pages": told, "summary": sums }));
        return;
    }
    let noted: Vec<Value> = told.iter().filter(|one| one["outcome"] != "SAME").cloned().collect();
    if !noted.is_empty() {
        let columns = ["batch", "window", "phase", "records", "outcome", "message"];
        println!("{}", table::of_rows(&noted[..noted.len().min(SHOWN_MAX)], &columns));
    }
    if noted.len() > SHOWN_MAX {
        println!("and {} more (`--json` has all)", noted.len() - SHOWN_MAX);
    }
    println!("{} pages read again: {} the same, {} not", told.len(), sums.same, noted.len());
    if sums.added + sums.lost + sums.changed > 0 {
        println!("records: {} added, {} lost, {} changed", sums.added, sums.lost, sums.changed);
    }
    if !sums.fields.is_empty() {
        let fields: Vec<String> = sums.fields.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("fields that change: {}", fields.join(", "));
    }
    if let Some(would) = &sums.would {
        println!(
            "committed again they would be: {} inserted, {} updated, {} unchanged, {} stale, {} quarantined; nothing was",
            would.inserted, would.updated, would.unchanged, would.stale, would.quarantined
        );
    }
}
