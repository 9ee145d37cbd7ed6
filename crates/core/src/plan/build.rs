//! From what is owed to a plan with its slices and tasks; pure, so that a repeated trigger builds the same plan.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::calendar::UnknownZone;
use crate::gate::pace::FULL;
use crate::gate::{self, Estimate};
use crate::hash::Hash32;
use crate::id::{Id, IdGen};
use crate::page::Part;
use crate::pass::Pass;
use crate::plan::campaign::Campaign;
use crate::plan::coverage::{Coverage, Settling, next_plan};
use crate::plan::estimate;
use crate::plan::portion::Portion;
use crate::plan::slicer::Slicer;
use crate::planted::{Defect, planted};
use crate::ports::{Namespace, NewPlan, NewSlice, NewTask, PlanView, PlanningView, Walk};
use crate::spec::hashes;
use crate::spec::snapshot::{NamespaceScope, Operation, OutOfRange, SpecSnapshot};
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Most slices of one plan; the rest is owed to the next one.
pub const SLICES_MAX: usize = 20_000;

/// How far ahead the hints of a plan's slices look.
pub const HINT_HORIZON: Span = Span::HOUR;

/// One piece of a plan or of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub window: Window,
    pub part: Option<Part>,
}

/// What a trigger asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanAsk {
    pub instance: Id,
    pub spec: Arc<SpecSnapshot>,
    /// Database clock.
    pub now: Timestamp,
    /// Read nothing dated at or after this.
    pub until: Option<Timestamp>,
    pub campaign: Campaign,
    /// What the gate lets through within [`HINT_HORIZON`]; the declared rate counts where nobody asked it.
    pub estimate: Option<Estimate>,
    /// Most tasks of its partition that are queued at a time.
    pub stock_max: u32,
}

impl PlanAsk {
    /// How much of the plan gets tasks at once.
    pub(super) fn portion(&self) -> Portion {
        Portion::of(&self.spec, self.stock_max, self.now)
    }
}

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    #[error(transparent)]
    Zone(#[from] UnknownZone),
    #[error("nothing can be read up to {until}: the source's range is {from} to {to}")]
    OutOfRange { until: Timestamp, from: Timestamp, to: Timestamp },
}

/// The namespace of a spec (K of the invariants). Also where a watermark is shared, each endpoint has coverage and
/// plans of its own, and a change of what is asked for begins anew (INV-40).
pub fn namespace_of(spec: &SpecSnapshot) -> Namespace {
    let asked = Hash32::of_parts(&[spec.endpoint.as_bytes(), hashes::expr_proto_hash(spec).bytes()]);
    Namespace {
        provenance: spec.provenance.clone(),
        endpoint: spec.endpoint.clone(),
        operation: spec.operation,
        cursor_key: spec.window.key.clone(),
        scope: spec.namespace,
        key: asked.to_string(),
    }
}

/// How the coverage of a plan is walked.
pub fn walk_of(plan: &PlanView) -> Walk {
    let mut namespace = plan.namespace.clone();
    if planted(Defect::BackfillMovesHarvest) && namespace.operation == Operation::Backfill {
        let harvest =
            SpecSnapshot { operation: Operation::Harvest, namespace: NamespaceScope::Expr, ..(*plan.spec).clone() };
        namespace = namespace_of(&harvest);
    }
    Walk {
        namespace,
        origin: coverage_origin(plan),
        settling_lag: plan.spec.window.safety_lag,
        shares: plan.spec.shares.clone(),
    }
}

/// Where the coverage of a plan's namespace begins.
fn coverage_origin(plan: &PlanView) -> Timestamp {
    match plan.namespace.operation {
        // A backfill reads its newest windows first: its cursor begins at the oldest moment that was asked for.
        Operation::Harvest | Operation::Backfill => plan.spec.window.origin,
        // It reads what it was asked to read: its cursor begins where its first plan began.
        Operation::Update => plan.window.from(),
    }
}

/// How late a reading must be to be the last one. A backfill reads each window once.
fn settling(spec: &SpecSnapshot) -> Settling {
    let lookback = match spec.operation {
        Operation::Harvest => spec.window.lookback,
        Operation::Backfill | Operation::Update => Span::ZERO,
    };
    Settling { lag: spec.window.safety_lag, lookback }
}

