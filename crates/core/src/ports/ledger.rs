//! The ledger: every method is one transaction, and its first sentence is the invariant it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failpoint::Struck;
use crate::hash::Hash32;
use crate::healing::Circuit;
use crate::id::Id;
use crate::page::Part;
use crate::plan::coverage::ReadSlice;
use crate::plan::estimate::Counted;
use crate::plan::portion::Portion;
use crate::ports::{BatchCommit, BatchTrace, Budgets, Committed, Healing, OpenBatch, Partition};
use crate::spec::snapshot::{NamespaceScope, Operation, SpecSnapshot};
use crate::states::TaskState;
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Why a step of the ledger did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Someone else holds the task now: stop, write nothing more.
    #[error("the lease of task {task} was lost")]
    LeaseLost { task: Id },
    /// Someone else tells the events of this shard now.
    #[error("the lease of outbox shard {shard} was lost")]
    ShardLost { shard: u8 },
    /// A row holds what no version of this program writes.
    #[error("{table}.{column} of row {row} holds nonsense: {message}")]
    Corrupt { table: &'static str, column: String, row: i64, message: String },
    /// The database is out of reach, full or broken; nothing was written.
    #[error("the database refused {step}: {message}")]
    Unavailable { step: &'static str, message: String },
    /// The database refused the content of a page, and not only single records of it.
    #[error("the database refused a page: {message}")]
    Data { message: String },
    #[error("{what} was written by a newer release of patra")]
    TooNew { what: String },
    #[error("there is no {what}")]
    Missing { what: String },
    /// Another process may be making the same ids: stop, write nothing more.
    #[error("worker slot {slot} was lost; this process must be started again")]
    SlotLost { slot: u16 },
    /// A planted failure of a test.
    #[error(transparent)]
    Struck(#[from] Struck),
}

/// K of the invariants: what owns one cursor, one live plan and one coverage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Namespace {
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    /// Watermark key of the window.
    pub cursor_key: String,
    pub scope: NamespaceScope,
    /// Hex of SHA-256(endpoint, expr_proto_hash); empty for the cursor that endpoints share.
    pub key: String,
}

/// How the coverage of a namespace is walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    pub namespace: Namespace,
    pub origin: Timestamp,
    pub settling_lag: Span,
    /// Endpoints that share one watermark, this one among them; empty where it is not shared.
    pub shares: Vec<String>,
}

impl Namespace {
    /// The namespace of the watermark that this one shares: no endpoint and no expression of its own.
    pub fn shared(&self) -> Namespace {
        Namespace { endpoint: String::new(), key: String::new(), ..self.clone() }
    }

    /// One value for the whole, stored as `namespace_hash`.
    pub fn hash(&self) -> Hash32 {
        let operation = self.operation.code();
        let parts = [&self.provenance, &self.endpoint, operation, &self.cursor_key, self.scope.code(), &self.key];
        Hash32::of_parts(&parts.map(str::as_bytes))
    }
}

/// A trigger, before anything is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct NewInstance {
    pub id: Id,
    pub scheduler: String,
    pub job_id: String,
    pub log_id: String,
    pub trigger_type: String,
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    pub channel: String,
    pub params: serde_json::Value,
}

/// What the planner needs to know of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanningView {
    pub live_plan: Option<Id>,
    /// The schedule instance that the live plan came of.
    pub live_instance: Option<Id>,
    pub watermark: Option<Timestamp>,
    /// SUCCEEDED slices that reach past the finished prefix stored with the cursor.
    pub slices: Vec<ReadSlice>,
    pub waived: Vec<Window>,
    /// Contiguous prefix of `Fin` known so far; slices below it may be gone.
    pub finished_to: Option<Timestamp>,
    /// How far the source's clock was behind ours when last seen; zero when it was not behind.
    pub source_behind: Span,
    /// Tasks QUEUED for this provenance, endpoint and operation.
    pub queued: u64,
    pub paused: Option<String>,
    /// Healers hold planning until then, and why.
    pub held: Option<(Timestamp, String)>,
    /// The next plan ends so much earlier than it would.
    pub lag_raised: Span,
    /// What the slices read lately held.
    pub history: Vec<Counted>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewPlan {
    pub id: Id,
    pub instance: Id,
    pub plan_key: String,
    pub namespace: Namespace,
    pub window: Window,
    pub slice_strategy: String,
    pub slice_params: serde_json::Value,
    pub expr_proto_hash: Hash32,
    pub expr_proto: serde_json::Value,
    pub spec: Arc<SpecSnapshot>,
    pub spec_fingerprint: Hash32,
    pub remarks: serde_json::Value,
    pub slices: Vec<NewSlice>,
    /// How much of it gets tasks at once; the rest waits, and the plan is PARTIAL.
    pub portion: Portion,
    /// The finished prefix the plan was computed from, kept as a shortcut for the next one.
    pub finished_to: Option<Timestamp>,
}

