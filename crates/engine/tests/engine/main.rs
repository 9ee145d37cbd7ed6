//! The executor on virtual time: a scripted source, the real ledger in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod bench;
mod cached;
mod claims;
mod ends;
mod filter;
mod healing;
mod keeping;
mod keys;
mod order;
mod records;
mod shelf;
