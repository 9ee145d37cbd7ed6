//! `patra plan|slice|task|run|batch|cursor|record|quarantine list|show`.

use patra_core::id::Id;
use patra_core::ports::{Inspect, ListFilter, Noun, Shown};
use patra_store::Store;
use serde_json::{Value, json};

use crate::cli::{Global, ListArgs, NounCommand};
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

/// Most slices looked at for the summary of one plan.
const SLICES_LOOKED_AT: u32 = 1_000;
/// Most cursors of one source looked at for that of a plan.
const CURSORS_LOOKED_AT: u32 = 1_000;

pub async fn run(global: &Global, noun: Noun, command: &NounCommand) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    match command {
        NounCommand::List(args) => {
            let rows = desk.store.list(noun, &filter(args)?).await?;
            let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
            if global.json {
                println!("{}", Value::Array(rows));
            } else {
                println!("{}", table::of_rows(&rows, &columns(noun)));
            }
        }
        NounCommand::Show { id } => {
            let missing = || Failure::new(Exit::NotFound, format!("there is no {} `{id}`", name(noun)));
            let row = desk.store.show(noun, id).await?.ok_or_else(missing)?;
            show(global, row)?;
        }
    }
    Ok(())
}

fn name(noun: Noun) -> String {
    serde_json::to_value(noun)
        .ok()
        .and_then(|value| value.as_str().map(|text| text.replace('_', " ")))
        .unwrap_or_default()
}

fn show(global: &Global, row: Shown) -> Result<(), Failure> {
    if global.json {
        println!("{}", serde_json::to_string(&row)?);
        return Ok(());
    }
    let width = row.keys().map(String::len).max().unwrap_or(0);
    for (key, value) in &row {
        let text = match value {
            Value::Object(_) | Value::Array(_) => serde_json::to_string_pretty(value)?,
            other => table::text_of(other),
        };
        println!("{key:>width$}  {}", text.replace('\n', &format!("\n{:width$}  ", "")));
    }
    Ok(())
}

pub fn filter(args: &ListArgs) -> Result<ListFilter, Failure> {
    Ok(ListFilter {
        provenance: args.source.clone(),
        status: args.status.as_ref().map(|status| status.to_ascii_uppercase()),
        plan: id("--plan", args.plan.as_deref())?,
        slice: id("--slice", args.slice.as_deref())?,
        task: id("--task", args.task.as_deref())?,
        run: id("--run", args.run.as_deref())?,
        limit: args.limit,
        namespace: None,
        before_id: id("--before", args.before.as_deref())?,
    })
}

fn id(option: &str, text: Option<&str>) -> Result<Option<Id>, Failure> {
    let wrong = |_| Failure::new(Exit::Usage, format!("{option} wants an id, found `{}`", text.unwrap_or_default()));
    text.map(str::parse).transpose().map_err(wrong)
}

/// What a person sees of a row in a list; `show` and `--json` have everything.
pub fn columns(noun: Noun) -> Vec<&'static str> {
    let names = match noun {
        Noun::Plan => {
            "id provenance_code operation_code window_from window_to slice_count open_slice_count status_code created_at"
        }
        Noun::Slice => "id plan_id provenance_code window_from window_to part status_code reason",
        Noun::Task => {
            "id slice_id provenance_code priority status_code attempt_no failure_count scheduled_at lease_owner"
        }
        Noun::Run => "id task_id provenance_code attempt_no status_code reason started_at finished_at",
        Noun::Batch => "id run_id provenance_code pass_no seq_no phase record_count status_code committed_at",
        Noun::Cursor => "id provenance_code endpoint_name operation_code cursor_key cursor_value version updated_at",
        Noun::CursorEvent => "id provenance_code event_no prev_value new_value cause_code created_at",
        Noun::Record => "id provenance_code endpoint_name provider_id version_no updated_at deleted checked_at",
        Noun::Quarantine => "id provenance_code provider_id reason_code path message batch_id",
        Noun::MissingId => "id provenance_code provider_id sightings next_try_at status_code",
        Noun::Instance => "id provenance_code operation_code triggered_at record_remarks",
        Noun::Outbox => "id provenance_code provider_id version_no change_code status_code created_at",
        Noun::Signal => "id provenance_code endpoint_name provider_id kind_code reason status_code created_at",
        Noun::SourceControl => {
            "id provenance_code endpoint_name paused fuse_blown reason actor circuit_code circuit_until"
        }
        Noun::Alarm => "id status_code kind_code provenance_code what message raised_at cleared_at told_code",
        Noun::Budget => "id rate_key window_code window_start reset_at used_count limit_count soft_count",
    };
    names.split(' ').collect()
}

/// How the slices of a plan ended, and how far its source is complete.
pub async fn plan_outcome(store: &Store, plan: Id) -> Result<Value, Failure> {
    let Some(row) = store.show(Noun::Plan, &plan.to_string()).await? else { return Ok(json!({})) };
    let mut bad = 0u64;
    for status in ["FAILED", "PARTIAL", "CANCELLED"] {
        let filter = ListFilter {
            plan: Some(plan),
            status: Some(status.into()),
            limit: SLICES_LOOKED_AT,
            ..ListFilter::default()
        };
        bad += store.list(Noun::Slice, &filter).await?.len() as u64;
    }
    // The cursor itself, not the summary: that one counts every record of every source.
    let filter = ListFilter {
        provenance: row["provenance_code"].as_str().map(str::to_owned),
        limit: CURSORS_LOOKED_AT,
        ..ListFilter::default()
    };
    let cursors = store.list(Noun::Cursor, &filter).await?;
    let own = cursors.iter().find(|cursor| cursor["namespace_hash"] == row["namespace_hash"]);
    let watermark = own.map_or(Value::Null, |cursor| cursor["normalized_instant"].clone());
    Ok(
        json!({ "status": row["status_code"], "all": row["slice_count"], "open": row["open_slice_count"], "bad": bad, "watermark": watermark }),
    )
}
