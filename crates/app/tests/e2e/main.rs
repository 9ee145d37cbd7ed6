//! The real binary, used as a person would: every command, right and wrong, over real files, pipes, signals and ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod blackbox;
mod demo;
mod documents;
mod export;
mod harvest;
mod healing;
mod ledger;
mod metrics;
mod migrate;
mod mistakes;
mod operations;
mod operator;
mod outbox;
mod privilege;
mod proof;
mod query;
mod reading;
mod registry;
mod remap;
mod servers;
mod signals;
mod sources;
mod support;
mod update;
