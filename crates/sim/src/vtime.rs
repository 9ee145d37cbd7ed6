//! Virtual time and the scheduler that runs actors on it, one at a time, on one thread.
//!
//! Time moves only when every actor waits for it, so a day passes in milliseconds and the same seed gives the same
//! run. Whatever an actor does between two waits is atomic to the others; calls into a database are made blocking by
//! [`BlockingLedger`](crate::blocking::BlockingLedger), so that this holds for them too.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use async_trait::async_trait;
use patra_core::failpoint::Crashed;
use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};

use crate::rng::Rng;

#[derive(Default)]
struct State {
    now: Timestamp,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    sleeps: u64,
}

/// A clock that stands still until [`Scheduler`] moves it.
#[derive(Clone)]
pub struct VirtualTime(Arc<Mutex<State>>);

impl VirtualTime {
    pub fn starting_at(now: Timestamp) -> VirtualTime {
        VirtualTime(Arc::new(Mutex::new(State { now, ..State::default() })))
    }

    /// Jumps forward while nobody else runs: a stall of the whole machine, or the time between two rounds.
    pub fn jump(&self, span: Span) {
        let mut state = self.lock();
        state.now = state.now.plus(span);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_wake(&self) -> Option<Timestamp> {
        self.lock().sleepers.first_key_value().map(|((until, _), _)| *until)
    }

    /// Moves to the next time somebody waits for and wakes those who do. False when nobody waits.
    fn advance(&self) -> bool {
        let due: Vec<Waker> = {
            let mut state = self.lock();
            let Some(((until, _), _)) = state.sleepers.first_key_value() else { return false };
            state.now = state.now.max(*until);
            let after = state.now.plus(Span::from_micros(1));
            let later = state.sleepers.split_off(&(after, 0));
            std::mem::replace(&mut state.sleepers, later).into_values().collect()
        };
        due.into_iter().for_each(Waker::wake);
        true
    }
}

#[async_trait]
impl Clock for VirtualTime {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    async fn sleep_until(&self, until: Timestamp) {
        Sleep { time: self.clone(), until, key: None }.await;
    }
}

struct Sleep {
    time: VirtualTime,
    until: Timestamp,
    key: Option<(Timestamp, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let time = self.time.clone();
        let mut state = time.lock();
        if let Some(key) = self.key.take() {
            state.sleepers.remove(&key);
        }
        if state.now >= self.until {
            return Poll::Ready(());
        }
        state.sleeps += 1;
        let key = (self.until, state.sleeps);
        state.sleepers.insert(key, context.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.time.lock().sleepers.remove(&key);
        }
    }
}

/// Set of actors that can go on.
#[derive(Default)]
struct Ready(Mutex<Vec<usize>>);

struct ActorWaker {
    actor: usize,
    ready: Arc<Ready>,
}

impl Wake for ActorWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.actor) {
            ready.push(self.actor);
        }
    }
}

type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// What one turn of the scheduler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The actor went on and waits again.
    Ran(usize),
    Finished(usize),
    /// A failpoint stood for the death of its process; the actor is gone.
    Crashed(usize, &'static str),
    /// Time moved.
    Advanced,
    /// Nobody can ever go on.
    Idle,
}

/// Runs actors in an order drawn from a seed.
pub struct Scheduler {
    time: VirtualTime,
    rng: Rng,
    actors: Vec<Option<Actor>>,
    /// Actors that do not go on before a time, as if their process were stopped.
    frozen: BTreeMap<usize, Timestamp>,
    ready: Arc<Ready>,
}

impl Scheduler {
    pub fn new(time: VirtualTime, seed: u64) -> Scheduler {
        Scheduler { time, rng: Rng::new(seed), actors: Vec::new(), frozen: BTreeMap::new(), ready: Arc::default() }
    }

    pub fn spawn(&mut self, actor: impl Future<Output = ()> + 'static) -> usize {
        self.actors.push(Some(Box::pin(actor)));
        let number = self.actors.len() - 1;
        Arc::new(ActorWaker { actor: number, ready: self.ready.clone() }).wake();
        number
    }

    /// Drops an actor where it waits, as kill -9 would.
    pub fn kill(&mut self, actor: usize) {
        self.actors[actor] = None;
    }

