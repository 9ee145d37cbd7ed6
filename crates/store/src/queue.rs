//! What is due, and whose turn it is.
//!
//! Queued tasks stand in groups (provenance, endpoint, operation, priority). A claim serves the highest priority
//! first and takes turns over the groups of one priority, so that no source waits behind another's long queue. The
//! groups are few and found by seeks in one index, whose cost does not grow with the queue; they are remembered for
//! a moment. Tasks whose lease ran out come before all queued ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use patra_core::healing::{Circuit, Passage, Site};
use patra_core::id::Id;
use patra_core::ports::{LedgerError, Only, Partition};
use patra_core::spec::snapshot::FORMAT;
use patra_core::states::TaskState;
use patra_core::time::{Span, Timestamp};

use crate::db::Tx;
use crate::dispatch::partial_in;
use crate::error::DbError;
use crate::stops::{self, Stops};
use crate::value::{Row, Value, params};

/// How long the groups of the queue are believed.
const GROUPS_TTL: Span = Span::from_seconds(1);
/// Expired leases looked at in one claim; there are never more than the fleet runs.
const EXPIRED_MAX: u32 = 256;
/// When there may be tasks of a plan that has slices without any.
const LATER: Span = Span::HOUR;
/// Plans of a newer format that are remembered.
const TOO_NEW_MAX: usize = 150;

pub(crate) const NEXT_GROUP: &str = "-- queue.next_group
    {first_after:ing_task;idx_task_claim;status_code = :queued;provenance_code,endpoint_name,operation_code,priority}";
pub(crate) const DUE: &str = "-- task.due
    SELECT id, lease_epoch, status_code, plan_id, provenance_code, endpoint_name, operation_code FROM ing_task
     WHERE status_code = :queued AND provenance_code = :provenance AND endpoint_name = :endpoint
       AND operation_code = :operation AND priority = :priority AND scheduled_at <= :now
       AND plan_id NOT IN ({list})
     ORDER BY scheduled_at, id {limit:limit} {skip_locked}";
pub(crate) const EXPIRED: &str = "-- task.expired
    SELECT id, lease_epoch, status_code, plan_id, provenance_code, endpoint_name, operation_code FROM ing_task
     WHERE status_code = :running AND leased_until < :now
     ORDER BY leased_until {limit:limit} {skip_locked}";
pub(crate) const NEXT_QUEUED: &str = "-- task.next_queued
    SELECT MIN(scheduled_at) AS due_at FROM ing_task
     WHERE status_code = :queued AND provenance_code = :provenance AND endpoint_name = :endpoint
       AND operation_code = :operation AND priority = :priority";
pub(crate) const LEASES: &str = "-- task.leases
    SELECT leased_until AS due_at, provenance_code, endpoint_name, operation_code FROM ing_task
     WHERE status_code = :running AND leased_until IS NOT NULL ORDER BY leased_until {limit:limit}";
pub(crate) const PLAN_FORMAT: &str = "-- plan.format
    SELECT id, format_version FROM ing_plan WHERE id = :plan";

/// A task as the select saw it.
pub(crate) struct Candidate {
    pub task: Id,
    pub epoch: i64,
    pub state: TaskState,
    pub partition: Partition,
    /// The circuit of its endpoint, where only one who takes the probe may ask.
    pub probe: Option<Circuit>,
    plan: Id,
}

impl Candidate {
    pub fn site(&self) -> Site {
        stops::site(&self.partition)
    }

