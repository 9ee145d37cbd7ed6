//! Draws the truth of one source from a seed: ordinary records, and on purpose too many of those that go wrong: stamps on
//! window edges, ties, late arrivals, updates, re-stamps, deletions, dates in the far future.

use std::sync::Arc;

use crate::ids::id_of;
use crate::moment::{DAY_US, HOUR_US, MINUTE_US, civil_in, day_start, floor, zone};
use crate::rng::Rng;
use crate::source::{IdOrder, Source};
use crate::truth::{NONE, Record, Truth, Version};

/// 2099-06-01, where wrong dates live.
const FAR_FUTURE_US: i64 = 4_083_955_200_000_000;

/// What to draw. Shares are between 0 and 1.
#[derive(Debug, Clone)]
pub struct TruthPlan {
    pub source: Source,
    pub seed: u64,
    pub records: u64,
    /// Records held back for inserts of the mutation feed.
    pub reserve: u64,
    /// Versions dated before `history_to` are visible at `history_to` at the latest.
    pub history_from: i64,
    pub history_to: i64,
    /// Versions dated in `[history_to, live_to)` become visible while the harvest runs.
    pub live_to: i64,
    pub live_share: f64,
    pub grain_us: i64,
    pub lag_us: i64,
    pub lookback_us: i64,
    /// Width of the windows whose edges attract stamps.
    pub slice_us: i64,
    pub edge_share: f64,
    pub tie_share: f64,
    pub late_share: f64,
    pub update_share: f64,
    pub restamp_share: f64,
    pub delete_share: f64,
    pub future_share: f64,
    pub detail_missing_share: f64,
}

impl TruthPlan {
    /// The usual mixture for a source: history in `[from, to)`, no live span.
    pub fn new(source: Source, seed: u64, records: u64, from: i64, to: i64) -> Self {
        Self {
            source,
            seed,
            records,
            reserve: (records / 50).clamp(8, 2_000),
            history_from: from,
            history_to: to,
            live_to: to,
            live_share: 0.1,
            grain_us: source.grain_us(),
            lag_us: 10 * MINUTE_US,
            lookback_us: 2 * HOUR_US,
            slice_us: if source.counts_days() { DAY_US } else { HOUR_US },
            edge_share: 0.2,
            tie_share: 0.1,
            late_share: 0.1,
            update_share: 0.15,
            restamp_share: 0.25,
            delete_share: if source.never_deletes() { 0.0 } else { 0.02 },
            future_share: 0.01,
            detail_missing_share: if source.has_detail() { 0.01 } else { 0.0 },
        }
    }

    /// The latest a version may become visible after its stamp; never below one grain, which rounding alone may cost.
    pub fn late_us_max(&self) -> i64 {
        (self.lag_us + self.lookback_us).max(self.grain_us)
    }

    /// Draws the truth.
    pub fn draw(&self) -> Truth {
        let mut draft = Draft { plan: self, rng: Rng::for_parts(self.seed, &[0x7277]), hot: Vec::new() };
        let mut drawn: Vec<(Record, Vec<Version>)> = (0..self.records).map(|n| draft.record(n)).collect();
        drawn.extend((self.records..self.records + self.reserve).map(|n| (self.empty_record(n), Vec::new())));
        sort_for_listing(self.source.id_order(), &mut drawn);
        let mut records = Vec::with_capacity(drawn.len());
        let mut versions: Vec<Version> = Vec::with_capacity(drawn.len() * 5 / 4);
        for (at, (mut record, own)) in drawn.into_iter().enumerate() {
            for mut version in own {
                version.record = at as u32;
                version.previous = record.latest;
                record.latest = versions.len() as u32;
                versions.push(version);
            }
            records.push(record);
        }
        Truth::assemble(self.source, self.seed, self.grain_us, self.late_us_max(), records, versions)
    }

    fn empty_record(&self, n: u64) -> Record {
        let id = Arc::from(id_of(self.source, self.seed, n));
        // Not created yet: sorts last where listings follow the creation time.
        Record { id, created_at: i64::MAX, latest: NONE, current: NONE }
    }
}

/// The running draw; `hot` are stamps that several records share.
struct Draft<'a> {
    plan: &'a TruthPlan,
    rng: Rng,
    hot: Vec<i64>,
}

