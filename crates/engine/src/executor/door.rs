//! The door of a process: its requests stand in line for one rate key and ask the gate one at a time, so that partitions
//! take turns however many workers each has (`patra_core::gate::turns`). What sources told of their limits is kept here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::channel::oneshot;
use patra_core::gate::headers::ToldLimits;
use patra_core::gate::turns::Turns;
use patra_core::page::{PageAsk, RateHints};
use patra_core::ports::{Decision, Partition, Permit, PermitAsk, RateKey, RejectReason};
use patra_core::spec::snapshot::{Operation, RateSpec, SpecSnapshot};
use patra_core::time::Timestamp;

use super::crowd::{Crowd, LONG_WAIT};
use super::fetch::{Asker, NoPage, pause};

#[derive(Default)]
pub(crate) struct Door {
    pub crowd: Crowd,
    lines: Mutex<HashMap<LineKey, Line>>,
    told: Mutex<ToldLimits>,
}

/// BACKFILL stands in a line of its own: the gate lets it through by its share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LineKey {
    key: RateKey,
    background: bool,
}

#[derive(Default)]
struct Line {
    turns: Turns,
    bells: HashMap<u64, oneshot::Sender<()>>,
}

/// A place in a line; given up when dropped.
struct Place<'a> {
    door: &'a Door,
    line: LineKey,
    number: u64,
    quantum: u32,
    went: bool,
}

impl Door {
    fn enter(&self, line: LineKey, partition: &Partition, quantum: u32) -> Place<'_> {
        let number = self.lines().entry(line.clone()).or_default().turns.enter(partition);
        Place { door: self, line, number, quantum, went: false }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<LineKey, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, ToldLimits> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer said something of limits.
    pub fn hear(&self, spec: &SpecSnapshot, hints: &RateHints, now: Timestamp) {
        self.told().hear(&RateKey::of(spec), hints, now);
    }

    fn rate(&self, key: &RateKey, declared: &RateSpec, now: Timestamp) -> RateSpec {
        self.told().rate(key, declared, now)
    }
}

impl Place<'_> {
    /// What rings when it may be this one's turn; `None` when it is.
    fn bell(&self) -> Option<oneshot::Receiver<()>> {
        let mut lines = self.door.lines();
        let line = lines.get_mut(&self.line)?;
        if line.turns.head(self.quantum) == Some(self.number) {
            return None;
        }
        let (ring, bell) = oneshot::channel();
        line.bells.insert(self.number, ring);
        Some(bell)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.door.lines();
        let Some(line) = lines.get_mut(&self.line) else { return };
        line.bells.remove(&self.number);
        match self.went {
            true => line.turns.went(self.number),
            false => line.turns.leave(self.number),
        }
        if let Some(ring) = line.turns.head(self.quantum).and_then(|head| line.bells.remove(&head)) {
            // Who waits no longer has gone by itself.
            let _ = ring.send(());
        }
    }
}

/// Waits for a permit of the gate.
pub(super) async fn permit(asker: Asker<'_>, ask: &PageAsk) -> Result<Permit, NoPage> {
    let Asker { outside, stop, door, .. } = asker;
    let (spec, key) = (&ask.spec, RateKey::of(&ask.spec));
    let background = spec.operation == Operation::Backfill;
    let mut wait = door.crowd.enter(&key);
    let line = LineKey { key: key.clone(), background };
    let mut place = door.enter(line, &Partition::of(spec), outside.settings.gate_quantum);
    let deadline = outside.clock.now().plus(outside.settings.gate_deadline);
    loop {
        if let Some(bell) = place.bell() {
            let now = outside.clock.now();
            if now >= deadline {
                return Err(NoPage::Later { at: now, reason: "others had their turn until the deadline".into() });
            }
            futures::select_biased! {
                _ = bell.fuse() => {}
                slept = pause(outside, stop, LONG_WAIT).fuse() => {
                    slept?;
                    wait.sleeps(LONG_WAIT);
                }
            }
            continue;
        }
        let rate = door.rate(&key, &spec.rate, outside.clock.now());
        match outside.gate.acquire(PermitAsk { key: &key, rate: &rate, deadline, background }).await {
            Decision::Allow(permit) => {
                place.went = true;
                return Ok(permit);
            }
            Decision::WaitUntil(until) => {
                let span = until.since(outside.clock.now());
                wait.sleeps(span);
                pause(outside, stop, span).await?;
            }
            Decision::Reject(RejectReason::OverDeadline { free_at }) => {
                return Err(NoPage::Later { at: free_at, reason: "no permit of the gate before the deadline".into() });
            }
            Decision::Reject(RejectReason::QuotaEmpty { reset_at }) => {
                return Err(NoPage::Later { at: reset_at, reason: "the budget is empty".into() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str) -> Partition {
        Partition { provenance: name.into(), endpoint: "works".into(), operation: "HARVEST".into() }
    }

    fn line(background: bool) -> LineKey {
        LineKey { key: RateKey::new("shared/agency"), background }
    }

    #[test]
    fn the_next_in_line_is_rung_for_when_the_first_has_gone() {
        let door = Door::default();
        let mut first = door.enter(line(false), &partition("a"), 1);
        let (second, third) =
            (door.enter(line(false), &partition("a"), 1), door.enter(line(false), &partition("b"), 1));
        let backfill = door.enter(line(true), &partition("a"), 1);
        assert!(first.bell().is_none() && backfill.bell().is_none(), "each is the first of its line");
        let (mut of_second, mut of_third) = (second.bell().unwrap(), third.bell().unwrap());
        first.went = true;
        drop(first);
        assert_eq!(of_second.try_recv(), Ok(None), "the other partition has its turn");
        assert_eq!(of_third.try_recv(), Ok(Some(())));
        drop(third);
        assert_eq!(of_second.try_recv(), Ok(Some(())), "who leaves without a permit lets the next one ask");
        assert!(second.bell().is_none());
    }
}
