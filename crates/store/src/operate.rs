//! The port of people: each method is one step, run by its module.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::ports::{
    CursorReport, CursorWork, Firing, FiringEnd, Hole, Intervention, LedgerError, Namespace, NewSignal, Operate,
    RefreshWanted, ScheduleOrder, Schedules, Target,
};
use patra_core::schedule::{Schedule, Turn};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;

use crate::store::Store;
use crate::{cancel, cursor, holes, priority, refresh, schedule};

#[async_trait]
impl Operate for Store {
    async fn holes(&self, namespace: &Namespace, settling_lag: Span) -> Result<Vec<Hole>, LedgerError> {
        let hash = namespace.hash();
        self.retried("holes", move |store| holes::read(store, hash, settling_lag)).await
    }

    async fn tend_cursors(
        &self,
        source: Option<&str>,
        work: CursorWork,
        act: &Intervention,
    ) -> Result<Vec<CursorReport>, LedgerError> {
        let source: Option<Arc<str>> = source.map(Into::into);
        let (work, act) = (Arc::new(work), Arc::new(act.clone()));
        let named = self.retried("cursors", move |store| cursor::namespaces(store, source.clone())).await?;
        let mut reports = Vec::with_capacity(named.len());
        for one in named {
            let (work, act) = (work.clone(), act.clone());
            let tend = move |store| cursor::tend(store, one.clone(), work.clone(), act.clone());
            reports.push(self.retried("tend_cursor", tend).await?);
        }
        Ok(reports)
    }

    async fn cancel_slice(&self, slice: Id, act: &Intervention) -> Result<u64, LedgerError> {
        let act = Arc::new(act.clone());
        let mut all = 0;
        loop {
            let some = self.retried("cancel_slice", |store| cancel::some_of_slice(store, slice, act.clone())).await?;
            if some == 0 {
                return Ok(all);
            }
            all += some;
        }
    }

    async fn set_priority(&self, target: Target, priority: u8, act: &Intervention) -> Result<u64, LedgerError> {
        let act = Arc::new(act.clone());
        self.retried("set_priority", move |store| priority::set(store, target, priority, act.clone())).await
    }

    async fn unproven(&self, plan: Id) -> Result<Vec<Window>, LedgerError> {
        self.retried("unproven", move |store| holes::of_plan(store, plan)).await
    }

    async fn refresh_candidates(&self, wanted: &RefreshWanted) -> Result<BTreeSet<String>, LedgerError> {
        let wanted = Arc::new(wanted.clone());
        self.retried("refresh_candidates", move |store| refresh::candidates(store, wanted.clone())).await
    }

    async fn add_signals(&self, signal: &NewSignal, act: &Intervention) -> Result<u64, LedgerError> {
        let (signal, act) = (Arc::new(signal.clone()), Arc::new(act.clone()));
        self.retried("add_signals", move |store| refresh::signal(store, signal.clone(), act.clone())).await
    }

    async fn close_answered_signals(&self, wanted: &RefreshWanted) -> Result<u64, LedgerError> {
        let wanted = Arc::new(wanted.clone());
        self.retried("close_answered_signals", move |store| refresh::close_answered(store, wanted.clone())).await
    }

    async fn note(
        &self,
        action: &'static str,
        target: &str,
        act: &Intervention,
        detail: serde_json::Value,
    ) -> Result<(), LedgerError> {
        let (target, act): (Arc<str>, _) = (target.into(), Arc::new(act.clone()));
        let note = move |store| cancel::note(store, action, target.clone(), act.clone(), detail.clone());
        self.retried("note", note).await
    }
}

#[async_trait]
impl Schedules for Store {
    async fn add_schedule(&self, schedule: Schedule, act: &Intervention) -> Result<bool, LedgerError> {
        let (schedule, act) = (Arc::new(schedule), Arc::new(act.clone()));
        self.retried("add_schedule", move |store| schedule::add(store, schedule.clone(), act.clone())).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, LedgerError> {
        self.retried("schedules", schedule::all).await
    }

    async fn order_schedule(&self, id: Id, order: ScheduleOrder, act: &Intervention) -> Result<bool, LedgerError> {
        let act = Arc::new(act.clone());
        self.retried("order_schedule", move |store| schedule::order(store, id, order, act.clone())).await
    }

    async fn fire(&self, schedule: &Schedule, turn: &Turn) -> Result<bool, LedgerError> {
        let (schedule, turn, firing) = (Arc::new(schedule.clone()), Arc::new(turn.clone()), self.ids().next());
        self.retried("fire", move |store| schedule::fire(store, schedule.clone(), turn.clone(), firing)).await
    }

    async fn fire_now(&self, schedule: &Schedule, due: Timestamp, act: &Intervention) -> Result<Id, LedgerError> {
        let (schedule, act, firing) = (Arc::new(schedule.clone()), Arc::new(act.clone()), self.ids().next());
        let fire = move |store| schedule::fire_now(store, schedule.clone(), due, firing, act.clone());
        self.retried("fire_now", fire).await
    }

    async fn take_firings(&self, who: &str, ttl: Span, limit: u32) -> Result<Vec<Firing>, LedgerError> {
        let who: Arc<str> = who.into();
        self.retried("take_firings", move |store| schedule::take(store, who.clone(), ttl, limit)).await
    }

    async fn end_firing(&self, id: Id, who: &str, end: FiringEnd) -> Result<bool, LedgerError> {
        let (who, end): (Arc<str>, _) = (who.into(), Arc::new(end));
        self.retried("end_firing", move |store| schedule::end(store, id, who.clone(), end.clone())).await
    }

    async fn firings(&self, schedule: Id, limit: u32) -> Result<Vec<serde_json::Value>, LedgerError> {
        self.retried("firings", move |store| schedule::newest(store, schedule, limit)).await
    }
}
