//! A ledger whose calls are over before they return, so that on virtual time each of them takes none.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::budget::Budget;
use patra_core::healing::{Circuit, Site};
use patra_core::id::Id;
use patra_core::plan::portion::Portion;
use patra_core::ports::{
    BatchCommit, BudgetDraw, BudgetDrawn, Budgets, Cancelled, Claim, Committed, Finished, Healing, Hold, Intervention,
    Lease, Leased, Ledger, LedgerError, Namespace, NewInstance, NewPass, NewPlan, NewWaiver, Only, PlanView,
    PlanningView, Published, RateKey, Release, SliceOutcome, SourceOrder, Split, Walk,
};
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use tokio::runtime::Runtime;

/// Drives every call of the inner ledger to its end on the runtime it was opened on.
///
/// The runtime itself and not its handle: one without threads of its own runs only inside its `block_on`.
pub struct BlockingLedger {
    inner: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
}

impl BlockingLedger {
    pub fn new(inner: Arc<dyn Ledger>, runtime: Arc<Runtime>) -> BlockingLedger {
        BlockingLedger { inner, runtime }
    }
}

#[async_trait]
impl Healing for BlockingLedger {
    async fn circuit(&self, site: &Site) -> Result<Circuit, LedgerError> {
        self.runtime.block_on(self.inner.circuit(site))
    }

    async fn move_circuit(&self, site: &Site, seen: Circuit, next: Circuit) -> Result<bool, LedgerError> {
        self.runtime.block_on(self.inner.move_circuit(site, seen, next))
    }

    async fn hold_planning(&self, site: &Site, hold: &Hold) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.hold_planning(site, hold))
    }
}

#[async_trait]
impl Budgets for BlockingLedger {
    async fn draw_budget(&self, draw: &BudgetDraw) -> Result<BudgetDrawn, LedgerError> {
        self.runtime.block_on(self.inner.draw_budget(draw))
    }

    async fn budget_left(&self, key: &RateKey, budgets: &[Budget], operation: Operation) -> Result<u64, LedgerError> {
        self.runtime.block_on(self.inner.budget_left(key, budgets, operation))
    }

    async fn return_budget(&self, key: &RateKey, budgets: &[Budget], unused: u64) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.return_budget(key, budgets, unused))
    }
}

#[async_trait]
impl Ledger for BlockingLedger {
    fn database_now(&self) -> Timestamp {
        self.inner.database_now()
    }

    async fn lease_worker_slot(&self, owner: &str, ttl: Span) -> Result<u16, LedgerError> {
        self.runtime.block_on(self.inner.lease_worker_slot(owner, ttl))
    }

    async fn renew_worker_slot(&self, owner: &str, slot: u16, ttl: Span) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.renew_worker_slot(owner, slot, ttl))
    }

    async fn open_instance(&self, instance: NewInstance) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.open_instance(instance))
    }

    async fn remark_instance(&self, instance: Id, remarks: serde_json::Value) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.remark_instance(instance, remarks))
    }

    async fn planning_view(&self, namespace: &Namespace) -> Result<PlanningView, LedgerError> {
        self.runtime.block_on(self.inner.planning_view(namespace))
    }

    async fn publish_plan(&self, plan: NewPlan) -> Result<Published, LedgerError> {
        self.runtime.block_on(self.inner.publish_plan(plan))
    }

    async fn plan(&self, plan: Id) -> Result<PlanView, LedgerError> {
        self.runtime.block_on(self.inner.plan(plan))
    }

    async fn partial_plans(&self, only: &Only) -> Result<Vec<Id>, LedgerError> {
        self.runtime.block_on(self.inner.partial_plans(only))
    }

    async fn dispatch(&self, plan: Id, portion: &Portion) -> Result<u64, LedgerError> {
        self.runtime.block_on(self.inner.dispatch(plan, portion))
    }

    async fn acquire_tasks(&self, claim: &Claim) -> Result<Vec<Leased>, LedgerError> {
        self.runtime.block_on(self.inner.acquire_tasks(claim))
    }

    async fn next_due(&self, only: &Only) -> Result<Option<Timestamp>, LedgerError> {
        self.runtime.block_on(self.inner.next_due(only))
    }

    async fn mark_asked(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.mark_asked(lease))
    }

    async fn renew(&self, lease: &Lease, ttl: Span) -> Result<Timestamp, LedgerError> {
        self.runtime.block_on(self.inner.renew(lease, ttl))
    }

    async fn is_stopped(&self, provenance: &str, endpoint: &str) -> Result<bool, LedgerError> {
        self.runtime.block_on(self.inner.is_stopped(provenance, endpoint))
    }

    async fn commit_batch(&self, lease: &Lease, batch: BatchCommit) -> Result<Committed, LedgerError> {
        self.runtime.block_on(self.inner.commit_batch(lease, batch))
    }

    async fn id_list(&self, batch: Id) -> Result<Vec<String>, LedgerError> {
        self.runtime.block_on(self.inner.id_list(batch))
    }

    async fn begin_pass(&self, lease: &Lease, pass: NewPass) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.begin_pass(lease, pass))
    }

    async fn finish_slice(&self, lease: &Lease, outcome: SliceOutcome) -> Result<Finished, LedgerError> {
        self.runtime.block_on(self.inner.finish_slice(lease, outcome))
    }

    async fn release(&self, lease: &Lease, release: Release) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.release(lease, release))
    }

    async fn split_slice(&self, lease: &Lease, split: Split) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.split_slice(lease, split))
    }

    async fn cancel_task(&self, task: Id, act: &Intervention) -> Result<Cancelled, LedgerError> {
        self.runtime.block_on(self.inner.cancel_task(task, act))
    }

    async fn cancel_plan(&self, plan: Id, act: &Intervention) -> Result<u64, LedgerError> {
        self.runtime.block_on(self.inner.cancel_plan(plan, act))
    }

    async fn order_source(&self, order: &SourceOrder) -> Result<bool, LedgerError> {
        self.runtime.block_on(self.inner.order_source(order))
    }

    async fn waive(&self, waiver: NewWaiver) -> Result<Option<(Timestamp, Timestamp)>, LedgerError> {
        self.runtime.block_on(self.inner.waive(waiver))
    }

    async fn reconcile(&self, walk: &Walk) -> Result<bool, LedgerError> {
        self.runtime.block_on(self.inner.reconcile(walk))
    }
}
