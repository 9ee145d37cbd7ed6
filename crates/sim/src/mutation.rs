//! The mutation feed: now and then, between two requests, one record is inserted, updated, re-stamped or deleted, and the
//! change is visible at once. Often it hits a record that an earlier page of the running walk already delivered, so pages
//! move under the reader.

use crate::moment::floor;
use crate::rng::Rng;
use crate::truth::{NONE, Truth, Version};

const TARGET_TRIES_MAX: u32 = 8;

/// Decides, seeded, after which requests a mutation happens.
#[derive(Debug, Clone)]
pub struct MutationFeed {
    every: u32,
    /// Mutations at a time.
    burst: u32,
    left: u64,
    rng: Rng,
}

/// What a mutation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    Insert,
    Update,
    Restamp,
    Delete,
}

impl MutationFeed {
    /// On average `burst` mutations in `every` requests (0 = never), at most `limit` in all.
    pub fn new(seed: u64, every: u32, burst: u32, limit: u64) -> Self {
        Self { every, burst, left: limit, rng: Rng::for_parts(seed, &[0xFEED, 1]) }
    }

    /// Changes the pace from here on.
    pub fn set_every(&mut self, every: u32) {
        self.every = every;
        self.left = self.left.max(1_000);
    }

    /// Called once per request; changes the truth when it is time. Gives the number of changes.
    pub fn tick(&mut self, truth: &mut Truth, now_us: i64) -> u64 {
        if self.every == 0 || self.rng.below(u64::from(self.every)) != 0 {
            return 0;
        }
        let tries = u64::from(self.burst).min(self.left);
        self.left -= tries;
        (0..tries).filter(|_| truth.mutate(now_us).is_some()).count() as u64
    }
}

impl Truth {
    /// One mutation, visible now. None when nothing suitable was found.
    pub fn mutate(&mut self, now_us: i64) -> Option<Mutation> {
        self.advance(now_us);
        let kind = match self.rng.below(10) {
            0..=2 => Mutation::Insert,
            3..=6 => Mutation::Update,
            7 | 8 => Mutation::Restamp,
            _ if self.source.never_deletes() => Mutation::Update,
            _ => Mutation::Delete,
        };
        if kind == Mutation::Insert {
            return self.insert_from_reserve(now_us).then_some(kind);
        }
        let record = self.target(now_us)?;
        self.change(record, kind, now_us);
        Some(kind)
    }

    /// Stamps up to `limit` current records with one time in one go: a mass revision.
    pub fn restamp_many(&mut self, limit: usize, now_us: i64) -> usize {
        self.advance(now_us);
        let free: Vec<u32> =
            (0..self.records.len() as u32).filter(|at| self.may_change(*at, now_us)).take(limit).collect();
        for record in &free {
            self.append(*record, Mutation::Restamp, floor(now_us, self.grain_us), now_us);
        }
        free.len()
    }

    /// Withholds every n-th current record from requests for single records: listed, but not to be had.
    pub fn withhold_every(&mut self, every: usize, now_us: i64) -> usize {
        self.advance(now_us);
        let last: Vec<u32> = self.records.iter().map(|record| record.latest).filter(|at| *at != NONE).collect();
        let chosen: Vec<u32> = last.into_iter().step_by(every.max(1)).collect();
        for at in &chosen {
            self.versions[*at as usize].detail_missing = true;
        }
        chosen.len()
    }

    /// Changes one record now. False when it is unknown, deleted, dated in the future or has planned versions ahead.
    pub fn change_now(&mut self, id: &str, kind: Mutation, now_us: i64) -> bool {
        self.advance(now_us);
        let Some(record) = self.find(id).filter(|at| self.may_change(*at, now_us)) else {
            return false;
        };
        self.append(record, kind, floor(now_us, self.grain_us), now_us);
        true
    }

    fn insert_from_reserve(&mut self, now_us: i64) -> bool {
        let Some(record) = self.reserve.pop() else {
            return false;
        };
        let updated_at = self.mutation_stamp(i64::MIN, now_us);
        self.records[record as usize].created_at = floor(now_us, self.grain_us);
        self.append(record, Mutation::Insert, updated_at, now_us);
        true
    }

    fn change(&mut self, record: u32, kind: Mutation, now_us: i64) {
        let before = self.versions[self.records[record as usize].latest as usize].updated_at;
        let updated_at = self.mutation_stamp(before, now_us);
        self.append(record, kind, updated_at, now_us);
    }

    /// Mostly now; sometimes as far back as a late arrival may be dated, never before the version it replaces.
    fn mutation_stamp(&mut self, before: i64, now_us: i64) -> i64 {
        let back = if self.rng.chance(0.3) { self.rng.between(0, self.late_us_max) } else { 0 };
        let mut stamp = floor(now_us - back, self.grain_us);
        if now_us - stamp > self.late_us_max {
            stamp += self.grain_us;
        }
        stamp.max(before)
    }

    fn append(&mut self, record: u32, kind: Mutation, updated_at: i64, now_us: i64) {
        let previous = self.records[record as usize].latest;
        let (number, content) = self.versions.get(previous as usize).map_or((0, 0), |last| (last.number, last.content));
        let number = number + 1;
        self.versions.push(Version {
            record,
            number,
            previous,
            content: if kind == Mutation::Restamp { content } else { number },
            updated_at,
            visible_at: now_us,
            deleted: kind == Mutation::Delete,
            detail_missing: false,
        });
        let version = self.versions.len() as u32 - 1;
        self.records[record as usize].latest = version;
        self.show(version);
    }

    /// Half of the time a record delivered lately, otherwise any.
    fn target(&mut self, now_us: i64) -> Option<u32> {
        for _ in 0..TARGET_TRIES_MAX {
            let place = self.rng.below(self.recent.len() as u64) as usize;
            let recent = if self.rng.chance(0.5) { self.recent.get(place).copied() } else { None };
            let record = recent.unwrap_or_else(|| self.rng.below(self.records.len() as u64) as u32);
            if self.may_change(record, now_us) {
                return Some(record);
            }
        }
        None
    }

    fn may_change(&self, record: u32, now_us: i64) -> bool {
        let Some(record) = self.records.get(record as usize) else {
            return false;
        };
        // A record with planned versions ahead keeps to its plan: version numbers follow the order of visibility.
        if record.current == NONE || record.current != record.latest {
            return false;
        }
        let current = &self.versions[record.current as usize];
        !current.deleted && current.updated_at <= now_us
    }
}
