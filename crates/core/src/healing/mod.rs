//! What is done without a person when things go wrong (the matrix of self-healing): decided here, carried out by the
//! executor and the planner.
//!
//! ```text
//! every answer and commit --> Health (5 minutes of a partition) --judged by Thresholds--> Action*
//! failures in a row ------------------------------------------------------> Circuit (one row for the whole fleet)
//! ```
//! Nothing in here guards data: what is proven stays proven whatever a healer believes, so losing its state is harmless.

mod alarm;
mod circuit;
mod health;
mod retries;
mod strain;
mod thresholds;

pub use alarm::{Alarm, AlarmKind, Facts, HarvestPlan, Stock, alarms};
pub use circuit::{Circuit, CircuitEvent, CircuitState, Passage, Site, tells_outage};
pub use health::{Action, Course, Health, Vital, Vitals};
pub use retries::RetryBudget;
pub use strain::Strain;
pub use thresholds::{Thresholds, UnknownThreshold};
