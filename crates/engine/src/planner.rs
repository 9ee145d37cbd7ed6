//! The planner: `trigger → schedule instance → compile → plan`, all or nothing, without a request to the source.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::failpoint::{Failpoints, Struck};
use patra_core::gate::Estimate;
use patra_core::id::{Id, IdGen};
use patra_core::plan::build::{self, NoPlan, PlanAsk};
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Gate, Ledger, LedgerError, NewInstance, Published, RateKey, Registry, StoredVersion};
use patra_core::registry::{At, Definition, Diagnostic, decode, from_rows};
use patra_core::spec::compile::{Compiled, compile};
use patra_core::spec::overrides::TriggerOverrides;
use patra_core::spec::snapshot::{Operation, SpecSnapshot};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use serde_json::json;

/// What someone asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub provenance: String,
    pub endpoint: Option<String>,
    pub operation: Operation,
    pub channel: String,
    /// Where harvesting begins when this namespace has never been harvested.
    pub since: Option<Timestamp>,
    /// Read nothing dated at or after this.
    pub until: Option<Timestamp>,
    /// What is wanted, in the query language (`docs/query-language.md`); everything by default.
    pub query: Option<String>,
    pub campaign: Campaign,
    pub overrides: TriggerOverrides,
    pub scheduler: String,
    pub job_id: String,
    pub log_id: String,
    pub trigger_type: String,
}

/// What came of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum Planned {
    Created {
        plan: Id,
        window: Window,
        slices: usize,
        warnings: Vec<String>,
    },
    /// A plan of the same namespace is still being worked on.
    Live {
        plan: Id,
    },
    /// This very trigger has made the plan before.
    Before {
        plan: Id,
    },
    NothingOwed,
}

/// Why there is no plan. The same is written on the schedule instance.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("there is no source `{provenance}` in the registry")]
    UnknownSource { provenance: String },
    #[error("there is no channel `{channel}`; known are {}", known.join(", "))]
    UnknownChannel { channel: String, known: Vec<String> },
    #[error("the definition of `{provenance}` cannot be compiled")]
    Mistakes { provenance: String, mistakes: Vec<Diagnostic> },
    #[error("`{provenance}` is stopped: {reason}")]
    Paused { provenance: String, reason: String },
    #[error("planning of `{provenance}` is held until {until}: {reason}")]
    Held { provenance: String, until: Timestamp, reason: String },
    #[error("plan {plan} asked for single records, which have no window to be read again")]
    NotByWindow { plan: Id },
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl From<Struck> for PlanError {
    fn from(struck: Struck) -> PlanError {
        PlanError::Ledger(struck.into())
    }
}

pub struct Planner {
    pub ledger: Arc<dyn Ledger>,
    pub registry: Arc<dyn Registry>,
    pub ids: Arc<IdGen>,
    pub failpoints: Failpoints,
    /// Whose hints go into slices, where the planner shares a process with executors.
    pub gate: Option<Arc<dyn Gate>>,
    /// Most tasks of a partition that are queued at a time; the rest of a plan waits.
    pub stock_max: u32,
}

impl Planner {
    /// Plans what the trigger asks for. A second call while the plan is live returns that plan (INV-39).
    pub async fn plan(&self, trigger: &Trigger) -> Result<Planned, PlanError> {
        self.plan_as(self.ids.next(), trigger).await
    }

    /// The same under a schedule instance whose id was chosen before: planning it twice is planning it once.
    pub async fn plan_as(&self, instance: Id, trigger: &Trigger) -> Result<Planned, PlanError> {
        self.open(instance, trigger).await?;
        self.failpoints.hit("plan.instance")?;
        let planned = self.plan_instance(instance, trigger).await;
        let remarks = match &planned {
            Ok(Planned::Created { plan, slices, warnings, .. }) => {
                json!({ "outcome": "PLANNED", "plan": plan, "slices": slices, "warnings": warnings })
            }
            Ok(Planned::Before { plan }) => json!({ "outcome": "PLANNED", "plan": plan }),
            Ok(Planned::Live { plan }) => json!({ "outcome": "LIVE", "plan": plan }),
            Ok(Planned::NothingOwed) => json!({ "outcome": "NOTHING_OWED" }),
            Err(error) => json!({ "outcome": "REFUSED", "error": error.to_string(), "mistakes": mistakes_of(error) }),
        };
        self.ledger.remark_instance(instance, remarks).await?;
        planned
    }

