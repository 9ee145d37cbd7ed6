//! Limits of a source as its spec holds them.

use serde::{Deserialize, Serialize};

use crate::time::Span;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Requests per window, all of them kept at once; the burst is inside the limit.
    pub windows: Vec<RateWindow>,
    pub burst: u32,
    pub concurrency: u32,
    /// What shares one limit: any of `source`, `endpoint`, `credential`.
    pub key: Vec<RateKeyPart>,
    pub respect_headers: bool,
    /// Cost of one request in permits.
    pub cost: u32,
    /// Everyone who gives this name shares one limit, whatever `key` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// Nobody has named a limit: the source's own headers may raise it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    #[serde(default, skip_serializing_if = "AdaptSpec::is_usual")]
    pub adapt: AdaptSpec,
    /// Requests of a day or an hour, over the whole fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSpec>,
}

impl RateSpec {
    /// The window that allows the slowest steady pace.
    pub fn tightest(&self) -> RateWindow {
        let spacing = |window: &RateWindow| window.per.micros() / i64::from(window.requests.max(1));
        let tightest = self.windows.iter().copied().max_by_key(spacing);
        tightest.unwrap_or(RateWindow { requests: 1, per: Span::from_micros(1) })
    }

    /// Permits of one request; never more than a window holds.
    pub fn permits(&self) -> u32 {
        let most = self.windows.iter().map(|window| window.requests).min().unwrap_or(u32::MAX);
        self.cost.min(most).max(1)
    }

    /// A build that knows nothing of these settings would not keep to them.
    pub fn is_adapted(&self) -> bool {
        self.unknown || self.shared.is_some() || self.quota.is_some() || !self.adapt.is_usual()
    }
}

/// How a limit is approached, left and come back to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptSpec {
    /// First step of the way back, as a share of the rate; each is twice the one before.
    pub step: f64,
    /// Time between two steps.
    pub cool_down: Span,
    /// Cool-downs without a refusal before more is tried.
    pub hold: u32,
    /// What a refusal divides the pace by.
    pub demote: f64,
    /// Longest time between two requests of a source that goes on refusing.
    pub slowest: Span,
    /// How long a fresh gate takes to reach the whole rate.
    pub warm_up: Span,
    /// Of the rate, for BACKFILL while HARVEST or UPDATE waits.
    pub backfill_share: f64,
}

impl Default for AdaptSpec {
    fn default() -> AdaptSpec {
        AdaptSpec {
            step: 0.01,
            cool_down: Span::SECOND,
            hold: 12,
            demote: 2.0,
            slowest: Span::from_seconds(10),
            warm_up: Span::ZERO,
            backfill_share: 0.3,
        }
    }
}

impl AdaptSpec {
    pub fn is_usual(&self) -> bool {
        *self == AdaptSpec::default()
    }

    pub fn step_millionths(&self) -> i64 {
        ((self.step * 1e6) as i64).max(1)
    }

    pub fn demote_thousandths(&self) -> i64 {
        ((self.demote * 1e3) as i64).max(1_000)
    }

    /// Never nothing: a backfill goes on, however slowly.
    pub fn backfill_thousandths(&self) -> i64 {
        ((self.backfill_share * 1e3) as i64).clamp(1, 1_000)
    }

    /// The floor as a share of what a window allows.
    pub fn floor_millionths(&self, window: RateWindow) -> i64 {
        let spacing = window.per.micros() / i64::from(window.requests.max(1));
        (spacing.saturating_mul(1_000_000) / self.slowest.micros().max(1)).clamp(1, 1_000_000)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateWindow {
    pub requests: u32,
    pub per: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateKeyPart {
    Source,
    Endpoint,
    Credential,
}

/// A budget that the source grants for an hour or a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaSpec {
    pub per_hour: Option<u64>,
    pub per_day: Option<u64>,
    /// Never spent: others may use the same credential.
    pub reserve: f64,
    /// Of the rest: what BACKFILL leaves to the others, half of which UPDATE leaves to HARVEST.
    pub soft: f64,
    /// When a day begins, `HH:MM`.
    pub reset: String,
    pub zone: String,
}

impl Default for QuotaSpec {
    fn default() -> QuotaSpec {
        QuotaSpec { per_hour: None, per_day: None, reserve: 0.1, soft: 0.2, reset: "00:00".into(), zone: "UTC".into() }
    }
}

impl QuotaSpec {
    /// Hour and minute at which a day begins; `None` when it is no time of day.
    pub fn reset_time(&self) -> Option<(i8, i8)> {
        let (hour, minute) = self.reset.split_once(':')?;
        let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
        ((0..24).contains(&hour) && (0..60).contains(&minute)).then_some((hour, minute))
    }
}
