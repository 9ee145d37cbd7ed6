//! Budgets: so many requests of a rate key in an hour or a day, over the whole fleet.
//!
//! ```text
//! |<-------------- what the source allows --------------->|
//! |<-- BACKFILL -->|<-- UPDATE too -->|<-- HARVEST too -->|<-- reserve, never spent -->|
//! ```
//! A budget is drawn in chunks by executors and counted in one row for each window, so it survives every process. What is
//! left near its end is kept for those who cannot wait.

use crate::calendar::{Stepper, UnknownZone, zone_of};
use crate::spec::rate::QuotaSpec;
use crate::spec::snapshot::Operation;
use crate::time::{Span, Timestamp};

/// Chunks of a budget in its window, and the largest of them.
const CHUNKS: u64 = 100;
const CHUNK_MAX: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetKind {
    Hour,
    Day,
}

impl BudgetKind {
    pub const fn code(self) -> &'static str {
        match self {
            BudgetKind::Hour => "HOUR",
            BudgetKind::Day => "DAY",
        }
    }
}

/// One window of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub kind: BudgetKind,
    pub from: Timestamp,
    /// From here on the next window counts.
    pub reset_at: Timestamp,
    /// What may be spent in all.
    pub limit: u64,
    /// What BACKFILL leaves to the others.
    pub soft: u64,
}

impl Budget {
    /// How much may have been spent after a draw for this operation.
    pub fn cap(&self, operation: Operation) -> u64 {
        let kept = match operation {
            Operation::Harvest => 0,
            Operation::Update => self.soft / 2,
            Operation::Backfill => self.soft,
        };
        self.limit.saturating_sub(kept)
    }

    /// What may be drawn when so much is spent.
    pub fn left(&self, operation: Operation, used: u64) -> u64 {
        self.cap(operation).saturating_sub(used)
    }
}

/// The windows that hold at a time; none without a quota.
pub fn budgets(quota: &QuotaSpec, now: Timestamp) -> Result<Vec<Budget>, UnknownZone> {
    let mut all = Vec::new();
    let mut add = |kind, allowed: u64, from, reset_at| {
        let limit = allowed - share(allowed, quota.reserve);
        all.push(Budget { kind, from, reset_at, limit, soft: share(limit, quota.soft) });
    };
    if let Some(allowed) = quota.per_hour {
        let hours = Stepper::new(Span::HOUR, &quota.zone)?;
        add(BudgetKind::Hour, allowed, hours.floor(now), hours.next(now));
    }
    if let Some(allowed) = quota.per_day {
        let (from, reset_at) = day(quota, now)?;
        add(BudgetKind::Day, allowed, from, reset_at);
    }
    Ok(all)
}

/// The day that begins at the reset time, in the source's zone.
fn day(quota: &QuotaSpec, now: Timestamp) -> Result<(Timestamp, Timestamp), UnknownZone> {
    let zone = zone_of(&quota.zone)?;
    let (hour, minute) = quota.reset_time().unwrap_or((0, 0));
    let reset_of = |date: jiff::civil::Date| {
        let reset = date.at(hour, minute, 0, 0).to_zoned(zone.clone());
        reset.map_or(Timestamp::MAX, |zoned| Timestamp::from_jiff(zoned.timestamp()))
    };
    let today = now.to_jiff().to_zoned(zone.clone()).date();
    let first = if reset_of(today) > now { today.yesterday().unwrap_or(today) } else { today };
    Ok((reset_of(first), reset_of(first.tomorrow().unwrap_or(first))))
}

/// A share of a number, rounded down.
fn share(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}

/// How much one process draws at a time: little enough that what a dead one has drawn is no great loss.
pub fn chunk(budgets: &[Budget], cost: u64) -> u64 {
    let least = budgets.iter().map(|budget| budget.limit).min().unwrap_or(0);
    (least / CHUNKS).clamp(1, CHUNK_MAX).max(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(change: impl FnOnce(&mut QuotaSpec)) -> QuotaSpec {
        let mut quota = QuotaSpec { per_day: Some(1_000), ..QuotaSpec::default() };
        change(&mut quota);
        quota
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_begins_at_the_reset_time_of_the_zone() {
        for (zone, reset, now, from, to) in [
            ("UTC", "00:00", "2026-05-04T00:00:00Z", "2026-05-04T00:00:00Z", "2026-05-05T00:00:00Z"),
            ("UTC", "06:30", "2026-05-04T06:29:59Z", "2026-05-03T06:30:00Z", "2026-05-04T06:30:00Z"),
            ("UTC", "06:30", "2026-05-04T06:30:00Z", "2026-05-04T06:30:00Z", "2026-05-05T06:30:00Z"),
            ("America/New_York", "00:00", "2026-05-04T03:00:00Z", "2026-05-03T04:00:00Z", "2026-05-04T04:00:00Z"),
            // The day on which the clock is put forward has 23 hours.
            ("Europe/Berlin", "00:00", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ] {
            let quota = quota(|quota| (quota.zone, quota.reset) = (zone.into(), reset.into()));
            let [day] = budgets(&quota, at(now)).unwrap()[..] else { panic!("one window") };
            assert_eq!((day.from, day.reset_at), (at(from), at(to)), "{zone} {reset} {now}");
        }
    }

    #[test]
    fn the_last_of_a_budget_is_kept_for_those_who_cannot_wait() {
        let quota = quota(|quota| (quota.reserve, quota.soft) = (0.1, 0.2));
        let [day] = budgets(&quota, at("2026-05-04T00:00:00Z")).unwrap()[..] else { panic!("one window") };
        assert_eq!((day.limit, day.soft), (900, 180));
        for (operation, used, left) in [
            (Operation::Backfill, 0, 720),
            (Operation::Backfill, 720, 0),
            (Operation::Update, 720, 90),
            (Operation::Harvest, 720, 180),
            (Operation::Harvest, 2_000, 0),
        ] {
            assert_eq!(day.left(operation, used), left, "{operation:?} after {used}");
        }
    }

    #[test]
    fn several_windows_hold_at_once_and_the_smallest_makes_the_chunk() {
        let quota = quota(|quota| quota.per_hour = Some(200));
        let both = budgets(&quota, at("2026-05-04T10:20:00Z")).unwrap();
        assert_eq!(both.iter().map(|budget| budget.kind.code()).collect::<Vec<_>>(), ["HOUR", "DAY"]);
        assert_eq!((both[0].from, both[0].reset_at), (at("2026-05-04T10:00:00Z"), at("2026-05-04T11:00:00Z")));
        assert_eq!((chunk(&both, 1), chunk(&both, 7), chunk(&[], 1)), (1, 7, 1));
    }
}
