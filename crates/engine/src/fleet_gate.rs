//! The gate of a process in a fleet: slots drawn ahead from a shared gate, in Redis or on database rows.
//!
//! ```text
//!            REDIS, epoch n  --does not answer, or emptied-->  DATABASE, epoch n + 1
//!                  ^                                                  |
//!                  +------- answers again, after RETURN_AFTER --------+      epoch n + 2
//! ```
//! Where limits are kept is one row of the database, and every process trusts what it read of it for [`MODE_FRESH`]. The
//! new place knows nothing of what was spent at the old one, so it waits out one window, and before that the time in
//! which others may still act on what they had read (INV-49). Time is the shared gate's own, never ours (INV-48).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use patra_core::gate::pace::FULL;
use patra_core::gate::slots::{ClockView, LATE_MAX, Pool};
use patra_core::gate::{Estimate, SHARED_WARM_UP_MAX, Slot, WARM_UP_MAX, Want, estimate, warm_up};
use patra_core::ports::{
    Clock, Decision, Gate, GateAsk, GateLost, GateMode, GateModes, GatePlace, Permit, PermitAsk, RateKey, RejectReason,
    SharedGate, Signal, Told,
};
use patra_core::spec::snapshot::RateSpec;
use patra_core::time::{Span, Timestamp};

/// How long a process acts on the place it has read.
const MODE_FRESH: Span = Span::SECOND;
/// How far ahead slots are drawn. A pause that a source asks for reaches other processes after at most this.
const HORIZON_REDIS: Span = Span::from_millis(250);
const HORIZON_DATABASE: Span = Span::SECOND;
/// From the change of place until nobody acts on the old one: what was read, what was drawn, and the commit of the
/// change itself.
const GUARD: Span = MODE_FRESH.plus(HORIZON_DATABASE).plus(Span::SECOND);
/// Redis must have been left for this long before it is tried again.
const RETURN_AFTER: Span = Span::from_seconds(5);
/// How long a source that says 429 without a time is left alone.
const BLIND_COOLDOWN: Span = Span::SECOND;
/// Pause when nobody can say where limits are kept, or slots cannot be dated.
const BLIND_WAIT: Span = Span::from_millis(200);

pub struct FleetGate {
    modes: Arc<dyn GateModes>,
    redis: Option<Arc<dyn SharedGate>>,
    database: Arc<dyn SharedGate>,
    clock: Arc<dyn Clock>,
    known: futures::lock::Mutex<Known>,
    lanes: Mutex<HashMap<LaneKey, Arc<Lane>>>,
    /// Lanes of the permits that are out, by number.
    out: Mutex<Out>,
}

/// Slots of one key differ in what they cost and in who may use them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LaneKey {
    key: RateKey,
    permits: u32,
    background: bool,
}

#[derive(Default)]
struct Out {
    given: u64,
    lanes: HashMap<u64, Issued>,
}

/// A slot in use: where it came from and under which number.
struct Issued {
    lane: Arc<Lane>,
    mode: GateMode,
    slot: u64,
    rate: RateSpec,
}

/// What is known of the place.
#[derive(Default)]
struct Known {
    mode: Option<(GateMode, Timestamp)>,
}

/// One key. Only one caller at a time asks the shared gate.
#[derive(Default)]
struct Lane {
    asking: futures::lock::Mutex<()>,
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    epoch: i64,
    pool: Pool,
    clock: ClockView,
    /// Asking before this is of no use.
    ask_at: Timestamp,
    /// What the gate last said.
    pace: i64,
}

impl FleetGate {
    pub fn new(
        modes: Arc<dyn GateModes>,
        redis: Option<Arc<dyn SharedGate>>,
        database: Arc<dyn SharedGate>,
        clock: Arc<dyn Clock>,
    ) -> FleetGate {
        FleetGate {
            modes,
            redis,
            database,
            clock,
            known: Default::default(),
            lanes: Mutex::default(),
            out: Mutex::default(),
        }
    }

    /// The place in force, read anew when it was read too long ago.
    async fn mode(&self) -> Result<GateMode, GateLost> {
        let mut known = self.known.lock().await;
        let asked = self.clock.now();
        if let Some((mode, read_at)) = known.mode
            && asked.since(read_at) < MODE_FRESH
        {
            return Ok(mode);
        }
        known.mode = None;
        let mut mode = self.modes.mode().await?;
        if let Some(wanted) = self.better_place(mode).await {
            mode = self.modes.change(mode, wanted).await?;
            tracing::warn!("limits of the fleet are kept in {} from epoch {} on", mode.place.code(), mode.epoch);
        }
        known.mode = Some((mode, asked));
        Ok(mode)
    }

