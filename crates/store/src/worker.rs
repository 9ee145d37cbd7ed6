//! Worker slots: a small number per process that keeps the ids of processes apart.

use patra_core::id::SLOTS;
use patra_core::ports::LedgerError;
use patra_core::time::{Span, Timestamp};

use crate::db::{Db, Tx};
use crate::error::DbError;
use crate::step::ended;
use crate::value::params;

const SLOTS_TAKEN: &str = "-- worker.slots
    SELECT slot, owner, leased_until FROM ing_worker ORDER BY slot";
const LEASE: &str = "-- worker.lease
    INSERT INTO ing_worker (slot, owner, leased_until) VALUES (:slot, :owner, :until)
    {upsert:slot;owner, leased_until}";
const RENEW: &str = "-- worker.renew
    UPDATE ing_worker SET leased_until = :until WHERE slot = :slot AND owner = :owner";
const FREE: &str = "-- worker.free
    UPDATE ing_worker SET leased_until = :now WHERE owner = :owner";

/// The slot this owner has, else one never used, else the one that ran out longest ago.
pub(crate) async fn lease(db: &Db, owner: &str, now: Timestamp, ttl: Span) -> Result<u16, DbError> {
    let mut tx = db.write().await?;
    let result = lease_in(&mut tx, owner, now, ttl).await;
    ended(tx, result).await
}

async fn lease_in(tx: &mut Tx, owner: &str, now: Timestamp, ttl: Span) -> Result<u16, DbError> {
    let mut taken = Vec::new();
    for row in tx.rows("ing_worker", SLOTS_TAKEN, params! {}).await? {
        taken.push((row.count::<u16>("slot")?, row.string("owner")?, row.time("leased_until")?));
    }
    let ours = taken.iter().find(|(_, known, _)| known == owner).map(|(slot, ..)| *slot);
    let unused = || (0..SLOTS).find(|slot| taken.iter().all(|(known, ..)| known != slot));
    let oldest = || taken.iter().filter(|(.., until)| *until < now).min_by_key(|(.., until)| *until);
    let slot = ours.or_else(unused).or_else(|| oldest().map(|(slot, ..)| *slot));
    let slot = slot.ok_or_else(|| DbError::Unavailable(format!("all {SLOTS} worker slots are in use")))?;
    tx.execute(LEASE, params! { slot: u32::from(slot), owner: owner, until: now.plus(ttl) }).await?;
    Ok(slot)
}

/// The name under which a store leases its slot.
pub fn worker_name(worker: &str, seed: u64) -> String {
    format!("{worker}-{seed:016x}")
}

/// A slot that ran out is still ours as long as nobody else has taken it.
pub(crate) async fn renew(db: &Db, owner: &str, slot: u16, until: Timestamp) -> Result<(), DbError> {
    let mut tx = db.write().await?;
    let renewed = params! { slot: u32::from(slot), owner: owner, until: until };
    let result = match tx.execute(RENEW, renewed).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(LedgerError::SlotLost { slot }.into()),
        Err(error) => Err(error),
    };
    ended(tx, result).await
}

pub(crate) async fn free(db: &Db, owner: &str, now: Timestamp) -> Result<(), DbError> {
    let mut tx = db.write().await?;
    let result = tx.execute(FREE, params! { owner: owner, now: now }).await.map(|_| ());
    ended(tx, result).await
}
