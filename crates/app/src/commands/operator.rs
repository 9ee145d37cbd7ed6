//! What a person decides against the ledger: `patra task cancel`, `plan cancel`, `cursor waive`, `source pause`
//! and `source resume`. Each is audited.

use patra_core::id::Id;
use patra_core::plan::build::walk_of;
use patra_core::plan::waive::waivable;
use patra_core::ports::{
    Cancelled, Inspect, Intervention, Ledger, ListFilter, NewWaiver, Noun, Registry, Shown, SourceOrder,
};
use patra_engine::planner::definition_of;
use serde_json::{Value, json};

use crate::cli::{CancelArgs, Global, StopArgs, WaiveArgs};
use crate::commands::source;
use crate::failure::{Exit, Failure, mistaken};
use crate::wiring::{Desk, actor};

/// Plans of a source looked through for its newest harvest.
const PLANS_LOOKED_AT: u32 = 1_000;

pub async fn cancel_task(global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| cancel_task_at(desk, global, args).await).await
}

async fn cancel_task_at(desk: &Desk, global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    let task = find(desk, Noun::Task, "task", &args.id).await?;
    match desk.store.cancel_task(task, &act(&args.reason)).await? {
        Cancelled::Now => {
            told(global, json!({ "task": task, "cancelled": true }), &format!("task {task} is cancelled"))
        }
        Cancelled::EndedBefore(state) => {
            Err(Failure::new(Exit::Usage, format!("task {task} has ended before, it is {}", state.code())))
        }
    }
}

pub async fn cancel_plan(global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| cancel_plan_at(desk, global, args).await).await
}

async fn cancel_plan_at(desk: &Desk, global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    let plan = find(desk, Noun::Plan, "plan", &args.id).await?;
    match desk.store.cancel_plan(plan, &act(&args.reason)).await? {
        0 => Err(Failure::new(Exit::Usage, format!("plan {plan} has ended before, nothing of it is open"))),
        tasks => told(
            global,
            json!({ "plan": plan, "cancelled": tasks }),
            &format!("plan {plan} is cancelled, {tasks} tasks were open"),
        ),
    }
}

pub async fn waive(global: &Global, args: &WaiveArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| waive_at(desk, global, args).await).await
}

async fn waive_at(desk: &Desk, global: &Global, args: &WaiveArgs) -> Result<(), Failure> {
    let plan = match &args.plan {
        Some(id) => find(desk, Noun::Plan, "plan", id).await?,
        None => newest_harvest(desk, &args.source).await?,
    };
    let plan = desk.store.plan(plan).await?;
    if plan.namespace.provenance != args.source {
        let message = format!("plan {} is of `{}`, not of `{}`", plan.id, plan.namespace.provenance, args.source);
        return Err(Failure::new(Exit::Usage, message));
    }
    let window = waivable(&plan.spec.window, args.from, args.to).map_err(|wrong| Failure::new(Exit::Usage, wrong))?;
    let waiver = NewWaiver { id: desk.store.ids().next(), walk: walk_of(&plan), window, act: act(&args.reason) };
    let id = waiver.id;
    let moved = desk.store.waive(waiver).await?;
    let watermark = moved.map(|(_, to)| to);
    let text = match watermark {
        Some(to) => format!("{window} of {} is waived, the watermark is now {to}", args.source),
        None => format!("{window} of {} is waived; a gap before it still holds the watermark", args.source),
    };
    told(global, json!({ "waiver": id, "window": window, "watermark": watermark }), &text)
}

pub async fn order(global: &Global, args: &StopArgs, pause: bool) -> Result<(), Failure> {
    Desk::act(global, async |desk| order_at(desk, global, args, pause).await).await
}

async fn order_at(desk: &Desk, global: &Global, args: &StopArgs, pause: bool) -> Result<(), Failure> {
    let source = &args.source;
    known(desk, args).await?;
    let order =
        SourceOrder { provenance: source.clone(), endpoint: args.endpoint.clone(), pause, act: act(&args.reason) };
    let changed = desk.store.order_source(&order).await?;
    let text = match (pause, changed) {
        (true, true) => format!("{source} is paused; requests that are on their way are still taken"),
        (true, false) => format!("{source} was paused before"),
        (false, true) => format!("{source} goes on"),
        (false, false) => format!("nothing of {source} was stopped"),
    };
    told(global, json!({ "source": source, "endpoint": args.endpoint, "paused": pause, "changed": changed }), &text)
}

/// A name with a slip of the pen would stop nothing, silently.
async fn known(desk: &Desk, args: &StopArgs) -> Result<(), Failure> {
    let version = desk.store.version_at(&args.source, "stable", desk.clock.now()).await?;
    let version = version.ok_or_else(|| source::unknown(&args.source))?;
    let Some(endpoint) = &args.endpoint else { return Ok(()) };
    let definition = definition_of(&version).map_err(|mistakes| mistaken(&mistakes))?;
    let endpoints: Vec<&str> = definition.endpoints().map(|(name, _)| name).collect();
    match endpoints.contains(&endpoint.as_str()) {
        true => Ok(()),
        false => Err(Failure::new(Exit::NotFound, format!("`{}` has no endpoint `{endpoint}`", args.source))
            .hint(format!("it has {}", endpoints.join(", ")))),
    }
}

pub async fn find(desk: &Desk, noun: Noun, name: &str, text: &str) -> Result<Id, Failure> {
    let missing = || Failure::new(Exit::NotFound, format!("there is no {name} `{text}`"));
    let row = desk.store.show(noun, text).await?.ok_or_else(missing)?;
    id_of(&row).ok_or_else(missing)
}

fn id_of(row: &Shown) -> Option<Id> {
    row["id"].as_str().and_then(|id| id.parse().ok())
}

/// The newest harvest of a source; a source that is harvested in several ways needs a plan to tell them apart.
async fn newest_harvest(desk: &Desk, source: &str) -> Result<Id, Failure> {
    let filter = ListFilter { provenance: Some(source.into()), limit: PLANS_LOOKED_AT, ..ListFilter::default() };
    let plans = desk.store.list(Noun::Plan, &filter).await?;
    let harvests: Vec<&Shown> = plans.iter().filter(|plan| plan["operation_code"] == "HARVEST").collect();
    let newest = harvests.first().and_then(|plan| id_of(plan));
    let newest = newest.ok_or_else(|| Failure::new(Exit::NotFound, format!("`{source}` was never harvested")))?;
    if harvests.iter().any(|plan| plan["namespace_hash"] != harvests[0]["namespace_hash"]) {
        return Err(Failure::new(Exit::Usage, format!("`{source}` has several cursors"))
            .hint("name a plan of the one that is meant: `--plan ID`"));
    }
    Ok(newest)
}

pub fn act(reason: &str) -> Intervention {
    Intervention { actor: actor(), reason: reason.to_owned() }
}

pub fn told(global: &Global, json: Value, text: &str) -> Result<(), Failure> {
    match global.json {
        true => println!("{json}"),
        false => println!("{text}"),
    }
    Ok(())
}
