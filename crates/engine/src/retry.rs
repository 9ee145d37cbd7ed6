//! Asking again what a plan could not read: a new plan over its unproven windows, with the spec it was made with.

use patra_core::id::Id;
use patra_core::plan::build::{self, PlanAsk};
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{NewInstance, NewPlan, Published};
use patra_core::spec::snapshot::Operation;
use patra_core::window::Window;
use serde_json::json;

use crate::planner::{PlanError, Planned, Planner};

impl Planner {
    /// Plans these windows of an ended plan again, in its own namespace; what was proven since is left out.
    pub async fn retry(&self, plan: Id, windows: Vec<Window>) -> Result<Planned, PlanError> {
        let old = self.ledger.plan(plan).await?;
        let instance = self.ids.next();
        let namespace = &old.namespace;
        // A task of an update holds the ids it asks for; cut by time it would hold none.
        if namespace.operation == Operation::Update {
            return Err(PlanError::NotByWindow { plan });
        }
        self.ledger
            .open_instance(NewInstance {
                id: instance,
                scheduler: "CLI".into(),
                job_id: String::new(),
                log_id: String::new(),
                trigger_type: "RETRY".into(),
                provenance: namespace.provenance.clone(),
                endpoint: namespace.endpoint.clone(),
                operation: namespace.operation,
                channel: old.spec.channel.clone(),
                params: json!({ "retryOf": plan, "only": windows }),
            })
            .await?;
        let view = self.ledger.planning_view(namespace).await?;
        if let Some(reason) = view.paused {
            return Err(PlanError::Paused { provenance: namespace.provenance.clone(), reason });
        }
        if let Some(plan) = view.live_plan {
            return Ok(Planned::Live { plan });
        }
        if let Some((until, reason)) = view.held {
            return Err(PlanError::Held { provenance: namespace.provenance.clone(), until, reason });
        }
        let campaign = Campaign { activity: None, only: Some(windows) };
        let ask = PlanAsk {
            instance,
            spec: old.spec.clone(),
            now: self.ledger.database_now(),
            until: None,
            campaign,
            estimate: self.estimate(&old.spec).await,
            stock_max: self.stock_max,
        };
        let Some(built) = build::plan(&ask, &view, &self.ids)? else { return Ok(Planned::NothingOwed) };
        let (window, slices) = (built.window, built.slices.len());
        let plan_key = format!("{}:{instance}", namespace.hash());
        let new = NewPlan { namespace: namespace.clone(), plan_key, ..built };
        Ok(match self.ledger.publish_plan(new).await? {
            Published::Created(plan) => Planned::Created { plan, window, slices, warnings: Vec::new() },
            Published::Existing(plan) => Planned::Live { plan },
            Published::Repeated(plan) => Planned::Before { plan },
        })
    }
}
