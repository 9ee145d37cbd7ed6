//! Relays, publishers and shared gates against real servers, which each test starts for itself in a folder of its own.
//! Where a server is not installed the test says that it was skipped.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod failover;
mod gates;
mod mail;
mod nats;
mod relay;
mod support;
mod webhook;
