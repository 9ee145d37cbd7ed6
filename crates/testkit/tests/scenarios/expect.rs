//! What must be seen of a reaction.

use patra_checker::{Severity, Verdict};
use patra_sim::{Kind, ServedRow};
use serde_json::Value;

use super::watch::Watch;

/// One thing that must be seen.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// Everything the source holds is stored, nothing else, and the watermark is where it should be.
    Complete,
    /// Something failed: the watermark waits before it.
    Held,
    /// Each request that met the situation was sent again, unchanged, until it was answered.
    SameRequest,
    /// The same, where an answer was whole and only its content was spoilt.
    SamePage,
    /// What met the situation was asked for again, if need be from the beginning.
    Again,
    /// Requests that met the situation were not sent a second time in their slice.
    AskedOnce,
    /// No slice failed.
    NothingFailed,
    /// No pass was begun twice: the end was believed.
    OnePass,
    /// A pass began anew, for a reason that says so.
    NewPass(&'static str),
    /// A slice was cut, for a reason that says so.
    Split(&'static str),
    /// A slice failed: its class and what its reason says.
    Failed(&'static str, &'static str),
    /// A request holds this text and was answered.
    Asked(&'static str),
    /// Ids are noted as missing, none counts as deleted that was looked for once only.
    Missing,
    /// Not more search requests than pages that the sources hold and so many.
    RequestsAbovePages(usize),
}

/// What a run left behind.
pub struct Seen {
    pub id: &'static str,
    pub watch: std::sync::Arc<Watch>,
    pub verdict: Verdict,
    pub served: Vec<ServedRow>,
    pub missing: Vec<serde_json::Map<String, Value>>,
    /// The latest time that is not in the future any record was given.
    pub truth_to: i64,
}

impl Seen {
    pub fn check(&self, expect: Expect) -> Result<(), String> {
        match expect {
            Expect::Complete => self.complete(),
            Expect::Held => self.held(),
            Expect::SameRequest => {
                self.same_request()?;
                ensure(!self.watch.retries().is_empty(), || "nothing was retried".into())?;
                none_of("failures", &self.watch.failures())
            }
            Expect::SamePage => self.same_request(),
            Expect::Again => {
                let again = self.watch.retries().len() + self.watch.passes().len();
                ensure(again > 0, || "nothing was asked for again".into())
            }
            Expect::AskedOnce => self.asked_once(),
            Expect::NothingFailed => none_of("failures", &self.watch.failures()),
            Expect::OnePass => none_of("new passes", &self.watch.passes()),
            Expect::NewPass(text) => some_of("a new pass", &self.watch.passes(), text),
            Expect::Split(text) => some_of("a split", &self.watch.splits(), text),
            Expect::Failed(class, text) => {
                let failures = self.watch.failures();
                let of_class: Vec<String> =
                    failures.iter().filter(|told| told.starts_with(&format!("{class}: "))).cloned().collect();
                some_of(&format!("a slice FAILED as {class}, instead: {failures:?}"), &of_class, text)
            }
            Expect::Asked(text) => {
                let asked = self.served.iter().any(|row| row.status == 200 && row.path_query.contains(text));
                ensure(asked, || format!("no request holds `{text}`"))
            }
            Expect::Missing => self.noted_missing(),
            Expect::RequestsAbovePages(above) => self.no_page_twice(above),
        }
    }

    fn complete(&self) -> Result<(), String> {
        self.judged()?;
        for source in &self.verdict.sources {
            let counts = (source.missing_count, source.extra_count, source.outbox_duplicates);
            ensure(counts == (0, 0, 0), || format!("missing, extra, told twice: {counts:?}"))?;
            ensure(source.expected > 0, || "nothing was expected, so nothing was shown".into())?;
            let reached = source.watermark == source.watermark_truth && source.watermark > Some(self.truth_to);
            ensure(reached, || {
                let wanted = (source.watermark_truth, self.truth_to);
                format!("watermark {:?}, should be {wanted:?}; {:?}", source.watermark, self.watch.failures())
            })?;
        }
        Ok(())
    }

    /// The checker finds no error; what is not read yet is none.
    fn judged(&self) -> Result<(), String> {
        let errors = self.verdict.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let told: Vec<String> = errors
            .take(4)
            .map(|finding| format!("{} {} {}", finding.check, finding.message, finding.evidence))
            .collect();
        ensure(self.verdict.ok, || format!("{}; failures: {:?}", told.join("; "), self.watch.failures()))
    }

    fn held(&self) -> Result<(), String> {
        self.judged()?;
        let held = self.verdict.sources.iter().all(|source| source.watermark < source.watermark_truth);
        ensure(held, || "the watermark went on".into())
    }

    fn cases(&self) -> impl Iterator<Item = (usize, &ServedRow)> {
        self.served.iter().enumerate().filter(|(_, row)| row.fired.contains(&self.id))
    }

    fn same_request(&self) -> Result<(), String> {
        for (at, case) in self.cases() {
            let same = |row: &&ServedRow| row.path_query == case.path_query && row.body_hash == case.body_hash;
            let later = self.served[at + 1..].iter().find(same);
            ensure(later.is_some(), || format!("never asked for again: {}", case.path_query))?;
        }
        Ok(())
    }

    fn asked_once(&self) -> Result<(), String> {
        let (cases, failures) = (self.cases().count(), self.watch.failures().len());
        ensure(cases <= failures, || format!("{cases} requests for {failures} failed slices"))
    }

    fn noted_missing(&self) -> Result<(), String> {
        ensure(!self.missing.is_empty(), || "no id is noted as missing".into())?;
        let early = self.missing.iter().find(|row| {
            row.get("status").or(row.get("status_code")).and_then(Value::as_str) == Some("TOMBSTONE")
                && row.get("sightings").and_then(Value::as_i64).is_some_and(|sightings| sightings < 2)
        });
        ensure(early.is_none(), || format!("deleted after one sighting: {early:?}"))
    }

    fn no_page_twice(&self, above: usize) -> Result<(), String> {
        let mut pages: Vec<&str> = Vec::new();
        let searches = self.served.iter().filter(|row| row.kind == Kind::Search && !row.items.is_empty());
        let mut count = 0;
        for row in searches {
            count += 1;
            let first = row.items[0].0.as_str();
            if !pages.contains(&first) {
                pages.push(first);
            }
        }
        ensure(count <= pages.len() + above, || format!("{count} requests for {} pages", pages.len()))
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn some_of(what: &str, told: &[String], text: &str) -> Result<(), String> {
    let found = told.iter().any(|reason| reason.to_lowercase().contains(&text.to_lowercase()));
    ensure(found, || format!("wanted {what} because of `{text}`, told was {told:?}"))
}

fn none_of(what: &str, told: &[String]) -> Result<(), String> {
    ensure(told.is_empty(), || format!("no {what} were wanted, told was {told:?}"))
}
