//! One run of one task: pages in order, each committed before it counts, the next one fetched meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patra_core::hash::Hash32;
use patra_core::healing::{Site, Strain, Vital};
use patra_core::page::{Page, PageAsk, PageStep, Position};
use patra_core::pass::{Accepted, Pass, Place};
use patra_core::pointer::Pointers;
use patra_core::ports::{BatchCommit, Lease, Leased, LedgerError, NewPass, OpenBatch, Partition, PlanView, Task};
use patra_core::spec::expression::RecordFilter;
use patra_core::spec::hashes;
use patra_core::spec::snapshot::{Operation, PagingKind, SpecSnapshot};
use patra_core::time::{Span, Timestamp};
use tokio_util::sync::CancellationToken;

use super::fetch::{Asker, Fetched, NoPage, Tries, fetch, pause};
use super::healer::Probe;
use super::{Desk, Halt, Outside};
use crate::notice::Notice;

/// Wait before an empty page is asked for again.
const EMPTY_PAUSE: Span = Span::from_seconds(2);

pub(crate) struct Reading<'a> {
    pub(super) outside: &'a Outside,
    pub(super) stop: &'a CancellationToken,
    pub(super) desk: &'a Desk,
    site: Site,
    pub(super) at: Partition,
    probe: Probe,
    pub(super) plan: Arc<PlanView>,
    pub(super) lease: Lease,
    pub(super) task: Task,
    pub(super) mapping_hash: Hash32,
    /// What the source could not be asked, asked of every record.
    pub(super) filter: Option<RecordFilter>,
    /// Where records point to others.
    pub(super) pointers: Pointers,
    pub(super) pass: Pass,
    /// The RUNNING row of the page to be read next.
    pub(super) batch: OpenBatch,
    /// What that page is; `None` when the pass has reached its end.
    pub(super) place: Option<Place>,
    /// Ids of the search batch whose details are being read.
    pub(super) id_list: Option<(patra_core::id::Id, Arc<Vec<String>>)>,
    /// Most ids in the next detail request; halved while a request is refused.
    pub(super) detail_size: usize,
    /// Ids of this run that the detail endpoint refused alone, and those it answered.
    pub(super) refused_ids: u64,
    pub(super) answered_ids: u64,
    pub(super) source_behind: Span,
    /// When the last page was committed, on any run.
    last_commit_at: Option<Timestamp>,
    resumed: bool,
    /// Items asked for on a page, for this pass.
    pub(super) page_size: u32,
    pub(super) begun_at: Timestamp,
    /// What this run's requests came to.
    pub(super) strain: Strain,
    /// Pages committed by this run.
    progress: Arc<AtomicU64>,
}

/// A page fetched while the one before it was committed.
pub(super) type Ahead = Option<Box<Result<Fetched, NoPage>>>;

/// What a step leads to.
pub(super) enum Step {
    /// Go on; the next page may have been fetched already.
    On(Ahead),
    Done,
}

