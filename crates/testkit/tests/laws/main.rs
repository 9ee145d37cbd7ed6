//! The laws of the ledger, on the real engine and virtual time.

mod simulation;
