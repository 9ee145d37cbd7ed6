//! A refresh: records that are known are asked for again by their ids, cut into hash buckets.
//!
//! All buckets of a plan share one window, from where the refresh before ended to now: together they cover it, and the
//! TIME cursor `refresh_checked_at` of the campaign moves when the last of them is done. The harvest does not notice.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::calendar::Stepper;
use crate::id::IdGen;
use crate::page::Part;
use crate::plan::build::{Child, NoPlan, PlanAsk, slices};
use crate::plan::slicer::{HASH_BUCKETS, bucket_of};
use crate::ports::{Namespace, NewPlan, PlanView, PlanningView, RefreshBy, RefreshWanted};
use crate::spec::hashes;
use crate::spec::snapshot::SpecSnapshot;
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// The cursor of every refresh.
pub const CURSOR_KEY: &str = "refresh_checked_at";
/// Ids that one slice should hold; more buckets are made for more ids, up to [`HASH_BUCKETS`].
const IDS_PER_SLICE: usize = 200;

/// Most records that one refresh asks for, so that a plan stays one of moderate size.
pub const RECORDS_MAX: u32 = 25_000;

/// How the records of a refresh are chosen (4.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// Those that nobody looked at for so long.
    StaleFor(Span),
    /// Those that were written under another mapping.
    ExprChanged,
    /// Those that were signalled.
    Signals,
}

impl Refresh {
    /// The undertaking that such refreshes go on with.
    pub const fn activity(self) -> &'static str {
        match self {
            Refresh::StaleFor(_) => "stale",
            Refresh::ExprChanged => "mapping",
            Refresh::Signals => "signals",
        }
    }

    /// What the ledger is asked for at `now`.
    pub fn wanted(self, spec: &SpecSnapshot, now: Timestamp, limit: u32) -> RefreshWanted {
        let by = match self {
            Refresh::StaleFor(span) => RefreshBy::StaleBefore(now.minus(span)),
            Refresh::ExprChanged => RefreshBy::MappingOtherThan(hashes::mapping_hash(spec)),
            Refresh::Signals => RefreshBy::Signals,
        };
        RefreshWanted { provenance: spec.provenance.clone(), entity: spec.entity.clone(), by, limit }
    }
}

/// The namespace of a refresh.
pub fn namespace(ask: &PlanAsk) -> Namespace {
    let cursor_key = CURSOR_KEY.to_owned();
    Namespace { cursor_key, ..ask.campaign.namespace(&ask.spec, ask.until) }
}

/// The plan that asks for these ids; `None` when there are none.
pub fn plan(
    ask: &PlanAsk,
    view: &PlanningView,
    wanted: &BTreeSet<String>,
    ids: &IdGen,
) -> Result<Option<NewPlan>, NoPlan> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let Some(window) = window(ask, view)? else { return Ok(None) };
    let namespace = namespace(ask);
    let view_of = PlanView {
        id: ids.next(),
        namespace: namespace.clone(),
        window,
        spec: ask.spec.clone(),
        spec_fingerprint: hashes::spec_fingerprint(&ask.spec),
        expr_proto_hash: hashes::expr_proto_hash(&ask.spec),
    };
    let buckets = u32::try_from(wanted.len().div_ceil(IDS_PER_SLICE)).unwrap_or(HASH_BUCKETS).clamp(1, HASH_BUCKETS);
    let children: Vec<Child> =
        (0..buckets).map(|bucket| Child { window, part: Some(Part::HashBucket { bucket, buckets }) }).collect();
    let mut slices = slices(&view_of, &children, 1, ask.spec.priority, ask.now, ids);
    for (bucket, slice) in (0..buckets).zip(&mut slices) {
        let own: Vec<&String> = wanted.iter().filter(|id| bucket_of(id, buckets) == bucket).collect();
        slice.task.expected_requests = cost(&ask.spec, own.len());
        slice.task.params["ids"] = json!(own);
    }
    Ok(Some(NewPlan {
        id: view_of.id,
        instance: ask.instance,
        plan_key: format!("{}:{}", namespace.hash(), ask.instance),
        namespace,
        window,
        slice_strategy: "ID".into(),
        slice_params: json!({ "buckets": buckets, "ids": wanted.len(), "activity": ask.campaign.activity }),
        expr_proto_hash: view_of.expr_proto_hash,
        expr_proto: hashes::expr_proto(&ask.spec),
        spec_fingerprint: view_of.spec_fingerprint,
        remarks: json!({ "sliceCount": buckets, "ids": wanted.len(), "warnings": ask.spec.warnings }),
        slices,
        portion: ask.portion(),
        finished_to: None,
        spec: ask.spec.clone(),
    }))
}

