//! `patra outbox list|reconcile|republish`: what was told to the outside, and telling it again.

use clap::{Args, Subcommand};
use patra_core::id::Id;
use patra_core::outbox::SENT_KEPT;
use patra_core::ports::{Inspect, ListFilter, Noun, Outbox, Republish, StreamError};
use patra_core::time::Timestamp;
use patra_engine::reconcile::{ReconcileError, reconcile};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::commands::relay::StreamArgs;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// Changes that wait, were sent, or are parked
    List {
        /// `pending`, `sent` or `parked`
        #[arg(long)]
        status: Option<String>,
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Compare what was sent with what the stream holds
    Reconcile {
        #[command(flatten)]
        stream: StreamArgs,
        /// Only events recorded at or after this; everything that is kept by default
        #[arg(long, value_name = "TIME")]
        since: Option<Timestamp>,
        /// Send again what is missing
        #[arg(long)]
        republish: bool,
    },
    /// Send again: parked events, one record, or what was recorded in a range of time
    Republish(RepublishArgs),
}

#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RepublishArgs {
    /// Everything that is parked
    #[arg(long)]
    parked: bool,
    /// One record: `SOURCE/ENTITY/ID`
    #[arg(long, value_name = "KEY")]
    record: Option<String>,
    /// Rows by their ids
    #[arg(long, value_name = "ID", num_args = 1..)]
    rows: Vec<Id>,
    /// What was recorded in `FROM..TO`
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    recorded: Option<(Timestamp, Timestamp)>,
}

pub async fn run(global: &Global, command: &OutboxCommand) -> Result<(), Failure> {
    let reads = matches!(command, OutboxCommand::List { .. } | OutboxCommand::Reconcile { republish: false, .. });
    match reads {
        true => answered(global, &Desk::open_existing(global).await?, command).await,
        false => Desk::act(global, async |desk| answered(global, desk, command).await).await,
    }
}

async fn answered(global: &Global, desk: &Desk, command: &OutboxCommand) -> Result<(), Failure> {
    match command {
        OutboxCommand::List { status, source, limit } => {
            let status = status.as_ref().map(|status| status.to_ascii_uppercase());
            let filter = ListFilter { provenance: source.clone(), status, limit: *limit, ..ListFilter::default() };
            list(global, desk, &filter).await
        }
        OutboxCommand::Reconcile { stream, since, republish } => {
            let since = since.unwrap_or_else(|| desk.clock.now().minus(SENT_KEPT));
            compare(global, desk, stream, since, *republish).await
        }
        OutboxCommand::Republish(args) => {
            let changed = desk.store.republish(&which(args)?).await?;
            say(global, &json!({ "republished": changed }), &format!("{changed} events wait to be sent again"));
            Ok(())
        }
    }
}

async fn list(global: &Global, desk: &Desk, filter: &ListFilter) -> Result<(), Failure> {
    let counts = desk.store.outbox_counts().await?;
    let rows: Vec<Value> = desk.store.list(Noun::Outbox, filter).await?.into_iter().map(Value::Object).collect();
    if global.json {
        println!("{}", json!({ "pending": counts.pending, "parked": counts.parked, "events": rows }));
        return Ok(());
    }
    let columns = [
        "id",
        "provenance_code",
        "provider_id",
        "version_no",
        "change_code",
        "status_code",
        "created_at",
        "parked_reason",
    ];
    println!("{}", table::of_rows(&rows, &columns));
    println!("{} pending, {} parked", counts.pending, counts.parked);
    Ok(())
}

async fn compare(
    global: &Global,
    desk: &Desk,
    stream: &StreamArgs,
    since: Timestamp,
    republish: bool,
) -> Result<(), Failure> {
    let publisher = stream.connect().await?;
    let found = match reconcile(&*desk.store, &publisher, since, desk.clock.now()).await {
        Ok(found) => found,
        Err(ReconcileError::Ledger(error)) => return Err(error.into()),
        Err(ReconcileError::Stream(error)) => return Err(unread(stream, &error)),
    };
    let missing = found.missing.len();
    let again = if republish { desk.store.republish(&Republish::Rows(found.missing)).await? } else { 0 };
    let (compared, held) = (found.compared, found.held);
    let report = json!({ "compared": compared, "held": held, "missing": missing, "republished": again });
    say(global, &report, &format!("{compared} events compared, {missing} missing in the stream, {again} sent again"));
    match missing > 0 && !republish {
        true => Err(Failure::new(Exit::Incomplete, format!("the stream lacks {missing} events"))
            .hint("`--republish` sends them again")),
        false => Ok(()),
    }
}

fn unread(stream: &StreamArgs, error: &StreamError) -> Failure {
    Failure::new(Exit::Source, format!("stream {} cannot be read: {}", stream.stream, error.message))
        .hint("is the server of `--nats` up, is the stream there? `patra relay` makes it")
}

fn which(args: &RepublishArgs) -> Result<Republish, Failure> {
    if let Some(key) = &args.record {
        // Only the provider's id may hold slashes.
        let parts: Vec<&str> = key.splitn(3, '/').collect();
        let [provenance, entity, provider_id] = parts[..] else {
            return Err(Failure::new(Exit::Usage, format!("--record wants SOURCE/ENTITY/ID, found `{key}`")));
        };
        let [provenance, entity, provider_id] = [provenance, entity, provider_id].map(str::to_owned);
        return Ok(Republish::Record { provenance, entity, provider_id });
    }
    Ok(match (args.recorded, args.parked) {
        (Some((from, to)), _) => Republish::Recorded { from, to },
        (None, true) => Republish::Parked,
        (None, false) => Republish::Rows(args.rows.clone()),
    })
}

fn range(text: &str) -> Result<(Timestamp, Timestamp), String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO")?;
    let read = |text: &str| text.parse::<Timestamp>().map_err(|error| error.to_string());
    let (from, to) = (read(from)?, read(to)?);
    if from < to { Ok((from, to)) } else { Err("the range is empty".into()) }
}

fn say(global: &Global, report: &Value, text: &str) {
    if global.json { println!("{report}") } else { println!("{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_sent_again_is_read_from_the_line() {
        let none = RepublishArgs { parked: false, record: None, rows: Vec::new(), recorded: None };
        let record = which(&RepublishArgs { record: Some("crossref/works/10.1/a/b".into()), ..none.clone() }).unwrap();
        let want =
            Republish::Record { provenance: "crossref".into(), entity: "works".into(), provider_id: "10.1/a/b".into() };
        assert_eq!(record, want);
        assert!(which(&RepublishArgs { record: Some("10.1".into()), ..none.clone() }).is_err());
        assert_eq!(which(&RepublishArgs { parked: true, ..none.clone() }).unwrap(), Republish::Parked);
        assert_eq!(which(&RepublishArgs { rows: vec![Id(7)], ..none }).unwrap(), Republish::Rows(vec![Id(7)]));
        assert!(range("2026-01-01..2026-01-02").is_ok());
        assert!(range("2026-01-02..2026-01-01").is_err());
    }
}
