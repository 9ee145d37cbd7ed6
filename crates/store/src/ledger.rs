//! The ledger port: each method is one step, run by its module.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::plan::portion::Portion;
use patra_core::ports::{
    BatchCommit, Cancelled, Claim, Committed, Finished, Intervention, Lease, Leased, Ledger, LedgerError, Namespace,
    NewInstance, NewPass, NewPlan, NewWaiver, Only, PlanView, PlanningView, Published, Release, SliceOutcome,
    SourceOrder, Split, Walk,
};
use patra_core::time::{Span, Timestamp};

use crate::db::Tx;
use crate::error::DbError;
use crate::store::{Inner, Store};
use crate::value::params;
use crate::{cancel, claim, commit, control, coverage, dispatch, finish, pass, plan, split, stops, waive, worker};

const ID_LIST: &str = "-- batch.id_list
    SELECT id, id_list FROM ing_task_run_batch WHERE id = :batch";

#[async_trait]
impl Ledger for Store {
    fn database_now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn lease_worker_slot(&self, owner: &str, ttl: Span) -> Result<u16, LedgerError> {
        let owner: Arc<str> = owner.into();
        self.retried("lease_worker_slot", move |store| {
            let owner = owner.clone();
            async move { worker::lease(&store.db, &owner, ttl).await }
        })
        .await
    }

    async fn renew_worker_slot(&self, owner: &str, slot: u16, ttl: Span) -> Result<(), LedgerError> {
        let owner: Arc<str> = owner.into();
        self.retried("renew_worker_slot", move |store| {
            let owner = owner.clone();
            async move { worker::renew(&store.db, &owner, slot, ttl).await }
        })
        .await
    }

    async fn open_instance(&self, instance: NewInstance) -> Result<(), LedgerError> {
        self.retried("open_instance", move |store| plan::open_instance(store, instance.clone())).await
    }

    async fn remark_instance(&self, instance: Id, remarks: serde_json::Value) -> Result<(), LedgerError> {
        self.retried("remark_instance", move |store| plan::remark_instance(store, instance, remarks.clone())).await
    }

    async fn planning_view(&self, namespace: &Namespace) -> Result<PlanningView, LedgerError> {
        let namespace = namespace.clone();
        self.retried("planning_view", move |store| coverage::planning_view(store, namespace.clone())).await
    }

    async fn publish_plan(&self, plan: NewPlan) -> Result<Published, LedgerError> {
        let plan = Arc::new(plan);
        self.retried("publish_plan", move |store| plan::publish(store, plan.clone())).await
    }

    async fn plan(&self, plan: Id) -> Result<PlanView, LedgerError> {
        self.retried("plan", move |store| plan::read(store, plan)).await
    }

    async fn partial_plans(&self, only: &Only) -> Result<Vec<Id>, LedgerError> {
        let only = Arc::new(only.clone());
        self.retried("partial_plans", move |store| dispatch::partial(store, only.clone())).await
    }

    async fn dispatch(&self, plan: Id, portion: &Portion) -> Result<u64, LedgerError> {
        let portion = Arc::new(portion.clone());
        self.retried("dispatch", move |store| dispatch::dispatch(store, plan, portion.clone())).await
    }

    async fn acquire_tasks(&self, claim: &Claim) -> Result<Vec<Leased>, LedgerError> {
        let claim = Arc::new(claim.clone());
        self.retried("acquire_tasks", move |store| claim::acquire(store, claim.clone())).await
    }

    async fn next_due(&self, only: &Only) -> Result<Option<Timestamp>, LedgerError> {
        let only = Arc::new(only.clone());
        self.retried("next_due", move |store| claim::next_due(store, only.clone())).await
    }

    async fn mark_asked(&self, lease: &Lease) -> Result<(), LedgerError> {
        let lease = lease.clone();
        self.retried("mark_asked", move |store| claim::mark_asked(store, lease.clone())).await
    }

