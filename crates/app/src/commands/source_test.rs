//! `patra source test`: asks a source for a few pages and shows what its definition makes of them. Writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use patra_core::page::{Page, PageAsk, PageStep, Position};
use patra_core::pass::{Accepted, Pass, Place};
use patra_core::plan::slicer::Slicer;
use patra_core::spec::snapshot::{ResponseSpec, SpecSnapshot};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use patra_source::install_crypto;
use serde_json::{Value, json};

use crate::asker::Asker;
use crate::cli::{Global, TriggerArgs};
use crate::failure::{Exit, Failure};
use crate::wiring::{Desk, looks_like_a_file};

#[derive(Clone, Debug, Args)]
pub struct SourceTestArgs {
    /// A source (`patra source list`) or a definition file
    #[arg(value_name = "SOURCE|FILE")]
    pub source: String,
    /// Pages of each window
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub pages: u16,
    /// Windows, the newest that have settled unless `--since` names others
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub slices: u16,
    #[command(flatten)]
    pub trigger: TriggerArgs,
}

pub async fn run(global: &Global, args: &SourceTestArgs) -> Result<(), Failure> {
    install_crypto();
    // A file is compiled as it stands and published nowhere.
    let desk = match looks_like_a_file(&args.source) {
        true => Desk::open(":memory:").await?,
        false => Desk::open_to_look(global).await?,
    };
    let source = desk.source_of(&args.source, &args.trigger.channel).await?;
    let spec = desk.planner().compile(&desk.trigger(&source, &args.trigger).await?).await?.spec;
    let windows = windows(&spec, args, desk.clock.now())?;
    let trial = Trial(Asker::new(&desk, spec));
    let mut reports = Vec::new();
    for window in windows {
        trial.slice(window, args.pages, &mut reports).await;
    }
    desk.store.close().await;
    show(global, &trial.0.spec, &reports);
    match reports.iter().any(|report| report["failure"].is_null()) {
        true => Ok(()),
        false => Err(Failure::new(Exit::Incomplete, format!("no page of {source} could be read"))
            .hint("the failures above say why")),
    }
}

/// The newest windows that have settled, or those the command line begins with.
fn windows(spec: &SpecSnapshot, args: &SourceTestArgs, now: Timestamp) -> Result<Vec<Window>, Failure> {
    let nothing =
        || Failure::new(Exit::Usage, "there is no settled window to ask for").hint("name an earlier `--since`");
    let slicer = Slicer::new(&spec.window).map_err(|error| Failure::new(Exit::Definition, error))?;
    let settled = now.minus(spec.window.safety_lag);
    let end = slicer.plan_end(args.trigger.until.map_or(settled, |until| until.min(settled)));
    let wanted = spec.window.slice.times(i64::from(args.slices));
    let begin = args.trigger.since.unwrap_or_else(|| end.minus(wanted)).max(spec.window.origin);
    let whole = slicer.outward(&[Window::new(begin, end).ok_or_else(nothing)?], end);
    let mut cut: Vec<Window> = whole.into_iter().flat_map(|window| slicer.cut(window)).collect();
    cut.truncate(args.slices.into());
    if cut.is_empty() { Err(nothing()) } else { Ok(cut) }
}

struct Trial(Asker);

impl Trial {
    /// Reads the first pages of one window, and one group of details where the source has two phases.
    async fn slice(&self, window: Window, pages: u16, reports: &mut Vec<Value>) {
        let mut pass = Pass::new(self.0.spec.clone(), window);
        let Place::Search(mut position) = Pass::first_place(&self.0.spec, window) else { return };
        for _ in 0..pages {
            let step = PageStep::Search { position: position.clone(), size: self.0.spec.pagination.size };
            let Some(page) = self.page(window, step, &self.0.spec.response, reports).await else { return };
            if let Some(detail) = &self.0.spec.detail {
                let most = detail.id_batch_size as usize;
                let ids: Vec<String> = page.items.iter().take(most).map(|item| item.id.clone()).collect();
                if !ids.is_empty() {
                    self.page(window, PageStep::Detail { ids }, &detail.response, reports).await;
                }
            }
            let verdict = pass.accept(&position, &page, self.0.clock.now());
            let (next, word) = judged(&verdict);
            if let Some(report) = reports.last_mut() {
                report["then"] = word.into();
            }
            match next {
                Some(next) => position = next,
                None => return,
            }
        }
    }

