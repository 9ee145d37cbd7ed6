//! `patra`: one command takes a source definition to a complete, proven copy.

mod archive;
mod asked;
mod asker;
mod cli;
mod clock;
mod commands;
mod counting;
mod failure;
mod gate;
mod log;
mod memory;
mod metrics;
mod opening;
mod orders;
mod place;
mod progress;
mod role_args;
mod strike;
mod table;
mod wiring;
mod working;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command, CursorCommand, PlanCommand, SliceCommand, TaskCommand};
use failure::{Exit, Failure};
use patra_core::ports::Noun;

fn main() -> ExitCode {
    memory::give_large_blocks_back();
    end_quietly_on_a_closed_pipe();
    let cli = Cli::parse();
    log::start(&cli);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    // The demo drives its own runtime from outside, because its clock is virtual.
    match &cli.command {
        Command::Demo(args) => return commands::demo::run(&cli.global, args),
        Command::Completions { shell } => return commands::shell::completions(*shell),
        Command::Man { folder } => return commands::shell::man(folder),
        Command::Query(command) => return commands::query::run(&cli.global, command),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: &Cli) -> Result<(), Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Init => commands::init::run(global).await,
        Command::Migrate(args) => commands::migrate::run(global, args).await,
        Command::Harvest(args) => commands::harvest::run(global, args).await,
        Command::Backfill(args) => commands::backfill::run(global, args).await,
        Command::Certify(args) => commands::certify::run(global, args).await,
        Command::Why(args) => commands::why::run(global, args).await,
        Command::Replay(args) => commands::replay::run(global, args).await,
        Command::Remap(args) => commands::remap::run(global, args).await,
        Command::Blackbox(command) => commands::blackbox::run(global, command).await,
        Command::Export(args) => commands::export::run(global, args).await,
        Command::Update(args) => commands::update::run(global, args).await,
        Command::Signal(command) => commands::update::signal(global, command).await,
        Command::Planner(args) => commands::roles::run_planner(global, args).await,
        Command::Executor(args) => commands::roles::run_executor(global, args).await,
        Command::Relay(args) => commands::relay::run(global, args).await,
        Command::Serve(args) => commands::roles::run_all(global, args).await,
        Command::Schedule(command) => commands::schedule::run(global, command).await,
        Command::Source(command) => commands::source::run(global, command).await,
        Command::Spec(command) => commands::spec::run(global, command).await,
        Command::Registry(command) => commands::registry::run(global, command).await,
        Command::Plan(PlanCommand::Look(command)) => commands::nouns::run(global, Noun::Plan, command).await,
        Command::Plan(PlanCommand::Cancel(args)) => commands::operator::cancel_plan(global, args).await,
        Command::Plan(PlanCommand::Retry(args)) => commands::rework::retry(global, args).await,
        Command::Plan(PlanCommand::Priority(args)) => commands::rework::plan_priority(global, args).await,
        Command::Slice(SliceCommand::Look(command)) => commands::nouns::run(global, Noun::Slice, command).await,
        Command::Slice(SliceCommand::Cancel(args)) => commands::rework::cancel_slice(global, args).await,
        Command::Task(TaskCommand::Look(command)) => commands::nouns::run(global, Noun::Task, command).await,
        Command::Task(TaskCommand::Cancel(args)) => commands::operator::cancel_task(global, args).await,
        Command::Task(TaskCommand::Priority(args)) => commands::rework::task_priority(global, args).await,
        Command::Run(command) => commands::nouns::run(global, Noun::Run, command).await,
        Command::Batch(command) => commands::nouns::run(global, Noun::Batch, command).await,
        Command::Cursor(CursorCommand::Look(command)) => commands::nouns::run(global, Noun::Cursor, command).await,
        Command::Cursor(CursorCommand::Waive(args)) => commands::operator::waive(global, args).await,
        Command::Cursor(CursorCommand::Tend(command)) => commands::cursor::run(global, command).await,
        Command::Record(command) => commands::nouns::run(global, Noun::Record, command).await,
        Command::Quarantine(command) => commands::quarantine::run(global, command).await,
        Command::Alarm(command) => commands::nouns::run(global, Noun::Alarm, command).await,
        Command::Gate(command) => commands::gate::run(global, command).await,
        Command::Outbox(command) => commands::outbox::run(global, command).await,
        Command::Status => commands::status::run(global).await,
        Command::Doctor(args) => commands::doctor::run(global, args).await,
        Command::Sim(command) => commands::sim::run(global, command).await,
        #[cfg(feature = "failpoints")]
        Command::Failpoints => {
            strike::names().iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        Command::Demo(_) | Command::Completions { .. } | Command::Man { .. } | Command::Query(_) => Ok(()),
    }
}

/// `patra record list | head` closes our output early. That is how pipes end, not a defect to report.
fn end_quietly_on_a_closed_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let closed = panic.payload().downcast_ref::<String>().is_some_and(|text| text.contains("Broken pipe"));
        if closed {
            std::process::exit(0);
        }
        usual(panic);
    }));
}
