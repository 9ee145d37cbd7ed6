//! `patra replay BATCH --live`: the source is asked for a page again, through its gate, and the answer held against the
//! page as it was committed. What the source says now is compared and not stored.

use patra_core::id::Id;
use patra_core::page::{Page, PageAsk, PageStep};
use patra_core::pass::page_ids;
use patra_core::ports::{Inspect, Ledger, Noun, Phase, PlanView, Prove, Shown};
use patra_core::proof::{Differences, Kept, KeptPage, Pages, ReadRecord};
use patra_source::install_crypto;
use serde_json::{Value, json};

use crate::asked::asked;
use crate::asker::Asker;
use crate::commands::reread::{Reading, read_records};
use crate::failure::{Exit, Failure, stopped};
use crate::wiring::Desk;

/// Asks for a page again and compares.
pub async fn asked_again(desk: &Desk, batch: Id) -> Result<Value, Failure> {
    let kept = desk.store.kept_pages(&Pages::Batch(batch), Id(0)).await?.into_iter().next().ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("page {batch} was never committed, so there is nothing to compare"))
    })?;
    let plan = desk.store.plan(kept.plan).await?;
    let (row, slice) = rows(desk, batch).await?;
    let ask = asked(desk, &plan, &row, &slice).await?;
    may_ask(desk, &plan, &ask).await?;
    install_crypto();
    let asker = Asker::new(desk, (*plan.spec).clone());
    let page = asker.fetch(&ask).await.map_err(|error| {
        Failure::new(Exit::Source, format!("page {batch} cannot be asked for again: {error}"))
            .hint("without `--live` the answer that was kept is read again")
    })?;
    let own = Reading::of(desk, kept.plan, None).await?;
    let mut told = compared(&kept, &row, &page, &own);
    let sent = asker.last_sent();
    told["request"] = format!("{} {}", sent.method, sent.url).into();
    told["asked_at"] = json!(page.asked_at);
    Ok(told)
}

async fn rows(desk: &Desk, batch: Id) -> Result<(Shown, Shown), Failure> {
    let gone = || Failure::new(Exit::NotFound, format!("the rows of page {batch} are not in the ledger any more"));
    let row = desk.store.show(Noun::Batch, &batch.to_string()).await?.ok_or_else(gone)?;
    let slice = row["slice_id"].as_str().unwrap_or_default();
    let slice = desk.store.show(Noun::Slice, slice).await?.ok_or_else(gone)?;
    Ok((row, slice))
}

/// A person or a fuse may have stopped the source, and some cursors answer only once.
async fn may_ask(desk: &Desk, plan: &PlanView, ask: &PageAsk) -> Result<(), Failure> {
    let spec = &plan.spec;
    if desk.store.is_stopped(&spec.provenance, &spec.endpoint).await? {
        return Err(stopped(&spec.provenance, "nothing is asked of it"));
    }
    if matches!(ask.step, PageStep::Detail { .. }) || ask.is_repeatable() {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{}` answers a page in the middle of a walk only once", spec.provenance))
        .hint("the first page of a run can be asked for again"))
}

fn compared(kept: &KeptPage, row: &Shown, now: &Page, own: &Reading) -> Value {
    let then = match &kept.kept {
        Kept::Whole(body) => own.own(kept.phase, body.clone()).ok().map(|decoded| read_records(&decoded)),
        Kept::Sample(_) | Kept::Nothing => None,
    };
    let records: Vec<ReadRecord> = now.items.iter().map(ReadRecord::of).collect();
    let differences = then.map(|then| Differences::between(&then, &records));
    let mut changes = Vec::new();
    match &differences {
        Some(differences) if !differences.is_empty() => changes.push(differences.told()),
        _ if page_ids(now) != kept.ids => changes.push(other_ids(kept, now)),
        _ => {}
    }
    // A page of details counts nothing.
    let total = now.total.filter(|_| kept.phase == Phase::Search);
    if total != kept.total {
        changes.push(format!("it counts {}, and counted {}", number(total), number(kept.total)));
    }
    let same = changes.is_empty();
    let message = match (same, differences.is_some()) {
        (true, true) => "the source says the same".to_owned(),
        (true, false) => {
            "the source gives the same ids; the answer was not kept whole, so contents are not compared".into()
        }
        (false, _) => format!("the source says otherwise now: {}", changes.join("; ")),
    };
    json!({
        "batch": kept.batch,
        "window": kept.window.to_string(),
        "phase": kept.phase.code(),
        "records": now.items.len(),
        "total": { "then": kept.total, "now": total },
        "identical": row["response_hash"].as_str() == Some(&now.response_hash.to_string()),
        "differences": differences,
        "outcome": if same { "SAME" } else { "CHANGED" },
        "message": message,
    })
}

fn other_ids(kept: &KeptPage, now: &Page) -> String {
    let (mut then, mut ids) = (kept.ids.clone(), page_ids(now));
    then.sort_unstable();
    ids.sort_unstable();
    match then == ids {
        true => "the same ids in another order".into(),
        false => {
            let lost = then.iter().filter(|id| ids.binary_search(id).is_err()).count();
            let added = ids.iter().filter(|id| then.binary_search(id).is_err()).count();
            format!("{added} ids added, {lost} lost")
        }
    }
}

fn number(total: Option<u64>) -> String {
    total.map_or_else(|| "nothing".into(), |total| total.to_string())
}
