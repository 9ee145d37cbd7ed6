//! What each server is called, how it is set up and how it is started.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{Place, install, run};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mysql,
    Redis,
    Nats,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Postgres, Kind::Mysql, Kind::Redis, Kind::Nats];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Mysql => "mariadbd",
            Kind::Redis => "redis-server",
            Kind::Nats => "nats-server",
        }
    }

    pub fn package(self) -> &'static str {
        match self {
            Kind::Postgres => "postgresql",
            Kind::Mysql => "mariadb-server",
            Kind::Redis => "redis-server",
            Kind::Nats => "nats-server",
        }
    }

    /// The variable that tells the tests where it is.
    pub fn variable(self) -> &'static str {
        match self {
            Kind::Postgres => "PATRA_TEST_POSTGRES",
            Kind::Mysql => "PATRA_TEST_MYSQL",
            Kind::Redis => "PATRA_TEST_REDIS",
            Kind::Nats => "PATRA_TEST_NATS",
        }
    }

    pub fn url(self, port: u16) -> String {
        match self {
            Kind::Postgres => format!("postgres://patra@127.0.0.1:{port}/postgres"),
            Kind::Mysql => format!("mysql://patra:patra@127.0.0.1:{port}/patra"),
            Kind::Redis => format!("redis://127.0.0.1:{port}/"),
            Kind::Nats => format!("nats://127.0.0.1:{port}"),
        }
    }

    /// Runs as this user when we are root.
    pub fn user(self) -> Option<&'static str> {
        match self {
            Kind::Postgres => Some("postgres"),
            Kind::Mysql => Some("mysql"),
            Kind::Redis | Kind::Nats => None,
        }
    }

    pub fn find(self) -> Option<PathBuf> {
        match self {
            Kind::Postgres => install::postgres_folder().map(|folder| folder.join("postgres")),
            _ => install::program(self.name()),
        }
    }

    fn program(self) -> Result<PathBuf> {
        self.find().with_context(|| format!("{} is not installed", self.name()))
    }

    /// Makes what the server needs before its first start.
    pub fn prepare(self, place: &Place) -> Result<()> {
        let data = place.home.join("data");
        match self {
            Kind::Postgres => {
                let initdb = self.program()?.with_file_name("initdb");
                let options = ["-U", "patra", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8"];
                run(place.program(&initdb).arg("-D").arg(&data).args(options))
            }
            Kind::Mysql => {
                let install = install::program("mariadb-install-db").context("mariadb-install-db is missing")?;
                let options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
                run(place.program(&install).args(options).arg(format!("--datadir={}", data.display())))?;
                let user = "CREATE USER IF NOT EXISTS patra@'127.0.0.1' IDENTIFIED BY 'patra';\n\
                    GRANT ALL ON *.* TO patra@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE IF NOT EXISTS patra;\n";
                Ok(fs::write(place.home.join("init.sql"), user)?)
            }
            Kind::Redis | Kind::Nats => Ok(()),
        }
    }

    pub fn command(self, place: &Place) -> Result<Command> {
        let mut command = place.program(&self.program()?);
        let (home, port) = (&place.home, place.port);
        let shown = |name: &str| home.join(name).display().to_string();
        match self {
            // Nothing here must survive a power cut; what was committed survives the end of the process.
            Kind::Postgres => command.args(["-D", &shown("data"), "-p", &port.to_string(), "-k", ""]).args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
                "-c",
                "max_connections=300",
            ]),
            Kind::Mysql => command.arg("--no-defaults").args([
                format!("--datadir={}", shown("data")),
                format!("--port={port}"),
                format!("--socket={}", shown("socket")),
                format!("--pid-file={}", shown("pid")),
                format!("--init-file={}", shown("init.sql")),
                "--bind-address=127.0.0.1".into(),
                "--innodb-flush-log-at-trx-commit=2".into(),
                "--innodb-fast-shutdown=2".into(),
                "--innodb-file-per-table=0".into(),
                "--max-connections=400".into(),
            ]),
            Kind::Redis => command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]),
            Kind::Nats => command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd", &shown("data")]),
        };
        command.args(place.more);
        Ok(command)
    }

    /// PostgreSQL would wait for its clients after a SIGTERM.
    pub fn stop_signal(self) -> &'static str {
        match self {
            Kind::Postgres => "-INT",
            Kind::Mysql | Kind::Redis | Kind::Nats => "-TERM",
        }
    }

    /// Whether it does more than listen.
    pub fn is_ready(self, port: u16) -> bool {
        let (Kind::Postgres, Some(program)) = (self, self.find()) else { return true };
        let mut asked = Command::new(program.with_file_name("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    }
}
