//! The laboratory: the real engine on a real SQLite file, simulated providers and virtual time.
//!
//! `patra demo`, the simulation and the crash sweep are all runs of a [`lab::Lab`]; what they prove is judged by
//! `patra_checker`, which shares no code with the engine.

pub mod clocks;
pub mod lab;
pub mod lives;
pub mod moving;
pub mod simulation;
pub mod strike;
pub mod sweep;
pub mod template;
pub mod together;
