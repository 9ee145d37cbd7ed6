//! The timekeeper: lets schedules fire when they are due and plans what has fired.
//!
//! Two steps, each safe to lose. Firing moves a schedule on and opens a firing, in one transaction. Planning takes a firing
//! for a while, plans it under the id it was opened with, and ends it; a planner that dies in between leaves it to the
//! next, who comes to the same plan.

use std::sync::Arc;

use patra_core::plan::refresh::RECORDS_MAX;
use patra_core::ports::{Firing, FiringEnd, Ledger, LedgerError, Operate, Schedules};
use patra_core::schedule::Overlap;
use patra_core::time::Span;
use serde_json::json;

use crate::planner::{PlanError, Planned, Planner, Trigger};

/// How long a firing is left to the planner that took it.
const FIRING_TTL: Span = Span::from_seconds(60);
/// When a firing that waits is looked at again.
const AGAIN: Span = Span::from_seconds(30);
/// Firings taken at once.
const FIRINGS_MAX: u32 = 16;

pub struct Timekeeper {
    pub schedules: Arc<dyn Schedules>,
    /// Chooses the records of a refresh.
    pub operate: Arc<dyn Operate>,
    pub planner: Planner,
    pub who: String,
}

/// What became of a firing.
#[derive(Debug)]
pub struct Fired {
    pub firing: Firing,
    pub outcome: Result<Planned, PlanError>,
}

impl Timekeeper {
    fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.planner.ledger
    }

    /// Fires every schedule that is due; how many firings were opened here.
    pub async fn fire_due(&self) -> Result<u64, LedgerError> {
        let mut fired = 0;
        for mut schedule in self.schedules.schedules().await? {
            loop {
                let turn = match schedule.turn(self.ledger().database_now()) {
                    Ok(Some(turn)) => turn,
                    Ok(None) => break,
                    Err(wrong) => {
                        tracing::error!("schedule `{}` cannot fire: {wrong}", schedule.name);
                        break;
                    }
                };
                // Another planner was faster: it sees to the times after this one, too.
                if !self.schedules.fire(&schedule, &turn).await? {
                    break;
                }
                fired += u64::from(turn.fire.is_some());
                (schedule.next_due, schedule.version) = (turn.next_due, schedule.version + 1);
            }
        }
        Ok(fired)
    }

    /// Takes firings that nobody plans.
    pub async fn take(&self) -> Result<Vec<Firing>, LedgerError> {
        self.schedules.take_firings(&self.who, FIRING_TTL, FIRINGS_MAX).await
    }

    /// Plans one that was taken, with a trigger made of it.
    pub async fn plan(&self, firing: Firing, trigger: &Trigger) -> Result<Fired, LedgerError> {
        let ask = &firing.schedule.ask;
        let outcome = match ask.refresh {
            Some(refresh) => {
                let limit = ask.limit.unwrap_or(RECORDS_MAX);
                self.planner.refresh_chosen(firing.id, trigger, &*self.operate, (refresh, limit)).await
            }
            None => self.planner.plan_as(firing.id, trigger).await,
        };
        let end = self.end_of(&firing, &outcome);
        self.schedules.end_firing(firing.id, &self.who, end).await?;
        Ok(Fired { firing, outcome })
    }

    /// Writes down that no trigger could be made of a firing.
    pub async fn refuse(&self, firing: &Firing, why: &str) -> Result<(), LedgerError> {
        let end = FiringEnd::Done { status: "REFUSED", plan: None, remarks: json!({ "error": why }) };
        self.schedules.end_firing(firing.id, &self.who, end).await.map(|_| ())
    }

    fn end_of(&self, firing: &Firing, outcome: &Result<Planned, PlanError>) -> FiringEnd {
        let done = |status, plan, remarks| FiringEnd::Done { status, plan, remarks };
        let later = |remarks| FiringEnd::Later { until: self.ledger().database_now().plus(AGAIN), remarks };
        match outcome {
            Ok(Planned::Created { plan, slices, .. }) => done("PLANNED", Some(*plan), json!({ "slices": slices })),
            Ok(Planned::NothingOwed) => done("NOTHING_OWED", None, json!({})),
            Ok(Planned::Before { plan }) => done("PLANNED", Some(*plan), json!({})),
            Ok(Planned::Live { plan }) => match firing.schedule.overlap {
                Overlap::Skip => done("SKIPPED", None, json!({ "live": plan })),
                Overlap::Queue => later(json!({ "waitsFor": plan })),
            },
            Err(error @ (PlanError::Ledger(_) | PlanError::Held { .. })) => {
                later(json!({ "error": error.to_string() }))
            }
            Err(error) => done("REFUSED", None, json!({ "error": error.to_string() })),
        }
    }
}
