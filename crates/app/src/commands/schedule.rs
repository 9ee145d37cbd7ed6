//! `patra schedule add|list|next|history|pause|resume|run|remove`: what the clock triggers.

use clap::{Args, Subcommand, ValueEnum};
use patra_core::id::Id;
use patra_core::plan::campaign::Campaign;
use patra_core::plan::refresh::{RECORDS_MAX, Refresh};
use patra_core::ports::{Firing, Ledger, ScheduleOrder, Schedules};
use patra_core::schedule::{Ask, CatchUp, NotASchedule, Overlap, Schedule};
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_engine::planner::Trigger;
use serde_json::{Value, json};

use crate::cli::{Global, TriggerArgs};
use crate::commands::operator::{act, told};
use crate::commands::query::parsed;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Let the planners trigger a source by the clock
    Add(Box<AddArgs>),
    /// All schedules
    List,
    /// When a schedule is due next
    Next {
        name: String,
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
        count: u16,
    },
    /// What became of its newest firings
    History {
        name: String,
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Let it fire no more until it is resumed
    Pause(OrderArgs),
    /// Let it fire again; what it missed meanwhile is not made up for
    Resume(OrderArgs),
    /// Fire it now, beside its times
    Run(OrderArgs),
    /// Forget it; its firings stay
    Remove(OrderArgs),
}

#[derive(Clone, Debug, Args)]
pub struct OrderArgs {
    pub name: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, Args)]
