//! `patra demo --executors N`: the same comparison with real processes, in real time, over HTTP on the loopback.
//!
//! This process plays the providers and the planner; the executors are processes of their own and share nothing but the
//! database, and Redis if it is named. The checker also counts requests where they arrive.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use patra_checker::{CheckInput, Database, Severity, Verdict};
use patra_core::id::Id;
use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};
use patra_engine::planner::{Planned, Trigger};
use patra_sim::{FaultPlan, Latency, SharedWorld, Source, World, WorldPlan, serve};
use patra_testkit::lab::{add_seen, rules_of};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::cli::{DemoArgs, Global, TriggerArgs};
use crate::clock::SystemClock;
use crate::commands::demo::{conclude, internal, judged, level};
use crate::commands::nouns::plan_outcome;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::wiring::Desk;

/// A short history: sources that are read by the hour and asked twice a second take their time.
const HISTORY: Span = Span::DAY.times(2);
/// How long before it harvesting begins.
const BEFORE: Span = Span::HOUR;
const POLL: Span = Span::from_millis(200);
/// A source that still owes something after so many plans will not come to an end.
const PLANS_MAX: u32 = 10;

pub fn run(global: &Global, args: &DemoArgs, place: &str, executors: u8) -> Result<(), Failure> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (rows, verdict) = runtime.block_on(harvested(global, args, place, executors))?;
    conclude(global, args, &rows, &verdict, started)
}

async fn harvested(
    global: &Global,
    args: &DemoArgs,
    place: &str,
    executors: u8,
) -> Result<(Vec<Value>, Verdict), Failure> {
    let progress = Progress::new(global.quiet || global.json, Arc::new(SystemClock::start()));
    let desk = Desk::open(place).await?;
    let now = desk.clock.now();
    let (world, address) = open_world(args, now).await?;
    let triggers = triggers(&desk, &address, now).await?;
    let fleet = Fleet::start(executors, place, args)?;
    progress.say(&format!("{executors} executors at work"));
    worked_off(&desk, &triggers, &progress).await?;
    fleet.stop()?;
    progress.finish();
    let mut input = CheckInput::new(Database::at(place));
    input.end_us = Some(desk.clock.now().micros());
    for (source, trigger) in Source::ALL.iter().zip(&triggers) {
        let spec = desk.planner().compile(trigger).await?.spec;
        input.rules.push(rules_of(source.name(), &spec));
        add_seen(&mut input, &world.lock(), *source);
    }
    desk.store.close().await;
    let verdict = patra_checker::check(&input).await;
    Ok((rows(&world, &verdict), verdict))
}

/// Serves the providers on a free port.
async fn open_world(args: &DemoArgs, now: Timestamp) -> Result<(SharedWorld, String), Failure> {
    let mut plan = WorldPlan::new(args.seed, args.records, now.minus(HISTORY).micros(), now.micros());
    plan.faults = FaultPlan::new(level(args.faults), args.seed);
    let world = SharedWorld::new(World::new(plan));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let clock = Arc::new(SystemClock::start());
    tokio::spawn(serve(world.clone(), listener, move || clock.now().micros(), Latency::World));
    Ok((world, address))
}

async fn triggers(desk: &Desk, address: &str, now: Timestamp) -> Result<Vec<Trigger>, Failure> {
    let mut triggers = Vec::new();
    for source in Source::ALL {
        let args = TriggerArgs {
            endpoint: None,
            query: None,
            native_query: None,
            since: Some(now.minus(HISTORY).minus(BEFORE)),
            until: Some(now),
            base_url: Some(format!("http://{address}/{}", source.name())),
            allow_host: vec![address.to_owned()],
            set: Vec::new(),
            contact: Some("demo@example.org".into()),
            channel: "stable".into(),
            priority: None,
        };
        triggers.push(desk.trigger(source.name(), &args).await?);
    }
    Ok(triggers)
}

/// Plans each source again until a plan of it ends well.
async fn worked_off(desk: &Desk, triggers: &[Trigger], progress: &Progress) -> Result<(), Failure> {
    let each = triggers.iter().map(|trigger| source_worked_off(desk, trigger, progress));
    futures::future::try_join_all(each).await.map(drop)
}

async fn source_worked_off(desk: &Desk, trigger: &Trigger, progress: &Progress) -> Result<(), Failure> {
    let source = &trigger.provenance;
    for _ in 0..PLANS_MAX {
        let plan = match desk.planner().plan(trigger).await? {
            Planned::NothingOwed => return Ok(()),
            Planned::Live { plan } | Planned::Before { plan } => plan,
            Planned::Created { plan, window, slices, .. } => {
                progress.say(&format!("{source}: {slices} slices over {window}"));
                plan
            }
        };
        if ends_well(desk, plan).await? {
            progress.say(&format!("{source}: complete"));
            return Ok(());
        }
    }
    Err(Failure::new(Exit::Incomplete, format!("{source} still owes something after {PLANS_MAX} plans")))
}

/// Waits for the end of a plan.
async fn ends_well(desk: &Desk, plan: Id) -> Result<bool, Failure> {
    loop {
        let outcome = plan_outcome(&desk.store, plan).await?;
        if outcome["open"] == 0 {
            return Ok(outcome["bad"] == 0);
        }
        desk.clock.sleep(POLL).await;
    }
}

fn rows(world: &SharedWorld, verdict: &Verdict) -> Vec<Value> {
    let world = world.lock();
    let row = |source: &patra_checker::SourceVerdict| {
        let seen = world.counters(&source.source);
        let too_fast = |finding: &&patra_checker::Finding| {
            (finding.check.as_str(), &finding.source) == ("C6", &source.source) && finding.severity == Severity::Error
        };
        let mut row = judged(source);
        row["requests"] = seen.requests.into();
        row["throttled"] = seen.throttled.into();
        row["above_rate"] = verdict.findings.iter().filter(too_fast).count().into();
        row["quarantined"] = source.quarantined.into();
        row
    };
    verdict.sources.iter().map(row).collect()
}

/// Executors of this demo; they end with it.
struct Fleet {
    children: Vec<Child>,
}

impl Fleet {
    fn start(executors: u8, place: &str, args: &DemoArgs) -> Result<Fleet, Failure> {
        let mut fleet = Fleet { children: Vec::new() };
        for _ in 0..executors {
            let mut command = Command::new(std::env::current_exe()?);
            // By the environment: a command line is seen by everyone on the machine, and these may hold a password.
            command.args(["executor", "--quiet"]).env("PATRA_DATABASE", place).stdin(Stdio::null());
            if let Some(redis) = &args.redis {
                command.env("PATRA_REDIS", redis.expose_secret());
            }
            fleet.children.push(command.spawn()?);
        }
        Ok(fleet)
    }

    /// Lets them end by themselves; each must have ended well.
    fn stop(mut self) -> Result<(), Failure> {
        for child in &self.children {
            Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        }
        for child in &mut self.children {
            let status = child.wait()?;
            if !status.success() {
                return Err(internal(format!("an executor ended with {status}")));
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            // After `stop` there is nothing left to kill.
            child.kill().ok();
            child.wait().ok();
        }
    }
}
