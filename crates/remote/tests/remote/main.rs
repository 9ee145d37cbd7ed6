//! Relays, publishers and shared gates against real servers, which each test starts for itself in a folder of its own.
//! Where a server is not installed the test says that it was skipped.

mod failover;
mod gates;
mod nats;
mod relay;
mod support;
mod webhook;
