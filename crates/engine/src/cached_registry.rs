//! Registry reads that are made once in a while: a planner asks for the same versions again and again.
//!
//! An answer is used for a short life, counted from the moment it was asked for, so nothing is ever compiled from a
//! version that another has replaced longer ago than that. An end that a version already has is kept to exactly. That a
//! source does not exist is never remembered: whoever has just published it need not wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use patra_core::ports::{Clock, DictionaryRows, LedgerError, NewVersion, Registry, StoredVersion};
use patra_core::time::{Span, Timestamp};

/// Answers kept at a time; with one more all are forgotten.
const ANSWERS_MAX: usize = 1_000;

pub struct CachedRegistry {
    registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    life: Span,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    in_force: BTreeMap<(String, String), Kept<StoredVersion>>,
    histories: BTreeMap<Option<String>, Kept<Vec<StoredVersion>>>,
}

struct Kept<T> {
    answer: T,
    /// When the registry was asked, not when it answered.
    asked_at: Timestamp,
}

impl<T: Clone> Kept<T> {
    fn fresh(&self, now: Timestamp, life: Span) -> Option<T> {
        let age = now.since(self.asked_at);
        (age >= Span::ZERO && age < life).then(|| self.answer.clone())
    }
}

/// Keeps the answer that was asked for last.
fn keep<K: Ord, T>(answers: &mut BTreeMap<K, Kept<T>>, key: K, kept: Kept<T>) {
    if answers.len() >= ANSWERS_MAX {
        answers.clear();
    }
    if answers.get(&key).is_none_or(|before| before.asked_at <= kept.asked_at) {
        answers.insert(key, kept);
    }
}

impl CachedRegistry {
    pub fn new(registry: Arc<dyn Registry>, clock: Arc<dyn Clock>, life: Span) -> CachedRegistry {
        CachedRegistry { registry, clock, life, answers: Mutex::default() }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Registry for CachedRegistry {
    async fn publish_version(&self, version: NewVersion) -> Result<i64, LedgerError> {
        let published = self.registry.publish_version(version).await;
        *self.answers() = Answers::default();
        published
    }

    async fn version_at(
        &self,
        provenance: &str,
        channel: &str,
        at: Timestamp,
    ) -> Result<Option<StoredVersion>, LedgerError> {
        let key = (provenance.to_owned(), channel.to_owned());
        let asked_at = self.clock.now();
        let kept = self.answers().in_force.get(&key).and_then(|kept| kept.fresh(asked_at, self.life));
        let in_force =
            |version: &StoredVersion| version.effective_from <= at && version.effective_to.is_none_or(|end| at < end);
        if let Some(version) = kept.filter(in_force) {
            return Ok(Some(version));
        }
        let found = self.registry.version_at(provenance, channel, at).await?;
        if let Some(answer) = found.clone() {
            keep(&mut self.answers().in_force, key, Kept { answer, asked_at });
        }
        Ok(found)
    }

    async fn version(&self, provenance: &str, version: i64) -> Result<Option<StoredVersion>, LedgerError> {
        self.registry.version(provenance, version).await
    }

    async fn versions(&self, provenance: Option<&str>) -> Result<Vec<StoredVersion>, LedgerError> {
        let key = provenance.map(str::to_owned);
        let asked_at = self.clock.now();
        let kept = self.answers().histories.get(&key).and_then(|kept| kept.fresh(asked_at, self.life));
        if let Some(versions) = kept {
            return Ok(versions);
        }
        let answer = self.registry.versions(provenance).await?;
        if !answer.is_empty() {
            keep(&mut self.answers().histories, key, Kept { answer: answer.clone(), asked_at });
        }
        Ok(answer)
    }

    async fn seed_dictionary(&self, rows: &DictionaryRows) -> Result<(), LedgerError> {
        self.registry.seed_dictionary(rows).await
    }

    async fn dictionary(&self) -> Result<DictionaryRows, LedgerError> {
        self.registry.dictionary().await
    }
}
