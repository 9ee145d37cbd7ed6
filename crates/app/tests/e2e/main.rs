//! The real binary, used as a person would: every command, right and wrong, over real files, pipes, signals and ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod demo;
mod documents;
mod harvest;
mod ledger;
mod migrate;
mod mistakes;
mod operator;
mod outbox;
mod privilege;
mod reading;
mod registry;
mod servers;
mod signals;
mod sources;
mod support;
