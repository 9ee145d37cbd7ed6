//! Figures that the ledger holds, looked up when somebody asks for them: queues, lags, budgets.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use patra_core::healing::Facts;
use patra_core::id::Id;
use patra_core::ports::{Alarms, Inspect, Ledger, ListFilter, Noun, Shown};
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
/// Plans whose lag is remembered.
const PLANS_MAX: usize = 10_000;

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
    expected: Family<Lag, Gauge>,
    budget: Family<Left, Gauge>,
    budget_limit: Family<Left, Gauge>,
    /// Seconds that a watermark stays behind by the spec of its plan: plans are read once.
    plans: Mutex<HashMap<Id, i64>>,
    alarms: Gauge,
}

impl LedgerGauges {
    pub fn new(registry: &mut Registry) -> LedgerGauges {
        LedgerGauges {
            up: told(registry, "database_up", "1 when the ledger answered this look", Gauge::default()),
            queued: told(registry, "tasks_queued", "Tasks that wait, counted up to 100,000", Family::default()),
            lag: told(registry, "cursor_lag_seconds", "Age of the watermark; the oldest of a scope", Family::default()),
            expected: told(
                registry,
                "cursor_expected_lag_seconds",
                "What its source needs to settle",
                Family::default(),
            ),
            budget: told(registry, "budget_remaining", "Requests left until the reset", Family::default()),
            budget_limit: told(registry, "budget_limit", "Requests from one reset to the next", Family::default()),
            plans: Mutex::default(),
            alarms: told(registry, "alarms_open", "Alarms that are on", Gauge::default()),
        }
    }

    /// A database that is away is told as such; what it held before is not told any more.
    pub async fn look(&self, desk: &Desk) {
        self.queued.clear();
        self.lag.clear();
        self.expected.clear();
        self.budget.clear();
        self.budget_limit.clear();
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
        for (lag, (seconds, plan)) in lags(&desk.store.list(Noun::Cursor, &all).await?, facts.now) {
            self.lag.get_or_create(&lag).set(seconds);
            if let Some(plan) = plan {
                let expected = self.expected_lag(desk, plan).await?;
                self.expected.get_or_create(&lag).set(expected);
            }
        }
        for row in open_budgets(desk).await? {
            let (limit, used) = (number(&row, "limit_count"), number(&row, "used_count"));
            let left = Left { source: text(&row, "rate_key"), window: text(&row, "window_code") };
            self.budget.get_or_create(&left).set((limit - used).max(0));
            self.budget_limit.get_or_create(&left).set(limit);
        }
        let open = ListFilter { status: Some("OPEN".into()), ..all };
        self.alarms.set(desk.store.list(Noun::Alarm, &open).await?.len().try_into().unwrap_or(i64::MAX));
        Ok(())
    }

    /// A window is asked for when it is over by the lag of its source, and its edges are whole minutes, hours or days.
    async fn expected_lag(&self, desk: &Desk, plan: Id) -> Result<i64, Failure> {
        if let Some(known) = self.plans().get(&plan) {
            return Ok(*known);
        }
        let spec = desk.store.plan(plan).await?.spec;
        let seconds = spec.window.safety_lag.plus(spec.window.align.span()).micros() / 1_000_000;
        let mut plans = self.plans();
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(plan, seconds);
        Ok(seconds)
    }

    fn plans(&self) -> std::sync::MutexGuard<'_, HashMap<Id, i64>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest watermark of each scope: a namespace is named by a hash, and hashes are no labels.
fn lags(cursors: &[Shown], now: Timestamp) -> BTreeMap<Lag, (i64, Option<Id>)> {
    let mut lags: BTreeMap<Lag, (i64, Option<Id>)> = BTreeMap::new();
    for row in cursors {
        let Ok(instant) = text(row, "normalized_instant").parse::<Timestamp>() else { continue };
        let lag = Lag {
            source: text(row, "provenance_code"),
            endpoint: text(row, "endpoint_name"),
            op: text(row, "operation_code"),
            ns: text(row, "namespace_scope_code"),
        };
        let seconds = now.since(instant).micros() / 1_000_000;
        let this = (seconds, text(row, "plan_id").parse().ok().map(Id));
        lags.entry(lag).and_modify(|oldest| *oldest = this.max(*oldest)).or_insert(this);
    }
    lags
}

fn text(row: &Shown, column: &str) -> String {
    row.get(column).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

fn number(row: &Shown, column: &str) -> i64 {
    row.get(column).and_then(serde_json::Value::as_i64).unwrap_or(0)
}
