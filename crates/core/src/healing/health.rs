//! How a partition has fared in the last minutes, and what follows from it: fewer tasks at a time, smaller pages, no new
//! plans for a while.
//!
//! Every action is undone step by step when its cause is gone. The rate itself is the gate's: each 429 is fed back to it.

use std::collections::VecDeque;
use std::fmt;

use crate::healing::Thresholds;
use crate::time::{Span, Timestamp};

/// What is looked back on.
const WINDOW: Span = Span::from_seconds(300);
/// Figures are kept in steps of this, and judged once in each.
const STEP: Span = Span::from_seconds(30);
/// Shares of fewer requests than this say nothing.
const REQUESTS_MIN: u64 = 20;
/// Means of fewer than this neither.
const MEAN_MIN: u64 = 5;
/// Smallest pages, in percent of the spec's.
const PAGES_MIN: u32 = 25;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vital {
    Answered { latency: Span },
    Throttled,
    Failed,
    Committed { took: Span },
}

/// Sums over a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    pub requests: u64,
    pub throttled: u64,
    pub failed: u64,
    pub answers: u64,
    pub latency: Span,
    pub commits: u64,
    pub commit: Span,
}

impl Vitals {
    fn note(&mut self, vital: Vital) {
        self.requests += u64::from(!matches!(vital, Vital::Committed { .. }));
        match vital {
            Vital::Answered { latency } => {
                self.answers += 1;
                self.latency = self.latency.plus(latency);
            }
            Vital::Throttled => self.throttled += 1,
            Vital::Failed => self.failed += 1,
            Vital::Committed { took } => {
                self.commits += 1;
                self.commit = self.commit.plus(took);
            }
        }
    }

    fn add(&mut self, more: &Vitals) {
        self.requests += more.requests;
        self.throttled += more.throttled;
        self.failed += more.failed;
        self.answers += more.answers;
        self.latency = self.latency.plus(more.latency);
        self.commits += more.commits;
        self.commit = self.commit.plus(more.commit);
    }

    fn share_over(&self, part: u64, percent: u32) -> bool {
        self.requests >= REQUESTS_MIN && part * 100 > self.requests * u64::from(percent)
    }

    fn mean_over(sum: Span, count: u64, most: Span) -> bool {
        count >= MEAN_MIN && sum.micros() / i64::try_from(count).unwrap_or(i64::MAX) > most.micros()
    }
}

/// What presses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub throttled: bool,
    pub errors: bool,
    pub slow_source: bool,
    pub slow_database: bool,
}

impl Pressure {
    pub fn of(vitals: &Vitals, thresholds: &Thresholds) -> Pressure {
        Pressure {
            throttled: vitals.share_over(vitals.throttled, thresholds.throttled_percent),
            errors: vitals.share_over(vitals.failed, thresholds.error_percent),
            slow_source: Vitals::mean_over(vitals.latency, vitals.answers, thresholds.batch_latency),
            slow_database: Vitals::mean_over(vitals.commit, vitals.commits, thresholds.database_latency),
        }
    }

    fn lowers_concurrency(self) -> bool {
        self.errors || self.slow_source || self.slow_database
    }
}

/// How a partition is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Most tasks at a time; the setting's own limit when `None`.
    pub concurrency: Option<u32>,
    /// Size of pages in percent of the spec's.
    pub page_percent: u32,
}

impl Course {
    pub const USUAL: Course = Course { concurrency: None, page_percent: 100 };

    /// Half at once, one back at a time.
    fn next(self, pressure: Pressure, partition_max: u32) -> Course {
        let now = self.concurrency.unwrap_or(partition_max);
        let concurrency = if pressure.lowers_concurrency() { (now / 2).max(1) } else { now.saturating_add(1) };
        let page_percent = match pressure.slow_source {
            true => (self.page_percent / 2).max(PAGES_MIN),
            false => self.page_percent.saturating_mul(2).min(100),
        };
        Course { concurrency: (concurrency < partition_max).then_some(concurrency), page_percent }
    }
}

/// A change worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    RateLowered {
        throttled: u64,
        requests: u64,
    },
    ConcurrencyChanged {
        from: u32,
        to: u32,
    },
    PageSizeChanged {
        from: u32,
        to: u32,
    },
    /// No new plan before this: it has lasted.
    PlanningHeld {
        until: Timestamp,
        reason: String,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::RateLowered { throttled, requests } => {
                write!(f, "the rate is lowered, {throttled} of {requests} requests were throttled")
            }
            Action::ConcurrencyChanged { from, to } => write!(f, "at most {to} tasks at a time, {from} before"),
            Action::PageSizeChanged { from, to } => write!(f, "pages of {to} % of their size, {from} % before"),
            Action::PlanningHeld { until, reason } => write!(f, "no new plan before {until}: {reason}"),
        }
    }
}

