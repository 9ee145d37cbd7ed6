//! UPDATE: plans that ask for known ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::id::Id;
use patra_core::plan::build::PlanAsk;
use patra_core::plan::campaign::Campaign;
use patra_core::plan::refresh::{self, Refresh};
use patra_core::ports::{LedgerError, NewInstance, Operate, Published};
use patra_core::spec::snapshot::SpecSnapshot;
use serde_json::json;

use crate::planner::{PlanError, Planned, Planner, Trigger};

impl Planner {
    /// Plans a refresh of these ids under the trigger's activity. A second call while the plan is live returns it.
    pub async fn refresh(&self, trigger: &Trigger, wanted: &BTreeSet<String>) -> Result<Planned, PlanError> {
        self.refresh_as(self.ids.next(), trigger, wanted).await
    }

    /// The same under a schedule instance whose id was chosen before: planning it twice is planning it once.
    pub async fn refresh_as(
        &self,
        instance: Id,
        trigger: &Trigger,
        wanted: &BTreeSet<String>,
    ) -> Result<Planned, PlanError> {
        let params = json!({ "activity": trigger.campaign.activity, "ids": wanted.len() });
        self.ledger
            .open_instance(NewInstance {
                id: instance,
                scheduler: trigger.scheduler.clone(),
                job_id: trigger.job_id.clone(),
                log_id: trigger.log_id.clone(),
                trigger_type: trigger.trigger_type.clone(),
                provenance: trigger.provenance.clone(),
                endpoint: trigger.endpoint.clone().unwrap_or_default(),
                operation: trigger.operation,
                channel: trigger.channel.clone(),
                params,
            })
            .await?;
        let planned = self.refresh_instance(instance, trigger, wanted).await;
        let remarks = match &planned {
            Ok(planned) => json!({ "outcome": format!("{planned:?}") }),
            Err(error) => json!({ "outcome": "REFUSED", "error": error.to_string() }),
        };
        self.ledger.remark_instance(instance, remarks).await?;
        planned
    }

    /// Chooses the records and plans them, under an instance whose id was chosen before.
    pub async fn refresh_chosen(
        &self,
        instance: Id,
        trigger: &Trigger,
        operate: &dyn Operate,
        (refresh, limit): (Refresh, u32),
    ) -> Result<Planned, PlanError> {
        let spec = self.compile(trigger).await?.spec;
        let wanted = self.choose(operate, &spec, refresh, limit).await?;
        let campaign = Campaign { activity: Some(refresh.activity().into()), only: None };
        self.refresh_as(instance, &Trigger { campaign, ..trigger.clone() }, &wanted).await
    }

    /// The ids that a refresh asks for now.
    pub async fn choose(
        &self,
        operate: &dyn Operate,
        spec: &SpecSnapshot,
        refresh: Refresh,
        limit: u32,
    ) -> Result<BTreeSet<String>, LedgerError> {
        let wanted = refresh.wanted(spec, self.ledger.database_now(), limit);
        if refresh == Refresh::Signals {
            operate.close_answered_signals(&wanted).await?;
        }
        operate.refresh_candidates(&wanted).await
    }

    async fn refresh_instance(
        &self,
        instance: Id,
        trigger: &Trigger,
        wanted: &BTreeSet<String>,
    ) -> Result<Planned, PlanError> {
        let spec = Arc::new(self.compile(trigger).await?.spec);
        let (now, campaign) = (self.ledger.database_now(), trigger.campaign.clone());
        let estimate = self.estimate(&spec).await;
        let ask = PlanAsk { instance, spec, now, until: None, campaign, estimate, stock_max: self.stock_max };
        let view = self.ledger.planning_view(&refresh::namespace(&ask)).await?;
        if let Some(reason) = view.paused {
            return Err(PlanError::Paused { provenance: trigger.provenance.clone(), reason });
        }
        if let Some(plan) = view.live_plan {
            let own = view.live_instance == Some(instance);
            return Ok(if own { Planned::Before { plan } } else { Planned::Live { plan } });
        }
        if let Some((until, reason)) = view.held {
            return Err(PlanError::Held { provenance: trigger.provenance.clone(), until, reason });
        }
        let Some(plan) = refresh::plan(&ask, &view, wanted, &self.ids)? else { return Ok(Planned::NothingOwed) };
        let (window, slices, warnings) = (plan.window, plan.slices.len(), ask.spec.warnings.clone());
        Ok(match self.ledger.publish_plan(plan).await? {
            Published::Created(plan) => Planned::Created { plan, window, slices, warnings },
            Published::Existing(plan) => Planned::Live { plan },
            Published::Repeated(plan) => Planned::Before { plan },
        })
    }
}
