//! What a fleet shares beside its database: events to NATS JetStream, webhooks and files, alarms by mail, and the rate gate in Redis.
//!
//! Each of them is the far side of a port of `patra_core::ports` and decides nothing: which event goes out next is the
//! relay's affair, how many requests a source takes is arithmetic of `patra_core::gate`. A webhook and a file need no
//! server of their own, but they are where events leave the program, so they live with the other publishers.

mod lines;
mod mail;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis_gate;
mod webhook;

pub use lines::LinesPublisher;
pub use mail::{MailError, MailPublisher, MailSettings};
#[cfg(feature = "nats")]
pub use nats::{NatsError, NatsPublisher, NatsSettings};
#[cfg(feature = "redis")]
pub use redis_gate::RedisGate;
pub use webhook::{WebhookError, WebhookPublisher, WebhookSettings};
