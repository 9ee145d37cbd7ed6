//! A ledger whose calls are over before they return, so that on virtual time each of them takes none.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::ports::{
    BatchCommit, Cancelled, Claim, Committed, Finished, Intervention, Lease, Leased, Ledger, LedgerError, Namespace,
    NewInstance, NewPass, NewPlan, NewWaiver, PlanView, PlanningView, Published, Release, SliceOutcome, Split, Walk,
};
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

    async fn acquire_tasks(&self, claim: &Claim) -> Result<Vec<Leased>, LedgerError> {
        self.runtime.block_on(self.inner.acquire_tasks(claim))
    }

    async fn next_due(&self, only: Option<&str>) -> Result<Option<Timestamp>, LedgerError> {
        self.runtime.block_on(self.inner.next_due(only))
    }

    async fn mark_asked(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.runtime.block_on(self.inner.mark_asked(lease))
    }

    async fn renew(&self, lease: &Lease, ttl: Span) -> Result<Timestamp, LedgerError> {
        self.runtime.block_on(self.inner.renew(lease, ttl))
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

    async fn waive(&self, waiver: NewWaiver) -> Result<Option<(Timestamp, Timestamp)>, LedgerError> {
        self.runtime.block_on(self.inner.waive(waiver))
    }

    async fn reconcile(&self, walk: &Walk) -> Result<bool, LedgerError> {
        self.runtime.block_on(self.inner.reconcile(walk))
    }
}
