//! The five state machines of the ledger. What [`on`](PlanState::on) does not list is illegal.
//!
//! Names are those of the specification; SPLIT of a slice is ours. Terminal states are final: "retry failed" is a
//! new plan over the failed windows.

use serde::{Deserialize, Serialize};

/// A step that no rule allows: a defect of the caller, never of the data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{machine} in state {state} cannot take {event}")]
pub struct IllegalTransition {
    pub machine: &'static str,
    pub state: &'static str,
    pub event: String,
}

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $code:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// As written in `status_code`.
            pub const fn code(self) -> &'static str {
                match self { $($name::$variant => $code),+ }
            }

            pub fn from_code(code: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|state| state.code() == code)
            }
        }
    };
}

states! {
    /// PARTIAL: all slices exist, some have no task yet. COMPLETED: every slice is terminal.
    PlanState { Draft => "DRAFT", Slicing => "SLICING", Ready => "READY", Partial => "PARTIAL", Failed => "FAILED", Completed => "COMPLETED" }
}

states! {
    /// Only SUCCEEDED is coverage. SPLIT: replaced by children.
    SliceState { Pending => "PENDING", Dispatched => "DISPATCHED", Executing => "EXECUTING", Succeeded => "SUCCEEDED", Partial => "PARTIAL", Failed => "FAILED", Cancelled => "CANCELLED", Split => "SPLIT" }
}

states! {
    /// Taking the lease is QUEUED to RUNNING.
    TaskState { Queued => "QUEUED", Running => "RUNNING", Succeeded => "SUCCEEDED", Partial => "PARTIAL", Failed => "FAILED", Cancelled => "CANCELLED" }
}

states! {
    /// A released or lost run ends PARTIAL with a reason.
    RunState { Planned => "PLANNED", Running => "RUNNING", Succeeded => "SUCCEEDED", Partial => "PARTIAL", Failed => "FAILED", Cancelled => "CANCELLED" }
}