    async fn better_place(&self, mode: GateMode) -> Option<GatePlace> {
        match (mode.place, &self.redis) {
            (GatePlace::Redis, None) => Some(GatePlace::Database),
            (GatePlace::Database, Some(redis)) if self.clock.now().since(mode.since) > RETURN_AFTER => {
                redis.prepare(mode.epoch + 1).await.is_ok().then_some(GatePlace::Redis)
            }
            _ => None,
        }
    }

    /// The place does not answer: limits move to the database, for everyone.
    async fn leave(&self, mode: GateMode, error: &GateLost) {
        let mut known = self.known.lock().await;
        known.mode = None;
        if mode.place == GatePlace::Database {
            return;
        }
        tracing::warn!("the gate in Redis is lost: {error}");
        if let Err(error) = self.modes.change(mode, GatePlace::Database).await {
            tracing::warn!("the place of the gate was not changed: {error}");
        }
    }

    fn lane(&self, ask: &PermitAsk<'_>) -> Arc<Lane> {
        let key = LaneKey { key: ask.key.clone(), permits: ask.rate.permits(), background: ask.background };
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }

    /// All lanes of a key hear of a pause: what was drawn before is not used.
    fn pause(&self, key: &RateKey, until: Timestamp) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, lane) in lanes.iter().filter(|(lane, _)| lane.key == *key) {
            let mut state = lane.state();
            state.pool.discard();
            state.ask_at = state.ask_at.max(until);
        }
    }

    fn issue(&self, lane: &Arc<Lane>, ask: &PermitAsk<'_>, mode: GateMode, slot: Slot) -> Permit {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.given += 1;
        let id = out.given;
        out.lanes.insert(id, Issued { lane: lane.clone(), mode, slot: slot.permit, rate: ask.rate.clone() });
        Permit { key: ask.key.clone(), id, granted_at: slot.at, pace: lane.state().pace }
    }

    fn shared(&self, place: GatePlace) -> (&Arc<dyn SharedGate>, Span) {
        match (place, &self.redis) {
            (GatePlace::Redis, Some(redis)) => (redis, HORIZON_REDIS),
            _ => (&self.database, HORIZON_DATABASE),
        }
    }

    /// Draws slots; when to come back if there are none.
    async fn draw(&self, lane: &Lane, ask: &PermitAsk<'_>, mode: GateMode) -> Result<(), GateLost> {
        let (shared, horizon) = self.shared(mode.place);
        let (most, done, late_max) = {
            let (mut state, now) = (lane.state(), self.clock.now());
            (state.pool.wanted(now, horizon), state.pool.hand_back(), state.clock.late_max(now))
        };
        let want = Want { most, horizon, background: ask.background };
        let ask = GateAsk { want, done, late_max, ..plain(ask.key, ask.rate, mode) };
        let asked = self.clock.now();
        let drawn = shared.ask(&ask).await?;
        let received = self.clock.now();
        let mut state = lane.state();
        state.clock.observe(asked, received, drawn.now);
        state.pace = drawn.pace;
        let clock = state.clock;
        let ours = |theirs: Timestamp| clock.ours(theirs, received);
        let slots = drawn.slots.iter().filter_map(|slot| Some(Slot { at: ours(slot.at)?, ..*slot }));
        state.pool.add(slots);
        state.ask_at = match state.pool.next_at() {
            Some(_) => received,
            None => ours(drawn.again_at).unwrap_or(received.plus(BLIND_WAIT)),
        };
        Ok(())
    }

    async fn report(&self, key: &RateKey, issued: Issued, told: Vec<Told>) {
        let late_max = issued.lane.state().clock.late_max(self.clock.now());
        let mode = issued.mode;
        let ask = GateAsk { done: vec![issued.slot], told, late_max, ..plain(key, &issued.rate, mode) };
        let (shared, _) = self.shared(mode.place);
        // The place in the queue runs out by itself, and the pace is only a courtesy.
        if let Err(error) = shared.ask(&ask).await {
            tracing::debug!("the shared gate did not hear of an answer: {error}");
        }
    }
}

