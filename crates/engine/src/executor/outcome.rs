//! How a run ends: proven, split, given up, failed, or given back for later.

use patra_core::absence::Lack;
use patra_core::healing::Strain;
use patra_core::page::{Page, RateHints};
use patra_core::pass::{Died, PassEnd, Place, Prefix, Proof, smaller_page};
use patra_core::plan::build::{self, Child};
use patra_core::plan::split::{self, Cut};
use patra_core::planted::{Defect, planted};
use patra_core::ports::{
    BatchCommit, CutAtPrefix, Lease, LedgerError, NewSlice, Partition, ProvenSlice, Release, SliceOutcome, Split, Task,
};
use patra_core::spec::errors::{ErrorClass, FetchError};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;
use serde_json::json;

use super::fetch::{Fetched, NoPage, Tries};
use super::reading::{Reading, Step};
use super::{Halt, Outside};
use crate::notice::Notice;

/// First and longest delay before a task whose source is out comes back.
const OUTAGE_FIRST: Span = Span::SECOND;
const OUTAGE_LONGEST: Span = Span::from_seconds(300);

impl Reading<'_> {
    /// There is no page: what the class of the failure says.
    pub(super) async fn without_page(&mut self, place: Place, no_page: NoPage) -> Result<Step, Halt> {
        let (class, error) = match no_page {
            NoPage::Shutdown => return Err(Halt::Shutdown),
            NoPage::Struck(struck) => return Err(LedgerError::from(struck).into()),
            NoPage::Later { at, reason } => {
                return self.give_back(at.since(self.outside.clock.now()), reason, false).await;
            }
            NoPage::Barred { until, reason, answers } => return self.barred(until, reason, answers).await,
            NoPage::Failed { class, error } => (class, error),
        };
        if let Place::Detail(detail) = &place
            && let Some(step) = self.detail_refused(detail.clone(), class, &error).await?
        {
            return Ok(step);
        }
        if let Place::Search(_) = &place
            && let Some(size) = smaller_page(&self.spec().pagination, &error, self.page_size)
        {
            tracing::warn!(task.id = %self.task.id, "asking {} for pages of {size}: {error}", self.task.provenance);
            self.page_size = size;
            return Ok(Step::On(None));
        }
        match class {
            ErrorClass::Transient { lost: true } if !self.ask(&place).await?.is_repeatable() => {
                self.pass_died(format!("an answer was lost: {error}")).await
            }
            ErrorClass::Transient { .. } | ErrorClass::Throttled { .. } | ErrorClass::Quota { .. } => {
                self.outage(&error).await
            }
            ErrorClass::CursorExpired => self.pass_died(format!("the cursor expired: {error}")).await,
            ErrorClass::Split | ErrorClass::TooLarge => self.split(2, error.to_string()).await,
            ErrorClass::Fatal => self.stop_source(error.to_string()).await,
            ErrorClass::Empty | ErrorClass::Skip | ErrorClass::Denied | ErrorClass::ForeignNext => {
                self.fail(class.name(), error.to_string()).await?;
                Ok(Step::Done)
            }
        }
    }

    /// The source does not answer, and waiting for it is not a failure (INV-44). A page that has failed for very long while
    /// the source answers others is another matter.
    async fn barred(&mut self, until: Timestamp, reason: String, answers: bool) -> Result<Step, Halt> {
        let failed = answers && self.task.attempt_no > self.outside.settings.outage_runs_max;
        let due_at = until.max(self.outside.ledger.database_now());
        self.give_back_at(Release { due_at, reason, failed, circuit_open: true }).await
    }

    /// The source is out. Coming back later is not a failure, unless it has been so for a very long time.
    async fn outage(&mut self, error: &FetchError) -> Result<Step, Halt> {
        let runs = self.task.attempt_no.max(1);
        let grown = OUTAGE_FIRST.times(1i64 << (runs - 1).min(20)).min(OUTAGE_LONGEST);
        let half = grown.micros() / 2;
        let delay = Span::from_micros(half + (half as f64 * self.outside.random.fraction()) as i64);
        let failed = runs > self.outside.settings.outage_runs_max;
        self.give_back(delay, error.to_string(), failed).await
    }

    async fn give_back(&mut self, delay: Span, reason: String, failed: bool) -> Result<Step, Halt> {
        let due_at = self.outside.ledger.database_now().plus(delay.max(Span::ZERO));
        self.give_back_at(Release { due_at, reason, failed, circuit_open: false }).await
    }

    async fn give_back_at(&mut self, given: Release) -> Result<Step, Halt> {
        if given.failed && self.task.failure_count + 1 >= self.outside.settings.failures_max {
            self.fail("OUTAGE", given.reason).await?;
            return Ok(Step::Done);
        }
        release(self.outside, &self.lease, &self.at, given).await?;
        Ok(Step::Done)
    }

    pub(super) async fn pass_died(&mut self, reason: String) -> Result<Step, Halt> {
        match self.pass.died() {
            Died::Again => self.next_pass(reason).await,
            Died::Split => self.split_or_go_on(2, reason).await,
            Died::GiveUp => {
                self.give_up(reason).await?;
                Ok(Step::Done)
            }
        }
    }

    /// What a pass came to: proof, another pass, smaller slices, or giving up.
    pub(super) async fn after_pass(&mut self, end: PassEnd) -> Result<Step, Halt> {
        match end {
            PassEnd::Proven => {
                self.succeed().await?;
                Ok(Step::Done)
            }
            PassEnd::Again { reason } => self.next_pass(reason).await,
            PassEnd::Split { parts, reason } => self.split_or_go_on(parts, reason).await,
            PassEnd::GiveUp { reason } => {
                self.give_up(reason).await?;
                Ok(Step::Done)
            }
        }
    }

    /// Between two pages: a slice that strains is cut while much of it is left (8.4). True when it was.
    pub(super) async fn relieve(&mut self) -> Result<bool, Halt> {
        let wide = self.task.part.is_none() && self.task.window.width() > self.spec().window.min;
        if !wide || !matches!(self.place, Some(Place::Search(_))) || self.pass.pages() == 0 || self.refreshes() {
            return Ok(false);
        }
        let strain = Strain {
            took: self.outside.clock.now().since(self.begun_at),
            pages_read: self.pass.pages(),
            pages_left: self.pass.pages_left(),
            kept: self.prefix().is_some(),
            ..self.strain
        };
        let Some(reason) = strain.relief(&self.outside.settings.thresholds) else { return Ok(false) };
        let Some(cut) = self.cut(2) else { return Ok(false) };
        self.split_into(cut, reason).await?;
        Ok(true)
    }

    async fn split_or_go_on(&mut self, parts: u64, reason: String) -> Result<Step, Halt> {
        match self.cut(parts) {
            Some(cut) => self.split_into(cut, reason).await,
            None => self.next_pass(reason).await,
        }
    }

    /// INV-12: cut by time down to the grain, then by the second key, else fail loudly.
    pub(super) async fn split(&mut self, parts: u64, reason: String) -> Result<Step, Halt> {
        match self.cut(parts) {
            Some(cut) => self.split_into(cut, reason).await,
            None => {
                self.fail("OVERFLOW", format!("{reason}; the window cannot be cut any further")).await?;
                Ok(Step::Done)
            }
        }
    }

    fn cut(&self, parts: u64) -> Option<Cut> {
        let (window, part, spec) = (self.task.window, self.task.part.as_ref(), &self.spec().window);
        let prefix = self.prefix().map(|(_, prefix, _)| prefix);
        split::cut(spec, window, part, prefix, parts, self.pass.sample())
    }

    /// What the order of the pages proves. A pass that came to its end proves itself or nothing, and a part of a
    /// window proves no time.
    fn prefix(&self) -> Option<(Window, Prefix, Window)> {
        let unfinished = self.place.is_some() && self.task.part.is_none();
        self.pass.cut_at_prefix().filter(|_| unfinished)
    }

    async fn split_into(&mut self, cut: Cut, reason: String) -> Result<Step, Halt> {
        let count = cut.children.len();
        let proven = cut.proven.map(|(window, prefix)| self.proven_slice(window, prefix));
        let split = Split { reason: reason.clone(), proven, children: self.slices(&cut.children) };
        self.outside.ledger.split_slice(&self.lease, split).await?;
        self.tell(Notice::SliceSplit { task: self.task.id, children: count, reason });
        Ok(Step::Done)
    }

    fn slices(&self, children: &[Child]) -> Vec<NewSlice> {
        let now = self.outside.ledger.database_now();
        build::slices(&self.plan, children, 0, self.task.priority, now, &self.outside.ids)
    }

    fn proven_slice(&self, window: Window, prefix: Prefix) -> ProvenSlice {
        ProvenSlice {
            slice: self.slices(&[Child { window, part: None }]).remove(0),
            read_at: prefix.read_at,
            source_behind: self.source_behind,
        }
    }

    fn cut_at_prefix(&self) -> Option<Box<CutAtPrefix>> {
        let (window, prefix, rest) = self.prefix()?;
        let rest = self.slices(&[Child { window: rest, part: None }]).remove(0);
        Some(Box::new(CutAtPrefix { proven: self.proven_slice(window, prefix), rest }))
    }

    /// T2.
    pub(super) async fn succeed(&mut self) -> Result<(), Halt> {
        let outcome = SliceOutcome::Succeeded {
            read_at: self.read_at(),
            source_behind: self.source_behind,
            remarks: json!({
                "passes": self.pass.pass_no(),
                "pages": self.pass.pages(),
                "distinct": self.pass.distinct(),
                "total": self.pass.last_total(),
                "proof": self.pass.proof().map(Proof::code),
            }),
        };
        let finished = self.outside.ledger.finish_slice(&self.lease, outcome).await?;
        self.tell(Notice::SliceSucceeded {
            task: self.task.id,
            window: self.task.window,
            watermark: finished.moved.map(|(_, to)| to),
        });
        Ok(())
    }

    /// The source's time that the proof of the slice speaks of.
    fn read_at(&self) -> Timestamp {
        let now = self.outside.ledger.database_now();
        if planted(Defect::ReadAtEnd) {
            return now.plus(Span::HOUR);
        }
        self.pass.proven_at().unwrap_or(now)
    }

    pub(super) async fn give_up(&mut self, reason: String) -> Result<(), Halt> {
        let outcome = SliceOutcome::Partial { reason: reason.clone(), prefix: self.cut_at_prefix() };
        self.end(outcome, "PARTIAL", reason).await
    }

    pub(super) async fn fail(&mut self, class: &str, reason: String) -> Result<(), Halt> {
        if planted(Defect::FailedCounts) {
            return self.succeed().await;
        }
        self.end(self.failed(class, &reason, false), class, reason).await
    }

    /// Asking again gives the same until a person acts, for every task of the endpoint: its fuse blows (L4).
    async fn stop_source(&mut self, reason: String) -> Result<Step, Halt> {
        let class = ErrorClass::Fatal.name();
        self.end(self.failed(class, &reason, true), class, reason.clone()).await?;
        let (provenance, endpoint) = (&self.plan.spec.provenance, &self.plan.spec.endpoint);
        tracing::error!("{provenance}/{endpoint} is stopped until `patra source resume {provenance}`: {reason}");
        self.tell(Notice::SourceStopped { reason });
        Ok(Step::Done)
    }

    fn failed(&self, class: &str, reason: &str, stops_source: bool) -> SliceOutcome {
        let (class, reason) = (class.to_owned(), reason.to_owned());
        SliceOutcome::Failed { class, reason, prefix: self.cut_at_prefix(), stops_source }
    }

    async fn end(&mut self, outcome: SliceOutcome, name: &str, reason: String) -> Result<(), Halt> {
        self.outside.ledger.finish_slice(&self.lease, outcome).await?;
        self.tell(Notice::SliceEnded {
            task: self.task.id,
            window: self.task.window,
            outcome: name.to_owned(),
            reason,
        });
        Ok(())
    }

    /// The batch of a single id that the source refuses: no records, the id noted as missing.
    pub(super) fn refused_commit(
        &mut self,
        asked: Vec<(String, Lack)>,
        after: Option<&Place>,
        error: &FetchError,
    ) -> BatchCommit {
        let now = self.outside.ledger.database_now();
        let page = Page {
            items: Vec::new(),
            bad: Vec::new(),
            total: None,
            has_more: None,
            next_token: None,
            next_url: None,
            body: Default::default(),
            response_hash: Default::default(),
            asked_at: now,
            fetched_at: now,
            source_date: None,
            status: 0,
            rate: RateHints::default(),
            request_digest: json!({}),
            response_digest: json!({ "refused": error.to_string() }),
            latency: Span::ZERO,
            decode: Span::ZERO,
        };
        let mut commit = self.page_commit(Fetched { page, tries: Tries::default() }, after, true);
        commit.response_hash = None;
        commit.missing = asked;
        commit
    }
}

