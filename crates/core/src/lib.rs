//! The pure domain of Patra Ingest, in the order of the data flow.
//!
//! Nothing in here reads a clock, opens a socket or touches a disk. What can be decided without them is
//! decided here; the engine, the store and the source carry it out and meet at [`ports`].

pub mod calendar;
pub mod failpoint;
pub mod gate;
pub mod hash;
pub mod id;
pub mod outbox;
pub mod page;
pub mod pass;
pub mod path;
pub mod plan;
pub mod planted;
pub mod ports;
pub mod record;
pub mod registry;
pub mod spec;
pub mod states;
pub mod template;
pub mod time;
pub mod window;
