//! Figures that the ledger holds, looked up when somebody asks for them: queues, lags, budgets.

use std::collections::BTreeMap;

use patra_core::healing::Facts;
use patra_core::ports::{Alarms, Inspect, ListFilter, Noun, Shown};
use patra_core::time::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{At, told};
use crate::commands::gate::open_budgets;
use crate::failure::Failure;
use crate::wiring::Desk;

/// Queues are counted up to this: counting a million tasks at every look would cost more than it tells.
const QUEUED_MAX: u32 = 100_000;
/// As many as one look may have.
const CURSORS_MAX: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Lag {
    source: String,
    endpoint: String,
    op: String,
    ns: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Left {
    source: String,
    window: String,
}

pub struct LedgerGauges {
    up: Gauge,
    queued: Family<At, Gauge>,
    lag: Family<Lag, Gauge>,
    budget: Family<Left, Gauge>,
    alarms: Gauge,
}

impl LedgerGauges {
    pub fn new(registry: &mut Registry) -> LedgerGauges {
        LedgerGauges {
            up: told(registry, "database_up", "1 when the ledger answered this look", Gauge::default()),
            queued: told(registry, "tasks_queued", "Tasks that wait, counted up to 100,000", Family::default()),
            lag: told(registry, "cursor_lag_seconds", "Age of the watermark; the oldest of a scope", Family::default()),
            budget: told(registry, "budget_remaining", "Requests left until the reset", Family::default()),
            alarms: told(registry, "alarms_open", "Alarms that are on", Gauge::default()),
        }
    }

    /// A database that is away is told as such; what it held before is not told any more.
    pub async fn look(&self, desk: &Desk) {
        self.queued.clear();
        self.lag.clear();
        self.budget.clear();
        let looked = self.look_at(desk).await;
        self.up.set(looked.is_ok().into());
        if let Err(away) = looked {
            tracing::warn!("metrics of the ledger are left out: {}", away.message);
        }
    }

    async fn look_at(&self, desk: &Desk) -> Result<(), Failure> {
        let facts: Facts = desk.store.alarm_facts(QUEUED_MAX).await?;
        for stock in &facts.stock {
            self.queued.get_or_create(&At::of(&stock.partition)).set(stock.queued.cast_signed());
        }
        let all = ListFilter { limit: CURSORS_MAX, ..ListFilter::default() };
        for (lag, seconds) in lags(&desk.store.list(Noun::Cursor, &all).await?, facts.now) {
            self.lag.get_or_create(&lag).set(seconds);
        }
        for row in open_budgets(desk).await? {
            let (limit, used) = (number(&row, "limit_count"), number(&row, "used_count"));
            let left = Left { source: text(&row, "rate_key"), window: text(&row, "window_code") };
            self.budget.get_or_create(&left).set((limit - used).max(0));
        }
        let open = ListFilter { status: Some("OPEN".into()), ..all };
        self.alarms.set(desk.store.list(Noun::Alarm, &open).await?.len().try_into().unwrap_or(i64::MAX));
        Ok(())
    }
}

/// The oldest watermark of each scope: a namespace is named by a hash, and hashes are no labels.
fn lags(cursors: &[Shown], now: Timestamp) -> BTreeMap<Lag, i64> {
    let mut lags: BTreeMap<Lag, i64> = BTreeMap::new();
    for row in cursors {
        let Ok(instant) = text(row, "normalized_instant").parse::<Timestamp>() else { continue };
        let lag = Lag {
            source: text(row, "provenance_code"),
            endpoint: text(row, "endpoint_name"),
            op: text(row, "operation_code"),
            ns: text(row, "namespace_scope_code"),
        };
        let seconds = now.since(instant).micros() / 1_000_000;
        lags.entry(lag).and_modify(|oldest| *oldest = seconds.max(*oldest)).or_insert(seconds);
    }
    lags
}

fn text(row: &Shown, column: &str) -> String {
    row.get(column).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

fn number(row: &Shown, column: &str) -> i64 {
    row.get(column).and_then(serde_json::Value::as_i64).unwrap_or(0)
}
