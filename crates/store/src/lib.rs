//! The SQL side of the ports, on SQLite, PostgreSQL and MySQL or MariaDB: one text per statement for all of them.
//!
//! [`Store`] keeps the ledger ([`patra_core::ports::Ledger`]), the registry and the read side. Every step is
//! one transaction in a task of its own: a caller that goes away cannot leave one open, and a step that fails leaves
//! nothing behind. Reading order: `plan` publishes, `claim` leases, `commit` is T1, `finish` is T2,
//! `coverage` moves the watermark, `outbox` hands changes to the relay.

mod bisect;
mod cancel;
mod claim;
mod commit;
#[cfg(test)]
mod conformance;
mod coverage;
mod db;
mod dialect;
mod error;
mod finish;
mod gate;
#[cfg(test)]
mod hot;
mod inspect;
mod ledger;
mod migrate;
mod outbox;
mod outbox_kept;
mod pass;
mod plan;
mod prefix;
mod queue;
mod records;
mod registry;
mod rows;
mod shared;
mod split;
mod sql;
mod stats;
mod step;
mod store;
mod value;
mod waive;
mod worker;

pub use error::StoreError;
pub use migrate::{MigrationState, Migrator, Standing};
pub use sql::ROWS_PER_STATEMENT;
pub use store::{Access, Durability, Options, Store, Time, shown};
pub use worker::worker_name;
