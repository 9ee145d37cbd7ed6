//! Clocks that lie (FM-12): the wall clock of each process, the clock of the database and the `Date` of the sources.
//!
//! True time is the virtual time everything happens on. A lying clock shows something else, but a sleep on it takes as
//! long as it says: timers are monotonic, only what they are called is wrong.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};
use patra_sim::vtime::VirtualTime;
use patra_sim::{Rng, SharedWorld};

/// How far clocks may be off.
pub const SCALES: [Span; 6] =
    [Span::SECOND, Span::MINUTE, Span::MINUTE.times(10), Span::HOUR, Span::DAY, Span::DAY.times(400)];

/// Whose clocks lie in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lies {
    #[default]
    Nobody,
    /// Every process has its own constant error.
    Executors,
    /// Processes, database and sources; they jump ahead and back and stop.
    Everyone,
}

/// What a clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    Ahead(Span),
    Stopped(Timestamp),
}

/// A clock whose error can be changed while it is in use.
#[derive(Clone, Debug)]
pub struct Hand(Arc<Mutex<Face>>);

impl Default for Hand {
    fn default() -> Hand {
        Hand(Arc::new(Mutex::new(Face::Ahead(Span::ZERO))))
    }
}

impl Hand {
    pub fn set_ahead(&self, by: Span) {
        self.set(Face::Ahead(by));
    }

    fn set(&self, face: Face) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = face;
    }

    /// This hand on the dial of true time.
    pub fn on(&self, time: &VirtualTime) -> Arc<dyn Clock> {
        Arc::new(Dial { time: time.clone(), hand: self.clone() })
    }
}

struct Dial {
    time: VirtualTime,
    hand: Hand,
}

#[async_trait]
impl Clock for Dial {
    fn now(&self) -> Timestamp {
        match *self.hand.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Face::Ahead(by) => self.time.now().plus(by),
            Face::Stopped(at) => at,
        }
    }

    async fn sleep_until(&self, until: Timestamp) {
        let span = until.since(self.now());
        self.time.sleep(span.max(Span::ZERO)).await;
    }
}

/// The clocks of a laboratory.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    pub database: Hand,
    /// Processes take them in turn; true time when there are none.
    pub executors: Vec<Hand>,
}

/// Turns the hands of a laboratory's clocks, as its seed says.
pub struct Liar {
    lies: Lies,
    scale: Span,
    clocks: Clocks,
    rng: Rng,
}

/// One lie in so many turns.
const LIE_ONE_IN: u64 = 60;

impl Liar {
    pub fn new(seed: u64, lies: Lies, scale: Span) -> Liar {
        let mut rng = Rng::for_parts(seed, &[0xC1]);
        let executors = match lies {
            Lies::Nobody => Vec::new(),
            Lies::Executors | Lies::Everyone => (0..3).map(|_| Hand::default()).collect(),
        };
        let clocks = Clocks { database: Hand::default(), executors };
        for hand in &clocks.executors {
            hand.set_ahead(error(&mut rng, scale));
        }
        Liar { lies, scale, clocks, rng }
    }

    pub fn clocks(&self) -> Clocks {
        self.clocks.clone()
    }

    /// Between two turns of the scheduler.
    pub fn between_turns(&mut self, time: &VirtualTime, world: &SharedWorld) {
        if self.lies != Lies::Everyone || self.rng.below(LIE_ONE_IN) != 0 {
            return;
        }
        let face = match self.rng.below(4) {
            0 => Face::Stopped(time.now().plus(error(&mut self.rng, self.scale))),
            1 => Face::Ahead(Span::ZERO),
            _ => Face::Ahead(error(&mut self.rng, self.scale)),
        };
        // What a reading proves is dated by the lesser of the database's clock and the source's: one of the two must not
        // run ahead.
        match self.rng.below(3) {
            0 => {
                self.clocks.database.set(face);
                world.lock().set_date_ahead(-error(&mut self.rng, self.scale).micros().max(0));
            }
            1 => {
                let behind = error(&mut self.rng, self.scale).micros().max(0);
                self.clocks.database.set(Face::Ahead(Span::from_micros(-behind)));
                world.lock().set_date_ahead(error(&mut self.rng, self.scale).micros());
            }
            _ => {
                let at = self.rng.below(self.clocks.executors.len().max(1) as u64) as usize;
                self.clocks.executors[at].set(face);
            }
        }
    }

    /// All clocks are right again, and the latest time any of them has shown is over.
    pub fn heal(&self, time: &VirtualTime) {
        self.clocks.executors.iter().chain([&self.clocks.database]).for_each(|hand| hand.set_ahead(Span::ZERO));
        if self.lies == Lies::Everyone {
            time.jump(self.scale.plus(self.scale));
        }
    }
}

/// An error of up to `scale`, either way.
fn error(rng: &mut Rng, scale: Span) -> Span {
    let most = u64::try_from(scale.micros()).unwrap_or(0);
    let by = i64::try_from(rng.below(most + 1)).unwrap_or(0);
    Span::from_micros(if rng.below(2) == 0 { by } else { -by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use patra_sim::vtime::Scheduler;

    #[test]
    fn a_lying_clock_sleeps_as_long_as_it_says() {
        let time = VirtualTime::starting_at(Timestamp::from_seconds(1_000));
        for face in [Face::Ahead(Span::DAY), Face::Ahead(Span::ZERO), Face::Stopped(Timestamp::from_seconds(5))] {
            let hand = Hand::default();
            hand.set(face);
            let (clock, begun) = (hand.on(&time), time.now());
            let mut scheduler = Scheduler::new(time.clone(), 1);
            scheduler.spawn(async move { clock.sleep(Span::MINUTE).await });
            scheduler.run();
            assert_eq!(time.now().since(begun), Span::MINUTE, "{face:?}");
        }
    }
}
