//! The database that lives in the room: a file, or a server that is started again when it has fallen.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use super::room::Room;
use crate::proofs::Backend;
use crate::proofs::torture::ledger::text;
use crate::servers::{Kind, Server, install_missing, installed};

/// Every database must have room for what it makes before the first page, and for all pages.
fn mib(backend: Backend) -> u32 {
    match backend {
        Backend::Sqlite => 768,
        Backend::Postgres => 2_048,
        Backend::Mariadb => 1_024,
    }
}

/// A database that takes space long before it needs it would not notice for minutes that there is none.
fn more(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Mysql => &["--innodb-autoextend-increment=1"],
        _ => &[],
    }
}

pub struct Store {
    // Ends before the room it lives in.
    server: Option<(Server, Kind)>,
    file: PathBuf,
    pub room: Room,
    /// How often the server had ended by itself and was started again.
    pub restarts: u64,
}

impl Store {
    pub fn start(backend: Backend) -> Result<Store> {
        let room = Room::mount(mib(backend))?;
        let server = match backend.server() {
            None => None,
            Some((kind, _)) => {
                install_missing(&[kind])?;
                Some((Server::start_with(kind, room.path(), more(kind))?, kind))
            }
        };
        Ok(Store { server, file: room.path().join("ledger.db"), room, restarts: 0 })
    }

    pub fn ledger(&self) -> String {
        match &self.server {
            Some((server, _)) => server.url(),
            None => self.file.display().to_string(),
        }
    }

    /// As a supervisor would; for once there is space again.
    pub fn start_if_fallen(&mut self) -> Result<()> {
        let Some((server, _)) = &mut self.server else { return Ok(()) };
        if !server.is_running()? {
            self.restarts += 1;
            server.start_again()?;
        }
        Ok(())
    }

    /// What the database itself says of its files; empty when all is well.
    pub fn complaints(&self) -> Result<String> {
        let Some((server, kind)) = &self.server else {
            let said = text(&self.file, "PRAGMA integrity_check")?;
            return Ok(if said == "ok" { String::new() } else { said });
        };
        let port = server.port().to_string();
        let mut command = match kind {
            Kind::Postgres => {
                let folder = kind.find().and_then(|program| program.parent().map(PathBuf::from)).unwrap_or_default();
                let mut command = Command::new(folder.join("pg_amcheck"));
                command.args(["-h", "127.0.0.1", "-p", &port, "-U", "patra", "--install-missing", "--heapallindexed"]);
                command.arg("postgres");
                command
            }
            _ => {
                let mut command = Command::new(installed("mariadb-check").unwrap_or_else(|| "mariadb-check".into()));
                command.args(["--no-defaults", "-h", "127.0.0.1", "-P", &port, "-u", "patra", "-ppatra"]);
                command.args(["--check", "--extended", "--silent", "patra"]);
                command
            }
        };
        let output = command.output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if !output.status.success() && said.is_empty() {
            bail!("{command:?} ended with {}", output.status);
        }
        Ok(if output.status.success() { String::new() } else { said })
    }
}
