//! `patra sim`: the simulated providers on a port of their own.

use std::path::Path;

use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};
use patra_sim::{
    FaultLevel, FaultPlan, Latency, LogMode, Rate, SCENARIOS, Scenario, SharedWorld, Source, World, WorldPlan, serve,
};
use serde_json::{Value, json};

use crate::cli::{Faults, Global, ServeArgs, SimCommand};
use crate::clock::SystemClock;
use crate::failure::{Exit, Failure};
use crate::table;

pub async fn run(global: &Global, command: &SimCommand) -> Result<(), Failure> {
    match command {
        SimCommand::Scenarios => scenarios(global),
        SimCommand::Serve(args) => serve_world(global, args).await,
    }
}

fn scenarios(global: &Global) -> Result<(), Failure> {
    let row = |scenario: &Scenario| {
        json!({
            "id": scenario.id,
            "source": scenario.source.name(),
            "what": scenario.what,
            "reaction": scenario.reaction.name(),
            "expected": scenario.reaction.text(),
            "always_on": scenario.is_always_on(),
        })
    };
    let rows: Vec<Value> = SCENARIOS.iter().map(row).collect();
    if global.json {
        println!("{}", Value::Array(rows));
    } else {
        println!("{}", table::of_rows(&rows, &["id", "source", "always_on", "what", "expected"]));
    }
    Ok(())
}

async fn serve_world(global: &Global, args: &ServeArgs) -> Result<(), Failure> {
    let clock = std::sync::Arc::new(SystemClock::start());
    let world = SharedWorld::new(World::new(plan(args, clock.now())?));
    for id in &args.scenario {
        if !world.lock().enable(id) {
            let unknown = Failure::new(Exit::NotFound, format!("there is no scenario `{id}`"));
            return Err(unknown.hint("`patra sim scenarios` lists them"));
        }
    }
    let listener = tokio::net::TcpListener::bind(&args.listen)
        .await
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot listen on `{}`: {error}", args.listen)))?;
    let address = listener.local_addr()?;
    announce(global, args, &address.to_string(), &world);
    let now = move || clock.now().micros();
    tokio::select! {
        ended = serve(world.clone(), listener, now, latency(args)) => ended?,
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
    match &args.keep {
        Some(folder) => keep(&world, folder),
        None => Ok(()),
    }
}

fn latency(args: &ServeArgs) -> Latency {
    match args.latency {
        Some(millis) => Latency::Fixed(std::time::Duration::from_millis(millis.into())),
        None if args.unlimited => Latency::None,
        None => Latency::World,
    }
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => drop(terminate.recv().await),
        Err(_) => std::future::pending().await,
    }
}

fn plan(args: &ServeArgs, now: Timestamp) -> Result<WorldPlan, Failure> {
    let from = now.minus(Span::DAY.times(i64::from(args.days)));
    let mut plan = WorldPlan::new(args.seed, args.records, from.micros(), now.micros());
    let level = match args.faults {
        Faults::None => FaultLevel::None,
        Faults::Mild => FaultLevel::Mild,
        Faults::Storm => FaultLevel::Storm,
    };
    plan.faults = FaultPlan::new(level, args.seed);
    if args.keep.is_none() {
        plan.log = LogMode::Counters;
    }
    if args.unlimited {
        plan.enforce_rate = false;
        plan.rate_override = Some(Rate { limit: 1_000_000, per_us: 1_000_000, concurrency: 1_000 });
    }
    if let Some(limit) = args.limit {
        plan.rate_override = Some(Rate { limit, per_us: Span::SECOND.micros(), concurrency: 1_000 });
        plan.limit_steps = args.limit_after.iter().map(|(after, limit)| ((after * 1e6) as i64, *limit)).collect();
    }
    if !args.source.is_empty() {
        plan.sources = args.source.iter().map(|name| source(name)).collect::<Result<_, _>>()?;
    }
    Ok(plan)
}

fn source(name: &str) -> Result<Source, Failure> {
    let known: Vec<&str> = Source::ALL.iter().map(|source| source.name()).collect();
    Source::by_name(name).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("there is no simulated source `{name}`")).hint(known.join(", "))
    })
}

fn announce(global: &Global, args: &ServeArgs, address: &str, world: &SharedWorld) {
    let sources: Vec<&str> = world.lock().sources();
    if global.json {
        println!("{}", json!({ "listen": address, "records": args.records, "sources": sources }));
        return;
    }
    println!("{} records of {} sources on http://{address}, until Ctrl-C", args.records, sources.len());
    for name in sources {
        println!("  patra harvest {name} --base-url http://{address}/{name} --allow-host {address} --since ...");
    }
}

fn keep(world: &SharedWorld, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let world = world.lock();
    let mut truth = std::io::BufWriter::new(std::fs::File::create(folder.join("truth.jsonl"))?);
    let mut served = std::io::BufWriter::new(std::fs::File::create(folder.join("served.jsonl"))?);
    for source in world.sources() {
        world.write_truth(source, &mut truth)?;
        world.write_served(source, &mut served)?;
    }
    Ok(())
}
