//! The servers of a torture, private and breakable: the database behind its proxy, Redis and NATS.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use tempfile::TempDir;

use super::adversary::{Broker, Redis, Restart};
use super::faults::STORM;
use super::proxy::Proxy;
use crate::proofs::Backend;
use crate::proofs::judge::now_us;
use crate::servers::{Kind, Server, folder, install_missing};

/// How long a server that was killed stays away.
const AWAY: Duration = Duration::from_millis(700);

/// The database server and the proxy before it.
struct Database {
    server: Server,
    kind: Kind,
    proxy: Proxy,
}

pub struct Places {
    database: Option<Database>,
    redis: Server,
    broker: Server,
    file: PathBuf,
    /// Servers that stand still, and until when.
    standing: Vec<(Kind, Instant)>,
    /// Redis is away until then.
    redis_down: Option<Instant>,
    /// Spans in which the database was away, on the clock of the ledger.
    pub away: Vec<(i64, i64)>,
    _folder: TempDir,
}

impl Places {
    pub fn start(backend: Backend, seed: u64) -> Result<Places> {
        let mut kinds = vec![Kind::Redis, Kind::Nats];
        kinds.extend(backend.server().map(|(kind, _)| kind));
        install_missing(&kinds)?;
        let folder = folder()?;
        let database = match backend.server() {
            None => None,
            Some((kind, speech)) => {
                let server = Server::start(kind, folder.path())?;
                let proxy = Proxy::start(server.port(), speech, STORM, seed)?;
                Some(Database { server, kind, proxy })
            }
        };
        Ok(Places {
            database,
            redis: Server::start(Kind::Redis, folder.path())?,
            broker: Server::start(Kind::Nats, folder.path())?,
            file: folder.path().join("ledger.db"),
            standing: Vec::new(),
            redis_down: None,
            away: Vec::new(),
            _folder: folder,
        })
    }

    /// Where the fleet finds the ledger: through the proxy where there is one.
    pub fn ledger_of_the_fleet(&self) -> String {
        match &self.database {
            Some(database) => database.kind.url(database.proxy.port),
            None => self.file.display().to_string(),
        }
    }

    /// Where those who judge find it.
    pub fn ledger(&self) -> String {
        match &self.database {
            Some(database) => database.server.url(),
            None => self.file.display().to_string(),
        }
    }

    pub fn redis(&self) -> String {
        self.redis.url()
    }

    pub fn broker(&self) -> String {
        self.broker.url()
    }

    pub fn proxy(&self) -> Option<&Proxy> {
        self.database.as_ref().map(|database| &database.proxy)
    }

    pub fn set_storm(&self, storm: bool) {
        if let Some(proxy) = self.proxy() {
            proxy.set_storm(storm);
        }
    }

    pub fn restart_database(&mut self, how: Restart) -> Result<()> {
        let Some(database) = &mut self.database else { return Ok(()) };
        let gone_at = now_us();
        database.server.signal(match (how, database.kind) {
            (Restart::Kill, _) => "-KILL",
            (Restart::Immediate, Kind::Postgres) => "-QUIT",
            (Restart::Gentle, Kind::Postgres) => "-INT",
            (Restart::Immediate | Restart::Gentle, _) => "-TERM",
        })?;
        database.server.wait_until_gone()?;
        database.server.start_again()?;
        self.away.push((gone_at, now_us()));
        Ok(())
    }

    pub fn trouble_redis(&mut self, how: Redis) -> Result<()> {
        if self.redis_down.is_some() || self.standing.iter().any(|(kind, _)| *kind == Kind::Redis) {
            return Ok(());
        }
        match how {
            Redis::Kill => {
                self.redis.signal("-KILL")?;
                self.redis.wait_until_gone()?;
                self.redis_down = Some(Instant::now() + AWAY);
            }
            Redis::Stop(span) => self.stand(Kind::Redis, span)?,
            Redis::Flush => TcpStream::connect(("127.0.0.1", self.redis.port()))?.write_all(b"FLUSHALL\r\n")?,
        }
        Ok(())
    }

    pub fn trouble_broker(&mut self, how: Broker) -> Result<()> {
        if self.standing.iter().any(|(kind, _)| *kind == Kind::Nats) {
            return Ok(());
        }
        match how {
            Broker::Stop(span) => return self.stand(Kind::Nats, span),
            Broker::Restart => self.broker.signal("-TERM")?,
            Broker::Kill => self.broker.signal("-KILL")?,
        }
        self.broker.wait_until_gone()?;
        self.broker.start_again()
    }

    fn stand(&mut self, kind: Kind, span: Duration) -> Result<()> {
        self.of(kind).signal("-STOP")?;
        self.standing.push((kind, Instant::now() + span));
        Ok(())
    }

    fn of(&self, kind: Kind) -> &Server {
        if kind == Kind::Redis { &self.redis } else { &self.broker }
    }

    /// Wakes who has stood still long enough and brings Redis back.
    pub fn tend(&mut self) -> Result<()> {
        let (over, standing) =
            std::mem::take(&mut self.standing).into_iter().partition(|(_, until)| Instant::now() >= *until);
        self.standing = standing;
        let over: Vec<(Kind, Instant)> = over;
        for (kind, _) in over {
            self.of(kind).signal("-CONT")?;
        }
        if self.redis_down.is_some_and(|until| Instant::now() >= until) {
            self.redis_down = None;
            self.redis.start_again()?;
        }
        Ok(())
    }

    /// Everything is well again.
    pub fn heal(&mut self) -> Result<()> {
        self.set_storm(false);
        self.standing.iter_mut().for_each(|(_, until)| *until = Instant::now());
        self.redis_down = self.redis_down.map(|_| Instant::now());
        self.tend()
    }
}
