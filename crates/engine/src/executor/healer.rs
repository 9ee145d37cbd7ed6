//! The healer of one process: it hears every answer, and keeps requests back when a source does not answer.
//!
//! What it decides is `patra_core::healing`; the circuit itself lies in the ledger, so that of a whole fleet one process
//! probes. A process that has heard of an open circuit asks the ledger before its next request, others pay nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patra_core::healing::{Circuit, CircuitEvent, CircuitState, RetryBudget, Site, Thresholds, tells_outage};
use patra_core::ports::{LedgerError, Partition};
use patra_core::spec::errors::{ErrorClass, FetchError};
use patra_core::time::{Span, Timestamp};

use super::Outside;
use super::fetch::NoPage;
use crate::notice::Notice;

/// A source that answered somebody within this is not out; a page that still fails is the page's fault.
const ANSWERS_LATELY: Span = Span::from_seconds(600);
/// A ledger that does not say whether a circuit is open is asked again after this.
const ASK_AGAIN: Span = Span::from_seconds(5);

#[derive(Default)]
pub(crate) struct Healer(Mutex<BTreeMap<Site, AtSite>>);

/// What this process knows of one endpoint.
#[derive(Debug, Default)]
struct AtSite {
    /// Failures since the last answer.
    in_a_row: u32,
    answered_at: Option<Timestamp>,
    /// The circuit as last seen, while it is not closed.
    circuit: Option<Circuit>,
    retries: RetryBudget,
}

/// The probe that a task was claimed with, until its first request has been answered or has failed.
#[derive(Debug, Default)]
pub(crate) struct Probe(Mutex<Option<Circuit>>);

impl Probe {
    pub fn new(circuit: Option<Circuit>) -> Probe {
        Probe(Mutex::new(circuit))
    }

    fn get(&self) -> Option<Circuit> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Circuit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What came of a change of the circuit.
enum Change {
    Ours(Circuit),
    /// Somebody was faster.
    Others(Circuit),
    None,
}

impl Change {
    fn is_ours(&self) -> bool {
        matches!(self, Change::Ours(_))
    }

    fn circuit(&self) -> Option<Circuit> {
        match self {
            Change::Ours(circuit) | Change::Others(circuit) => Some(*circuit),
            Change::None => None,
        }
    }
}

/// Who asks which endpoint.
#[derive(Clone, Copy)]
pub(crate) struct AskedAt<'a> {
    pub outside: &'a Outside,
    pub site: &'a Site,
    pub partition: &'a Partition,
    pub probe: &'a Probe,
}

impl Healer {
    /// Before a request: nobody asks a source whose circuit is open but the one who holds the probe.
    pub async fn may_ask(&self, at: AskedAt<'_>) -> Result<(), NoPage> {
        let held = at.probe.get();
        if held.is_none() && self.sites().get(at.site).is_none_or(|site| site.circuit.is_none()) {
            return Ok(());
        }
        let now = match at.outside.ledger.circuit(at.site).await {
            Ok(circuit) => circuit,
            Err(error) => return Err(unknown(at, &error)),
        };
        if held.is_some_and(|held| held.epoch == now.epoch) {
            return Ok(());
        }
        // A probe that took too long belongs to another.
        at.probe.take();
        self.remember(at.site, now);
        match now.state {
            CircuitState::Closed => Ok(()),
            _ => Err(self.barred(at, now, "the circuit is open")),
        }
    }

    /// A page is asked for the first time.
    pub fn first(&self, at: AskedAt<'_>) {
        self.sites().entry(at.site.clone()).or_default().retries.first(at.outside.clock.now());
    }

    /// Whether it may be asked for again at once (INV-50).
    pub fn may_retry(&self, at: AskedAt<'_>) -> bool {
        self.sites().entry(at.site.clone()).or_default().retries.may_retry(at.outside.clock.now())
    }

    /// After an answer, good or bad: the source is there.
    pub async fn answered(&self, at: AskedAt<'_>) {
        {
            let mut sites = self.sites();
            let site = sites.entry(at.site.clone()).or_default();
            site.in_a_row = 0;
            site.answered_at = Some(at.outside.clock.now());
        }
        let Some(held) = at.probe.take() else { return };
        if self.change(at, held, CircuitEvent::Answered).await.is_ours() {
            let Site { provenance, endpoint } = at.site;
            tracing::info!("{provenance}/{endpoint} answers again, its circuit is closed");
            at.outside.notices.tell(at.partition, Notice::CircuitClosed);
        }
    }