    async fn page(
        &self,
        window: Window,
        step: PageStep,
        response: &ResponseSpec,
        reports: &mut Vec<Value>,
    ) -> Option<Page> {
        let asked = shown_step(&step);
        let ask = PageAsk {
            spec: self.0.spec.clone(),
            window,
            part: None,
            as_of: window.to(),
            step,
            received: 0,
            correlation: "source-test".into(),
        };
        let fetched = self.0.fetch(&ask).await;
        let sent = self.0.last_sent();
        let mut report = json!({
            "window": window.to_string(),
            "asked": asked,
            "request": format!("{} {}", sent.method, sent.url),
            "status": sent.status,
            "bytes": sent.bytes,
        });
        let page = match fetched {
            Ok(page) => {
                extracted(&mut report, &page, response);
                Some(page)
            }
            Err(error) => {
                report["failure"] = json!({
                    "class": error.class(&self.0.spec),
                    "message": error.to_string(),
                });
                None
            }
        };
        reports.push(report);
        page
    }
}

fn judged(verdict: &Accepted) -> (Option<Position>, String) {
    match verdict {
        Accepted::Commit { next: Some(next) } => (Some(next.clone()), format!("next {}", shown(next))),
        Accepted::Commit { next: None } => (None, "the last page".into()),
        Accepted::AskAgain => (None, "an empty page before the end: it would be asked for again".into()),
        Accepted::NewPass { reason } => (None, format!("the pass would begin anew: {reason}")),
        Accepted::Split { parts, reason } => (None, format!("the window would be cut into {parts}: {reason}")),
        Accepted::Fail { class, reason } => (None, format!("{class}: {reason}")),
    }
}

fn shown(position: &Position) -> String {
    serde_json::to_string(position).unwrap_or_default()
}

fn shown_step(step: &PageStep) -> String {
    match step {
        PageStep::Search { position, .. } => format!("search {}", shown(position)),
        PageStep::Detail { ids } => format!("details of {} ids", ids.len()),
    }
}

/// What came out of a page, and what did not.
fn extracted(report: &mut Value, page: &Page, response: &ResponseSpec) {
    let records: Vec<Value> = page.items.iter().filter_map(|item| serde_json::from_str(&item.fields).ok()).collect();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for field in &response.fields {
        let count = records.iter().filter(|record| has(record, &field.name)).count();
        found.insert(&field.name, count);
    }
    let nothing: Vec<&str> = found.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let reasons: BTreeSet<String> =
        page.bad.iter().map(|bad| format!("{:?} at `{}`: {}", bad.reason, bad.path, bad.message)).collect();
    let times = || page.items.iter().filter_map(|item| item.updated_at);
    report["records"] = page.items.len().into();
    report["bad"] = json!({ "count": page.bad.len(), "reasons": reasons });
    report["without_time"] = page.items.iter().filter(|item| item.updated_at.is_none()).count().into();
    report["deleted"] = page.items.iter().filter(|item| item.deleted).count().into();
    report["times"] = json!([times().min(), times().max()]);
    report["total"] = json!(page.total);
    report["first_id"] = json!(page.items.first().map(|item| &item.id));
    report["first_record"] = records.first().cloned().unwrap_or_default();
    report["fields"] = json!(found);
    report["gave_nothing"] = if records.is_empty() { json!([]) } else { json!(nothing) };
}

/// Whether a record has a value under a name of a field.
fn has(record: &Value, name: &str) -> bool {
    let Some((first, rest)) = name.split_once('.') else {
        return record.get(name.trim_end_matches("[]")).is_some();
    };
    match record.get(first.trim_end_matches("[]")) {
        Some(Value::Array(items)) => items.iter().any(|item| has(item, rest)),
        Some(inner) => has(inner, rest),
        None => false,
    }
}

fn show(global: &Global, spec: &SpecSnapshot, reports: &[Value]) {
    if global.json {
        println!("{}", Value::Array(reports.to_vec()));
        return;
    }
    spec.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    for report in reports {
        let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
        println!("{} {}: status {}, {} bytes", text("window"), text("asked"), report["status"], report["bytes"]);
        println!("  request: {}", text("request"));
        if let Some(failure) = report["failure"].as_object() {
            println!("  failed: {} {}", failure["class"].as_str().unwrap_or_default(), failure["message"]);
            continue;
        }
        println!(
            "  {} records, {} bad, {} without a time, {} deleted; total {}; times {}",
            report["records"],
            report["bad"]["count"],
            report["without_time"],
            report["deleted"],
            report["total"],
            report["times"]
        );
        for reason in report["bad"]["reasons"].as_array().into_iter().flatten() {
            println!("  bad: {}", reason.as_str().unwrap_or_default());
        }
        println!("  first: {} {}", report["first_id"], report["first_record"]);
        let nothing: Vec<&str> =
            report["gave_nothing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !nothing.is_empty() {
            println!("  gave nothing: {}", nothing.join(", "));
        }
        println!("  then: {}", text("then"));
    }
}