/// The last minutes of one partition, and the course that followed from them.
#[derive(Clone, Debug)]
pub struct Health {
    steps: VecDeque<(Timestamp, Vitals)>,
    course: Course,
    judged_at: Option<Timestamp>,
    /// Throttled, failing or slow without a break since.
    pressed_since: Option<Timestamp>,
    held_until: Option<Timestamp>,
}

impl Default for Health {
    fn default() -> Health {
        let (steps, course) = (VecDeque::new(), Course::USUAL);
        Health { steps, course, judged_at: None, pressed_since: None, held_until: None }
    }
}

impl Health {
    pub fn course(&self) -> Course {
        self.course
    }

    pub fn note(&mut self, now: Timestamp, vital: Vital) {
        match self.steps.back_mut() {
            // A clock that was set back belongs to the step at hand.
            Some((begin, vitals)) if now.since(*begin) < STEP => vitals.note(vital),
            _ => {
                let mut vitals = Vitals::default();
                vitals.note(vital);
                self.steps.push_back((now, vitals));
            }
        }
        while self.steps.front().is_some_and(|(begin, _)| now.since(*begin) > WINDOW) {
            self.steps.pop_front();
        }
    }

    pub fn vitals(&self) -> Vitals {
        let mut all = Vitals::default();
        self.steps.iter().for_each(|(_, vitals)| all.add(vitals));
        all
    }

    /// Judges once in a step; what changed.
    pub fn judge(&mut self, now: Timestamp, thresholds: &Thresholds, partition_max: u32) -> Vec<Action> {
        if self.judged_at.is_some_and(|at| now >= at && now.since(at) < STEP) {
            return Vec::new();
        }
        self.judged_at = Some(now);
        let vitals = self.vitals();
        let pressure = Pressure::of(&vitals, thresholds);
        let mut actions = Vec::new();
        if pressure.throttled {
            actions.push(Action::RateLowered { throttled: vitals.throttled, requests: vitals.requests });
        }
        actions.extend(self.steer(pressure, partition_max));
        actions.extend(self.hold(now, pressure, &vitals, thresholds));
        actions
    }

    fn steer(&mut self, pressure: Pressure, partition_max: u32) -> Vec<Action> {
        let (before, after) = (self.course, self.course.next(pressure, partition_max));
        self.course = after;
        let mut actions = Vec::new();
        if before.concurrency != after.concurrency {
            let of = |course: Course| course.concurrency.unwrap_or(partition_max);
            actions.push(Action::ConcurrencyChanged { from: of(before), to: of(after) });
        }
        if before.page_percent != after.page_percent {
            actions.push(Action::PageSizeChanged { from: before.page_percent, to: after.page_percent });
        }
        actions
    }

    fn hold(&mut self, now: Timestamp, pressure: Pressure, vitals: &Vitals, thresholds: &Thresholds) -> Option<Action> {
        let failing = vitals.share_over(vitals.failed, thresholds.alarm_error_percent);
        if !pressure.throttled && !failing && !pressure.slow_source && !pressure.slow_database {
            self.pressed_since = None;
            return None;
        }
        let since = *self.pressed_since.get_or_insert(now);
        let lasts = now.since(since) >= thresholds.hold_after;
        if !lasts || self.held_until.is_some_and(|until| until > now.plus(STEP)) {
            return None;
        }
        let until = now.plus(thresholds.hold_for);
        self.held_until = Some(until);
        let of = |count: u64, what: &str| format!("{count} of the last {} requests {what}", vitals.requests);
        let what = match (failing, pressure) {
            (true, _) => of(vitals.failed, "failed"),
            (_, Pressure { throttled: true, .. }) => of(vitals.throttled, "were throttled"),
            (_, Pressure { slow_database: true, .. }) => {
                format!("a commit takes {}", mean(vitals.commit, vitals.commits))
            }
            _ => format!("an answer takes {}", mean(vitals.latency, vitals.answers)),
        };
        Some(Action::PlanningHeld { until, reason: format!("{what}, since {since}") })
    }
}