/// Windows that this spec still owes at `now`, with edges the source can name.
pub fn owed(ask: &PlanAsk, view: &PlanningView) -> Result<Vec<Window>, NoPlan> {
    let window = &ask.spec.window;
    let slicer = Slicer::new(window)?;
    let mut settling = settling(&ask.spec);
    if planted(Defect::PlanBeyondLag) {
        settling.lag = Span::ZERO;
    }
    let source_now = ask.now.minus(view.source_behind.max(Span::ZERO)).minus(view.lag_raised.max(Span::ZERO));
    let settled = source_now.minus(settling.lag);
    in_range(ask, settled)?;
    let end = plan_end(ask, &slicer, settled);
    let known = view.finished_to.and_then(|to| Window::new(window.origin, to));
    let waived: Vec<Window> = view.waived.iter().copied().chain(known).collect();
    let finished = Coverage::finished(&view.slices, &waived, settling);
    let raw = match view.watermark.filter(|_| planted(Defect::NextPlanFromWatermark)) {
        Some(watermark) => Window::new(watermark, source_now.minus(settling.lag)).into_iter().collect(),
        None => next_plan(window.origin, source_now, &finished, settling),
    };
    let asked = Window::new(Timestamp::MIN, ask.until.unwrap_or(Timestamp::MAX));
    let raw: Vec<Window> = raw.iter().filter_map(|window| asked.as_ref()?.intersect(window)).collect();
    Ok(slicer.outward(&ask.campaign.restrict(raw), end))
}

/// A harvest ends before what was excluded; a backfill reads all of what was asked for, if need be a little more.
fn plan_end(ask: &PlanAsk, slicer: &Slicer, settled: Timestamp) -> Timestamp {
    match ask.spec.operation {
        Operation::Harvest => slicer.plan_end(settled.min(ask.until.unwrap_or(Timestamp::MAX))),
        Operation::Backfill | Operation::Update => slicer.plan_end(settled),
    }
}

/// An end before the source's first record or after its last settled moment is cut to them, unless that is declared
/// to be a mistake of the trigger.
fn in_range(ask: &PlanAsk, settled: Timestamp) -> Result<(), NoPlan> {
    let window = &ask.spec.window;
    match ask.until {
        Some(until) if window.out_of_range == OutOfRange::Fail && (until <= window.origin || until > settled) => {
            Err(NoPlan::OutOfRange { until, from: window.origin, to: settled })
        }
        _ => Ok(()),
    }
}

/// The plan for what is owed; `None` when nothing is.
pub fn plan(ask: &PlanAsk, view: &PlanningView, ids: &IdGen) -> Result<Option<NewPlan>, NoPlan> {
    let width = estimate::slice_width(&ask.spec, &view.history);
    let slicer = Slicer::of_width(&ask.spec.window, width)?;
    let windows = owed(ask, view)?;
    let mut pieces: Vec<Window> = windows.iter().flat_map(|window| slicer.cut(*window)).collect();
    let whole = pieces.len();
    if ask.spec.operation == Operation::Backfill {
        // The newest first, also when not all of them fit.
        pieces.reverse();
    }
    pieces.truncate(SLICES_MAX);
    let covered = Coverage::of(pieces.iter().copied());
    let (Some(first), Some(last)) = (covered.windows().first(), covered.windows().last()) else { return Ok(None) };
    let Some(window) = Window::new(first.from(), last.to()) else { return Ok(None) };
    let namespace = ask.campaign.namespace(&ask.spec, ask.until);
    let view_of = PlanView {
        id: ids.next(),
        namespace: namespace.clone(),
        window,
        spec: ask.spec.clone(),
        spec_fingerprint: hashes::spec_fingerprint(&ask.spec),
        expr_proto_hash: hashes::expr_proto_hash(&ask.spec),
    };
    let finished_to = finished_prefix(ask, view);
    let children: Vec<Child> = pieces.iter().map(|window| Child { window: *window, part: None }).collect();
    let mut slices = slices(&view_of, &children, 1, ask.spec.priority, ask.now, ids);
    let per_hour = estimate::records_per_hour(&view.history);
    // The signature leaves the budget out, so a hint changes no key.
    for slice in &mut slices {
        slice.task.expected_requests = estimate::expected_cost(&ask.spec, per_hour, slice.window.width());
        slice.slice_spec["budget"]["hint"] = hint(ask);
        slice.slice_spec["budget"]["expectedRequests"] = json!(slice.task.expected_requests);
    }
    Ok(Some(NewPlan {
        id: view_of.id,
        instance: ask.instance,
        plan_key: format!("{}:{}", namespace.hash(), ask.instance),
        namespace,
        window,
        slice_strategy: "TIME".into(),
        slice_params: slice_params(ask, width, &covered, finished_to),
        expr_proto_hash: view_of.expr_proto_hash,
        expr_proto: hashes::expr_proto(&ask.spec),
        spec_fingerprint: view_of.spec_fingerprint,
        remarks: remarks(&ask.spec, window, (children.len(), whole), per_hour),
        slices,
        portion: ask.portion(),
        finished_to,
        spec: ask.spec.clone(),
    }))
}