impl Draft<'_> {
    fn record(&mut self, n: u64) -> (Record, Vec<Version>) {
        let plan = self.plan;
        let mut record = plan.empty_record(n);
        let mut versions = vec![self.first_version()];
        if versions[0].updated_at < FAR_FUTURE_US && self.rng.chance(plan.update_share) {
            for _ in 0..self.rng.between(1, 3) {
                let before = versions[versions.len() - 1];
                versions.push(self.next_version(before));
            }
        }
        if versions[0].updated_at < FAR_FUTURE_US && self.rng.chance(plan.delete_share) {
            let before = versions[versions.len() - 1];
            let last = self.next_version(before);
            versions.push(Version { deleted: true, content: last.number, ..last });
        }
        if let Some(last) = versions.last_mut() {
            last.detail_missing = self.rng.chance(plan.detail_missing_share);
        }
        let age = if self.rng.chance(0.5) { 0 } else { self.rng.between(0, 400 * DAY_US) };
        record.created_at = floor(versions[0].updated_at - age, plan.grain_us);
        (record, versions)
    }

    fn first_version(&mut self) -> Version {
        let plan = self.plan;
        let updated_at = if self.rng.chance(plan.future_share) {
            self.outside()
        } else if plan.live_to > plan.history_to && self.rng.chance(plan.live_share) {
            self.stamp(plan.history_to, plan.live_to)
        } else {
            self.stamp(plan.history_from, plan.history_to)
        };
        self.version(1, 1, updated_at, i64::MIN)
    }

    fn next_version(&mut self, before: Version) -> Version {
        let plan = self.plan;
        let live = plan.live_to > plan.history_to && self.rng.chance(0.3);
        let (low, high) = if live { (plan.history_to, plan.live_to) } else { (plan.history_from, plan.history_to) };
        let updated_at =
            self.stamp(low.max(before.updated_at), high.max(before.updated_at + plan.grain_us)).max(before.updated_at);
        let number = before.number + 1;
        let content = if self.rng.chance(plan.restamp_share) { before.content } else { number };
        self.version(number, content, updated_at, before.visible_at)
    }

    /// Visible soon after the stamp, sometimes as late as allowed, never before the version it replaces.
    fn version(&mut self, number: u32, content: u32, updated_at: i64, after: i64) -> Version {
        let plan = self.plan;
        let bound =
            if self.rng.chance(plan.late_share) { plan.late_us_max() } else { plan.lag_us.min(plan.late_us_max()) };
        let delay = if self.rng.chance(0.1) { bound } else { self.rng.between(0, bound) };
        let mut visible_at = updated_at + delay;
        if updated_at < plan.history_to || updated_at >= FAR_FUTURE_US {
            visible_at = visible_at.min(plan.history_to);
        }
        let visible_at = visible_at.max(after);
        Version {
            record: NONE,
            number,
            previous: NONE,
            content,
            updated_at,
            visible_at,
            deleted: false,
            detail_missing: false,
        }
    }

    /// A stamp in `[low, high)`, on the grain, often on a window edge or on a stamp used before.
    fn stamp(&mut self, low: i64, high: i64) -> i64 {
        let plan = self.plan;
        let ceiling = (high - plan.grain_us).max(low);
        let reusable = self.rng.chance(plan.tie_share).then(|| self.hot_stamp(low, high)).flatten();
        if let Some(stamp) = reusable {
            return stamp;
        }
        let mut stamp = floor(self.rng.between(low, ceiling), plan.grain_us);
        if self.rng.chance(plan.edge_share) {
            stamp = self.edge(stamp) + self.rng.between(-1, 1) * plan.grain_us;
        }
        let stamp = stamp.clamp(low, ceiling);
        if self.hot.len() < 64 || self.rng.chance(0.05) {
            let place = self.rng.below(64) as usize;
            if place < self.hot.len() { self.hot[place] = stamp } else { self.hot.push(stamp) }
        }
        stamp
    }

    fn hot_stamp(&mut self, low: i64, high: i64) -> Option<i64> {
        let fits: Vec<i64> = self.hot.iter().copied().filter(|stamp| (low..high).contains(stamp)).collect();
        (!fits.is_empty()).then(|| *self.rng.pick(&fits))
    }

    /// The window edge at or before a stamp; days are those of the source's own zone.
    fn edge(&self, stamp: i64) -> i64 {
        let source = self.plan.source;
        if source.counts_days() {
            let zone = zone(source.zone());
            return day_start(civil_in(stamp, &zone).date(), &zone).unwrap_or(stamp);
        }
        floor(stamp, self.plan.slice_us)
    }

    /// A stamp no ordinary window asks for: decades ahead, or before the history begins.
    fn outside(&mut self) -> i64 {
        let span = self.rng.between(0, 100 * DAY_US);
        let base = if self.rng.chance(0.5) { FAR_FUTURE_US + span } else { self.plan.history_from - DAY_US - span };
        floor(base, self.plan.grain_us)
    }
}

fn sort_for_listing(order: IdOrder, drawn: &mut [(Record, Vec<Version>)]) {
    match order {
        IdOrder::Bytes => drawn.sort_by(|a, b| a.0.id.cmp(&b.0.id)),
        IdOrder::Number => drawn.sort_by_cached_key(|(record, _)| record.id.parse::<u64>().unwrap_or(u64::MAX)),
        IdOrder::Created => drawn.sort_by(|a, b| (a.0.created_at, &a.0.id).cmp(&(b.0.created_at, &b.0.id))),
    }
}
