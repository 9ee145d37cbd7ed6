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
const NEW: &str = "-- worker.new
    INSERT INTO ing_worker (slot, owner, leased_until) VALUES (:slot, :owner, :until)";
const TAKE: &str = "-- worker.take
    UPDATE ing_worker SET owner = :owner, leased_until = :until
     WHERE slot = :slot AND (owner = :owner OR (owner = :before AND leased_until < :now))";
const RENEW: &str = "-- worker.renew
    UPDATE ing_worker SET leased_until = :until WHERE slot = :slot AND owner = :owner";
const FREE: &str = "-- worker.free
    UPDATE ing_worker SET leased_until = :now WHERE owner = :owner";

/// A slot as it was read.
struct Slot {
    number: u16,
    owner: String,
    leased_until: Timestamp,
}

/// The slot this owner has, else one never used, else the one that ran out longest ago. Of several processes that
/// choose the same slot one gets it; the others are told to try again.
pub(crate) async fn lease(db: &Db, owner: &str, ttl: Span) -> Result<u16, DbError> {
    let mut tx = db.write().await?;
    let result = lease_in(&mut tx, owner, ttl).await;
    ended(tx, result).await
}

async fn lease_in(tx: &mut Tx, owner: &str, ttl: Span) -> Result<u16, DbError> {
    let now = tx.now();
    let mut taken = Vec::new();
    for row in tx.rows("ing_worker", SLOTS_TAKEN, params! {}).await? {
        let (number, leased_until) = (row.count("slot")?, row.time("leased_until")?);
        taken.push(Slot { number, owner: row.string("owner")?, leased_until });
    }
    let until = now.plus(ttl);
    let ours = taken.iter().find(|slot| slot.owner == owner);
    let unused = (0..SLOTS).find(|number| taken.iter().all(|slot| slot.number != *number));
    if let (None, Some(slot)) = (ours, unused) {
        tx.execute(NEW, params! { slot: u32::from(slot), owner: owner, until: until }).await?;
        return Ok(slot);
    }
    let oldest = || taken.iter().filter(|slot| slot.leased_until < now).min_by_key(|slot| slot.leased_until);
    let slot = ours.or_else(oldest);
    let slot = slot.ok_or_else(|| DbError::Unavailable(format!("all {SLOTS} worker slots are in use")))?;
    let number = u32::from(slot.number);
    let row = params! { slot: number, owner: owner, before: &slot.owner, until: until, now: now };
    match tx.execute(TAKE, row).await? {
        1 => Ok(slot.number),
        _ => Err(DbError::Busy("the worker slot was taken by someone else".into())),
    }
}

/// The name under which a store leases its slot.
pub fn worker_name(worker: &str, seed: u64) -> String {
    format!("{worker}-{seed:016x}")
}

/// A slot that ran out is still ours as long as nobody else has taken it.
pub(crate) async fn renew(db: &Db, owner: &str, slot: u16, ttl: Span) -> Result<(), DbError> {
    let mut tx = db.write().await?;
    let renewed = params! { slot: u32::from(slot), owner: owner, until: tx.now().plus(ttl) };
    let result = match tx.execute(RENEW, renewed).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(LedgerError::SlotLost { slot }.into()),
        Err(error) => Err(error),
    };
    ended(tx, result).await
}

pub(crate) async fn free(db: &Db, owner: &str) -> Result<(), DbError> {
    let mut tx = db.write().await?;
    let now = tx.now();
    let result = tx.execute(FREE, params! { owner: owner, now: now }).await.map(|_| ());
    ended(tx, result).await
}
