//! Figures of a process for Prometheus, under the names of chapter 14.4.
//!
//! What this process does is counted from notices; what the ledger holds is looked up when somebody asks. Labels come from
//! closed sets: sources, endpoints, operations, levels. An id is never one.

mod ledger;
mod pace;
mod serve;

use std::sync::Arc;

use patra_core::healing::Action;
use patra_core::ports::{Clock, Partition};
use patra_core::spec::errors::ErrorLevel;
use patra_core::time::Span;
use patra_engine::notice::{Notice, Notices};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use ledger::LedgerGauges;
use pace::Pace;
pub use serve::serve;

/// Upper ends of the classes of a histogram, in milliseconds.
const MILLIS: [f64; 12] = [5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    source: String,
    endpoint: String,
    op: String,
}

impl At {
    fn of(at: &Partition) -> At {
        At { source: at.provenance.clone(), endpoint: at.endpoint.clone(), op: at.operation.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Items {
    source: String,
    endpoint: String,
    op: String,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Errors {
    level: &'static str,
    source: String,
    endpoint: String,
    op: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Heals {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

type Histograms = Family<At, Histogram, fn() -> Histogram>;

pub struct Metrics {
    registry: Registry,
    clock: Arc<dyn Clock>,
    batches: Family<At, Counter>,
    items: Family<Items, Counter>,
    batch_latency: Histograms,
    http_latency: Histograms,
    errors: Family<Errors, Counter>,
    throttled: Family<At, Counter>,
    retries: Family<At, Counter>,
    heals: Family<Heals, Counter>,
    advances: Family<Direction, Counter>,
    concurrency: Family<At, Gauge>,
    pace: Pace,
    ledger: LedgerGauges,
}

impl Metrics {
    pub fn new(clock: Arc<dyn Clock>) -> Metrics {
        let mut registry = Registry::with_prefix("patra_ingest");
        let latency = || Histograms::new_with_constructor(|| Histogram::new(MILLIS));
        Metrics {
            batches: told(&mut registry, "batches", "Committed pages", Family::default()),
            items: told(
                &mut registry,
                "items",
                "Records of committed pages, by what became of them",
                Family::default(),
            ),
            batch_latency: told(&mut registry, "batch_latency_ms", "From a request to its commit", latency()),
            http_latency: told(&mut registry, "http_latency_ms", "Requests that brought a page", latency()),
            errors: told(
                &mut registry,
                "errors",
                "Requests without a page, and records set aside (L3)",
                Family::default(),
            ),
            throttled: told(&mut registry, "429", "Requests that a source refused for now", Family::default()),
            retries: told(&mut registry, "retries", "Requests that were made again", Family::default()),
            heals: told(&mut registry, "self_heal_events", "What was done about trouble", Family::default()),
            advances: told(&mut registry, "cursor_advance_events", "Watermarks that moved", Family::default()),
            concurrency: told(
                &mut registry,
                "executor_concurrency",
                "Tasks at work in this process",
                Family::default(),
            ),
            pace: Pace::new(&mut registry),
            ledger: LedgerGauges::new(&mut registry),
            registry,
            clock,
        }
    }

    /// Everything as text.
    fn text(&self) -> Result<String, std::fmt::Error> {
        self.pace.settle(self.clock.now());
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn item(&self, at: &Partition, action: &'static str, count: u64) {
        let At { source, endpoint, op } = At::of(at);
        self.items.get_or_create(&Items { source, endpoint, op, action }).inc_by(count);
    }

    fn error(&self, at: &Partition, level: ErrorLevel, count: u64) {
        let At { source, endpoint, op } = At::of(at);
        self.errors.get_or_create(&Errors { level: level_name(level), source, endpoint, op }).inc_by(count);
    }

    fn healed(&self, kind: &'static str) {
        self.heals.get_or_create(&Heals { r#type: kind }).inc();
    }

    fn advanced(&self, at: &Partition) {
        let direction = if at.operation == "BACKFILL" { "BACKFILL" } else { "FORWARD" };
        self.advances.get_or_create(&Direction { direction }).inc();
    }
}

/// Registers a metric and keeps a hand on it.
fn told<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn level_name(level: ErrorLevel) -> &'static str {
    match level {
        ErrorLevel::L1 => "L1",
        ErrorLevel::L2 => "L2",
        ErrorLevel::L3 => "L3",
        ErrorLevel::L4 => "L4",
    }
}

fn heal_name(action: &Action) -> &'static str {
    match action {
        Action::RateLowered { .. } => "qpsDownshift",
        Action::ConcurrencyChanged { from, to } if to < from => "concurrencyDownshift",
        Action::ConcurrencyChanged { .. } => "concurrencyRestored",
        Action::PageSizeChanged { from, to } if to < from => "pageSizeDownshift",
        Action::PageSizeChanged { .. } => "pageSizeRestored",
        Action::PlanningHeld { .. } => "planningHeld",
    }
}

fn millis(span: Span) -> f64 {
    span.micros() as f64 / 1_000.0
}

impl Notices for Metrics {
    fn tell(&self, at: &Partition, notice: Notice) {
        match notice {
            Notice::TaskAcquired { .. } => drop(self.concurrency.get_or_create(&At::of(at)).inc()),
            Notice::TaskLeft => drop(self.concurrency.get_or_create(&At::of(at)).dec()),
            Notice::BatchCommitted { counts, took, .. } => {
                self.batches.get_or_create(&At::of(at)).inc();
                self.item(at, "insert", counts.inserted);
                self.item(at, "update", counts.updated);
                self.item(at, "skip", counts.fetched.saturating_sub(counts.inserted + counts.updated));
                if counts.quarantined > 0 {
                    self.error(at, ErrorLevel::L3, counts.quarantined);
                }
                self.batch_latency.get_or_create(&At::of(at)).observe(millis(took));
            }
            Notice::RequestSent => self.pace.sent(at, self.clock.now()),
            Notice::Answered { latency } => self.http_latency.get_or_create(&At::of(at)).observe(millis(latency)),
            Notice::Failed { level } => self.error(at, level, 1),
            Notice::Throttled { .. } => drop(self.throttled.get_or_create(&At::of(at)).inc()),
            Notice::Retried { .. } => drop(self.retries.get_or_create(&At::of(at)).inc()),
            Notice::SliceSplit { .. } => self.healed("reslice"),
            Notice::CircuitOpened { .. } => self.healed("circuitOpen"),
            Notice::CircuitClosed => self.healed("circuitClosed"),
            Notice::SourceStopped { .. } => self.healed("sourceStopped"),
            Notice::Healed { action } => self.healed(heal_name(&action)),
            Notice::SliceSucceeded { watermark: Some(_), .. } => self.advanced(at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use patra_core::id::Id;
    use patra_core::ports::Counts;
    use patra_core::time::Timestamp;

    use super::*;
    use crate::clock::SystemClock;

    fn at(operation: &str) -> Partition {
        Partition { provenance: "crossref".into(), endpoint: "works".into(), operation: operation.into() }
    }

    #[test]
    fn each_notice_moves_its_figure() {
        let (task, batch, until) = (Id(1), Id(2), Timestamp::from_seconds(1));
        let counts = Counts { fetched: 9, inserted: 5, updated: 1, quarantined: 2, ..Counts::default() };
        let committed =
            Notice::BatchCommitted { task, batch, counts, total: None, bytes: 1, took: Span::from_millis(40) };
        let moved = Notice::SliceSucceeded { task, window: window(), watermark: Some(until) };
        let healed = |action| Notice::Healed { action };
        for (notice, wanted) in [
            (committed.clone(), "batches_total{AT} 1"),
            (committed.clone(), "items_total{AT,action=\"skip\"} 3"),
            (committed.clone(), "errors_total{level=\"L3\",AT} 2"),
            (committed, "batch_latency_ms_bucket{le=\"50.0\",AT} 1"),
            (Notice::TaskAcquired { task, window: window(), attempt: 1 }, "executor_concurrency{AT} 1"),
            (Notice::TaskLeft, "executor_concurrency{AT} -1"),
            (Notice::Answered { latency: Span::from_millis(7) }, "http_latency_ms_bucket{le=\"10.0\",AT} 1"),
            (Notice::Failed { level: ErrorLevel::L4 }, "errors_total{level=\"L4\",AT} 1"),
            (Notice::Throttled { until: None }, "429_total{AT} 1"),
            (Notice::Retried { delay: Span::SECOND, reason: "x".into() }, "retries_total{AT} 1"),
            (Notice::RequestSent, "qps_effective{AT} 0.01"),
            (moved, "cursor_advance_events_total{direction=\"FORWARD\"} 1"),
            (
                Notice::SliceSplit { task, children: 2, reason: "x".into() },
                "self_heal_events_total{type=\"reslice\"} 1",
            ),
            (Notice::CircuitOpened { until, reason: "x".into() }, "self_heal_events_total{type=\"circuitOpen\"} 1"),
            (Notice::SourceStopped { reason: "x".into() }, "self_heal_events_total{type=\"sourceStopped\"} 1"),
            (healed(Action::RateLowered { throttled: 1, requests: 2 }), "type=\"qpsDownshift\"} 1"),
            (healed(Action::ConcurrencyChanged { from: 4, to: 2 }), "type=\"concurrencyDownshift\"} 1"),
            (healed(Action::PageSizeChanged { from: 50, to: 100 }), "type=\"pageSizeRestored\"} 1"),
            (healed(Action::PlanningHeld { until, reason: "x".into() }), "type=\"planningHeld\"} 1"),
        ] {
            let metrics = Metrics::new(Arc::new(SystemClock::start()));
            let asked = format!("{notice:?}");
            metrics.tell(&at("HARVEST"), notice);
            let told = metrics.text().unwrap();
            let wanted = wanted.replace("AT", "source=\"crossref\",endpoint=\"works\",op=\"HARVEST\"");
            assert!(told.contains(&wanted), "{asked}: {wanted} in\n{told}");
        }
    }

    #[test]
    fn a_backfill_moves_its_own_direction() {
        let metrics = Metrics::new(Arc::new(SystemClock::start()));
        let moved = Some(Timestamp::from_seconds(1));
        metrics.tell(&at("BACKFILL"), Notice::SliceSucceeded { task: Id(1), window: window(), watermark: moved });
        assert!(metrics.text().unwrap().contains("{direction=\"BACKFILL\"} 1"));
    }

    fn window() -> patra_core::window::Window {
        patra_core::window::Window::new(Timestamp::from_seconds(0), Timestamp::from_seconds(60)).unwrap()
    }
}