pub struct AddArgs {
    /// What it is called
    pub name: String,
    #[arg(long, value_name = "SOURCE")]
    pub source: String,
    /// Minute, hour, day, month, weekday (`30 3 * * *`), or `@hourly`, `@daily`, `@weekly`, `@monthly`
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: String,
    /// Zone of the expression (`Europe/Berlin`)
    #[arg(long, default_value = "UTC")]
    pub zone: String,
    #[arg(long, value_enum, default_value_t = Verb::Harvest)]
    pub operation: Verb,
    /// Fire up to so much later, another time each time
    #[arg(long, default_value = "PT0S", value_name = "SPAN")]
    pub jitter: Span,
    /// When the plan before is still being worked on
    #[arg(long, value_enum, default_value_t = OverlapArg::Skip)]
    pub overlap: OverlapArg,
    /// What happens to times at which no planner ran
    #[arg(long, value_enum, default_value_t = CatchUpArg::Once)]
    pub catch_up: CatchUpArg,
    /// Backfill: the window of this length that ends at the due time
    #[arg(long, value_name = "SPAN")]
    pub last: Option<Span>,
    /// Backfill: one undertaking for all firings, each of which goes on where the one before ended
    #[arg(long, value_name = "NAME")]
    pub activity: Option<String>,
    /// Update: records that were not looked at for so long (`P30D`)
    #[arg(long, value_name = "SPAN", group = "which")]
    pub stale_for: Option<Span>,
    /// Update: records that were written under another mapping than the current one
    #[arg(long, group = "which")]
    pub expr_changed: bool,
    /// Update: records that were signalled
    #[arg(long, group = "which")]
    pub signals: bool,
    /// Update: at most so many records; the rest is left for the next firing
    #[arg(long, requires = "which", value_parser = clap::value_parser!(u32).range(1..=i64::from(RECORDS_MAX)))]
    pub limit: Option<u32>,
    #[command(flatten)]
    pub trigger: TriggerArgs,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    Harvest,
    Backfill,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverlapArg {
    Skip,
    Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatchUpArg {
    Skip,
    Once,
    All,
}

pub async fn run(global: &Global, command: &ScheduleCommand) -> Result<(), Failure> {
    match command {
        ScheduleCommand::Add(args) => Desk::act(global, async |desk| add(desk, global, args).await).await,
        ScheduleCommand::List => list(global).await,
        ScheduleCommand::Next { name, count } => next(global, name, *count).await,
        ScheduleCommand::History { name, limit } => history(global, name, *limit).await,
        ScheduleCommand::Pause(args) => {
            Desk::act(global, async |desk| order(desk, global, args, |_| Ok(ScheduleOrder::Pause)).await).await
        }
        ScheduleCommand::Resume(args) => Desk::act(global, async |desk| resume(desk, global, args).await).await,
        ScheduleCommand::Remove(args) => {
            Desk::act(global, async |desk| order(desk, global, args, |_| Ok(ScheduleOrder::Remove)).await).await
        }
        ScheduleCommand::Run(args) => Desk::act(global, async |desk| fire(desk, global, args).await).await,
    }
}

async fn add(desk: &Desk, global: &Global, args: &AddArgs) -> Result<(), Failure> {
    let now = desk.store.database_now();
    let mut schedule = schedule_of(desk.store.ids().next(), args)?;
    schedule.next_due = schedule.due_after(now).map_err(wrong)?;
    let firing =
        Firing { id: schedule.id, schedule: schedule.clone(), due: schedule.next_due, trigger_type: "CRON".into() };
    // What cannot be compiled is told now, not at three in the morning.
    desk.planner().compile(&trigger_of(desk, &firing).await?).await?;
    let name = schedule.name.clone();
    let next = schedule.fire_at(schedule.next_due);
    if !desk.store.add_schedule(schedule, &act(&args.reason)).await? {
        return Err(Failure::new(Exit::Usage, format!("there is a schedule `{name}` already"))
            .hint(format!("`patra schedule remove {name} --reason TEXT` makes room")));
    }
    told(global, json!({ "schedule": name, "next": next }), &format!("{name} fires next at {next}"))
}

fn wrong(error: NotASchedule) -> Failure {
    Failure::new(Exit::Usage, error).hint("see `patra schedule add --help`")
}

/// Each operation is told by its own options.
fn check_fit(operation: Operation, args: &AddArgs) -> Result<(), Failure> {
    let asked = &args.trigger;
    let usage = |message: &str, hint: &str| Err(Failure::new(Exit::Usage, message).hint(hint));
    if operation != Operation::Backfill && (args.last.is_some() || args.activity.is_some()) {
        return usage(
            "only a backfill is told what to read",
            "`--last` and `--activity` go with `--operation backfill`",
        );
    }
    if operation == Operation::Backfill && args.last.is_none() && (asked.since.is_none() || asked.until.is_none()) {
        return usage("a backfill needs a window", "say `--last P7D`, or `--since` and `--until`");
    }
    match (operation, refresh_of(args).is_some()) {
        (Operation::Update, false) => {
            return usage(
                "an update needs to know which records",
                "say `--stale-for P30D`, `--expr-changed` or `--signals`",
            );
        }
        (Operation::Harvest | Operation::Backfill, true) => {
            return usage("only an update chooses records", "say `--operation update`");
        }
        _ => {}
    }
    if operation == Operation::Update && (asked.since.is_some() || asked.until.is_some()) {
        return usage("a refresh has no window", "leave `--since` and `--until` out");
    }
    if asked.native_query.is_some() {
        return usage("a schedule keeps a query in the query language", "say it with `--query`");
    }
    Ok(())
}

fn refresh_of(args: &AddArgs) -> Option<Refresh> {
    match (args.stale_for, args.expr_changed, args.signals) {
        (Some(span), ..) => Some(Refresh::StaleFor(span)),
        (None, true, _) => Some(Refresh::ExprChanged),
        (None, false, true) => Some(Refresh::Signals),
        (None, false, false) => None,
    }
}

fn schedule_of(id: Id, args: &AddArgs) -> Result<Schedule, Failure> {
    let operation = match args.operation {
        Verb::Harvest => Operation::Harvest,
        Verb::Backfill => Operation::Backfill,
        Verb::Update => Operation::Update,
    };
    let asked = &args.trigger;
    check_fit(operation, args)?;
    if let Some(query) = &asked.query {
        parsed(query)?;
    }
    let ask = Ask {
        last: args.last,
        since: asked.since,
        until: asked.until,
        activity: args.activity.clone(),
        refresh: refresh_of(args),
        limit: args.limit,
        query: asked.query.clone(),
        native_query: asked.native_query.clone(),
        base_url: asked.base_url.clone(),
        allow_host: asked.allow_host.clone(),
        set: asked.set.clone(),
        contact: asked.contact.clone(),
        priority: asked.priority,
    };
    Ok(Schedule {
        id,
        name: args.name.clone(),
        cron: args.cron.clone(),
        zone: args.zone.clone(),
        jitter: args.jitter,
        overlap: match args.overlap {
            OverlapArg::Skip => Overlap::Skip,
            OverlapArg::Queue => Overlap::Queue,
        },
        catch_up: match args.catch_up {
            CatchUpArg::Skip => CatchUp::Skip,
            CatchUpArg::Once => CatchUp::Once,
            CatchUpArg::All => CatchUp::All,
        },
        provenance: args.source.clone(),
        endpoint: asked.endpoint.clone(),
        operation,
        channel: asked.channel.clone(),
        ask,
        paused: false,
        next_due: Timestamp::MAX,
        version: 1,
    })
}

/// What a firing asks for, with the credentials that this machine has.
pub async fn trigger_of(desk: &Desk, firing: &Firing) -> Result<Trigger, Failure> {
    let (schedule, ask) = (&firing.schedule, &firing.schedule.ask);
    let (since, until) = ask.window(firing.due);
    let args = TriggerArgs {
        endpoint: schedule.endpoint.clone(),
        query: ask.query.clone(),
        native_query: ask.native_query.clone(),
        since,
        until,
        base_url: ask.base_url.clone(),
        allow_host: ask.allow_host.clone(),
        set: ask.set.clone(),
        contact: ask.contact.clone(),
        channel: schedule.channel.clone(),
        priority: ask.priority,
    };
    let trigger = desk.trigger(&schedule.provenance, &args).await?;
    Ok(Trigger {
        operation: schedule.operation,
        campaign: Campaign { activity: ask.activity.clone(), only: None },
        scheduler: "PATRA".into(),
        job_id: schedule.id.to_string(),
        log_id: firing.id.to_string(),
        trigger_type: firing.trigger_type.clone(),
        ..trigger
    })
}

async fn find(desk: &Desk, name: &str) -> Result<Schedule, Failure> {
    let found = desk.store.schedules().await?.into_iter().find(|schedule| schedule.name == name);
    found.ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("there is no schedule `{name}`")).hint("`patra schedule list` shows them")
    })
}