/// A slice with the one task that reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSlice {
    pub id: Id,
    pub slice_no: u32,
    pub window: Window,
    pub part: Option<Part>,
    pub slice_spec: serde_json::Value,
    pub signature_hash: Hash32,
    pub expr_hash: Hash32,
    pub expr: serde_json::Value,
    pub task: NewTask,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTask {
    pub id: Id,
    pub idempotent_key: Hash32,
    pub params: serde_json::Value,
    pub credential: Option<String>,
    pub priority: u8,
    pub scheduled_at: Timestamp,
    /// Token of the first page of a pass.
    pub first_token: String,
    /// What it is expected to cost of a budget; reserved while it is open.
    pub expected_requests: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Created(Id),
    /// A plan of this namespace is live.
    Existing(Id),
    /// The same trigger has published this plan before; it may have ended since.
    Repeated(Id),
}

/// Whose tasks are wanted; what is not given does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only {
    pub provenance: Option<String>,
    pub operation: Option<Operation>,
}

impl Only {
    pub fn wants(&self, partition: &Partition) -> bool {
        self.provenance.as_ref().is_none_or(|wanted| *wanted == partition.provenance)
            && self.operation.is_none_or(|wanted| wanted.code() == partition.operation)
    }
}

/// What an executor asks for. It asks only for as many tasks as it has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub who: String,
    pub limit: u32,
    pub ttl: Span,
    pub only: Only,
    /// Most tasks of one partition that this executor runs at a time.
    pub partition_max: u32,
    /// Partitions of which fewer are to run for now.
    pub lowered: BTreeMap<Partition, u32>,
    /// What it runs already.
    pub running: BTreeMap<Partition, u32>,
    /// Partitions whose tasks it runs already wait for the gate: another one of the queue would only wait too.
    pub crowded: BTreeSet<Partition>,
}

impl Claim {
    pub fn new(who: &str, limit: u32, ttl: Span) -> Claim {
        let (running, crowded, lowered) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Claim {
            who: who.to_owned(),
            limit,
            ttl,
            only: Only::default(),
            partition_max: u32::MAX,
            lowered,
            running,
            crowded,
        }
    }

    /// How many more queued tasks of this partition the executor takes.
    pub fn room(&self, partition: &Partition) -> u32 {
        if self.crowded.contains(partition) {
            return 0;
        }
        let most = self.lowered.get(partition).copied().unwrap_or(self.partition_max).min(self.partition_max);
        most.saturating_sub(self.running.get(partition).copied().unwrap_or(0))
    }

    /// The same for tasks whose holder is gone: they count as held already, and must not wait for anything.
    pub fn room_for_lost(&self, partition: &Partition) -> u32 {
        self.partition_max.saturating_sub(self.running.get(partition).copied().unwrap_or(0))
    }
}

/// The right to write for one task. Only [`Ledger::acquire_tasks`] makes one; epoch and run UUID fence late writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub task: Id,
    pub epoch: i64,
    pub run_uuid: Uuid,
    pub run: Id,
    pub slice: Id,
    pub plan: Id,
    /// On the database clock.
    pub expires_at: Timestamp,
}