    fn read(row: &Row) -> Result<Candidate, LedgerError> {
        Ok(Candidate {
            task: row.id("id")?,
            epoch: row.int("lease_epoch")?,
            state: row.code("status_code", TaskState::from_code)?,
            plan: row.id("plan_id")?,
            partition: partition(row)?,
            probe: None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    priority: i64,
    pub partition: Partition,
}

/// What this process knows of the queue; all of it can be read again.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Known>);

#[derive(Default)]
struct Known {
    groups: Vec<Group>,
    read_at: Option<Timestamp>,
    /// Raised by every claim: which group of a priority comes first.
    turn: usize,
    /// Plans of a format that only a newer release can run (INV-43), and of ours.
    too_new: BTreeSet<Id>,
    ours: BTreeSet<Id>,
}

/// What a claim asks for.
pub(crate) struct Wanted<'a> {
    pub limit: u32,
    pub only: &'a Only,
    /// How many more tasks of a partition the caller would take, from the queue or from a holder that is gone.
    pub room: &'a (dyn Fn(&Partition, TaskState) -> u32 + Sync),
}

impl Queue {
    /// Tasks to take, in the order of their turn.
    pub async fn candidates(&self, tx: &mut Tx, wanted: &Wanted<'_>) -> Result<Vec<Candidate>, DbError> {
        let stops = Stops::read(tx).await?;
        let mut found = Found { tasks: Vec::new(), wanted, stops: &stops, by_partition: BTreeMap::new() };
        let asked = params! { running: TaskState::Running.code(), now: tx.now(), limit: EXPIRED_MAX };
        for row in tx.rows("ing_task", EXPIRED, asked).await? {
            let one = Candidate::read(&row)?;
            if self.runs(tx, one.plan).await? {
                found.offer(one);
            }
        }
        let mut groups = self.groups(tx, false).await?;
        for known in [true, false] {
            let before = found.tasks.len();
            groups.retain(|group| found.wants(&group.partition, TaskState::Queued));
            self.take_turns(tx, &groups, &mut found).await?;
            if !known || found.tasks.len() > before || found.left() == 0 {
                break;
            }
            // Nothing in the groups that are remembered: look whether there are others.
            groups = self.groups(tx, true).await?;
        }
        Ok(found.tasks)
    }

    /// Serves the priorities in order; within one, each group its share, then whoever has more.
    async fn take_turns(&self, tx: &mut Tx, groups: &[Group], found: &mut Found<'_>) -> Result<(), DbError> {
        let turn = self.next_turn();
        for equal in groups.chunk_by(|one, other| one.priority == other.priority) {
            let start = turn % equal.len();
            let order: Vec<&Group> = equal[start..].iter().chain(&equal[..start]).collect();
            for (served, group) in order.iter().enumerate() {
                let share = found.left().div_ceil((order.len() - served) as u32);
                self.take_from(tx, group, share, found).await?;
            }
            for group in order {
                self.take_from(tx, group, found.left(), found).await?;
            }
        }
        Ok(())
    }

    async fn take_from(&self, tx: &mut Tx, group: &Group, most: u32, found: &mut Found<'_>) -> Result<(), DbError> {
        loop {
            let limit = most.min(found.room(&group.partition, TaskState::Queued));
            if limit == 0 {
                return Ok(());
            }
            let mut refused = false;
            for one in self.due(tx, group, limit, &found.tasks).await? {
                if self.runs(tx, one.plan).await? {
                    found.offer(one);
                } else {
                    refused = true;
                }
            }
            if !refused {
                return Ok(());
            }
        }
    }

    async fn due(&self, tx: &mut Tx, group: &Group, limit: u32, held: &[Candidate]) -> Result<Vec<Candidate>, DbError> {
        let mut asked = group.params();
        // Those already chosen are still queued; they are asked for again and left out.
        let again = held.iter().filter(|one| one.partition == group.partition).count();
        let limit = limit.saturating_add(u32::try_from(again).unwrap_or(u32::MAX));
        asked.extend(params! { now: tx.now(), limit: limit });
        let mut skipped: Vec<Value> = self.known(|known| known.too_new.iter().map(|id| (*id).into()).collect());
        if skipped.is_empty() {
            skipped.push(0i64.into());
        }
        let mut due = Vec::new();
        for row in tx.rows_listed("ing_task", DUE, asked, &skipped).await? {
            let one = Candidate::read(&row)?;
            if !held.iter().any(|known| known.task == one.task) {
                due.push(one);
            }
        }
        Ok(due)
    }

    /// Whether this release can run the plan.
    async fn runs(&self, tx: &mut Tx, plan: Id) -> Result<bool, DbError> {
        let (ours, too_new) = self.known(|known| (known.ours.contains(&plan), known.too_new.contains(&plan)));
        if ours || too_new {
            return Ok(ours);
        }
        let row = tx.row("ing_plan", PLAN_FORMAT, params! { plan: plan }).await?;
        let row = row.ok_or_else(|| LedgerError::Missing { what: format!("plan {plan}") })?;
        let ours = row.int("format_version")? <= i64::from(FORMAT);
        self.known(|known| {
            let remembered = if ours { &mut known.ours } else { &mut known.too_new };
            if remembered.len() >= TOO_NEW_MAX {
                remembered.pop_first();
            }
            remembered.insert(plan);
        });
        Ok(ours)
    }

    /// The groups with queued tasks, by priority.
    async fn groups(&self, tx: &mut Tx, afresh: bool) -> Result<Vec<Group>, DbError> {
        let now = tx.now();
        let remembered = self.known(|known| {
            let fresh = known.read_at.is_some_and(|at| at <= now && now.since(at) < GROUPS_TTL);
            fresh.then(|| known.groups.clone())
        });
        match remembered {
            Some(groups) if !afresh => return Ok(groups),
            _ => {}
        }
        let mut groups = read_groups(tx).await?;
        groups.sort();
        self.known(|known| {
            known.groups.clone_from(&groups);
            known.read_at = Some(now);
        });
        Ok(groups)
    }

    fn next_turn(&self) -> usize {
        self.known(|known| {
            known.turn = known.turn.wrapping_add(1);
            known.turn
        })
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// When the next task is due or the next lease runs out.
    pub async fn next_due(&self, tx: &mut Tx, only: &Only) -> Result<Option<Timestamp>, DbError> {
        let stops = Stops::read(tx).await?;
        let wanted = |partition: &Partition| only.wants(partition);
        // What a circuit bars is due when somebody may probe.
        let due = |partition: &Partition, at: Timestamp| match stops.passage(partition) {
            Some(Passage::Barred { until }) => Some(at.max(until)),
            Some(_) => Some(at),
            None => None,
        };
        let mut times = Vec::new();
        for group in self.groups(tx, true).await?.iter().filter(|group| wanted(&group.partition)) {
            if let Some(row) = tx.row("ing_task", NEXT_QUEUED, group.params()).await? {
                times.extend(row.opt_time("due_at")?.and_then(|at| due(&group.partition, at)));
            }
        }
        let asked = params! { running: TaskState::Running.code(), limit: EXPIRED_MAX };
        for row in tx.rows("ing_task", LEASES, asked).await? {
            let partition = partition(&row)?;
            // A lease is over only after its last microsecond.
            let over = row.time("due_at")?.plus(Span::from_micros(1));
            if let Some(at) = due(&partition, over).filter(|_| wanted(&partition)) {
                times.push(at);
                if at == over {
                    break;
                }
            }
        }
        // What has no task yet gets one from a planner; nobody knows when.
        for plan in partial_in(tx).await?.iter().filter(|plan| wanted(&plan.partition)) {
            times.extend(due(&plan.partition, tx.now().plus(LATER)));
        }
        Ok(times.into_iter().min().map(|due_at| due_at.max(tx.now())))
    }
}

/// What a claim has found so far.
struct Found<'a> {
    tasks: Vec<Candidate>,
    wanted: &'a Wanted<'a>,
    stops: &'a Stops,
    by_partition: BTreeMap<Partition, u32>,
}

impl Found<'_> {
    fn left(&self) -> u32 {
        self.wanted.limit.saturating_sub(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX))
    }