async fn list(global: &Global) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let schedules = desk.store.schedules().await?;
    if global.json {
        println!("{}", serde_json::to_string(&schedules)?);
        return Ok(());
    }
    let shown = |schedule: &Schedule| {
        let next = if schedule.paused { "paused".into() } else { schedule.fire_at(schedule.next_due).to_string() };
        json!({
            "name": schedule.name,
            "source": schedule.provenance,
            "operation": schedule.operation,
            "cron": schedule.cron,
            "zone": schedule.zone,
            "next": next,
            "overlap": schedule.overlap,
            "catch_up": schedule.catch_up,
        })
    };
    let rows: Vec<Value> = schedules.iter().map(shown).collect();
    let columns = ["name", "source", "operation", "cron", "zone", "next", "overlap", "catch_up"];
    println!("{}", table::of_rows(&rows, &columns));
    Ok(())
}

async fn next(global: &Global, name: &str, count: u16) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let schedule = find(&desk, name).await?;
    let (mut due, mut times) = (schedule.next_due, Vec::new());
    for _ in 0..count {
        times.push(json!({ "due": due, "fires": schedule.fire_at(due) }));
        due = schedule.due_after(due).map_err(wrong)?;
    }
    match global.json {
        true => println!("{}", json!({ "schedule": name, "paused": schedule.paused, "next": times })),
        false => println!("{}", table::of_rows(&times, &["due", "fires"])),
    }
    Ok(())
}

async fn history(global: &Global, name: &str, limit: u32) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let schedule = find(&desk, name).await?;
    let rows = desk.store.firings(schedule.id, limit).await?;
    match global.json {
        true => println!("{}", Value::Array(rows)),
        false => {
            println!(
                "{}",
                table::of_rows(&rows, &["due_at", "trigger_type_code", "status_code", "plan_id", "record_remarks"])
            );
        }
    }
    Ok(())
}

async fn resume(desk: &Desk, global: &Global, args: &OrderArgs) -> Result<(), Failure> {
    let now = desk.store.database_now();
    let on = |schedule: &Schedule| Ok(ScheduleOrder::Resume { next_due: schedule.due_after(now).map_err(wrong)? });
    order(desk, global, args, on).await
}

async fn order(
    desk: &Desk,
    global: &Global,
    args: &OrderArgs,
    order: impl FnOnce(&Schedule) -> Result<ScheduleOrder, Failure>,
) -> Result<(), Failure> {
    let schedule = find(desk, &args.name).await?;
    let order = order(&schedule)?;
    let changed = desk.store.order_schedule(schedule.id, order, &act(&args.reason)).await?;
    let what = match order {
        ScheduleOrder::Pause => "paused",
        ScheduleOrder::Resume { .. } => "resumed",
        ScheduleOrder::Remove => "removed",
    };
    let text = match changed {
        true => format!("{} is {what}", args.name),
        false => format!("{} was {what} before", args.name),
    };
    told(global, json!({ "schedule": args.name, "order": what, "changed": changed }), &text)
}

async fn fire(desk: &Desk, global: &Global, args: &OrderArgs) -> Result<(), Failure> {
    let schedule = find(desk, &args.name).await?;
    let now = desk.store.database_now();
    let firing = desk.store.fire_now(&schedule, now, &act(&args.reason)).await?;
    let text = format!("{} fires now; the next planner plans it", args.name);
    told(global, json!({ "schedule": args.name, "firing": firing, "due": now }), &text)
}
