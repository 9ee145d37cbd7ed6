//! What a person changes about work that is planned: `patra plan retry|priority`, `task priority`, `slice cancel`.

use patra_core::ports::{Noun, Operate, Target};
use patra_engine::planner::Planned;
use serde_json::json;

use crate::cli::{CancelArgs, Global, PriorityArgs};
use crate::commands::operator::{act, find, told};
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

pub async fn cancel_slice(global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| {
        let slice = find(desk, Noun::Slice, "slice", &args.id).await?;
        match desk.store.cancel_slice(slice, &act(&args.reason)).await? {
            0 => Err(Failure::new(Exit::Usage, format!("slice {slice} has ended before, nothing of it is open"))),
            tasks => told(
                global,
                json!({ "slice": slice, "cancelled": tasks }),
                &format!("{tasks} tasks of slice {slice} are cancelled"),
            ),
        }
    })
    .await
}

pub async fn plan_priority(global: &Global, args: &PriorityArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| {
        let plan = find(desk, Noun::Plan, "plan", &args.of.id).await?;
        set_priority(desk, global, args, Target::Plan(plan)).await
    })
    .await
}

pub async fn task_priority(global: &Global, args: &PriorityArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| {
        let task = find(desk, Noun::Task, "task", &args.of.id).await?;
        set_priority(desk, global, args, Target::Task(task)).await
    })
    .await
}

async fn set_priority(desk: &Desk, global: &Global, args: &PriorityArgs, target: Target) -> Result<(), Failure> {
    let priority = args.priority;
    match desk.store.set_priority(target, priority, &act(&args.of.reason)).await? {
        0 => Err(Failure::new(Exit::Usage, "it has ended before, nothing of it is open")),
        tasks => told(
            global,
            json!({ "tasks": tasks, "priority": priority }),
            &format!("{tasks} tasks have priority {priority} from the next claim on"),
        ),
    }
}

pub async fn retry(global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    Desk::act(global, async |desk| retry_at(desk, global, args).await).await
}

async fn retry_at(desk: &Desk, global: &Global, args: &CancelArgs) -> Result<(), Failure> {
    let old = find(desk, Noun::Plan, "plan", &args.id).await?;
    let windows = desk.store.unproven(old).await?;
    if windows.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("plan {old} has no window that ended without proof")));
    }
    match desk.planner().retry(old, windows).await? {
        Planned::Created { plan, window, slices, .. } => {
            let detail = json!({ "plan": plan, "window": window });
            desk.store.note("PLAN_RETRY", &format!("plan:{old}"), &act(&args.reason), detail).await?;
            let text = format!("plan {plan} asks again for {slices} slices over {window}; executors take them up");
            told(global, json!({ "plan": plan, "of": old, "window": window, "slices": slices }), &text)
        }
        Planned::Live { plan } | Planned::Before { plan } => {
            Err(Failure::new(Exit::Usage, format!("plan {plan} of the same cursor is still being worked on"))
                .hint("what failed is owed to the plan after it; or cancel it first"))
        }
        Planned::NothingOwed => Err(Failure::new(Exit::Usage, "everything that failed was read or waived since")),
    }
}
