//! The pure domain of Patra Ingest, in the order of the data flow.
//!
//! Nothing in here reads a clock, opens a socket or touches a disk. What can be decided without them is
//! decided here; the engine, the store and the source carry it out and meet at [`ports`].

pub mod absence;
pub mod budget;
pub mod calendar;
pub mod cursor;
pub mod export;
pub mod failpoint;
pub mod gate;
pub mod hash;
pub mod healing;
pub mod id;
pub mod mask;
pub mod outbox;
pub mod page;
pub mod pass;
pub mod path;
pub mod plan;
pub mod planted;
pub mod pointer;
pub mod ports;
pub mod proof;
pub mod query;
pub mod record;
pub mod refit;
pub mod registry;
pub mod remap;
pub mod schedule;
pub mod shape;
pub mod spec;
pub mod states;
pub mod template;
pub mod time;
pub mod window;
