//! The circuit of one endpoint, for the whole fleet: who may ask a source that does not answer (INV-51).
//!
//! ```text
//! Closed --failures in a row--> Open until t --one process asks--> Probing until t' --answered--> Closed
//!                                 ^----------------------failed----------|
//! ```
//! It lies in the ledger and every step names the epoch it has seen, so of all processes one probes. A prober that dies
//! is replaced when its time is over.

use serde::{Deserialize, Serialize};

use crate::spec::errors::{BodyFault, ErrorClass, FetchError};
use crate::spec::snapshot::SpecSnapshot;
use crate::time::{Span, Timestamp};

/// What has one circuit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    pub provenance: String,
    pub endpoint: String,
}

impl Site {
    pub fn of(spec: &SpecSnapshot) -> Site {
        Site { provenance: spec.provenance.clone(), endpoint: spec.endpoint.clone() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CircuitState {
    #[default]
    Closed,
    Open,
    Probing,
}

impl CircuitState {
    pub const ALL: [CircuitState; 3] = [CircuitState::Closed, CircuitState::Open, CircuitState::Probing];

    pub const fn code(self) -> &'static str {
        match self {
            CircuitState::Closed => "CLOSED",
            CircuitState::Open => "OPEN",
            CircuitState::Probing => "PROBING",
        }
    }

    pub fn from_code(code: &str) -> Option<CircuitState> {
        CircuitState::ALL.into_iter().find(|state| state.code() == code)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    pub state: CircuitState,
    /// On the database clock; means nothing when closed.
    pub until: Timestamp,
    /// Raised by every change.
    pub epoch: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitEvent {
    /// The source failed so often in a row, or failed a probe: nobody asks before this.
    Tripped { until: Timestamp },
    /// Someone asks; if nothing is heard of it, another may from this on.
    ProbeTaken { until: Timestamp },
    /// The source answered a probe, whatever it said.
    Answered,
}

/// Whether a task of the endpoint may be taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Free,
    /// By one, who takes the probe first.
    Probe,
    Barred {
        until: Timestamp,
    },
}

impl Circuit {
    /// A prober of which nothing is heard for so long is gone: longer than a request and its wait at the gate.
    pub const PROBE_LIFE: Span = Span::from_seconds(300);

    pub fn passage(&self, now: Timestamp) -> Passage {
        match self.state {
            CircuitState::Closed => Passage::Free,
            _ if now >= self.until => Passage::Probe,
            _ => Passage::Barred { until: self.until },
        }
    }

    /// The circuit after an event; `None` where it changes nothing.
    pub fn on(&self, event: CircuitEvent) -> Option<Circuit> {
        use CircuitEvent as E;
        use CircuitState as S;
        let (state, until) = match (self.state, event) {
            (S::Closed | S::Probing, E::Tripped { until }) => (S::Open, until),
            // A prober that is gone is replaced by another.
            (S::Open | S::Probing, E::ProbeTaken { until }) => (S::Probing, until),
            (S::Probing, E::Answered) => (S::Closed, self.until),
            // An answer that was on its way when the circuit opened does not close it, a failure does not prolong it.
            (S::Open, E::Tripped { .. } | E::Answered) | (S::Closed, E::ProbeTaken { .. } | E::Answered) => {
                return None;
            }
        };
        Some(Circuit { state, until, epoch: self.epoch + 1 })
    }
}

/// Whether a failure says that the source is out, and not that it refuses this request or this page.
pub fn tells_outage(error: &FetchError, class: ErrorClass) -> bool {
    let transient = matches!(class, ErrorClass::Transient { .. });
    transient && !matches!(error, FetchError::Body { fault: BodyFault::Malformed | BodyFault::ErrorBody, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CircuitState::{Closed, Open, Probing};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn circuit(state: CircuitState) -> Circuit {
        Circuit { state, until: at(60), epoch: 4 }
    }

    #[test]
    fn every_pair_of_state_and_event_is_decided() {
        let tripped = CircuitEvent::Tripped { until: at(90) };
        let taken = CircuitEvent::ProbeTaken { until: at(90) };
        for (state, event, want) in [
            (Closed, tripped, Some((Open, at(90)))),
            (Closed, taken, None),
            (Closed, CircuitEvent::Answered, None),
            (Open, tripped, None),
            (Open, taken, Some((Probing, at(90)))),
            (Open, CircuitEvent::Answered, None),
            (Probing, tripped, Some((Open, at(90)))),
            (Probing, taken, Some((Probing, at(90)))),
            (Probing, CircuitEvent::Answered, Some((Closed, at(60)))),
        ] {
            let want = want.map(|(state, until)| Circuit { state, until, epoch: 5 });
            assert_eq!(circuit(state).on(event), want, "{state:?} {event:?}");
        }
    }

    #[test]
    fn nobody_passes_an_open_circuit_and_a_probe_only_when_its_time_has_come() {
        for (state, now, want) in [
            (Closed, 0, Passage::Free),
            (Open, 59, Passage::Barred { until: at(60) }),
            (Open, 60, Passage::Probe),
            (Probing, 59, Passage::Barred { until: at(60) }),
            (Probing, 61, Passage::Probe),
        ] {
            assert_eq!(circuit(state).passage(at(now)), want, "{state:?} at {now}");
        }
    }

    #[test]
    fn codes_read_back() {
        assert!(CircuitState::ALL.into_iter().all(|state| CircuitState::from_code(state.code()) == Some(state)));
    }

    #[test]
    fn our_own_mistakes_and_unreadable_pages_are_no_outage() {
        use crate::spec::errors::classify;
        let status = |status| FetchError::Status { status, message: String::new(), retry_after: None };
        let body = |fault| FetchError::Body { fault, message: String::new() };
        for (error, want) in [
            (FetchError::Connect { message: String::new() }, true),
            (FetchError::Lost { message: String::new() }, true),
            (status(500), true),
            (status(503), true),
            (status(429), false),
            (status(404), false),
            (status(401), false),
            (body(BodyFault::Html), true),
            (body(BodyFault::Empty), true),
            (body(BodyFault::Malformed), false),
            (body(BodyFault::ErrorBody), false),
        ] {
            assert_eq!(tells_outage(&error, classify(&error, &[])), want, "{error}");
        }
    }
}