fn mean(sum: Span, count: u64) -> Span {
    Span::from_micros(sum.micros() / i64::try_from(count.max(1)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn vitals(change: impl FnOnce(&mut Vitals)) -> Vitals {
        let mut vitals = Vitals { requests: 100, answers: 100, commits: 100, ..Vitals::default() };
        change(&mut vitals);
        vitals
    }

    #[test]
    fn each_threshold_presses_only_above_it() {
        let pressure = |change: fn(&mut Vitals)| Pressure::of(&vitals(change), &Thresholds::default());
        let none = Pressure::default();
        assert_eq!(pressure(|vitals| vitals.throttled = 5), none);
        assert_eq!(pressure(|vitals| vitals.throttled = 6), Pressure { throttled: true, ..none });
        assert_eq!(pressure(|vitals| vitals.failed = 2), none);
        assert_eq!(pressure(|vitals| vitals.failed = 3), Pressure { errors: true, ..none });
        assert_eq!(pressure(|vitals| vitals.latency = Span::from_seconds(300)), none);
        assert_eq!(pressure(|vitals| vitals.latency = Span::from_seconds(301)), Pressure { slow_source: true, ..none });
        assert_eq!(pressure(|vitals| vitals.commit = Span::from_seconds(20)), none);
        assert_eq!(pressure(|vitals| vitals.commit = Span::from_seconds(21)), Pressure { slow_database: true, ..none });
        let few = Vitals { requests: 19, failed: 19, ..Vitals::default() };
        assert_eq!(Pressure::of(&few, &Thresholds::default()), none, "of few requests a share says nothing");
    }

    #[test]
    fn a_course_is_halved_under_pressure_and_comes_back_step_by_step() {
        let slow = Pressure { slow_source: true, ..Pressure::default() };
        let mut course = Course::USUAL;
        for want in [(Some(2), 50), (Some(1), 25), (Some(1), 25)] {
            course = course.next(slow, 4);
            assert_eq!((course.concurrency, course.page_percent), want);
        }
        for want in [(Some(2), 50), (Some(3), 100), (None, 100), (None, 100)] {
            course = course.next(Pressure::default(), 4);
            assert_eq!((course.concurrency, course.page_percent), want);
        }
    }

    #[test]
    fn what_lies_back_for_more_than_five_minutes_is_forgotten() {
        let mut health = Health::default();
        (0..40).for_each(|second| health.note(at(second), Vital::Failed));
        assert_eq!(health.vitals().failed, 40);
        health.note(at(325), Vital::Answered { latency: Span::ZERO });
        assert_eq!((health.vitals().failed, health.vitals().answers), (10, 1));
    }

    #[test]
    fn planning_is_held_when_answers_or_commits_stay_slow() {
        let (second, usual) = (Span::SECOND, Thresholds::default());
        for (vital, want) in [
            (Vital::Committed { took: Span::from_millis(201) }, Some("a commit takes PT0.201S, since")),
            (Vital::Answered { latency: second.times(4) }, Some("an answer takes PT4S, since")),
            (Vital::Committed { took: Span::from_millis(200) }, None),
            (Vital::Answered { latency: second.times(3) }, None),
        ] {
            let (mut health, mut held) = (Health::default(), Vec::new());
            for at_second in 0..900 {
                health.note(at(at_second), vital);
                for action in health.judge(at(at_second), &usual, 4) {
                    if let Action::PlanningHeld { reason, .. } = action {
                        held.push((at_second, reason));
                    }
                }
            }
            match want {
                None => assert!(held.is_empty(), "{held:?}"),
                Some(reason) => {
                    assert!(held[0].0 >= 600 && held[0].1.starts_with(reason), "{held:?}");
                }
            }
        }
    }

    #[test]
    fn planning_is_held_when_errors_last_and_not_before() {
        let (mut health, usual) = (Health::default(), Thresholds::default());
        let mut held = Vec::new();
        for second in 0..900 {
            health.note(
                at(second),
                if second % 10 == 0 { Vital::Failed } else { Vital::Answered { latency: Span::ZERO } },
            );
            let actions = health.judge(at(second), &usual, 4);
            let holds = actions.into_iter().filter(|action| matches!(action, Action::PlanningHeld { .. }));
            held.extend(holds.map(|_| second));
        }
        let lasts = usual.hold_after.micros() / 1_000_000;
        assert_eq!(held.len(), 1, "{held:?}");
        assert!((lasts..lasts + 90).contains(&held[0]), "{held:?}");
    }
}
