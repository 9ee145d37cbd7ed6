//! The rate gate of this process: its own, or one that all processes share.

use std::sync::Arc;

use patra_core::ports::{Gate, SharedGate};
use patra_engine::fleet_gate::FleetGate;
use patra_engine::gate::LocalGate;
use patra_remote::RedisGate;
use secrecy::{ExposeSecret, SecretString};

use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

/// For a process that is alone with its database.
pub fn own(desk: &Desk) -> Arc<dyn Gate> {
    Arc::new(LocalGate::new(desk.clock.clone(), desk.failpoints.clone()))
}

/// Limits over all processes: in Redis if there is one, else on rows of the database.
pub fn shared(desk: &Desk, redis: Option<&SecretString>) -> Result<Arc<dyn Gate>, Failure> {
    let redis = redis.map(|url| RedisGate::new(url.expose_secret())).transpose().map_err(|error| {
        Failure::new(Exit::Usage, format!("--redis: {error}")).hint("it looks like `redis://HOST:PORT/NUMBER`")
    })?;
    let redis = redis.map(|gate| Arc::new(gate) as Arc<dyn SharedGate>);
    Ok(Arc::new(FleetGate::new(desk.store.clone(), redis, desk.store.clone(), desk.clock.clone())))
}
