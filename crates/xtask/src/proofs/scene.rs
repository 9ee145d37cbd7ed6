//! The situation in which a failpoint is passed. Most are passed by any harvest; the others need something to happen.

use std::time::Duration;

/// A world and a harvest of it.
pub struct Scene {
    pub source: &'static str,
    pub records: u64,
    pub situation: Option<&'static str>,
    pub rate: &'static str,
    pub set: &'static [&'static str],
    /// Further words of the command line.
    pub more: &'static [&'static str],
    /// SIGTERM after this long.
    pub terminate_after: Option<Duration>,
    /// The process that is struck is not a harvest but an operator's, who cancels a task of one that was stopped.
    pub operator: bool,
}

const FAST: &str = "{ per_second: 150, burst: 4, concurrency: 4, key: [source] }";
/// So slow that a task outlives several heartbeats and is in the middle of something when SIGTERM comes.
const SLOW: &str = "{ per_second: 8, burst: 1, concurrency: 1, key: [source] }";

const STOP_AFTER: Duration = Duration::from_millis(2_500);

/// Two phases, days over the cap, and ids whose details are refused.
const PUBMED: Scene = Scene {
    source: "pubmed",
    records: 240,
    situation: Some("PM-11"),
    rate: FAST,
    set: &["pagination.size=12", "pagination.result_cap=12", "pagination.max_per_slice=12", "detail.id_batch_size=4"],
    more: &[],
    terminate_after: None,
    operator: false,
};

/// Cursors that are lost and cannot be asked twice.
const CROSSREF: Scene = Scene {
    source: "crossref",
    records: 300,
    situation: Some("CR-1"),
    rate: FAST,
    set: &["pagination.size=5"],
    more: &[],
    terminate_after: None,
    operator: false,
};

pub fn scene_of(failpoint: &str) -> Scene {
    let (step, _) = failpoint.split_once('.').unwrap_or((failpoint, ""));
    match step {
        "pass" => CROSSREF,
        "cancel" => Scene { records: 60, rate: SLOW, terminate_after: Some(STOP_AFTER), operator: true, ..PUBMED },
        "heartbeat" | "reconcile" => Scene { records: 60, rate: SLOW, ..PUBMED },
        "release" | "shutdown" => Scene { records: 60, rate: SLOW, terminate_after: Some(STOP_AFTER), ..PUBMED },
        // A plan that waits for the queue to fall.
        "dispatch" => Scene { more: &["--threshold", "stock_max=3"], ..PUBMED },
        _ => PUBMED,
    }
}