impl<'a> Reading<'a> {
    /// Rebuilds the reading from what the ledger holds.
    pub fn begin(
        outside: &'a Outside,
        stop: &'a CancellationToken,
        desk: &'a Desk,
        plan: Arc<PlanView>,
        leased: Leased,
    ) -> Result<Reading<'a>, Halt> {
        let nonsense = |error: patra_core::pass::NotAPlace| {
            let (row, message) = (leased.batch.id.0, error.to_string());
            LedgerError::Corrupt { table: "ing_task_run_batch", column: "before_token".into(), row, message }
        };
        let pass = Pass::resume(plan.spec.clone(), leased.task.window, leased.batch.pass_no, &leased.trace)
            .map_err(nonsense)?;
        let last = leased.trace.last().filter(|batch| batch.pass_no == leased.batch.pass_no);
        let ended = last.is_some_and(|batch| batch.after_token.is_none());
        let place = if ended { None } else { Some(Place::from_token(&leased.batch.before_token).map_err(nonsense)?) };
        let filter = RecordFilter::of(&plan.spec).map_err(|error| LedgerError::Corrupt {
            table: "ing_plan",
            column: "spec_snapshot".into(),
            row: plan.id.0,
            message: error.message,
        })?;
        let detail_size = plan.spec.detail.as_ref().map_or(1, |detail| detail.id_batch_size.max(1) as usize);
        let page_size = desk.vitals.page_size(&plan.spec);
        Ok(Reading {
            outside,
            stop,
            desk,
            site: Site::of(&plan.spec),
            at: Partition::of(&plan.spec),
            probe: Probe::new(leased.probe),
            mapping_hash: hashes::mapping_hash(&plan.spec),
            filter,
            pointers: Pointers::of(plan.spec.record_response()),
            plan,
            lease: leased.lease,
            task: leased.task,
            pass,
            batch: leased.batch,
            place,
            id_list: None,
            detail_size,
            refused_ids: 0,
            answered_ids: 0,
            source_behind: Span::ZERO,
            last_commit_at: last.map(|batch| batch.committed_at),
            resumed: last.is_some(),
            page_size,
            begun_at: outside.clock.now(),
            strain: Strain::default(),
            progress: Arc::default(),
        })
    }

    pub(super) fn tell(&self, notice: Notice) {
        self.outside.notices.tell(&self.at, notice);
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn progress(&self) -> Arc<AtomicU64> {
        self.progress.clone()
    }

    pub async fn run(&mut self) -> Result<(), Halt> {
        if self.task.lost_count >= self.outside.settings.lost_max {
            let reason = format!("{} runs in a row were lost at the same page", self.task.lost_count);
            return self.fail("POISON", reason).await;
        }
        let mut ahead = match self.take_up().await? {
            Step::On(ahead) => ahead,
            Step::Done => return Ok(()),
        };
        loop {
            let step = match self.place.clone() {
                None => self.after_pass(self.pass.end()).await?,
                Some(place) => {
                    let got = match ahead.take() {
                        Some(got) => *got,
                        None => self.get(&place).await?,
                    };
                    match got {
                        Ok(fetched) => self.take(place, fetched).await?,
                        Err(no_page) => self.without_page(place, no_page).await?,
                    }
                }
            };
            match step {
                Step::On(fetched) => ahead = fetched,
                Step::Done => return Ok(()),
            }
            if self.relieve().await? {
                return Ok(());
            }
        }
    }

    /// A run that goes on in the middle of a pass first makes sure that the pass still stands (INV-29, INV-31).
    async fn take_up(&mut self) -> Result<Step, Halt> {
        let Some(place) = self.place.clone().filter(|_| self.resumed) else { return Ok(Step::On(None)) };
        let paging = &self.plan.spec.pagination;
        let Place::Search(_) = place else { return Ok(Step::On(None)) };
        let idle = self.last_commit_at.map_or(Span::ZERO, |at| self.outside.ledger.database_now().since(at));
        if !paging.replayable {
            return self.next_pass("a cursor that cannot be asked twice does not outlive its run".into()).await;
        }
        if paging.ttl.is_some_and(|ttl| idle >= ttl) {
            return self.next_pass("the cursor outlived its life-time".into()).await;
        }
        if matches!(paging.kind, PagingKind::Offset | PagingKind::Page) {
            return self.compare_last_page().await;
        }
        Ok(Step::On(None))
    }

    /// Reads the last committed page once more, without a ledger row; other ids mean that the set has moved.
    async fn compare_last_page(&mut self) -> Result<Step, Halt> {
        let Some(last) = self.pass.last_position().cloned() else { return Ok(Step::On(None)) };
        let place = Place::Search(last);
        match self.get(&place).await? {
            Ok(fetched) if patra_core::pass::page_ids(&fetched.page) == self.pass.last_page() => Ok(Step::On(None)),
            Ok(_) => self.next_pass("the last committed page has changed since".into()).await,
            Err(no_page) => self.without_page(place, no_page).await,
        }
    }

    /// Asks the source for a place.
    async fn get(&mut self, place: &Place) -> Result<Result<Fetched, NoPage>, Halt> {
        if self.stop.is_cancelled() {
            return Err(Halt::Shutdown);
        }
        if matches!(place, Place::Search(_)) && self.refreshes() {
            let page = Page::of_ids(&self.task.ids, self.outside.ledger.database_now());
            return Ok(Ok(Fetched { page, tries: Tries::default() }));
        }
        let ask = self.ask(place).await?;
        // Nothing was committed since the claim, so the losses that it counted are losses at this page.
        let doubtful = self.task.lost_count > 0 && self.progress.load(Ordering::Relaxed) == 0;
        let asker = Asker { doubtful: doubtful.then_some(&self.lease), ..self.asker() };
        Ok(fetch(asker, &ask).await)
    }

    fn asker(&self) -> Asker<'_> {
        Asker {
            outside: self.outside,
            stop: self.stop,
            door: &self.desk.door,
            purse: &self.desk.purse,
            keyring: &self.desk.keyring,
            healer: &self.desk.healer,
            vitals: &self.desk.vitals,
            site: &self.site,
            partition: &self.at,
            probe: &self.probe,
            doubtful: None,
        }
    }

    pub(super) async fn ask(&mut self, place: &Place) -> Result<PageAsk, Halt> {
        let step = match place {
            Place::Search(position) => PageStep::Search { position: position.clone(), size: self.page_size },
            Place::Detail(detail) => PageStep::Detail { ids: self.detail_ids(detail).await? },
        };
        Ok(PageAsk {
            spec: self.plan.spec.clone(),
            window: self.task.window,
            part: self.task.part.clone(),
            as_of: self.plan.window.to(),
            step,
            received: self.pass.received(),
            correlation: format!("ing-{}-{}", self.lease.run, self.batch.batch_no),
        })
    }

    async fn take(&mut self, place: Place, fetched: Fetched) -> Result<Step, Halt> {
        self.outside.failpoints.hit("page.parsed").map_err(LedgerError::from)?;
        self.strain.requests += u64::from(fetched.tries.requests);
        self.strain.throttled += u64::from(fetched.tries.throttled);
        self.strain.body_bytes = self.strain.body_bytes.max(fetched.page.body.len() as u64);
        let spoilt = matches!(place, Place::Search(_)) && self.pass.is_spoilt(&fetched.page);
        if let Some(reason) = self.systemic(&fetched).filter(|_| !spoilt) {
            self.fail("SYSTEMIC", reason).await?;
            return Ok(Step::Done);
        }
        match place {
            Place::Search(position) => self.take_search(position, fetched).await,
            Place::Detail(detail) => self.take_detail(detail, fetched).await,
        }
    }

    async fn take_search(&mut self, position: Position, fetched: Fetched) -> Result<Step, Halt> {
        let source_now = self.source_now(&fetched);
        if self.refreshes() {
            self.pass.accept_listed(&position, &fetched.page, source_now);
            let after = self.after_search(&fetched, None);
            let mut commit = self.search_commit(fetched, after.as_ref());
            commit.response_hash = None;
            return self.commit(commit, after).await;
        }
        match self.pass.accept(&position, &fetched.page, source_now) {
            Accepted::Commit { next } => {
                let after = self.after_search(&fetched, next);
                let commit = self.search_commit(fetched, after.as_ref());
                self.commit(commit, after).await
            }
            Accepted::AskAgain => {
                self.pass.asked_again();
                match pause(self.outside, self.stop, EMPTY_PAUSE).await {
                    Ok(()) => Ok(Step::On(None)),
                    Err(no_page) => self.without_page(Place::Search(position), no_page).await,
                }
            }
            Accepted::NewPass { reason } => self.after_pass(self.pass.unproven(reason)).await,
            Accepted::Split { parts, reason } => self.split(parts, reason).await,
            Accepted::Fail { class, reason } => {
                self.fail(class, reason).await?;
                Ok(Step::Done)
            }
        }
    }

    /// T1, with the next page fetched meanwhile.
    pub(super) async fn commit(&mut self, commit: BatchCommit, after: Option<Place>) -> Result<Step, Halt> {
        let next = commit.next.clone();
        let ask = match &after {
            Some(place) if !self.stop.is_cancelled() => Some(self.ask(place).await?),
            _ => None,
        };
        let (outside, committing) = (self.outside, self.committed(commit));
        let (committed, ahead) = match &ask {
            Some(ask) => {
                let fetching = fetch(self.asker(), ask);
                let (committed, got) = futures::join!(committing, fetching);
                (committed, Some(Box::new(got)))
            }
            None => (committing.await, None),
        };
        match committed {
            // The page holds what no part of it can be kept apart for; asking again would give the same page.
            Err(LedgerError::Data { message }) => {
                self.fail("REFUSED", message).await?;
                return Ok(Step::Done);
            }
            other => other?,
        }
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.last_commit_at = Some(outside.ledger.database_now());
        if let Some(next) = next {
            self.batch = next;
        }
        self.place = after;
        Ok(Step::On(ahead))
    }

    /// Commits, and tells it at once and not when the page fetched meanwhile is there too.
    async fn committed(&self, commit: BatchCommit) -> Result<(), LedgerError> {
        let (batch, total) = (commit.batch.id, commit.total);
        let bytes = commit.stats.get("bytesIn").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let latency =
            commit.stats.get("latencyMs").and_then(serde_json::Value::as_i64).map_or(Span::ZERO, Span::from_millis);
        let begun = self.outside.clock.now();
        let counts = self.outside.ledger.commit_batch(&self.lease, commit).await?.counts;
        let took = self.outside.clock.now().since(begun);
        self.desk.vitals.note(self.outside, &self.plan.spec, Vital::Committed { took }).await;
        self.tell(Notice::BatchCommitted { task: self.task.id, batch, counts, total, bytes, took: latency.plus(took) });
        Ok(())
    }

    /// Gives up this pass and goes on at the first page of the next.
    pub(super) async fn next_pass(&mut self, reason: String) -> Result<Step, Halt> {
        let first = Pass::first_place(&self.plan.spec, self.task.window);
        let batch = OpenBatch {
            id: self.outside.ids.next(),
            batch_no: self.batch.batch_no + 1,
            pass_no: self.pass.pass_no() + 1,
            seq_no: 0,
            phase: first.phase(),
            before_token: first.to_token(),
        };
        let pass = NewPass { abandoned: self.batch.id, first: batch.clone(), reason: reason.clone() };
        self.outside.ledger.begin_pass(&self.lease, pass).await?;
        self.pass.turn_page_over();
        self.tell(Notice::PassBegan { task: self.task.id, pass_no: batch.pass_no, reason });
        self.batch = batch;
        self.place = Some(first);
        self.page_size = self.desk.vitals.page_size(&self.plan.spec);
        self.id_list = None;
        Ok(Step::On(None))
    }

    /// The ids are known: there is nothing to search for.
    pub(super) fn refreshes(&self) -> bool {
        self.task.operation == Operation::Update
    }

    pub(super) fn spec(&self) -> &SpecSnapshot {
        &self.plan.spec
    }
}