/// A task taken for execution, with everything needed to go on where the last run stopped.
#[derive(Clone, Debug)]
pub struct Leased {
    pub lease: Lease,
    pub task: Task,
    /// Committed batches of all passes of the task, oldest first, read after the claim.
    pub trace: Vec<BatchTrace>,
    /// The RUNNING row inserted by the claim for the page to be read next.
    pub batch: OpenBatch,
    /// The circuit of its endpoint, when this claim took the probe: its first request decides (INV-51).
    pub probe: Option<Circuit>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: Id,
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    pub window: Window,
    pub part: Option<Part>,
    /// UPDATE: the ids to ask for.
    pub ids: Vec<String>,
    pub expr_hash: Hash32,
    pub priority: u8,
    pub attempt_no: u32,
    pub failure_count: u32,
    /// Leases lost in a row at the same page.
    pub lost_count: u32,
}

/// How a slice ends.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceOutcome {
    /// One pass from the first page to the source's own end, reconciled.
    Succeeded { read_at: Timestamp, source_behind: Span, remarks: serde_json::Value },
    /// Pages are stored but prove nothing, except for what their order proves.
    Partial { reason: String, prefix: Option<Box<CutAtPrefix>> },
    Failed {
        class: String,
        reason: String,
        prefix: Option<Box<CutAtPrefix>>,
        /// A person must act first: its fuse blows, and nobody plans or claims from this endpoint until it is resumed.
        stops_source: bool,
    },
}

/// The beginning of a slice that the order of its pages proves (INV-3). It becomes a SUCCEEDED child of the slice.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvenSlice {
    pub slice: NewSlice,
    pub read_at: Timestamp,
    pub source_behind: Span,
}

/// A slice that ends without proof of the whole: the rest ends as the slice would have.
#[derive(Clone, Debug, PartialEq)]
pub struct CutAtPrefix {
    pub proven: ProvenSlice,
    pub rest: NewSlice,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Watermark before and after, when it moved.
    pub moved: Option<(Timestamp, Timestamp)>,
    pub plan_completed: bool,
}

/// Giving a task back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Not to be claimed before this, on the database clock.
    pub due_at: Timestamp,
    pub reason: String,
    /// True when this attempt failed; waiting, shutdown and takeover are not failures.
    pub failed: bool,
    /// The circuit of the endpoint is open; the run's `stats` say so.
    pub circuit_open: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub reason: String,
    /// What need not be read again.
    pub proven: Option<ProvenSlice>,
    /// Tile the parent exactly, or what is not proven of it.
    pub children: Vec<NewSlice>,
}

/// Where to go on with a new pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPass {
    /// The RUNNING row that is given up.
    pub abandoned: Id,
    pub first: OpenBatch,
    pub reason: String,
}

/// Who acts and why; kept in the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervention {
    pub actor: String,
    pub reason: String,
}

/// What a person orders for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOrder {
    pub provenance: String,
    /// All endpoints when `None`.
    pub endpoint: Option<String>,
    /// Stop, or go on.
    pub pause: bool,
    pub act: Intervention,
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Now,
    /// It had ended before, in this state; complete or cancel wins, never both (INV-42).
    EndedBefore(TaskState),
}

/// A hole that somebody answers for (INV-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWaiver {
    /// Chosen before the first try, so that a repeated one is the same.
    pub id: Id,
    pub walk: Walk,
    pub window: Window,
    pub act: Intervention,
}

/// A plan as an executor needs it.
#[derive(Clone, Debug)]
pub struct PlanView {
    pub id: Id,
    pub namespace: Namespace,
    pub window: Window,
    pub spec: Arc<SpecSnapshot>,
    pub spec_fingerprint: Hash32,
    pub expr_proto_hash: Hash32,
}

#[async_trait]
pub trait Ledger: Budgets + Healing + Send + Sync {
    /// The clock that leases are measured on.
    fn database_now(&self) -> Timestamp;

    /// Leases a slot for the id generator of one process; no two live processes share one.
    async fn lease_worker_slot(&self, owner: &str, ttl: Span) -> Result<u16, LedgerError>;

    /// Moves the end of a slot's lease if it is still `owner`'s.
    async fn renew_worker_slot(&self, owner: &str, slot: u16, ttl: Span) -> Result<(), LedgerError>;

    /// Records what was asked, before anything is decided.
    async fn open_instance(&self, instance: NewInstance) -> Result<(), LedgerError>;

