//! The executor on virtual time: a scripted source, the real ledger in memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bench;
mod ends;
mod order;
mod records;
mod shelf;