    /// After a failure; `Some` when nobody is to ask any more for now.
    pub async fn failed(&self, at: AskedAt<'_>, error: &FetchError, class: ErrorClass) -> Option<NoPage> {
        if !tells_outage(error, class) {
            self.answered(at).await;
            return None;
        }
        let in_a_row = {
            let mut sites = self.sites();
            let site = sites.entry(at.site.clone()).or_default();
            site.in_a_row += 1;
            site.in_a_row
        };
        let held = at.probe.take();
        let seen = match held {
            Some(held) => held,
            // Somebody else may have found out before.
            None => at.outside.ledger.circuit(at.site).await.ok()?,
        };
        let trips = held.is_some() || in_a_row >= at.outside.settings.thresholds.circuit_failures;
        let tripped = match trips {
            true => self.trip(at, seen, in_a_row, error).await,
            false => Change::None,
        };
        let now = tripped.circuit().unwrap_or(seen);
        self.remember(at.site, now);
        (now.state != CircuitState::Closed).then(|| self.barred(at, now, &error.to_string()))
    }

    async fn trip(&self, at: AskedAt<'_>, seen: Circuit, in_a_row: u32, error: &FetchError) -> Change {
        let Thresholds { circuit_open_min: least, circuit_open_max: most, .. } = at.outside.settings.thresholds;
        let spread = most.micros().saturating_sub(least.micros()).max(0) as f64 * at.outside.random.fraction();
        let until = at.outside.ledger.database_now().plus(least).plus(Span::from_micros(spread as i64));
        let change = self.change(at, seen, CircuitEvent::Tripped { until }).await;
        if change.is_ours() {
            let Site { provenance, endpoint } = at.site;
            tracing::warn!(
                "{provenance}/{endpoint} failed {in_a_row} times in a row, nobody asks it before {until}: {error}"
            );
            at.outside.notices.tell(at.partition, Notice::CircuitOpened { until, reason: error.to_string() });
        }
        change
    }

    /// Writes the change if nobody was faster.
    async fn change(&self, at: AskedAt<'_>, seen: Circuit, event: CircuitEvent) -> Change {
        let Some(next) = seen.on(event) else { return Change::None };
        let ledger = &at.outside.ledger;
        let change = match ledger.move_circuit(at.site, seen, next).await {
            Ok(true) => Ok(Change::Ours(next)),
            Ok(false) => ledger.circuit(at.site).await.map(Change::Others),
            Err(error) => Err(error),
        };
        match change {
            Ok(change) => {
                change.circuit().inspect(|circuit| self.remember(at.site, *circuit));
                change
            }
            Err(error) => {
                // It guards no data: a probe of which nothing is heard is taken over, a failure is counted again.
                tracing::warn!("the circuit of {} was not changed: {error}", at.site.provenance);
                Change::None
            }
        }
    }

    fn barred(&self, at: AskedAt<'_>, circuit: Circuit, reason: &str) -> NoPage {
        let now = at.outside.ledger.database_now();
        // Where somebody probes it may be over sooner than the probe's own end.
        let until = circuit.until.min(now.plus(at.outside.settings.thresholds.circuit_open_max)).max(now);
        NoPage::Barred { until, reason: format!("CIRCUIT_OPEN: {reason}"), answers: self.answers_lately(at) }
    }

    fn answers_lately(&self, at: AskedAt<'_>) -> bool {
        let answered_at = self.sites().get(at.site).and_then(|site| site.answered_at);
        answered_at.is_some_and(|answered| at.outside.clock.now().since(answered) <= ANSWERS_LATELY)
    }

    fn remember(&self, site: &Site, circuit: Circuit) {
        let open = (circuit.state != CircuitState::Closed).then_some(circuit);
        self.sites().entry(site.clone()).or_default().circuit = open;
    }

    fn sites(&self) -> MutexGuard<'_, BTreeMap<Site, AtSite>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(at: AskedAt<'_>, error: &LedgerError) -> NoPage {
    NoPage::Later { at: at.outside.clock.now().plus(ASK_AGAIN), reason: format!("the circuit is not known: {error}") }
}