async fn release(outside: &Outside, lease: &Lease, at: &Partition, release: Release) -> Result<(), LedgerError> {
    let (due_at, reason) = (release.due_at, release.reason.clone());
    outside.ledger.release(lease, release).await?;
    outside.notices.tell(at, Notice::TaskReleased { task: lease.task, due_at, reason });
    Ok(())
}

/// After a failure of the database: try to hand the task back; if that fails too, the lease runs out by itself.
///
/// A database that is away is waited for. One that refuses what we write would refuse it again: that counts, and
/// after a few times the slice fails instead of coming back for ever.
pub(super) async fn give_back_after_error(
    outside: &Outside,
    lease: &Lease,
    task: &Task,
    at: &Partition,
    error: &LedgerError,
) {
    let failed = !matches!(error, LedgerError::Unavailable { .. } | LedgerError::Struck(_));
    let given_back = if failed && task.failure_count + 1 >= outside.settings.failures_max {
        let outcome = SliceOutcome::Failed {
            class: "REFUSED".into(),
            reason: error.to_string(),
            prefix: None,
            stops_source: false,
        };
        outside.ledger.finish_slice(lease, outcome).await.map(drop)
    } else {
        let due_at = outside.ledger.database_now().plus(Span::SECOND);
        let given = Release { due_at, reason: error.to_string(), failed, circuit_open: false };
        release(outside, lease, at, given).await
    };
    if let Err(second) = given_back {
        tracing::warn!(task.id = %lease.task, "task {} was not given back, its lease runs out: {second}", lease.task);
    }
}

/// SIGTERM gives the lease back at once and spends no attempt (INV-55).
pub(super) async fn give_back_on_shutdown(outside: &Outside, lease: &Lease, at: &Partition) {
    let due_at = outside.ledger.database_now();
    let given = Release { due_at, reason: "SHUTDOWN".into(), failed: false, circuit_open: false };
    if outside.failpoints.hit("shutdown.begin").is_ok() && release(outside, lease, at, given).await.is_err() {
        tracing::warn!(task.id = %lease.task, "task {} was not given back, its lease runs out", lease.task);
    }
}

/// The source was stopped: the task waits for the one who lets it go on, and keeps its attempts.
pub(super) async fn give_back_stopped(outside: &Outside, lease: &Lease, at: &Partition) {
    let due_at = outside.ledger.database_now();
    let given = Release { due_at, reason: "STOPPED".into(), failed: false, circuit_open: false };
    if release(outside, lease, at, given).await.is_err() {
        tracing::warn!(task.id = %lease.task, "task {} was not given back, its lease runs out", lease.task);
    }
}