/// What asking for so many ids is expected to cost of a budget.
fn cost(spec: &SpecSnapshot, ids: usize) -> u64 {
    let at_once = spec.detail.as_ref().map_or(1, |detail| detail.id_batch_size.max(1) as usize);
    (ids.div_ceil(at_once).max(1) as u64).saturating_mul(u64::from(spec.rate.cost.max(1)))
}

/// From where the campaign was to now, with edges on the source's grain and never empty.
fn window(ask: &PlanAsk, view: &PlanningView) -> Result<Option<Window>, NoPlan> {
    let boundary = &ask.spec.window.boundary;
    let grain = Stepper::new(boundary.grain.max(Span::from_micros(1)), &boundary.zone)?;
    let from = grain.floor(view.watermark.unwrap_or(ask.spec.window.origin));
    Ok(Window::new(from, grain.ceil(ask.now).max(grain.next(from))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::plan::campaign::Campaign;
    use crate::spec::sample;
    use crate::spec::snapshot::Operation;
    use std::sync::Arc;

    struct Still;

    #[async_trait::async_trait]
    impl crate::ports::Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_seconds(1_800_000_000)
        }
        async fn sleep_until(&self, _until: Timestamp) {}
    }

    fn made() -> IdGen {
        IdGen::new(Arc::new(Still), 1)
    }

    fn ask() -> PlanAsk {
        let mut spec = sample::snapshot();
        spec.operation = Operation::Update;
        let now = spec.window.origin.plus(Span::DAY);
        let campaign = Campaign { activity: Some("stale".into()), only: None };
        PlanAsk { instance: Id(1), spec: Arc::new(spec), now, until: None, campaign, estimate: None, stock_max: 100 }
    }

    #[test]
    fn every_id_is_in_the_slice_of_its_bucket_once() {
        let wanted: BTreeSet<String> = (0..1_000).map(|number| format!("id-{number}")).collect();
        let ids = made();
        let plan = plan(&ask(), &PlanningView::default(), &wanted, &ids).unwrap().unwrap();
        assert_eq!((plan.slices.len(), plan.namespace.cursor_key.as_str()), (5, CURSOR_KEY));
        let mut met: Vec<String> = Vec::new();
        for slice in &plan.slices {
            let own: Vec<String> = serde_json::from_value(slice.task.params["ids"].clone()).unwrap();
            assert!(matches!(slice.part, Some(Part::HashBucket { buckets: 5, .. })));
            assert_eq!(slice.window, plan.window);
            met.extend(own);
        }
        met.sort();
        assert_eq!(met, wanted.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_window_goes_on_where_the_campaign_was_and_is_never_empty() {
        let (ask, ids) = (ask(), made());
        let wanted = BTreeSet::from(["a".to_owned()]);
        let first = plan(&ask, &PlanningView::default(), &wanted, &ids).unwrap().unwrap();
        assert_eq!(first.window.from(), ask.spec.window.origin);
        for watermark in [ask.now.minus(Span::HOUR), ask.now, ask.now.plus(Span::HOUR)] {
            let view = PlanningView { watermark: Some(watermark), ..PlanningView::default() };
            let next = plan(&ask, &view, &wanted, &ids).unwrap().unwrap();
            assert!(next.window.contains(watermark) || next.window.to() > watermark);
        }
        assert!(plan(&ask, &PlanningView::default(), &BTreeSet::new(), &ids).unwrap().is_none());
        let harvest = crate::plan::build::namespace_of(&ask.spec);
        assert_ne!(first.namespace.hash(), harvest.hash());
    }
}
