//! The loops that need time and I/O: planning a trigger, executing tasks, gating requests, telling changes.
//!
//! They decide nothing the core could decide, and they touch the outside only through `patra_core::ports`, so a
//! simulation on virtual time runs exactly this code.

pub mod cached_registry;
pub mod dispatcher;
pub mod executor;
pub mod fleet_gate;
pub mod gate;
pub mod notice;
pub mod planner;
pub mod reconcile;
mod refresh;
pub mod relay;
mod retry;
pub mod settings;
pub mod slot;
pub mod timekeeper;
pub mod watch;
