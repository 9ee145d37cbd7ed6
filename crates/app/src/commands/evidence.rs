//! What a black box holds of a run (14.9.1): its rows, its spec and cursor events, and for each page keys, request,
//! response, what was decided, and a sample of the answer.

use patra_core::id::Id;
use patra_core::mask;
use patra_core::ports::{Inspect, Ledger, ListFilter, Noun, Phase, PlanView, Prove, Shown};
use patra_core::proof::blackbox::mask_texts;
use patra_core::proof::{Kept, Pages};
use patra_source::program::Program;
use patra_source::request::Draft;
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::asked::asked;
use crate::commands::other_spec::decoded_with;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

/// Rows of one look.
const ROWS_AT_ONCE: u32 = 1_000;

pub struct Evidence<'a> {
    desk: &'a Desk,
    run: Shown,
    task: Shown,
    slice: Shown,
    plan_row: Shown,
    plan: PlanView,
    program: Result<Program, String>,
    whole: bool,
}

impl<'a> Evidence<'a> {
    /// Everything that is the same for all pages of a run.
    pub async fn of_run(desk: &'a Desk, run: Id, whole: bool) -> Result<Evidence<'a>, Failure> {
        let run = row(desk, Noun::Run, run).await?;
        let plan_id = id_of(&run, "plan_id")?;
        let plan = desk.store.plan(plan_id).await?;
        Ok(Evidence {
            desk,
            task: row(desk, Noun::Task, id_of(&run, "task_id")?).await?,
            slice: row(desk, Noun::Slice, id_of(&run, "slice_id")?).await?,
            plan_row: row(desk, Noun::Plan, plan_id).await?,
            program: Program::compile(&plan.spec),
            plan,
            run,
            whole,
        })
    }

    /// A page with its run.
    pub async fn page(desk: &Desk, page: Id) -> Result<(Id, Id), Failure> {
        let batch = row(desk, Noun::Batch, page).await?;
        Ok((id_of(&batch, "run_id")?, page))
    }

    /// The pages of a run, also those that failed, in their order.
    pub async fn pages_of(desk: &Desk, run: Id) -> Result<Vec<Id>, Failure> {
        let mut filter = ListFilter { run: Some(run), limit: ROWS_AT_ONCE, ..ListFilter::default() };
        let mut pages = Vec::new();
        loop {
            let rows = desk.store.list(Noun::Batch, &filter).await?;
            for row in &rows {
                pages.push(id_of(row, "id")?);
            }
            filter.before_id = pages.last().copied();
            if rows.len() < ROWS_AT_ONCE as usize {
                pages.reverse();
                return Ok(pages);
            }
        }
    }

    pub fn source(&self) -> String {
        self.plan.spec.provenance.clone()
    }

    pub async fn write(&self, archive: &mut Archive, pages: &[Id]) -> Result<(), Failure> {
        put(archive, "run.json", json!({ "run": self.run, "task": self.task }))?;
        put(archive, "slice.json", json!(self.slice))?;
        put(archive, "cursor_events.json", json!(self.cursor_events().await?))?;
        put(
            archive,
            "spec.json",
            json!({ "fingerprint": self.plan.spec_fingerprint, "spec": self.plan_row["spec_snapshot"] }),
        )?;
        for page in pages {
            self.write_page(archive, *page).await?;
        }
        Ok(())
    }

    /// The moves of the watermark that the slice brought; none when an earlier gap still holds it.
    async fn cursor_events(&self) -> Result<Vec<Shown>, Failure> {
        let (plan, slice) = (id_of(&self.run, "plan_id")?, id_of(&self.run, "slice_id")?);
        let limit = ROWS_AT_ONCE;
        let filter = ListFilter { plan: Some(plan), slice: Some(slice), limit, ..ListFilter::default() };
        Ok(self.desk.store.list(Noun::CursorEvent, &filter).await?)
    }

    async fn write_page(&self, archive: &mut Archive, page: Id) -> Result<(), Failure> {
        let batch = row(self.desk, Noun::Batch, page).await?;
        let folder = format!("pages/{:05}-{page}", batch["batch_no"].as_u64().unwrap_or_default());
        let kept = self.desk.store.kept_pages(&Pages::Batch(page), Id(0)).await?;
        let kept = kept.into_iter().next().map_or(Kept::Nothing, |page| page.kept);
        let evidence = json!({
            "keys": self.keys(&batch),
            "request": self.request(&batch).await,
            "response": response(&batch, &kept),
            "processing": self.processing(page, &batch, &kept).await?,
        });
        put(archive, &format!("{folder}/page.json"), evidence)?;
        match kept {
            Kept::Whole(body) if self.whole => archive.add(&format!("{folder}/body"), &body),
            Kept::Whole(body) | Kept::Sample(body) => {
                archive.add(&format!("{folder}/sample"), &mask::sample(&body, mask::SAMPLE_BYTES))
            }
            Kept::Nothing => Ok(()),
        }
    }

    fn keys(&self, batch: &Shown) -> Value {
        json!({
            "run_id": batch["run_id"],
            "batch_no": batch["batch_no"],
            "batch_id": batch["id"],
            "pass_no": batch["pass_no"],
            "seq_no": batch["seq_no"],
            "phase": batch["phase"],
            "slice_signature_hash": self.slice["slice_signature_hash"],
            "expr_hash": batch["expr_hash"],
            "spec_fingerprint": self.plan.spec_fingerprint,
        })
    }

    /// What was noted of the request, and the request itself as the spec renders it; credentials are added after that.
    async fn request(&self, batch: &Shown) -> Value {
        let mut request = json!({ "asked_at": batch["asked_at"], "digest": batch["request_digest"] });
        let ask = asked(self.desk, &self.plan, batch, &self.slice).await.map_err(|failure| failure.message);
        let program = self.program.as_ref().map_err(Clone::clone);
        let rendered =
            ask.and_then(|ask| Draft::render(program?, &ask, str::to_owned).and_then(|draft| draft.finish()));
        match rendered {
            Ok(rendered) => {
                request["rendered"] = json!({
                    "method": format!("{:?}", rendered.method).to_uppercase(),
                    "url": rendered.url,
                    "headers": rendered.headers,
                    "body": rendered.body.as_ref().map(|body| String::from_utf8_lossy(body)),
                });
            }
            Err(message) => request["not_rendered"] = message.into(),
        }
        request
    }

    /// Counts, what became of the ids on the page, and what healing did.
    async fn processing(&self, page: Id, batch: &Shown, kept: &Kept) -> Result<Value, Failure> {
        let ids = self.ids(batch, kept);
        let decisions = match ids.is_empty() {
            true => Value::Null,
            false => {
                let spec = &self.plan.spec;
                json!(self.desk.store.decisions(&spec.provenance, &spec.entity, page, ids).await?)
            }
        };
        Ok(json!({
            "status": batch["status_code"],
            "error": batch["error"],
            "stats": batch["stats"],
            "decisions": decisions,
            "healing": { "page": batch["stats"]["healing"], "run": self.run["reason"], "slice": self.slice["record_remarks"] },
        }))
    }

    /// The ids on the page, as far as its answer is kept whole; a list of ids decides nothing.
    fn ids(&self, batch: &Shown, kept: &Kept) -> Vec<String> {
        let phase = if batch["phase"] == "detail" { Phase::Detail } else { Phase::Search };
        let (Kept::Whole(body), Ok(program)) = (kept, &self.program) else { return Vec::new() };
        if phase == Phase::Search && self.plan.spec.detail.is_some() {
            return Vec::new();
        }
        let decoded = decoded_with(program, phase, body.clone());
        decoded.map(|page| page.items.into_iter().map(|item| item.id).collect()).unwrap_or_default()
    }
}

fn response(batch: &Shown, kept: &Kept) -> Value {
    let kept = match kept {
        Kept::Whole(_) => "WHOLE",
        Kept::Sample(_) => "SAMPLE",
        Kept::Nothing => "NOTHING",
    };
    json!({
        "digest": batch["response_digest"],
        "response_hash": batch["response_hash"],
        "body_hash": batch["body_hash"],
        "kept": kept,
        "total": batch["total_hint"],
        "items": batch["record_count"],
        "source_now": batch["source_now"],
        "fetched_at": batch["fetched_at"],
        "position_before": batch["before_token"],
        "position_after": batch["after_token"],
    })
}

fn put(archive: &mut Archive, name: &str, mut value: Value) -> Result<(), Failure> {
    mask_texts(&mut value);
    archive.add(name, &serde_json::to_vec_pretty(&value)?)
}

async fn row(desk: &Desk, noun: Noun, id: Id) -> Result<Shown, Failure> {
    let missing = || Failure::new(Exit::NotFound, format!("row {id} of {noun:?} is not in the ledger any more"));
    desk.store.show(noun, &id.to_string()).await?.ok_or_else(missing)
}

fn id_of(row: &Shown, name: &str) -> Result<Id, Failure> {
    let wrong = || Failure::new(Exit::Database, format!("a row has no `{name}`"));
    row[name].as_str().and_then(|id| id.parse().ok()).ok_or_else(wrong)
}
