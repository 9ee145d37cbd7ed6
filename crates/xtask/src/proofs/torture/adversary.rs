//! What is done to a fleet and when: a list that follows from the seed alone.

use std::time::Duration;

use super::fleet::Role;
use super::size::{LEASE, Size, Weather};
use crate::proofs::Backend;
use crate::proofs::random::Random;

/// How a database server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Kill,
    Immediate,
    Gentle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redis {
    Kill,
    Stop(Duration),
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    Restart,
    Kill,
    Stop(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// SIGKILL; the process comes back later.
    Kill {
        role: Role,
        choice: u64,
        again_after: Duration,
    },
    /// SIGSTOP past the lease, then SIGCONT.
    Stop {
        role: Role,
        choice: u64,
        span: Duration,
    },
    Database(Restart),
    Redis(Redis),
    Broker(Broker),
}

/// Mean time between two deeds of a kind, in kills.
const STOP_EVERY: u32 = 2;
const DATABASE_EVERY: u32 = 18;
const REDIS_EVERY: u32 = 14;
const BROKER_EVERY: u32 = 16;

/// All deeds of a storm, in order.
pub fn deeds(seed: u64, size: &Size, backend: Backend) -> Vec<(Duration, Deed)> {
    let mut all = Vec::new();
    let mut kind = |part: u64, every: u32, deed: fn(&mut Random) -> Deed| {
        let mut random = Random::of(seed, part);
        let mut at = Duration::ZERO;
        loop {
            // Between half and one and a half of the mean, so that even a short storm has each of them.
            let mean = size.kill_every * every;
            at += mean / 2 + Duration::from_millis(random.below(mean.as_millis() as u64));
            if at >= size.storm {
                return;
            }
            all.push((at, deed(&mut random)));
        }
    };
    match size.weather {
        Weather::Storm => {}
        Weather::Redis => {
            kind(3, 1, redis);
            return all;
        }
        Weather::Fair => return all,
    }
    kind(1, 1, kill);
    kind(2, STOP_EVERY, stop);
    kind(3, REDIS_EVERY.min(rare(size)), redis);
    kind(4, BROKER_EVERY.min(rare(size)), broker);
    if backend.server().is_some() {
        kind(5, DATABASE_EVERY.min(rare(size)), database);
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// In a short storm even what is rare happens once.
fn rare(size: &Size) -> u32 {
    ((size.storm.as_millis() / size.kill_every.as_millis().max(1)) / 2).max(1) as u32
}

fn role(random: &mut Random) -> Role {
    match random.below(20) {
        0 | 1 => Role::Planner,
        2..=4 => Role::Relay,
        _ => Role::Executor,
    }
}

fn kill(random: &mut Random) -> Deed {
    let again_after = Duration::from_millis(100 + random.below(1_900));
    Deed::Kill { role: role(random), choice: random.next(), again_after }
}

fn stop(random: &mut Random) -> Deed {
    let role = if random.below(8) == 0 { Role::Relay } else { Role::Executor };
    // Two leases and a little, so that someone else has had the time to take over.
    let span = LEASE * 2 + Duration::from_millis(random.below(2_000));
    Deed::Stop { role, choice: random.next(), span }
}

fn database(random: &mut Random) -> Deed {
    Deed::Database(*random.pick(&[Restart::Kill, Restart::Kill, Restart::Immediate, Restart::Gentle]))
}

fn redis(random: &mut Random) -> Deed {
    let stop = Redis::Stop(Duration::from_millis(1_000 + random.below(5_000)));
    Deed::Redis(*random.pick(&[Redis::Kill, Redis::Flush, stop]))
}

fn broker(random: &mut Random) -> Deed {
    let stop = Broker::Stop(Duration::from_millis(1_000 + random.below(5_000)));
    Deed::Broker(*random.pick(&[Broker::Restart, Broker::Kill, stop]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_alone_says_what_is_done_and_when() {
        let size = Size::full(10.0);
        let all = deeds(7, &size, Backend::Postgres);
        assert_eq!(all, deeds(7, &size, Backend::Postgres));
        assert_ne!(all, deeds(8, &size, Backend::Postgres));
        assert!(all.is_sorted_by_key(|(at, _)| *at) && all.iter().all(|(at, _)| *at < size.storm));
    }

    #[test]
    fn every_kind_of_deed_comes_also_in_a_short_storm() {
        for size in [Size::short(), Size::full(10.0)] {
            let all = deeds(1, &size, Backend::Mariadb);
            let count = |wanted: fn(&Deed) -> bool| all.iter().filter(|(_, deed)| wanted(deed)).count();
            let counts = [
                count(|deed| matches!(deed, Deed::Kill { .. })),
                count(|deed| matches!(deed, Deed::Stop { .. })),
                count(|deed| matches!(deed, Deed::Database(_))),
                count(|deed| matches!(deed, Deed::Redis(_))),
                count(|deed| matches!(deed, Deed::Broker(_))),
            ];
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        }
        assert!(deeds(1, &Size::short(), Backend::Sqlite).iter().all(|(_, deed)| !matches!(deed, Deed::Database(_))));
    }
}
