//! What a torture has shown: a table for people, one line of JSON, and whether it is good enough.

use std::sync::atomic::{AtomicU64, Ordering};

use patra_checker::Verdict;
use serde::Serialize;
use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::fleet::Fallen;
use super::holders::Holders;
use super::logs::Said;
use super::proxy::Proxy;
use super::quiet::Rested;
use super::size::{LEASE, Size, Weather};
use super::storm::Done;
use super::stream::Streamed;
use crate::proofs::Backend;

/// A takeover may take the lease and this long.
const TAKEOVER_SLACK_S: f64 = 5.0;
/// A fleet that has lost Redis notices, waits for one window and goes on.
const SILENCE_MAX_S: f64 = 10.0;
/// Counted apart: the law of rates is judged by its own check.
const RATE_CHECK: &str = "C6";

/// What the proxy did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Proxied {
    pub connections: u64,
    pub commits: u64,
    pub cut_before: u64,
    pub cut_after: u64,
    pub cut_at_answer: u64,
    pub resets: u64,
    pub black_holes: u64,
    pub single_bytes: u64,
    pub delays: u64,
}

impl Proxied {
    pub fn of(proxy: Option<&Proxy>) -> Proxied {
        let Some(proxy) = proxy else { return Proxied::default() };
        let (tally, read) = (&proxy.tally, |count: &AtomicU64| count.load(Ordering::Relaxed));
        Proxied {
            connections: read(&tally.connections),
            commits: read(&tally.commits),
            cut_before: read(&tally.cut_before),
            cut_after: read(&tally.cut_after),
            cut_at_answer: read(&tally.cut_at_answer),
            resets: read(&tally.resets),
            black_holes: read(&tally.black_holes),
            single_bytes: read(&tally.single_bytes),
            delays: read(&tally.delays),
        }
    }

    fn unknown(&self) -> u64 {
        self.cut_before + self.cut_after + self.cut_at_answer
    }
}

pub struct Report {
    pub backend: Backend,
    pub seed: u64,
    pub size: Size,
    pub done: Done,
    pub proxied: Proxied,
    pub rested: Rested,
    pub double_commits: u64,
    pub streamed: Streamed,
    pub verdict: Verdict,
    pub arrivals: Arrivals,
    pub holders: Holders,
    pub said: Said,
    pub fallen: Vec<Fallen>,
    pub starts: u64,
    pub seconds: f64,
}

