//! How the partitions of this process fare: every answer and commit is noted, and what follows from them is done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patra_core::healing::{Action, Course, Health, Site, Vital, tells_outage};
use patra_core::page::Page;
use patra_core::ports::{Hold, Partition};
use patra_core::spec::errors::{ErrorClass, FetchError, classify};
use patra_core::spec::snapshot::{PagingKind, SpecSnapshot};

use super::Outside;
use crate::notice::Notice;

#[derive(Default)]
pub(crate) struct PartitionVitals(Mutex<BTreeMap<Partition, Health>>);

impl PartitionVitals {
    /// Notes what happened and acts on it where it is time to.
    pub async fn note(&self, outside: &Outside, spec: &SpecSnapshot, vital: Vital) {
        let (now, settings) = (outside.clock.now(), &outside.settings);
        let actions = {
            let mut all = self.all();
            let health = all.entry(Partition::of(spec)).or_default();
            health.note(now, vital);
            health.judge(now, &settings.thresholds, settings.partition_max)
        };
        for action in actions {
            act(outside, spec, action).await;
        }
    }

    pub fn course(&self, spec: &SpecSnapshot) -> Course {
        self.all().get(&Partition::of(spec)).map_or(Course::USUAL, Health::course)
    }

    /// How many of a partition are to run, where it is fewer than usual.
    pub fn lowered(&self) -> BTreeMap<Partition, u32> {
        let all = self.all();
        let lowered = all.iter().filter_map(|(at, health)| Some((at.clone(), health.course().concurrency?)));
        lowered.collect()
    }

    /// Items to ask for on a page. Smaller ones only where a place is a number of items or a token, which mean the same
    /// whatever the size; a page number does not, and ties in time may be more than a small page.
    pub fn page_size(&self, spec: &SpecSnapshot) -> u32 {
        let size = spec.pagination.size;
        match spec.pagination.kind {
            PagingKind::Offset | PagingKind::Token => {
                let percent = u64::from(self.course(spec).page_percent);
                u32::try_from(u64::from(size) * percent / 100).unwrap_or(size).max(1)
            }
            _ => size,
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Partition, Health>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn act(outside: &Outside, spec: &SpecSnapshot, action: Action) {
    let at = Partition::of(spec);
    let Partition { provenance, endpoint, .. } = &at;
    tracing::warn!("{provenance}/{endpoint}: {action}");
    if let Action::PlanningHeld { until, reason } = &action {
        // By this process's clock so far; the hold is the database's.
        let until = outside.ledger.database_now().plus(until.since(outside.clock.now()));
        let hold = Hold { until, reason: reason.clone(), lag: spec.window.safety_lag };
        if let Err(error) = outside.ledger.hold_planning(&Site::of(spec), &hold).await {
            tracing::warn!("planning of {provenance}/{endpoint} was not held: {error}");
        }
    }
    outside.notices.tell(&at, Notice::Healed { action });
}

/// What an answer says about the health of its partition.
pub(crate) fn vital_of(result: &Result<Page, FetchError>, spec: &SpecSnapshot) -> Option<Vital> {
    let error = match result {
        Ok(page) => return Some(Vital::Answered { latency: page.latency }),
        Err(error) => error,
    };
    match classify(error, &spec.retry.statuses) {
        ErrorClass::Throttled { .. } => Some(Vital::Throttled),
        class if tells_outage(error, class) => Some(Vital::Failed),
        _ => None,
    }
}