/// 4.10.6: what the gate would let through while the plan is worked on.
fn hint(ask: &PlanAsk) -> Value {
    let rate = &ask.spec.rate;
    let declared = || gate::estimate(rate, ask.now, FULL, ask.now, HINT_HORIZON);
    let estimate = ask.estimate.unwrap_or_else(declared);
    json!({
        "requests": estimate.requests,
        "within": HINT_HORIZON,
        "concurrency": estimate.concurrency,
        "pace": estimate.pace as f64 / FULL as f64,
        "permitCost": rate.permits(),
    })
}

/// The shortcut that the plan was computed from is told too: a cursor that is rebuilt finds it here.
fn slice_params(ask: &PlanAsk, width: Span, covered: &Coverage, finished_to: Option<Timestamp>) -> Value {
    let mut params = json!({ "slice": width, "windows": covered.windows(), "finishedTo": finished_to });
    if let Some(activity) = &ask.campaign.activity {
        params["activity"] = json!(activity);
    }
    if let Some(only) = &ask.campaign.only {
        params["only"] = json!(only);
    }
    params
}

/// A shortcut for the long history of a harvest; the others look at all their slices.
fn finished_prefix(ask: &PlanAsk, view: &PlanningView) -> Option<Timestamp> {
    if ask.spec.operation != Operation::Harvest {
        return None;
    }
    let window = &ask.spec.window;
    let settling = settling(&ask.spec);
    let known = view.finished_to.and_then(|to| Window::new(window.origin, to));
    let waived: Vec<Window> = view.waived.iter().copied().chain(known).collect();
    let to = Coverage::finished(&view.slices, &waived, settling).prefix_end(window.origin);
    (to > window.origin).then_some(to)
}

/// 14.3.5.
fn remarks(spec: &SpecSnapshot, window: Window, (slices, whole): (usize, usize), per_hour: Option<f64>) -> Value {
    json!({
        "sliceCount": slices,
        "deferredSlices": whole - slices,
        "window": { "from": window.from(), "to": window.to(), "safetyLag": spec.window.safety_lag },
        "estimate": { "recordsPerHour": per_hour.map(f64::ceil) },
        "degradation": spec.warnings,
        "warnings": spec.warnings,
        "budget": { "rate": spec.rate.windows, "concurrency": spec.rate.concurrency },
    })
}

/// Slices with their tasks. The same plan and the same piece always give the same keys.
pub fn slices(
    plan: &PlanView,
    pieces: &[Child],
    first_no: u32,
    priority: u8,
    now: Timestamp,
    ids: &IdGen,
) -> Vec<NewSlice> {
    pieces.iter().zip(first_no..).map(|(piece, number)| slice(plan, piece, number, priority, now, ids)).collect()
}

fn slice(plan: &PlanView, piece: &Child, slice_no: u32, priority: u8, now: Timestamp, ids: &IdGen) -> NewSlice {
    let spec = &plan.spec;
    let first = Pass::first_place(spec, piece.window).to_token();
    let bounds = json!({ "time": piece.window, "part": piece.part });
    let slice_spec = slice_spec(spec, piece, priority);
    let expr_hash = hashes::expr_hash(plan.expr_proto_hash, &bounds);
    let signature_hash =
        hashes::slice_signature_hash(&spec.provenance, &spec.endpoint, spec.operation, expr_hash, &slice_spec);
    let params =
        json!({ "window": piece.window, "part": piece.part, "first": first, "twoPhase": spec.detail.is_some() });
    let idempotent_key = hashes::task_key(signature_hash, expr_hash, spec.operation, plan.id.0, &params);
    NewSlice {
        id: ids.next(),
        slice_no,
        window: piece.window,
        part: piece.part.clone(),
        slice_spec,
        signature_hash,
        expr_hash,
        expr: json!({ "proto": plan.expr_proto_hash, "bounds": bounds, "initial": first }),
        task: NewTask {
            id: ids.next(),
            idempotent_key,
            params,
            credential: spec.auth.credential().map(str::to_owned),
            priority,
            scheduled_at: now,
            first_token: first,
            expected_requests: estimate::expected_cost(spec, None, piece.window.width()),
        },
    }
}