    /// Stops an actor where it waits until then, as SIGSTOP and SIGCONT would.
    pub fn freeze(&mut self, actor: usize, until: Timestamp) {
        self.frozen.insert(actor, until);
    }

    pub fn alive(&self) -> Vec<usize> {
        (0..self.actors.len()).filter(|number| self.actors[*number].is_some()).collect()
    }

    /// Lets one actor go on, or moves time when none can.
    pub fn turn(&mut self) -> Turn {
        let now = self.time.now();
        self.frozen.retain(|_, until| *until > now);
        match self.choose() {
            Some(actor) => self.poll(actor),
            None if self.alive().is_empty() => Turn::Idle,
            None => self.advance(),
        }
    }

    fn choose(&mut self) -> Option<usize> {
        let mut ready = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|actor| self.actors[*actor].is_some());
        let able: Vec<usize> = (0..ready.len()).filter(|at| !self.frozen.contains_key(&ready[*at])).collect();
        if able.is_empty() {
            return None;
        }
        Some(ready.remove(able[usize::try_from(self.rng.below(able.len() as u64)).unwrap_or(0)]))
    }

    fn advance(&mut self) -> Turn {
        let thaw = self.frozen.values().min().copied();
        if let Some(thaw) = thaw.filter(|thaw| self.time.next_wake().is_none_or(|wake| *thaw < wake)) {
            self.time.jump(thaw.since(self.time.now()));
            return Turn::Advanced;
        }
        if self.time.advance() { Turn::Advanced } else { Turn::Idle }
    }

    fn poll(&mut self, number: usize) -> Turn {
        let Some(mut actor) = self.actors[number].take() else { return Turn::Advanced };
        let waker = Waker::from(Arc::new(ActorWaker { actor: number, ready: self.ready.clone() }));
        let mut context = Context::from_waker(&waker);
        match std::panic::catch_unwind(AssertUnwindSafe(|| actor.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(())) => Turn::Finished(number),
            Ok(Poll::Pending) => {
                self.actors[number] = Some(actor);
                Turn::Ran(number)
            }
            Err(payload) => match payload.downcast_ref::<Crashed>() {
                Some(crashed) => Turn::Crashed(number, crashed.0),
                None => std::panic::resume_unwind(payload),
            },
        }
    }

    /// Runs until nobody can go on; returns the crashes on the way.
    pub fn run(&mut self) -> Vec<&'static str> {
        let mut crashes = Vec::new();
        loop {
            match self.turn() {
                Turn::Idle => return crashes,
                Turn::Crashed(_, name) => crashes.push(name),
                Turn::Ran(_) | Turn::Finished(_) | Turn::Advanced => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_only_when_everybody_waits_and_in_order() {
        let time = VirtualTime::starting_at(Timestamp::from_seconds(100));
        let mut scheduler = Scheduler::new(time.clone(), 1);
        let log = Arc::new(Mutex::new(Vec::new()));
        for (name, pause) in [("late", 20), ("early", 10)] {
            let (time, log) = (time.clone(), log.clone());
            scheduler.spawn(async move {
                time.sleep(Span::from_seconds(pause)).await;
                log.lock().unwrap().push((name, time.now()));
            });
        }
        assert!(scheduler.run().is_empty());
        let (early, late) = (Timestamp::from_seconds(110), Timestamp::from_seconds(120));
        assert_eq!(*log.lock().unwrap(), [("early", early), ("late", late)]);
    }

    #[test]
    fn a_killed_actor_never_goes_on_and_a_crash_is_told() {
        let time = VirtualTime::starting_at(Timestamp::default());
        let mut scheduler = Scheduler::new(time.clone(), 1);
        let sleeper = time.clone();
        let victim = scheduler.spawn(async move {
            sleeper.sleep(Span::SECOND).await;
            panic!("it was killed before");
        });
        scheduler.spawn(async move {
            time.sleep(Span::from_millis(1)).await;
            std::panic::panic_any(Crashed("t1.commit"));
        });
        scheduler.turn();
        scheduler.kill(victim);
        assert_eq!(scheduler.run(), ["t1.commit"]);
    }
}
