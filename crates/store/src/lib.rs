//! The SQL side of the ports, on SQLite, PostgreSQL and MySQL or MariaDB: one text per statement for all of them.
//!
//! [`Store`] keeps the ledger ([`patra_core::ports::Ledger`]), the registry and the read side. Every step is
//! one transaction in a task of its own: a caller that goes away cannot leave one open, and a step that fails leaves
//! nothing behind. Reading order: `plan` publishes, `claim` leases, `commit` is T1, `finish` is T2,
//! `coverage` moves the watermark, `outbox` hands changes to the relay.

mod alarm;
mod bisect;
mod cancel;
mod circuit;
mod claim;
mod commit;
#[cfg(test)]
mod conformance;
mod control;
mod coverage;
mod cursor;
mod db;
mod decided;
mod dialect;
mod digest;
mod dispatch;
mod error;
mod export;
mod finish;
mod gate;
mod hint;
mod history;
mod holes;
#[cfg(test)]
mod hot;
mod inspect;
mod kept;
mod ledger;
mod life;
mod mark;
mod migrate;
mod missing;
mod operate;
mod outbox;
mod outbox_kept;
mod pass;
mod plan;
mod prefix;
mod priority;
mod progress;
mod prove;
mod quarantine;
mod queue;
mod quota;
mod records;
mod refit;
mod refresh;
mod registry;
mod rehearse;
mod remap;
mod rows;
mod schedule;
mod shared;
mod split;
mod sql;
mod stats;
mod step;
mod stops;
mod store;
mod told;
mod value;
mod waive;
mod watched;
mod worker;

pub use error::StoreError;
pub use migrate::{MigrationState, Migrator, Standing};
pub use sql::ROWS_PER_STATEMENT;
pub use store::{Access, Durability, Options, Store, Time, shown};
pub use worker::worker_name;