/// The form of 8.2.2 with its mandatory fields.
pub fn slice_spec(spec: &SpecSnapshot, piece: &Child, priority: u8) -> Value {
    let (dimension, id) = match &piece.part {
        None => ("TIME", Value::Null),
        Some(Part::IdRange { from, to }) => ("ID", json!({ "from": from, "to": to })),
        Some(Part::HashBucket { bucket, buckets }) => ("ID", json!({ "hashBucket": bucket, "buckets": buckets })),
    };
    let detail = spec.detail.as_ref();
    json!({
        "dimension": dimension,
        "bounds": { "time": piece.window, "id": id },
        "phase": { "twoPhase": detail.is_some(), "idBatchSize": detail.map(|detail| detail.id_batch_size) },
        "pagination": { "type": spec.pagination.kind, "initial": Pass::first_place(spec, piece.window).to_token() },
        "window": { "safetyLag": spec.window.safety_lag, "watermarkKey": spec.window.key },
        "budget": { "priority": priority, "maxRequests": spec.pagination.max_page },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    #[test]
    fn an_end_outside_the_range_is_cut_or_refused() {
        let spec = sample::snapshot();
        let (origin, lag) = (spec.window.origin, spec.window.safety_lag);
        let now = origin.plus(Span::DAY);
        let settled = now.minus(lag);
        // (until, end of what is owed when cut, refused when that is declared)
        for (until, end, refused) in [
            (None, Some(settled), false),
            (Some(settled), Some(settled), false),
            (Some(origin.plus(Span::HOUR)), Some(origin.plus(Span::HOUR)), false),
            (Some(settled.plus(Span::SECOND)), Some(settled), true),
            (Some(origin), None, true),
        ] {
            for out_of_range in [OutOfRange::Clip, OutOfRange::Fail] {
                let mut spec = spec.clone();
                spec.window.out_of_range = out_of_range;
                let ask = PlanAsk {
                    instance: Id(1),
                    spec: Arc::new(spec),
                    now,
                    until,
                    campaign: Campaign::default(),
                    estimate: None,
                    stock_max: 1_000,
                };
                let owed = owed(&ask, &PlanningView::default());
                match owed {
                    Ok(windows) => {
                        assert!(!(refused && out_of_range == OutOfRange::Fail), "{until:?}");
                        assert_eq!(windows.last().map(Window::to), end, "{until:?}");
                    }
                    Err(error) => {
                        assert!(refused && out_of_range == OutOfRange::Fail, "{error}");
                    }
                }
            }
        }
    }

    struct Still;

    #[async_trait::async_trait]
    impl crate::ports::Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_seconds(1_700_000_000)
        }

        async fn sleep_until(&self, _until: Timestamp) {}
    }

    #[test]
    fn a_hint_of_the_gate_stands_in_the_slice_and_changes_no_signature() {
        let spec = Arc::new(sample::snapshot());
        let now = spec.window.origin.plus(Span::DAY);
        let slow = Estimate { requests: 7, concurrency: 1, resumes_at: now, pace: FULL / 4 };
        let built = [None, Some(slow)].map(|estimate| {
            let campaign = Campaign::default();
            let spec = spec.clone();
            let ask = PlanAsk { instance: Id(1), spec, now, until: None, campaign, estimate, stock_max: 1_000 };
            let ids = IdGen::new(Arc::new(Still), 1);
            plan(&ask, &PlanningView::default(), &ids).unwrap().unwrap().slices.remove(0)
        });
        let hints = built.each_ref().map(|slice| slice.slice_spec["budget"]["hint"].clone());
        assert_eq!((&hints[0]["requests"], &hints[1]["requests"]), (&json!(36_000), &json!(7)));
        assert_eq!((&hints[0]["pace"], &hints[1]["pace"]), (&json!(1.0), &json!(0.25)));
        assert_eq!(built[0].signature_hash, built[1].signature_hash);
    }
}
