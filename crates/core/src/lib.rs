//! The pure domain of Patra Ingest, in the order of the data flow.
//!
//! Nothing in here reads a clock, opens a socket or touches a disk. What can be decided without them is
//! decided here; the engine, the store and the source carry it out and meet at [`ports`].

pub mod calendar;
pub mod hash;
pub mod page;
pub mod path;
pub mod ports;
pub mod registry;
pub mod spec;
pub mod template;
pub mod time;
pub mod window;
