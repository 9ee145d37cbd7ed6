//! Opening a store, and what every step of it needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patra_core::failpoint::Failpoints;
use patra_core::hash::Hash32;
use patra_core::id::IdGen;
use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};
use uuid::Uuid;

use crate::db::Db;
use crate::error::{DbError, StoreError};
use crate::{migrate, worker};

/// How long a worker slot is ours without being leased again.
const SLOT_TTL: Span = Span::MINUTE.times(10);

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: a power cut loses no commit that was acknowledged (INV-37).
    #[default]
    Full,
    /// In the log: a power cut may lose the last commits, never half of one.
    Normal,
}

/// What may be done with a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Write,
    /// Nothing is written, not even a worker slot: a replica will do.
    Read,
}

/// Which clock leases and rows are dated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The injected one; SQLite has no other.
    Injected,
    /// The server's, read when a transaction begins (INV-24).
    Database,
}

/// What a store is given from outside.
#[derive(Clone)]
pub struct Options {
    pub clock: Arc<dyn Clock>,
    pub failpoints: Failpoints,
    pub durability: Durability,
    pub access: Access,
    pub time: Time,
    /// Connections to a server; on SQLite those that read, beside the one that writes.
    pub connections: u32,
    /// Brings the schema up to date; without it an old schema is refused.
    pub migrate: bool,
    /// Name of this process in `ing_worker`; the seed is added to it.
    pub worker: String,
    /// Different for every process; run UUIDs and the slot's owner are made from it.
    pub seed: u64,
}

impl Options {
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Options {
        Options {
            clock,
            failpoints: Failpoints::none(),
            durability: Durability::Full,
            access: Access::Write,
            time: Time::Database,
            connections: 4,
            migrate: true,
            worker: "patra".into(),
            seed,
        }
    }
}

/// The ledger, the registry and the read side on one database.
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// Shared by the steps, which run in tasks of their own.
pub(crate) struct Inner {
    pub db: Db,
    pub clock: Arc<dyn Clock>,
    pub fail: Failpoints,
    pub ids: Arc<IdGen>,
    pub plans: crate::plan::Plans,
    pub queue: crate::queue::Queue,
    seed: u64,
    owner: String,
    drawn: AtomicU64,
}

impl Store {
    /// Opens the database (`postgres://…`, `mysql://…`, `:memory:`, a path or `sqlite:path`; a file is created), brings
    /// its schema up to date and leases a worker slot. For reading it does neither.
    pub async fn open(place: &str, options: Options) -> Result<Arc<Store>, StoreError> {
        let wrong = |error: DbError| StoreError::Open { place: shown(place), message: error.message() };
        let db = Db::open(place, &options).await.map_err(wrong)?;
        let migrates = options.migrate && options.access == Access::Write;
        migrate::bring_up(&db, migrate::list(db.dialect()), migrates).await?;
        let owner = worker::worker_name(&options.worker, options.seed);
        let slot = match options.access {
            Access::Write => leased_slot(&db, &owner).await.map_err(|error| error.into_ledger("open"))?,
            // No id of it is ever written.
            Access::Read => 0,
        };
        let inner = Inner {
            db,
            ids: Arc::new(IdGen::new(options.clock.clone(), slot)),
            clock: options.clock,
            fail: options.failpoints,
            plans: crate::plan::Plans::default(),
            queue: crate::queue::Queue::default(),
            seed: options.seed,
            owner,
            drawn: AtomicU64::new(0),
        };
        Ok(Arc::new(Store { inner: Arc::new(inner) }))
    }

    /// Ids of this process.
    pub fn ids(&self) -> Arc<IdGen> {
        self.inner.ids.clone()
    }

    /// The newest migration of this build, which an open database has, whatever newer ones it has beside it.
    pub fn schema_version(&self) -> i64 {
        migrate::known(self.inner.db.dialect())
    }

    /// Gives the worker slot back and closes the connections. Steps after this open them again.
    pub async fn close(&self) {
        if self.inner.db.access() == Access::Write
            && let Err(error) = worker::free(&self.inner.db, &self.inner.owner).await
        {
            tracing::warn!("the worker slot was not given back: {}", error.message());
        }
        self.inner.db.close().await;
    }
}

impl Inner {
    /// The clock that leases are measured on, as far as it is known without asking the database.
    pub fn now(&self) -> Timestamp {
        self.db.now()
    }

    /// A fresh UUID (version 7) from the injected clock and the seed.
    pub fn run_uuid(&self) -> Uuid {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let digest = Hash32::of_parts(&[&self.seed.to_be_bytes(), self.owner.as_bytes(), &drawn.to_be_bytes()]);
        let mut random = [0; 10];
        random.copy_from_slice(&digest.bytes()[..10]);
        let millis = u64::try_from(self.now().micros() / 1_000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// A different number at every call, for spreading retries.
    pub fn spread(&self) -> u64 {
        Hash32::of_parts(&[&self.seed.to_be_bytes(), &self.drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes()]).short()
    }
}

/// Other processes may be leasing theirs at the same moment.
async fn leased_slot(db: &Db, owner: &str) -> Result<u16, DbError> {
    const TRIES: u32 = 20;
    for _ in 1..TRIES {
        match worker::lease(db, owner, SLOT_TTL).await {
            Err(DbError::Busy(_) | DbError::Unique(_)) => tokio::task::yield_now().await,
            other => return other,
        }
    }
    worker::lease(db, owner, SLOT_TTL).await
}

/// A place as it may be shown: without password and options.
pub fn shown(place: &str) -> String {
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            let host = host.split('?').next().unwrap_or(host);
            format!("{scheme}://{user}@{host}")
        }
        None => format!("{scheme}://{}", rest.split('?').next().unwrap_or(rest)),
    }
}
