//! Opening a database with the rights that a command needs, and no more.
//!
//! | who | on a file | on a server |
//! |---|---|---|
//! | `init`, `migrate`, `harvest`, `registry apply` | makes it, brings it up to this build | the same |
//! | `planner`, `executor`, `serve`, `task cancel` … | the same | changes neither schema nor registry |
//! | `status`, lists … | brings it up to this build | writes nothing |
//! | anything that reads, with `--read-database` | writes nothing | writes nothing |

use std::sync::Arc;

use patra_core::ports::{Clock, Random};
use patra_engine::cached_registry::CachedRegistry;
use patra_engine::settings::Settings;
use patra_store::{Access, Durability, Options, Store, worker_name};

use crate::cli::Global;
use crate::clock::{SystemClock, SystemRandom};
use crate::failure::{Exit, Failure};
use crate::place::{is_server, is_there, place_of, unopened};
use crate::strike;
use crate::wiring::Desk;
use crate::working::default_workers;

impl Desk {
    /// Opens the database, makes it when it is not there, and brings it up to this build.
    pub async fn open(database: &str) -> Result<Desk, Failure> {
        Desk::open_to_harvest(database, Durability::Full, default_workers()).await
    }

    /// As [`Desk::open`], with a connection for each worker.
    pub async fn open_to_harvest(database: &str, durability: Durability, workers: u16) -> Result<Desk, Failure> {
        let set = |options: &mut Options| {
            options.durability = durability;
            options.connections = Settings::default().connections(workers);
        };
        let desk = Desk::connect(database, set).await?;
        desk.apply_catalogue().await?;
        Ok(desk)
    }

    /// Opens the database to plan or to work. On a server somebody else has run `patra migrate`: the role writes
    /// neither schema nor registry and need not be allowed to.
    pub async fn open_role(database: &str, workers: u16) -> Result<Desk, Failure> {
        if !is_server(place_of(database)?) {
            return Desk::open_to_harvest(database, Durability::Full, workers).await.map(Desk::remembering);
        }
        let set = |options: &mut Options| {
            options.migrate = false;
            options.connections = Settings::default().connections(workers);
        };
        Desk::connect(database, set).await.map(Desk::remembering)
    }

    /// Asks the registry once in a while only.
    fn remembering(self) -> Desk {
        let life = Settings::default().registry_life;
        let cached = CachedRegistry::new(self.store.clone(), self.clock.clone(), life);
        Desk { registry: Arc::new(cached), ..self }
    }

    /// Opens a database that must be there already, to change what is in the ledger.
    pub async fn open_to_act(global: &Global) -> Result<Desk, Failure> {
        found(global.database())?;
        Desk::open_role(global.database(), default_workers()).await
    }

    /// One act on the ledger; the worker slot is given back whatever comes of it.
    pub async fn act<T>(global: &Global, act: impl AsyncFnOnce(&Desk) -> Result<T, Failure>) -> Result<T, Failure> {
        let desk = Desk::open_to_act(global).await?;
        let result = act(&desk).await;
        desk.store.close().await;
        result
    }

    /// Opens a database that must be there already, to read.
    pub async fn open_existing(global: &Global) -> Result<Desk, Failure> {
        found(global.read_side())?;
        // A file has nobody else who could bring it up to this build.
        if global.read_database.is_none() && !is_server(place_of(global.database())?) {
            return Desk::open(global.database()).await;
        }
        Desk::connect(global.read_side(), |options| options.access = Access::Read).await
    }

    /// As [`Desk::open_existing`]; without a database it looks at the built-in sources alone and makes no file.
    pub async fn open_to_look(global: &Global) -> Result<Desk, Failure> {
        if global.read_database.is_none() && !is_there(place_of(global.database())?) {
            return Desk::open(":memory:").await;
        }
        Desk::open_existing(global).await
    }

    /// Opens the database and publishes nothing.
    pub async fn connect(database: &str, set: impl FnOnce(&mut Options)) -> Result<Desk, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let random: Arc<dyn Random> = Arc::new(SystemRandom::seeded());
        let mut options = Options::new(clock.clone(), random.next_u64());
        set(&mut options);
        let failpoints = strike::failpoints()?;
        options.failpoints = failpoints.clone();
        let slot_owner = worker_name(&options.worker, options.seed);
        let store = Store::open(place_of(database)?, options).await.map_err(|error| unopened(database, &error))?;
        Ok(Desk { registry: store.clone(), store, clock, random, slot_owner, failpoints })
    }
}

fn found(database: &str) -> Result<(), Failure> {
    let place = place_of(database)?;
    if is_there(place) {
        return Ok(());
    }
    let missing = Failure::new(Exit::NotFound, format!("there is no database `{place}`"));
    Err(missing.hint("`patra harvest SOURCE` makes one; `--database` names another"))
}
