//! One page from the source: through the gate, with the retries the source's policy allows.

use futures::FutureExt;
use patra_core::gate::jittered;
use patra_core::gate::slots::SLOT_LIFE;
use patra_core::healing::Site;
use patra_core::page::{Page, PageAsk};
use patra_core::pass::{asks_too_much, may_be_too_large};
use patra_core::ports::{Lease, Partition, Permit, Signal};
use patra_core::spec::errors::{ErrorClass, FetchError, classify};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_core::time::{Span, Timestamp};
use tokio_util::sync::CancellationToken;

use super::Outside;
use super::door::{Door, permit};
use super::healer::{AskedAt, Healer, Probe};
use super::keyring::Keyring;
use super::purse::Purse;
use super::vitals::{PartitionVitals, vital_of};
use crate::notice::Notice;

/// A permit older than this is not used any more: what it waited for in this process comes on top of a slot's life.
const PERMIT_FRESH: Span = SLOT_LIFE.plus(Span::from_millis(10));
/// A budget comes back within a day; a header that says otherwise was misread.
const RESET_MAX: Span = Span::DAY;
/// How long a source that says 429 without a time is left alone.
const BLIND_PAUSE: Span = Span::SECOND;

/// A page, with what it cost to get.
pub(crate) struct Fetched {
    pub page: Page,
    pub tries: Tries,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    pub requests: u32,
    pub throttled: u32,
    pub waited: Span,
    /// Of the last request, in millionths of the declared rate.
    pub pace: i64,
    /// The credential was refused or is used up, and there is another.
    another_key: bool,
    /// The ledger knows that the page is asked for.
    marked: bool,
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum NoPage {
    /// The source's answers, after all tries.
    Failed {
        class: ErrorClass,
        error: FetchError,
    },
    /// Waiting longer than a worker should: come back then.
    Later {
        at: Timestamp,
        reason: String,
    },
    /// The circuit of the endpoint is open: nobody asks before this, on the database clock.
    Barred {
        until: Timestamp,
        reason: String,
        /// The source has answered others lately.
        answers: bool,
    },
    Shutdown,
    /// A failpoint of a test.
    Struck(patra_core::failpoint::Struck),
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub outside: &'a Outside,
    pub stop: &'a CancellationToken,
    pub door: &'a Door,
    pub purse: &'a Purse,
    pub keyring: &'a Keyring,
    pub healer: &'a Healer,
    pub vitals: &'a PartitionVitals,
    pub site: &'a Site,
    pub partition: &'a Partition,
    pub probe: &'a Probe,
    /// Leases were lost at this page before: the ledger is told when it is asked for.
    pub doubtful: Option<&'a Lease>,
}

impl<'a> Asker<'a> {
    fn at(self) -> AskedAt<'a> {
        AskedAt { outside: self.outside, site: self.site, partition: self.partition, probe: self.probe }
    }

    fn tell(self, notice: Notice) {
        self.outside.notices.tell(self.partition, notice);
    }
}

/// Asks until there is a page or the policy says stop. Waiting for the gate is not a try.
pub(crate) async fn fetch(asker: Asker<'_>, ask: &PageAsk) -> Result<Fetched, NoPage> {
    let Asker { outside, stop, .. } = asker;
    let mut tries = Tries::default();
    asker.healer.first(asker.at());
    loop {
        asker.healer.may_ask(asker.at()).await?;
        let result = once(asker, ask, &mut tries).await?;
        let (class, error) = match result {
            Ok(page) => {
                asker.healer.answered(asker.at()).await;
                return Ok(Fetched { page, tries });
            }
            Err(error) => (classify(&error, &ask.spec.retry.statuses), error),
        };
        // The source refuses one credential and not us: another one is asked with.
        if tries.another_key {
            continue;
        }
        if asks_too_much(ask, &error, tries.requests) {
            return Err(NoPage::Failed { class, error });
        }
        // A page that may be too large says nothing about the source.
        if !may_be_too_large(ask, &error)
            && let Some(barred) = asker.healer.failed(asker.at(), &error, class).await
        {
            return Err(barred);
        }
        let Some(delay) = retry_delay(outside, ask, class, tries.requests) else {
            return Err(NoPage::Failed { class, error });
        };
        // A cursor that cannot be asked twice would not outlive the wait: it keeps its turn.
        if ask.spec.pagination.replayable && !asker.healer.may_retry(asker.at()) {
            return Err(NoPage::Failed { class, error });
        }
        if delay > outside.settings.park_after {
            return Err(NoPage::Later { at: outside.clock.now().plus(delay), reason: error.to_string() });
        }
        asker.tell(Notice::Retried { delay, reason: error.to_string() });
        pause(outside, stop, delay).await?;
    }
}

/// How long to wait before the next try; `None` when another try is not allowed or not sensible.
fn retry_delay(outside: &Outside, ask: &PageAsk, class: ErrorClass, requests: u32) -> Option<Span> {
    let retry = &ask.spec.retry;
    let until = match class {
        // A cursor that cannot be asked twice has moved on if the answer was given.
        ErrorClass::Transient { lost } if !lost || ask.is_repeatable() => None,
        ErrorClass::Throttled { until } => until,
        ErrorClass::Quota { until: Some(until) } => Some(until),
        _ => return None,
    };
    if requests >= retry.attempts {
        return None;
    }
    let grown = retry.first.micros() as f64 * retry.factor.powi(i32::try_from(requests).unwrap_or(30) - 1);
    let capped = grown.min(retry.longest.micros() as f64);
    let spread = 1.0 + retry.jitter * (2.0 * outside.random.fraction() - 1.0);
    let backoff = Span::from_micros((capped * spread) as i64);
    // Never before Retry-After; jitter only adds.
    let wanted =
        until.map_or(Span::ZERO, |until| jittered(until.since(outside.clock.now()), outside.random.fraction()));
    Some(backoff.max(wanted))
}

