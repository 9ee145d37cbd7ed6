//! A real clock, private servers, and an outbox with something in it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use patra_core::hash::Hash32;
use patra_core::ports::{Clock, Outbox};
use patra_core::time::{Span, Timestamp};
use patra_store::{Durability, Options, Store};
use sqlx::{AssertSqlSafe, Connection, Executor};

pub struct RealClock {
    started: Instant,
    origin: Timestamp,
}

impl RealClock {
    #[expect(clippy::disallowed_methods, reason = "this is the injected clock itself")]
    pub fn start() -> Arc<RealClock> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Arc::new(RealClock { started: Instant::now(), origin: Timestamp::from_micros(since.as_micros() as i64) })
    }
}

#[async_trait]
impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        self.origin.plus(Span::from_micros(self.started.elapsed().as_micros() as i64))
    }

    async fn sleep_until(&self, until: Timestamp) {
        tokio::time::sleep(until.since(self.now()).to_std()).await;
    }
}

/// A server process that ends with the test.
pub struct Server {
    child: Option<Child>,
    program: &'static str,
    args: Vec<String>,
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// `None` where the program is not installed, which is said.
    pub async fn start(program: &'static str, args: impl Fn(u16, &Path) -> Vec<String>) -> Option<Server> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let args = args(port, folder.path());
        let mut server = Server { child: None, program, args, port, _folder: folder };
        if let Err(error) = server.spawn() {
            eprintln!("skipped: {program} cannot be started: {error}");
            return None;
        }
        server.ready().await;
        Some(server)
    }

    pub async fn redis() -> Option<Server> {
        Server::start("redis-server", |port, folder| {
            let folder = folder.display().to_string();
            ["--port", &port.to_string(), "--dir", &folder, "--save", "", "--appendonly", "no"]
                .map(str::to_owned)
                .to_vec()
        })
        .await
    }

    pub async fn nats(more: &[&str]) -> Option<Server> {
        Server::start("nats-server", |port, folder| {
            let folder = folder.display().to_string();
            let plain = ["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd", &folder].map(str::to_owned);
            plain.into_iter().chain(more.iter().map(|&arg| arg.to_owned())).collect()
        })
        .await
    }

    fn spawn(&mut self) -> std::io::Result<()> {
        let mut command = Command::new(self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn()?);
        Ok(())
    }

    async fn ready(&self) {
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{} does not listen", self.program);
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub async fn restart(&mut self) {
        self.kill();
        self.spawn().unwrap();
        self.ready().await;
    }

    /// `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Opens a store on a file; each is a process of its own to the others.
pub async fn store(folder: &Path, clock: &Arc<RealClock>, seed: u64) -> Arc<Store> {
    let place = folder.join("patra.db").display().to_string();
    store_at(&place, clock, seed).await
}

pub async fn store_at(place: &str, clock: &Arc<RealClock>, seed: u64) -> Arc<Store> {
    let options = Options { durability: Durability::Normal, ..Options::new(clock.clone(), seed) };
    Store::open(place, options).await.unwrap()
}

/// A fresh schema on the server the variable names, as the store's own conformance tests use it.
pub async fn server_place(variable: &str) -> Option<String> {
    let Ok(server) = std::env::var(variable) else {
        eprintln!("skipped: {variable} names no server");
        return None;
    };
    let name =
        format!("r{}_{:x}", std::process::id(), Hash32::of(format!("{:?}", Instant::now()).as_bytes()).short() >> 40);
    if server.starts_with("postgres") {
        let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
        admin.execute(AssertSqlSafe(format!("CREATE SCHEMA {name}"))).await.unwrap();
        return Some(format!("{server}?options=-csearch_path%3D{name}"));
    }
    let mut admin = sqlx::MySqlConnection::connect(&server).await.unwrap();
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    Some(format!("{}/{name}", server.rsplit_once('/').unwrap().0))
}

/// Writes `versions` changes of each of `records` records into the outbox, as an older release would: without shards.
pub async fn fill_outbox(folder: &Path, records: u32, versions: u32, fields: &str) {
    let mut connection = sqlx::SqliteConnection::connect(&folder.join("patra.db").display().to_string()).await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    for version in 1..=versions {
        for record in 1..=records {
            // Later versions have smaller ids: their order must come from elsewhere.
            let id = 9_000_000_000_000 - i64::from(version) * 1_000_000 + i64::from(record);
            let event = Hash32::of(format!("{record}.{version}").as_bytes());
            let change = if version == 1 { "CREATED" } else { "UPDATED" };
            let text = format!(
                "INSERT INTO ing_outbox (id, record_id, version_no, event_id, provenance_code, endpoint_name, provider_id,
                 change_code, updated_at, content_hash, fields, batch_id, status_code, created_at)
                 VALUES ({id}, {record}, {version}, X'{event}', 'crossref', 'works', 'r{record}', '{change}', NULL, X'{event}',
                 '{fields}', 1, 'PENDING', '2026-01-01T00:00:00.000000Z')"
            );
            connection.execute(AssertSqlSafe(text)).await.unwrap();
        }
    }
    connection.execute("COMMIT").await.unwrap();
}

pub async fn counts(store: &Store) -> (u64, u64) {
    let counts = store.outbox_counts().await.unwrap();
    (counts.pending, counts.parked)
}

pub fn with_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
