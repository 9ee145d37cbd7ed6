//! One page from the source: through the gate, with the retries the source's policy allows.

use futures::FutureExt;
use patra_core::page::{Page, PageAsk};
use patra_core::ports::{Decision, Lease, Permit, RateKey, RejectReason, Signal};
use patra_core::spec::errors::{ErrorClass, FetchError, classify};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_core::time::{Span, Timestamp};
use tokio_util::sync::CancellationToken;

use super::Outside;
use crate::notice::Notice;

/// A permit older than this is not used any more.
const PERMIT_FRESH: Span = Span::from_millis(40);

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
    Shutdown,
    /// A failpoint of a test.
    Struck(patra_core::failpoint::Struck),
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub outside: &'a Outside,
    pub stop: &'a CancellationToken,
    pub provenance: &'a str,
    /// Leases were lost at this page before: the ledger is told when it is asked for.
    pub doubtful: Option<&'a Lease>,
}

/// Asks until there is a page or the policy says stop. Waiting for the gate is not a try.
pub(crate) async fn fetch(asker: Asker<'_>, ask: &PageAsk) -> Result<Fetched, NoPage> {
    let Asker { outside, stop, provenance, .. } = asker;
    let mut tries = Tries::default();
    loop {
        let result = once(asker, ask, &mut tries).await?;
        let (class, error) = match result {
            Ok(page) => return Ok(Fetched { page, tries }),
            Err(error) => (classify(&error, &ask.spec.retry.statuses), error),
        };
        let Some(delay) = retry_delay(outside, ask, class, tries.requests) else {
            return Err(NoPage::Failed { class, error });
        };
        if delay > outside.settings.park_after {
            return Err(NoPage::Later { at: outside.clock.now().plus(delay), reason: error.to_string() });
        }
        outside.notices.tell(Notice::Retried {
            provenance: provenance.to_owned(),
            task: patra_core::id::Id::default(),
            delay,
            reason: error.to_string(),
        });
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
    let wanted = until.map_or(Span::ZERO, |until| until.since(outside.clock.now()));
    Some(backoff.max(wanted))
}

async fn once(asker: Asker<'_>, ask: &PageAsk, tries: &mut Tries) -> Result<Result<Page, FetchError>, NoPage> {
    let Asker { outside, stop, provenance, .. } = asker;
    let asked = outside.clock.now();
    let permit = loop {
        let permit = permit(outside, stop, ask).await?;
        outside.failpoints.hit("fetch.before").map_err(NoPage::Struck)?;
        mark_doubtful(asker, tries).await;
        if outside.clock.now().since(permit.granted_at) <= PERMIT_FRESH {
            break permit;
        }
        outside.gate.feedback(permit, Signal::Ok).await;
    };
    tries.waited = tries.waited.plus(outside.clock.now().since(asked));
    tries.requests += 1;
    outside.notices.tell(Notice::RequestSent { provenance: provenance.to_owned() });
    let asked_at = outside.ledger.database_now();
    let result = outside.source.fetch(ask).await;
    let result = result.map(|page| dated(page, asked_at, outside.ledger.database_now()));
    let signal = signal_of(&result, &ask.spec);
    if let Signal::Throttled { retry_after } = &signal {
        tries.throttled += 1;
        outside.notices.tell(Notice::Throttled { provenance: provenance.to_owned(), until: *retry_after });
    }
    outside.gate.feedback(permit, signal).await;
    outside.failpoints.hit("fetch.after").map_err(NoPage::Struck)?;
    Ok(result)
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

/// Waits for a permit of the gate.
async fn permit(outside: &Outside, stop: &CancellationToken, ask: &PageAsk) -> Result<Permit, NoPage> {
    let key = RateKey::of(&ask.spec);
    let deadline = outside.clock.now().plus(outside.settings.gate_deadline);
    loop {
        match outside.gate.acquire(&key, &ask.spec.rate, deadline).await {
            Decision::Allow(permit) => return Ok(permit),
            Decision::WaitUntil(until) => pause(outside, stop, until.since(outside.clock.now())).await?,
            Decision::Reject(RejectReason::OverDeadline { free_at }) => {
                return Err(NoPage::Later { at: free_at, reason: "no permit of the gate before the deadline".into() });
            }
            Decision::Reject(RejectReason::QuotaEmpty { reset_at }) => {
                return Err(NoPage::Later { at: reset_at, reason: "the budget is empty".into() });
            }
        }
    }
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