    async fn open(&self, id: Id, trigger: &Trigger) -> Result<(), LedgerError> {
        let overrides = &trigger.overrides;
        let instance = NewInstance {
            id,
            scheduler: trigger.scheduler.clone(),
            job_id: trigger.job_id.clone(),
            log_id: trigger.log_id.clone(),
            trigger_type: trigger.trigger_type.clone(),
            provenance: trigger.provenance.clone(),
            endpoint: trigger.endpoint.clone().unwrap_or_default(),
            operation: trigger.operation,
            channel: trigger.channel.clone(),
            params: json!({
                "since": trigger.since,
                "until": trigger.until,
                "query": trigger.query,
                "activity": trigger.campaign.activity,
                "only": trigger.campaign.only,
                "q": overrides.q,
                "baseUrl": overrides.base_url,
                "set": overrides.params,
                "priority": overrides.priority,
            }),
        };
        self.ledger.open_instance(instance).await
    }

    async fn plan_instance(&self, instance: Id, trigger: &Trigger) -> Result<Planned, PlanError> {
        let spec = self.compile(trigger).await?.spec;
        self.failpoints.hit("plan.compiled")?;
        let namespace = trigger.campaign.namespace(&spec, trigger.until);
        let view = self.ledger.planning_view(&namespace).await?;
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
        let (now, until, campaign) = (self.ledger.database_now(), trigger.until, trigger.campaign.clone());
        let estimate = self.estimate(&spec).await;
        let ask = PlanAsk { instance, spec: Arc::new(spec), now, until, campaign, estimate, stock_max: self.stock_max };
        let Some(plan) = build::plan(&ask, &view, &self.ids)? else { return Ok(Planned::NothingOwed) };
        let (window, slices, warnings) = (plan.window, plan.slices.len(), ask.spec.warnings.clone());
        let published = self.ledger.publish_plan(plan).await?;
        self.failpoints.hit("plan.published")?;
        Ok(match published {
            Published::Created(plan) => Planned::Created { plan, window, slices, warnings },
            Published::Existing(plan) => Planned::Live { plan },
            Published::Repeated(plan) => Planned::Before { plan },
        })
    }

    pub(crate) async fn estimate(&self, spec: &SpecSnapshot) -> Option<Estimate> {
        let gate = self.gate.as_ref()?;
        Some(gate.estimate(&RateKey::of(spec), &spec.rate, build::HINT_HORIZON).await)
    }

    /// The spec a trigger would run with, from the registry version in force on its channel.
    pub async fn compile(&self, trigger: &Trigger) -> Result<Compiled, PlanError> {
        let provenance = &trigger.provenance;
        let at = self.ledger.database_now();
        let unknown = || PlanError::UnknownSource { provenance: provenance.clone() };
        let version = self.registry.version_at(provenance, &trigger.channel, at).await?.ok_or_else(unknown)?;
        if version.channel != trigger.channel {
            self.known_channel(&trigger.channel).await?;
        }
        compile_version(&version, trigger)
            .map_err(|mistakes| PlanError::Mistakes { provenance: provenance.clone(), mistakes })
    }
}

impl Planner {
    /// A source without a version on a channel is read by its stable one; a channel that nobody has is a slip of the
    /// pen.
    pub async fn known_channel(&self, channel: &str) -> Result<(), PlanError> {
        let versions = self.registry.versions(None).await?;
        let known: BTreeSet<String> = versions.into_iter().map(|version| version.channel).collect();
        if known.contains(channel) {
            return Ok(());
        }
        Err(PlanError::UnknownChannel { channel: channel.to_owned(), known: known.into_iter().collect() })
    }
}

fn compile_version(version: &StoredVersion, trigger: &Trigger) -> Result<Compiled, Vec<Diagnostic>> {
    let definition = definition_of(version)?;
    let overrides =
        TriggerOverrides { since: trigger.since, query: trigger.query.clone(), ..trigger.overrides.clone() };
    let endpoint = trigger.endpoint.as_deref();
    compile(&definition, endpoint, trigger.operation, &overrides, version.version, &version.channel)
}

/// The definition as the registry holds it, with the lines of its text for naming mistakes.
pub fn definition_of(version: &StoredVersion) -> Result<Definition, Vec<Diagnostic>> {
    let file = format!("{} version {}", version.provenance, version.version);
    let definition = from_rows(&version.provenance, &version.rows)
        .map_err(|bad| vec![Diagnostic::error("registry-row", &file, At::default(), bad.to_string())])?;
    Ok(match decode(&file, &version.definition) {
        Ok(written) => definition.with_places_of(&written),
        Err(_) => definition,
    })
}

fn mistakes_of(error: &PlanError) -> Vec<String> {
    match error {
        PlanError::Mistakes { mistakes, .. } => mistakes.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