    /// How many more tasks in this state of this partition.
    fn room(&self, partition: &Partition, state: TaskState) -> u32 {
        let taken = self.by_partition.get(partition).copied().unwrap_or(0);
        let room = (self.wanted.room)(partition, state).saturating_sub(taken).min(self.left());
        match self.stops.passage(partition) {
            Some(Passage::Free) => room,
            Some(Passage::Probe) => room.min(u32::from(!self.has_probe(partition))),
            Some(Passage::Barred { .. }) | None => 0,
        }
    }

    fn has_probe(&self, partition: &Partition) -> bool {
        self.tasks.iter().any(|task| task.site() == stops::site(partition))
    }

    fn wants(&self, partition: &Partition, state: TaskState) -> bool {
        self.wanted.only.wants(partition) && self.room(partition, state) > 0
    }

    fn offer(&mut self, mut one: Candidate) {
        if self.wants(&one.partition, one.state) {
            *self.by_partition.entry(one.partition.clone()).or_default() += 1;
            one.probe = self.stops.probe(&one.partition);
            self.tasks.push(one);
        }
    }
}

impl Group {
    fn read(row: &Row) -> Result<Group, LedgerError> {
        Ok(Group { priority: row.int("priority")?, partition: partition(row)? })
    }

    /// Where it stands in the index.
    fn place(&self) -> (&Partition, i64) {
        (&self.partition, self.priority)
    }

    pub fn params(&self) -> Vec<(&'static str, Value)> {
        params! {
            priority: self.priority,
            queued: TaskState::Queued.code(),
            provenance: &self.partition.provenance,
            endpoint: &self.partition.endpoint,
            operation: &self.partition.operation,
        }
    }
}

/// Every group, one after the other.
pub(crate) async fn read_groups(tx: &mut Tx) -> Result<Vec<Group>, DbError> {
    let mut groups: Vec<Group> = Vec::new();
    loop {
        let later = tx.rows("ing_task", NEXT_GROUP, after(groups.last())).await?;
        let later: Vec<Group> = later.iter().map(Group::read).collect::<Result<_, _>>()?;
        let next = later.into_iter().min_by(|one, other| one.place().cmp(&other.place()));
        let Some(next) = next else { return Ok(groups) };
        groups.push(next);
    }
}

fn after(last: Option<&Group>) -> Vec<(&'static str, Value)> {
    let text = |of: fn(&Partition) -> &str| last.map_or("", |group| of(&group.partition));
    params! {
        queued: TaskState::Queued.code(),
        after_provenance_code: text(|partition| &partition.provenance),
        after_endpoint_name: text(|partition| &partition.endpoint),
        after_operation_code: text(|partition| &partition.operation),
        after_priority: last.map_or(i64::MIN, |group| group.priority),
    }
}

fn partition(row: &Row) -> Result<Partition, LedgerError> {
    Ok(Partition {
        provenance: row.string("provenance_code")?,
        endpoint: row.string("endpoint_name")?,
        operation: row.string("operation_code")?,
    })
}
