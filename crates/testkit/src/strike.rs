//! Failpoints of a laboratory: which one strikes, how, and whether it was seen to fire.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use patra_core::failpoint::{ALL, Strike, Striker};
use patra_core::time::Span;
use patra_sim::Rng;
use patra_sim::vtime::VirtualTime;

/// What happens at a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The process dies.
    Abort,
    /// The step fails.
    Error,
    /// The whole machine stands still for longer than a lease.
    Stall,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Abort, Mode::Error, Mode::Stall];
}

/// Strikes the n-th time a named failpoint is reached.
pub struct OnePoint {
    name: &'static str,
    mode: Mode,
    hit: u64,
    seen: AtomicU64,
    fired: AtomicBool,
    time: VirtualTime,
    stall: Span,
}

impl OnePoint {
    pub fn new(name: &'static str, mode: Mode, hit: u64, time: VirtualTime, stall: Span) -> OnePoint {
        OnePoint { name, mode, hit, seen: AtomicU64::new(0), fired: AtomicBool::new(false), time, stall }
    }

    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl Striker for OnePoint {
    fn strike(&self, name: &'static str) -> Strike {
        if name != self.name || self.seen.fetch_add(1, Ordering::SeqCst) + 1 != self.hit {
            return Strike::Pass;
        }
        self.fired.store(true, Ordering::SeqCst);
        struck(self.mode, &self.time, self.stall)
    }
}

fn struck(mode: Mode, time: &VirtualTime, stall: Span) -> Strike {
    match mode {
        Mode::Abort => Strike::Abort,
        Mode::Error => Strike::Error,
        Mode::Stall => {
            time.jump(stall);
            Strike::Pass
        }
    }
}

/// Strikes at random, until it is told to be quiet.
pub struct Dice {
    rng: Mutex<Rng>,
    one_in: u64,
    on: AtomicBool,
    time: VirtualTime,
    stall: Span,
    /// One bit per failpoint that struck.
    fired: AtomicU64,
}

impl Dice {
    pub fn new(seed: u64, one_in: u64, time: VirtualTime, stall: Span) -> Dice {
        let (rng, on) = (Mutex::new(Rng::new(seed)), AtomicBool::new(one_in > 0));
        Dice { rng, one_in, on, time, stall, fired: AtomicU64::new(0) }
    }

    pub fn quiet(&self) {
        self.on.store(false, Ordering::SeqCst);
    }

    pub fn fired(&self) -> u32 {
        self.fired.load(Ordering::SeqCst).count_ones()
    }
}

impl Striker for Dice {
    fn strike(&self, name: &'static str) -> Strike {
        if !self.on.load(Ordering::SeqCst) {
            return Strike::Pass;
        }
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        if rng.below(self.one_in) != 0 {
            return Strike::Pass;
        }
        let mode = *rng.pick(&Mode::ALL);
        drop(rng);
        let at = ALL.iter().position(|known| *known == name).unwrap_or(0);
        self.fired.fetch_or(1 << (at % 64), Ordering::SeqCst);
        struck(mode, &self.time, self.stall)
    }
}
