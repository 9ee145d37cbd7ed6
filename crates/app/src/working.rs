//! Workers of this process: an executor on real time, and its end on a signal.

use std::sync::Arc;

use patra_core::ports::{Gate, LedgerError, Only};
use patra_core::time::Span;
use patra_engine::executor::{Executor, Outside};
use patra_engine::notice::Notices;
use patra_engine::settings::Settings;
use patra_source::{EnvFileSecrets, HttpTransport, SourceReader};
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure};
use crate::strike;
use crate::wiring::Desk;

/// An executor for all workers of this process; only of these tasks.
pub fn executor(
    desk: &Desk,
    notices: Arc<dyn Notices>,
    settings: Settings,
    only: Only,
    stop: &CancellationToken,
    gate: Arc<dyn Gate>,
) -> Arc<Executor> {
    let transport = Arc::new(HttpTransport::new());
    let reader = SourceReader::new(transport, Arc::new(EnvFileSecrets), gate.clone(), desk.clock.clone());
    let outside = Outside {
        ledger: desk.store.clone(),
        source: Arc::new(reader),
        gate,
        clock: desk.clock.clone(),
        random: desk.random.clone(),
        ids: desk.store.ids(),
        notices,
        failpoints: desk.failpoints.clone(),
        settings,
        slot_owner: Some(desk.slot_owner.clone()),
    };
    Arc::new(Executor::new(outside, only, stop.clone()))
}

/// Settings of the command line over the usual ones.
pub fn settings(lease: Option<u16>, partition_max: u32) -> Settings {
    let usual = Settings::default();
    let lease_ttl = lease.map_or(usual.lease_ttl, |seconds| Span::from_seconds(seconds.into()));
    let reconcile_every = strike::reconcile_every().unwrap_or(usual.reconcile_every);
    Settings { lease_ttl, partition_max, reconcile_every, ..usual }
}

/// Runs so many workers, each under its name, until all have ended.
pub async fn run_workers<F, Fut>(workers: u16, work: F) -> Result<(), Failure>
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<(), LedgerError>> + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    for number in 0..workers {
        running.spawn(work(format!("{}-{number}", std::process::id())));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Failure::new(Exit::Internal, panic))??;
    }
    Ok(())
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `C_total` of the design.
pub fn default_workers() -> u16 {
    Settings::default().workers(cores())
}

/// SIGINT or SIGTERM ends the work after the page in hand; a second one ends the process.
pub fn stop_on_signals(quiet: bool) -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        wait_for_signal().await;
        if !quiet {
            eprintln!("stopping: the pages in hand are committed, leases are given back");
        }
        token.cancel();
        wait_for_signal().await;
        std::process::exit(Exit::Stopped as i32);
    });
    stop
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