fn plain(key: &RateKey, rate: &RateSpec, mode: GateMode) -> GateAsk {
    GateAsk {
        key: key.clone(),
        rate: rate.clone(),
        mode,
        want: Want { most: 0, horizon: Span::ZERO, background: false },
        fresh_wait: fresh_wait(rate, mode),
        late_max: LATE_MAX,
        done: Vec::new(),
        told: Vec::new(),
    }
}

/// Nobody has asked for anything before the first change of place, and what others did is not known to any gate.
fn fresh_wait(rate: &RateSpec, mode: GateMode) -> Span {
    match mode.is_first() {
        true => warm_up(rate, WARM_UP_MAX),
        false => warm_up(rate, SHARED_WARM_UP_MAX).plus(GUARD),
    }
}

impl Lane {
    fn state(&self) -> std::sync::MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot of this moment, or when to come back without asking anyone.
    fn take(&self, mode: GateMode, now: Timestamp) -> Result<Slot, Option<Timestamp>> {
        let mut state = self.state();
        if state.epoch != mode.epoch {
            // Slots of another epoch are not ours to use, nor is what its clock said.
            *state = LaneState { epoch: mode.epoch, ..LaneState::default() };
        }
        if let Some(slot) = state.pool.take(now) {
            return Ok(slot);
        }
        let ask_at = state.ask_at;
        Err(state.pool.next_at().or((ask_at > now).then_some(ask_at)))
    }
}

#[async_trait]
impl Gate for FleetGate {
    async fn acquire(&self, ask: PermitAsk<'_>) -> Decision {
        let lane = self.lane(&ask);
        let later = |until: Timestamp| match until > ask.deadline {
            true => Decision::Reject(RejectReason::OverDeadline { free_at: until }),
            false => Decision::WaitUntil(until),
        };
        let Ok(mode) = self.mode().await else { return later(self.clock.now().plus(BLIND_WAIT)) };
        match lane.take(mode, self.clock.now()) {
            Ok(slot) => return Decision::Allow(self.issue(&lane, &ask, mode, slot)),
            Err(Some(until)) => return later(until),
            Err(None) => {}
        }
        let _asking = lane.asking.lock().await;
        // Someone may have drawn while we waited for our turn to ask, and the place may have changed.
        let Ok(mode) = self.mode().await else { return later(self.clock.now().plus(BLIND_WAIT)) };
        match lane.take(mode, self.clock.now()) {
            Ok(slot) => return Decision::Allow(self.issue(&lane, &ask, mode, slot)),
            Err(Some(until)) => return later(until),
            Err(None) => {}
        }
        if let Err(error) = self.draw(&lane, &ask, mode).await {
            self.leave(mode, &error).await;
            return later(self.clock.now().plus(BLIND_WAIT));
        }
        match lane.take(mode, self.clock.now()) {
            Ok(slot) => Decision::Allow(self.issue(&lane, &ask, mode, slot)),
            Err(until) => later(until.unwrap_or(self.clock.now().plus(BLIND_WAIT))),
        }
    }

    async fn feedback(&self, permit: Permit, signal: Signal) {
        let now = self.clock.now();
        let until = |time: Timestamp| time.since(now).max(Span::ZERO);
        let pause = match signal {
            Signal::Throttled { retry_after } => Some(retry_after.map_or(BLIND_COOLDOWN, until)),
            Signal::Remaining { remaining: 0, reset_at: Some(reset) } => Some(until(reset)),
            Signal::Ok | Signal::Remaining { .. } | Signal::Transient => None,
        };
        if let Some(pause) = pause {
            self.pause(&permit.key, now.plus(pause));
        }
        let Some(issued) = self.out.lock().unwrap_or_else(PoisonError::into_inner).lanes.remove(&permit.id) else {
            return;
        };
        let told = pause.map(|pause| match signal {
            Signal::Throttled { .. } => Told::Throttled { slot: issued.slot, pause },
            _ => Told::Pause { pause },
        });
        self.report(&permit.key, issued, told.into_iter().collect()).await;
    }

    async fn estimate(&self, key: &RateKey, rate: &RateSpec, horizon: Span) -> Estimate {
        let now = self.clock.now();
        let Ok(mode) = self.mode().await else { return estimate(rate, now, FULL, now, horizon) };
        match self.shared(mode.place).0.ask(&plain(key, rate, mode)).await {
            Ok(drawn) => estimate(rate, drawn.now, drawn.pace, drawn.resumes_at, horizon),
            Err(_) => estimate(rate, now, FULL, now, horizon),
        }
    }
}