    /// Writes on the instance why no plan came of it, or which plan did.
    async fn remark_instance(&self, instance: Id, remarks: serde_json::Value) -> Result<(), LedgerError>;

    /// Everything the next plan of a namespace depends on, from one snapshot.
    async fn planning_view(&self, namespace: &Namespace) -> Result<PlanningView, LedgerError>;

    /// Plan, slices and tasks become claimable in one commit; at most one plan per namespace is live.
    async fn publish_plan(&self, plan: NewPlan) -> Result<Published, LedgerError>;

    async fn plan(&self, plan: Id) -> Result<PlanView, LedgerError>;

    /// Plans that have slices without a task, HARVEST before UPDATE before BACKFILL, and the oldest first.
    async fn partial_plans(&self, only: &Only) -> Result<Vec<Id>, LedgerError>;

    /// Gives the next slices of a PARTIAL plan their one task each, as many as the portion allows; how many.
    async fn dispatch(&self, plan: Id, portion: &Portion) -> Result<u64, LedgerError>;

    /// Leases due tasks, each to one holder, with a higher epoch and a fresh run: the highest priority first, taking
    /// turns over partitions.
    async fn acquire_tasks(&self, claim: &Claim) -> Result<Vec<Leased>, LedgerError>;

    /// When the next task can be claimed: now, later (a due time or the end of a lease), or never.
    async fn next_due(&self, only: &Only) -> Result<Option<Timestamp>, LedgerError>;

    /// The holder asks for the page now. Of a task that has lost leases before only a lease that is lost after this
    /// counts: one that was lost while it waited says nothing about the page (INV-25).
    async fn mark_asked(&self, lease: &Lease) -> Result<(), LedgerError>;

    /// Moves the end of the lease if it is still ours.
    async fn renew(&self, lease: &Lease, ttl: Span) -> Result<Timestamp, LedgerError>;

    /// Whether a person or a fuse has stopped the source or this endpoint of it; who works on it gives its task back.
    async fn is_stopped(&self, provenance: &str, endpoint: &str) -> Result<bool, LedgerError>;

    /// Batch row, records, outbox, quarantine and position become visible together or not at all. A record that the
    /// database refuses goes to quarantine in the same transaction; the others are stored.
    async fn commit_batch(&self, lease: &Lease, batch: BatchCommit) -> Result<Committed, LedgerError>;

    /// Ids found by a search batch, in page order.
    async fn id_list(&self, batch: Id) -> Result<Vec<String>, LedgerError>;

    /// Gives up the pass and opens the next one at its first page.
    async fn begin_pass(&self, lease: &Lease, pass: NewPass) -> Result<(), LedgerError>;

    /// Task, slice, coverage, cursor event and cursor move together; the cursor never passes a gap.
    async fn finish_slice(&self, lease: &Lease, outcome: SliceOutcome) -> Result<Finished, LedgerError>;

    /// Gives the task back; the run ends PARTIAL (or FAILED when `failed`) with its reason.
    async fn release(&self, lease: &Lease, release: Release) -> Result<(), LedgerError>;

    /// Replaces a slice by children that tile it, fencing its executor.
    async fn split_slice(&self, lease: &Lease, split: Split) -> Result<(), LedgerError>;

    /// Ends a task that is queued or running, with its slice. Afterwards no batch of it commits; what has ended stays
    /// as it is.
    async fn cancel_task(&self, task: Id, act: &Intervention) -> Result<Cancelled, LedgerError>;

    /// Cancels every open task of a plan, also those that splits add meanwhile; how many.
    async fn cancel_plan(&self, plan: Id, act: &Intervention) -> Result<u64, LedgerError>;

    /// Stops or resumes a source: from then on nobody plans or claims what is stopped. False when it was so before.
    async fn order_source(&self, order: &SourceOrder) -> Result<bool, LedgerError>;

    /// Counts a window as covered that nobody proved, and moves the watermark over it with the cause WAIVED; where it
    /// went, if it moved.
    async fn waive(&self, waiver: NewWaiver) -> Result<Option<(Timestamp, Timestamp)>, LedgerError>;

    /// Walks the coverage of a namespace again; true when the watermark moved.
    async fn reconcile(&self, walk: &Walk) -> Result<bool, LedgerError>;
}