/// When the gate may let something through again after a refusal.
fn resumes_at(outside: &Outside, retry_after: Option<Timestamp>) -> Timestamp {
    let now = outside.clock.now();
    let wait = retry_after.map_or(BLIND_PAUSE, |until| until.since(now).max(Span::ZERO));
    now.plus(jittered(wait, outside.random.fraction()))
}

async fn once(asker: Asker<'_>, ask: &PageAsk, tries: &mut Tries) -> Result<Result<Page, FetchError>, NoPage> {
    let outside = asker.outside;
    let asked = outside.clock.now();
    let (ask, permit) = loop {
        let (ask, paid) = asker.keyring.paid(asker, ask).await?;
        let ask = &*ask;
        let allowed = admitted(asker, ask, tries).await;
        let permit = allowed.inspect_err(|_| asker.purse.put_back(&ask.spec, paid))?;
        let fresh = outside.clock.now().since(permit.granted_at) <= PERMIT_FRESH;
        if fresh && paid.counts(outside.ledger.database_now()) {
            break (ask.clone(), permit);
        }
        asker.purse.put_back(&ask.spec, paid);
        outside.gate.feedback(permit, Signal::Transient).await;
    };
    tries.waited = tries.waited.plus(outside.clock.now().since(asked));
    tries.requests += 1;
    tries.pace = permit.pace;
    asker.tell(Notice::RequestSent);
    let asked_at = outside.ledger.database_now();
    let ask = &ask;
    let result = outside.source.fetch(ask).await;
    let result = result.map(|page| dated(page, asked_at, outside.ledger.database_now()));
    let mut signal = signal_of(&result, &ask.spec);
    if let Signal::Throttled { retry_after } = &mut signal {
        tries.throttled += 1;
        asker.tell(Notice::Throttled { until: *retry_after });
        *retry_after = Some(resumes_at(outside, *retry_after));
    }
    if let Signal::Remaining { reset_at: Some(reset_at), .. } = &mut signal {
        *reset_at = (*reset_at).min(outside.clock.now().plus(RESET_MAX));
    }
    match &result {
        Ok(page) => {
            asker.tell(Notice::Answered { latency: page.latency });
            asker.door.hear(&ask.spec, &page.rate, outside.clock.now());
        }
        Err(error) => asker.tell(Notice::Failed { level: classify(error, &ask.spec.retry.statuses).level() }),
    }
    outside.gate.feedback(permit, signal).await;
    tries.another_key = asker.keyring.hear(asker, &ask.spec, &result);
    if let Some(vital) = vital_of(&result, &ask.spec) {
        asker.vitals.note(outside, &ask.spec, vital).await;
    }
    outside.failpoints.hit("fetch.after").map_err(NoPage::Struck)?;
    Ok(result)
}

/// A permit of the gate, for a page that may still be asked for.
async fn admitted(asker: Asker<'_>, ask: &PageAsk, tries: &mut Tries) -> Result<Permit, NoPage> {
    let outside = asker.outside;
    let permit = permit(asker, ask).await?;
    outside.failpoints.hit("fetch.before").map_err(NoPage::Struck)?;
    mark_doubtful(asker, tries).await;
    if let Err(barred) = asker.healer.may_ask(asker.at()).await {
        // The circuit opened while this one waited.
        outside.gate.feedback(permit, Signal::Transient).await;
        return Err(barred);
    }
    Ok(permit)
}

/// Once for a page, and only where there is doubt: it costs a commit.
async fn mark_doubtful(asker: Asker<'_>, tries: &mut Tries) {
    let Some(lease) = asker.doubtful.filter(|_| !tries.marked) else { return };
    tries.marked = true;
    if let Err(error) = asker.outside.ledger.mark_asked(lease).await {
        // A lost lease shows at the next commit; without the mark the loss of this one would not count.
        tracing::warn!(task.id = %lease.task, "the page in doubt was not marked: {error}");
    }
}

/// Puts a page on the time line of the database. The executor's own clock may be anywhere, and versions of a record are
/// ordered by when they were fetched; the source's `Date` bounds that as it bounds what the reading proves, so a
/// database that runs ahead does not freeze a record (INV-13).
fn dated(page: Page, asked_at: Timestamp, fetched_at: Timestamp) -> Page {
    let told = page.source_date.map_or(fetched_at, |date| date.plus(Span::SECOND));
    let fetched_at = fetched_at.min(told);
    // Not later than it came, also when the clock was set back on the way.
    Page { asked_at: asked_at.min(fetched_at), fetched_at, ..page }
}

fn signal_of(result: &Result<Page, FetchError>, spec: &SpecSnapshot) -> Signal {
    match result {
        Ok(page) => match page.rate.remaining {
            Some(remaining) if spec.rate.respect_headers => {
                Signal::Remaining { remaining, reset_at: page.rate.reset_at }
            }
            _ => Signal::Ok,
        },
        Err(error) => match classify(error, &spec.retry.statuses) {
            ErrorClass::Throttled { until } | ErrorClass::Quota { until } => Signal::Throttled { retry_after: until },
            ErrorClass::Transient { .. } => Signal::Transient,
            _ => Signal::Ok,
        },
    }
}

/// Sleeps, unless the worker is told to stop.
pub(crate) async fn pause(outside: &Outside, stop: &CancellationToken, span: Span) -> Result<(), NoPage> {
    futures::select_biased! {
        () = stop.cancelled().fuse() => Err(NoPage::Shutdown),
        () = outside.clock.sleep(span.max(Span::from_micros(1))).fuse() => Ok(()),
    }
}
