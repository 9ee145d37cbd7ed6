//! The executor on virtual time: a scripted source, the real ledger in memory.

mod bench;
mod ends;
mod order;
mod records;
mod shelf;