    async fn renew(&self, lease: &Lease, ttl: Span) -> Result<Timestamp, LedgerError> {
        let lease = lease.clone();
        self.retried("renew", move |store| claim::renew(store, lease.clone(), ttl)).await
    }

    async fn is_stopped(&self, provenance: &str, endpoint: &str) -> Result<bool, LedgerError> {
        let (provenance, endpoint): (Arc<str>, Arc<str>) = (provenance.into(), endpoint.into());
        self.retried("is_stopped", move |store| stops::is_stopped(store, provenance.clone(), endpoint.clone())).await
    }

    async fn commit_batch(&self, lease: &Lease, batch: BatchCommit) -> Result<Committed, LedgerError> {
        self.commit_page(lease, commit::Prepared::new(batch).await?).await
    }

    async fn id_list(&self, batch: Id) -> Result<Vec<String>, LedgerError> {
        self.retried("id_list", move |store| id_list(store, batch)).await
    }

    async fn begin_pass(&self, lease: &Lease, pass: NewPass) -> Result<(), LedgerError> {
        let (lease, pass) = (lease.clone(), Arc::new(pass));
        self.retried("begin_pass", move |store| pass::begin_pass(store, lease.clone(), pass.clone())).await
    }

    async fn finish_slice(&self, lease: &Lease, outcome: SliceOutcome) -> Result<Finished, LedgerError> {
        let (lease, outcome) = (lease.clone(), Arc::new(outcome));
        self.retried("finish_slice", move |store| finish::once(store, lease.clone(), outcome.clone())).await
    }

    async fn release(&self, lease: &Lease, release: Release) -> Result<(), LedgerError> {
        let (lease, release) = (lease.clone(), Arc::new(release));
        self.retried("release", move |store| pass::release(store, lease.clone(), release.clone())).await
    }

    async fn split_slice(&self, lease: &Lease, split: Split) -> Result<(), LedgerError> {
        let (lease, cut) = (lease.clone(), Arc::new(split));
        self.retried("split_slice", move |store| split::split(store, lease.clone(), cut.clone())).await
    }

    async fn cancel_task(&self, task: Id, act: &Intervention) -> Result<Cancelled, LedgerError> {
        let act = Arc::new(act.clone());
        self.retried("cancel_task", move |store| cancel::task(store, task, act.clone())).await
    }

    async fn cancel_plan(&self, plan: Id, act: &Intervention) -> Result<u64, LedgerError> {
        let act = Arc::new(act.clone());
        let mut all = 0;
        loop {
            let some = self.retried("cancel_plan", |store| cancel::some_of_plan(store, plan, act.clone())).await?;
            if some == 0 {
                return Ok(all);
            }
            all += some;
        }
    }

    async fn order_source(&self, order: &SourceOrder) -> Result<bool, LedgerError> {
        let order = Arc::new(order.clone());
        self.retried("order_source", move |store| control::order(store, order.clone())).await
    }

    async fn waive(&self, waiver: NewWaiver) -> Result<Option<(Timestamp, Timestamp)>, LedgerError> {
        let waiver = Arc::new(waiver);
        self.retried("waive", move |store| waive::waive(store, waiver.clone())).await
    }

    async fn reconcile(&self, walk: &Walk) -> Result<bool, LedgerError> {
        let walk = Arc::new(walk.clone());
        self.retried("reconcile", move |store| coverage::reconcile(store, walk.clone())).await
    }
}

async fn id_list(store: Arc<Inner>, batch: Id) -> Result<Vec<String>, DbError> {
    let mut tx = store.db.read().await?;
    let result = id_list_in(&mut tx, batch).await;
    crate::step::ended(tx, result).await
}

async fn id_list_in(tx: &mut Tx, batch: Id) -> Result<Vec<String>, DbError> {
    let row = tx.row("ing_task_run_batch", ID_LIST, params! { batch: batch }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("batch {batch}") })?;
    Ok(row.opt_json("id_list")?.unwrap_or_default())
}