/// One line of the table: what, how much, and whether that is as it must be; `None` is only told.
pub type Line = (&'static str, String, Option<bool>);

pub fn told(name: &'static str, text: String) -> Line {
    (name, text, None)
}

pub fn zero(name: &'static str, count: u64) -> Line {
    (name, count.to_string(), Some(count == 0))
}

pub fn other_findings(verdict: &Verdict) -> u64 {
    verdict.error_counts.iter().filter(|(check, _)| *check != RATE_CHECK).map(|(_, count)| count).sum()
}

pub fn rate_windows_above(verdict: &Verdict) -> u64 {
    verdict.error_counts.get(RATE_CHECK).copied().unwrap_or(0)
}

/// Why processes ended by themselves, by their last words.
pub fn falls(all: &[Fallen]) -> Vec<String> {
    let mut falls: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for fallen in all {
        let words: String = fallen.last_words.chars().take(200).collect();
        *falls.entry(format!("{} {}: {words}", fallen.role.name(), fallen.status)).or_default() += 1;
    }
    falls.into_iter().map(|(words, count)| format!("fell {count} times: {words}")).collect()
}

/// The whole report as people read it.
pub fn page(title: &str, lines: &[Line], remarks: &[String], seconds: f64) -> String {
    let remarks: String = remarks.iter().map(|remark| format!("  {remark}\n")).collect();
    let end = if all_good(lines) { "ok" } else { "FAILED" };
    format!("{title}\n{}{remarks}  {end} in {seconds:.0} s", rows(lines))
}

pub fn all_good(lines: &[Line]) -> bool {
    lines.iter().all(|(_, _, good)| good.unwrap_or(true))
}

fn rows(lines: &[Line]) -> String {
    let mark = |good: &Option<bool>| match good {
        Some(true) => "  ok",
        Some(false) => "  FAILED",
        None => "",
    };
    lines.iter().map(|(name, value, good)| format!("  {name:<24} {value}{}\n", mark(good))).collect()
}

impl Report {
    pub fn ok(&self) -> bool {
        all_good(&self.lines())
    }

    fn sum(&self, of: fn(&patra_checker::SourceVerdict) -> u64) -> u64 {
        self.verdict.sources.iter().map(of).sum()
    }

    /// Commits of which the ledger shows that they are half done or done twice.
    fn unresolved(&self) -> u64 {
        self.holders.left_open.unsigned_abs() + self.holders.events_twice.unsigned_abs() + self.double_commits
    }

    fn lines(&self) -> Vec<Line> {
        [self.volumes(), self.network(), self.records(), self.rates(), self.events(), self.leases(), self.ends()]
            .concat()
    }

    fn volumes(&self) -> Vec<Line> {
        let done = &self.done;
        let (kills, stops) = (done.redis_kills, done.redis_stops);
        vec![
            told("processes", format!("{} started, {} fell by themselves", self.starts, self.fallen.len())),
            zero("  at their work", self.fallen.iter().filter(|fallen| fallen.at_work).count() as u64),
            told("kills, stops", format!("{}, {}", done.kills, done.stops)),
            told("database", format!("{} kills, {} stops", done.database_kills, done.database_stops)),
            told("Redis", format!("{kills} kills, {stops} stops, {} flushes", done.redis_flushes)),
            told(
                "broker",
                format!("{} kills, {} restarts, {} stops", done.broker_kills, done.broker_restarts, done.broker_stops),
            ),
        ]
    }

    fn network(&self) -> Vec<Line> {
        let Proxied { commits, cut_before, cut_after, cut_at_answer, .. } = self.proxied;
        let Proxied { resets, black_holes, delays, single_bytes, .. } = self.proxied;
        let cuts = format!("{cut_before} cut before, {cut_after} after, {cut_at_answer} at the answer");
        let slow = format!("{delays} slow, {single_bytes} in single bytes");
        let (resolved, left) = (self.said.resolved, self.said.left);
        vec![
            told("network", format!("{resets} resets, {black_holes} black holes, {slow}")),
            told("unknown commits", format!("{} of {commits}: {cuts}", self.proxied.unknown())),
            told("  looked up at once", format!("{resolved}, left to the next holder {left}")),
            zero("  not resolved", self.unresolved()),
        ]
    }

    fn records(&self) -> Vec<Line> {
        let (expected, stored) = (self.sum(|source| source.expected), self.sum(|source| source.stored));
        vec![
            told("records", format!("{stored} stored, {expected} expected")),
            zero("missing", self.sum(|source| source.missing_count)),
            zero("extra", self.sum(|source| source.extra_count)),
            zero("double commits", self.double_commits),
            zero("other findings", other_findings(&self.verdict)),
        ]
    }

    /// Where only Redis is away there is no other reason for a request that comes too early.
    fn rates(&self) -> Vec<Line> {
        let Arrivals { twice_the_rate, per_second, best_per_second, silence_s } = self.arrivals;
        let (above, only_redis) = (rate_windows_above(&self.verdict), self.size.weather == Weather::Redis);
        let limits = f64::from(self.size.per_second) * self.size.sources.len() as f64;
        vec![
            ("windows above the rate", above.to_string(), only_redis.then_some(above == 0)),
            zero("  twice the rate", twice_the_rate as u64),
            told(
                "requests in a second",
                format!("{per_second:.1} of at most {limits}, {best_per_second:.1} in the best 10 s"),
            ),
            (
                "longest silence",
                format!("{silence_s:.1} s of one source"),
                only_redis.then_some(silence_s <= SILENCE_MAX_S),
            ),
        ]
    }

    fn events(&self) -> Vec<Line> {
        let Streamed { outbox, messages, repeated, .. } = self.streamed;
        vec![
            told("events", format!("{outbox} in the outbox, {messages} messages, {repeated} repeated")),
            told("  lost by the broker", format!("{}, sent again", self.rested.lost_by_broker)),
            zero("  lost", self.streamed.missing as u64 + self.rested.parked.unsigned_abs()),
            zero("  unknown to the outbox", self.streamed.unknown as u64),
            zero("  out of order", self.streamed.order_breaks as u64),
        ]
    }

    fn leases(&self) -> Vec<Line> {
        let (holders, tried) = (&self.holders, self.said.stale_tried());
        let limit = LEASE.as_secs_f64() + TAKEOVER_SLACK_S;
        let Holders { takeovers, takeover_p50_s, takeover_p99_s, takeover_max_s, takeover_p99_raw_s, .. } = holders;
        let more = format!("p50 {takeover_p50_s:.1} s, longest {takeover_max_s:.1} s");
        let raw = format!("p99 with the database away {takeover_p99_raw_s:.1} s");
        let in_time = self.size.judge_times.then_some(*takeover_p99_s <= limit);
        let (runs, lost, poisoned) = (holders.runs, holders.lost, holders.poisoned);
        vec![
            told("runs", format!("{runs}, {lost} ended by a takeover, {poisoned} tasks given up as poison")),
            ("stale writes refused", format!("{tried} {:?}", self.said.refused), Some(tried >= self.size.stale_least)),
            zero("  accepted", holders.stale_accepted.unsigned_abs()),
            (
                "takeover p99",
                format!("{takeover_p99_s:.1} s of {takeovers}, at most {limit} s ({more}, {raw})"),
                in_time,
            ),
        ]
    }

    fn ends(&self) -> Vec<Line> {
        let rested = &self.rested;
        let rest = format!("after {:.0} s, {} harvests for the rest", rested.settled_s, rested.harvests);
        let goodbye = rested.goodbye_s.map_or("one had to be killed".into(), |seconds| format!("{seconds:.1} s"));
        vec![
            ("at rest", format!("{rest}, drained in {:.0} s", rested.relays_drained_s), Some(rested.complete)),
            ("goodbye after SIGTERM", goodbye, Some(rested.goodbye_s.is_some())),
            zero("panics", self.said.panics.len() as u64),
        ]
    }

    pub fn table(&self) -> String {
        let storm_s = self.size.storm.as_secs_f64();
        let title = format!("{} for {storm_s:.0} s, seed {}", self.backend.name(), self.seed);
        page(&title, &self.lines(), &falls(&self.fallen), self.seconds)
    }

    pub fn json(&self) -> Value {
        json!({
            "ok": self.ok(),
            "backend": self.backend.name(),
            "seed": self.seed,
            "storm_s": self.size.storm.as_secs_f64(),
            "executors": self.size.executors,
            "planners": self.size.planners,
            "relays": self.size.relays,
            "expected": self.sum(|source| source.expected),
            "stored": self.sum(|source| source.stored),
            "missing": self.sum(|source| source.missing_count),
            "extra": self.sum(|source| source.extra_count),
            "double_commits": self.double_commits,
            "unknown_commits": self.proxied.unknown(),
            "unknown_commits_unresolved": self.unresolved(),
            "stale_writes_tried": self.said.stale_tried(),
            "stale_writes_accepted": self.holders.stale_accepted,
            "event_loss": self.streamed.missing,
            "rate_windows_above": rate_windows_above(&self.verdict),
            "arrivals": self.arrivals,
            "done": self.done,
            "proxy": self.proxied,
            "holders": self.holders,
            "stream": self.streamed,
            "said": self.said,
            "rest": self.rested,
            "errors": self.verdict.error_counts,
            "fallen": self.fallen.len(),
            "starts": self.starts,
            "seconds": self.seconds,
        })
    }
}