states! {
    /// A page: SKIPPED when its run was released or taken over before it committed.
    BatchState { Running => "RUNNING", Succeeded => "SUCCEEDED", Failed => "FAILED", Skipped => "SKIPPED" }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanEvent {
    SlicingBegan,
    AllDispatched,
    SomeDispatched,
    SlicingFailed,
    LastSliceEnded,
}

impl PlanState {
    pub fn on(self, event: PlanEvent) -> Result<PlanState, IllegalTransition> {
        use {PlanEvent as E, PlanState as S};
        match (self, event) {
            (S::Draft, E::SlicingBegan) => Ok(S::Slicing),
            (S::Slicing | S::Partial, E::AllDispatched) => Ok(S::Ready),
            (S::Slicing, E::SomeDispatched) => Ok(S::Partial),
            (S::Slicing, E::SlicingFailed) => Ok(S::Failed),
            (S::Ready | S::Partial, E::LastSliceEnded) => Ok(S::Completed),
            (state, event) => illegal("plan", state.code(), &event),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceEvent {
    Dispatched,
    Started,
    /// The task was given back before its end; it stays as it is.
    Released,
    Succeeded,
    Gave,
    Failed,
    Cancelled,
    Split,
    /// Born from a split with the proof that its parent had read it.
    Proven,
}

impl SliceState {
    pub fn on(self, event: SliceEvent) -> Result<SliceState, IllegalTransition> {
        use {SliceEvent as E, SliceState as S};
        match (self, event) {
            (S::Pending, E::Dispatched) => Ok(S::Dispatched),
            (S::Dispatched | S::Executing, E::Started) => Ok(S::Executing),
            (S::Executing, E::Released) => Ok(S::Executing),
            (S::Executing, E::Succeeded) => Ok(S::Succeeded),
            (S::Pending, E::Proven) => Ok(S::Succeeded),
            // PENDING: the rest of a slice whose beginning was proven ends with its parent.
            (S::Pending | S::Executing, E::Gave) => Ok(S::Partial),
            (S::Pending | S::Executing, E::Failed) => Ok(S::Failed),
            (S::Executing, E::Split) => Ok(S::Split),
            (S::Pending | S::Dispatched | S::Executing, E::Cancelled) => Ok(S::Cancelled),
            (state, event) => illegal("slice", state.code(), &event),
        }
    }

    pub const fn is_terminal(self) -> bool {
        use SliceState as S;
        matches!(self, S::Succeeded | S::Partial | S::Failed | S::Cancelled | S::Split)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// The lease was taken, or taken over after it ran out.
    Acquired,
    Released,
    Succeeded,
    /// Ended without proof: given up, or replaced by the tasks of a split.
    Gave,
    Failed,
    Cancelled,
}

impl TaskState {
    pub fn on(self, event: TaskEvent) -> Result<TaskState, IllegalTransition> {
        use {TaskEvent as E, TaskState as T};
        match (self, event) {
            (T::Queued | T::Running, E::Acquired) => Ok(T::Running),
            (T::Running, E::Released) => Ok(T::Queued),
            (T::Running, E::Succeeded) => Ok(T::Succeeded),
            (T::Running, E::Gave) => Ok(T::Partial),
            (T::Running, E::Failed) => Ok(T::Failed),
            (T::Queued | T::Running, E::Cancelled) => Ok(T::Cancelled),
            (state, event) => illegal("task", state.code(), &event),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent {
    Started,
    Succeeded,
    /// Released, lost, split or given up, with a reason.
    Gave,
    Failed,
    Cancelled,
}

impl RunState {
    pub fn on(self, event: RunEvent) -> Result<RunState, IllegalTransition> {
        use {RunEvent as E, RunState as R};
        match (self, event) {
            (R::Planned, E::Started) => Ok(R::Running),
            (R::Running, E::Succeeded) => Ok(R::Succeeded),
            (R::Running, E::Gave) => Ok(R::Partial),
            (R::Running, E::Failed) => Ok(R::Failed),
            (R::Planned | R::Running, E::Cancelled) => Ok(R::Cancelled),
            (state, event) => illegal("run", state.code(), &event),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    Committed,
    Failed,
    Skipped,
}

impl BatchState {
    pub fn on(self, event: BatchEvent) -> Result<BatchState, IllegalTransition> {
        match (self, event) {
            (BatchState::Running, BatchEvent::Committed) => Ok(BatchState::Succeeded),
            (BatchState::Running, BatchEvent::Failed) => Ok(BatchState::Failed),
            (BatchState::Running, BatchEvent::Skipped) => Ok(BatchState::Skipped),
            (state, event) => illegal("batch", state.code(), &event),
        }
    }
}

fn illegal<T>(
    machine: &'static str,
    state: &'static str,
    event: &impl std::fmt::Debug,
) -> Result<T, IllegalTransition> {
    Err(IllegalTransition { machine, state, event: format!("{event:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of state and event: listed ones give the state named, all others are refused.
    fn check<State: Copy + PartialEq + std::fmt::Debug + 'static, Event: Copy + PartialEq + std::fmt::Debug>(
        states: &[State],
        events: &[Event],
        legal: &[(State, Event, State)],
        on: impl Fn(State, Event) -> Result<State, IllegalTransition>,
    ) {
        for state in states {
            for event in events {
                let want = legal.iter().find(|(from, by, _)| from == state && by == event).map(|(_, _, to)| *to);
                assert_eq!(on(*state, *event).ok(), want, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn plans_take_only_the_listed_steps() {
        use {PlanEvent as E, PlanState as P};
        let events = [E::SlicingBegan, E::AllDispatched, E::SomeDispatched, E::SlicingFailed, E::LastSliceEnded];
        let legal = [
            (P::Draft, E::SlicingBegan, P::Slicing),
            (P::Slicing, E::AllDispatched, P::Ready),
            (P::Partial, E::AllDispatched, P::Ready),
            (P::Slicing, E::SomeDispatched, P::Partial),
            (P::Slicing, E::SlicingFailed, P::Failed),
            (P::Ready, E::LastSliceEnded, P::Completed),
            (P::Partial, E::LastSliceEnded, P::Completed),
        ];
        check(PlanState::ALL, &events, &legal, PlanState::on);
    }

    #[test]
    fn slices_take_only_the_listed_steps() {
        use {SliceEvent as E, SliceState as S};
        let events = [
            E::Dispatched,
            E::Started,
            E::Released,
            E::Succeeded,
            E::Gave,
            E::Failed,
            E::Cancelled,
            E::Split,
            E::Proven,
        ];
        let legal = [
            (S::Pending, E::Dispatched, S::Dispatched),
            (S::Pending, E::Proven, S::Succeeded),
            (S::Pending, E::Gave, S::Partial),
            (S::Pending, E::Failed, S::Failed),
            (S::Dispatched, E::Started, S::Executing),
            (S::Executing, E::Started, S::Executing),
            (S::Executing, E::Released, S::Executing),
            (S::Executing, E::Succeeded, S::Succeeded),
            (S::Executing, E::Gave, S::Partial),
            (S::Executing, E::Failed, S::Failed),
            (S::Executing, E::Split, S::Split),
            (S::Pending, E::Cancelled, S::Cancelled),
            (S::Dispatched, E::Cancelled, S::Cancelled),
            (S::Executing, E::Cancelled, S::Cancelled),
        ];
        check(SliceState::ALL, &events, &legal, SliceState::on);
    }

    #[test]
    fn tasks_take_only_the_listed_steps() {
        use {TaskEvent as E, TaskState as T};
        let events = [E::Acquired, E::Released, E::Succeeded, E::Gave, E::Failed, E::Cancelled];
        let legal = [
            (T::Queued, E::Acquired, T::Running),
            (T::Running, E::Acquired, T::Running),
            (T::Running, E::Released, T::Queued),
            (T::Running, E::Succeeded, T::Succeeded),
            (T::Running, E::Gave, T::Partial),
            (T::Running, E::Failed, T::Failed),
            (T::Queued, E::Cancelled, T::Cancelled),
            (T::Running, E::Cancelled, T::Cancelled),
        ];
        check(TaskState::ALL, &events, &legal, TaskState::on);
    }

    #[test]
    fn runs_and_batches_take_only_the_listed_steps() {
        use {RunEvent as E, RunState as R};
        let events = [E::Started, E::Succeeded, E::Gave, E::Failed, E::Cancelled];
        let legal = [
            (R::Planned, E::Started, R::Running),
            (R::Running, E::Succeeded, R::Succeeded),
            (R::Running, E::Gave, R::Partial),
            (R::Running, E::Failed, R::Failed),
            (R::Planned, E::Cancelled, R::Cancelled),
            (R::Running, E::Cancelled, R::Cancelled),
        ];
        check(RunState::ALL, &events, &legal, RunState::on);
        let events = [BatchEvent::Committed, BatchEvent::Failed, BatchEvent::Skipped];
        let legal = [
            (BatchState::Running, BatchEvent::Committed, BatchState::Succeeded),
            (BatchState::Running, BatchEvent::Failed, BatchState::Failed),
            (BatchState::Running, BatchEvent::Skipped, BatchState::Skipped),
        ];
        check(BatchState::ALL, &events, &legal, BatchState::on);
    }
}
