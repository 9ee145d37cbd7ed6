//! A person at a keyboard: a folder of their own, commands typed in it, simulators on a port beside it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use patra_core::hash::Digesting;
use serde_json::Value;

/// A working folder with a database in it.
pub struct Desk {
    folder: tempfile::TempDir,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            exit: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The command ended with this code; on success it complained about nothing.
    #[track_caller]
    pub fn ended(self, exit: i32) -> Said {
        assert_eq!(self.exit, exit, "{}\n{}", self.out, self.err);
        self
    }

    /// The message names all of these.
    #[track_caller]
    pub fn complains(&self, texts: &[&str]) {
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in:\n{}", self.err);
        }
    }
}

impl Desk {
    pub fn new() -> Desk {
        Desk { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_patra"));
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PATRA_") || name == "RUST_LOG") {
            command.env_remove(name);
        }
        command.env("USER", "tester");
        command
    }

    pub fn patra(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// A command that succeeds, with its JSON answer.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        self.patra(&all).ended(0).json()
    }
}

/// `patra sim serve` on a free port; ends with the test.
pub struct Sim {
    child: Child,
    pub address: String,
}

impl Sim {
    pub fn start(desk: &Desk, args: &[&str]) -> Sim {
        Sim::at(desk, "127.0.0.1:0", args)
    }

    pub fn at(desk: &Desk, address: &str, args: &[&str]) -> Sim {
        let mut command = desk.command(&["sim", "serve", "--json", "--listen", address]);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Sim { child, address: said["listen"].as_str().unwrap().to_owned() }
    }

    /// Arguments of a harvest from this simulator.
    pub fn harvest(&self, source: &str) -> Vec<String> {
        [
            "harvest",
            source,
            "--base-url",
            &format!("http://{}/{source}", self.address),
            "--allow-host",
            &self.address,
            "--contact",
            "tester@example.org",
            "--since",
            &days_ago(12),
            "--json",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Ends it as a person would and waits until its files are written.
    pub fn stop(mut self) {
        signal(&self.child, "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

pub fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Midnight so many days ago, UTC; the same for a whole test unless it runs over midnight, which harms nothing.
pub fn days_ago(days: u64) -> String {
    ago(86_400, days)
}

/// The beginning of an hour, so many ago: what was dated before it stays as it is while a test runs.
pub fn hours_ago(hours: u64) -> String {
    ago(3_600, hours)
}

fn ago(unit: u64, count: u64) -> String {
    #[expect(clippy::disallowed_methods, reason = "the simulators date their history back from the machine's clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let whole = now.as_secs() / unit - count;
    jiff::Timestamp::from_second(i64::try_from(whole * unit).unwrap()).unwrap().to_string()
}

/// The shipped definition of a source.
pub fn shipped(source: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("sources").join(format!("{source}.yaml"))).unwrap()
}

/// Changes a database behind patra's back.
pub fn change(path: &Path, sql: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use sqlx::{ConnectOptions, Connection, Executor};
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        connection.execute(sql).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// The first column of what a query finds, as text.
pub fn rows(path: &Path, sql: &'static str) -> Vec<String> {
    use sqlx::ConnectOptions;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
    })
}

/// A hash over every row of every table but these.
pub fn hashes(path: &Path, without: &[&str]) -> BTreeMap<String, String> {
    use sqlx::{AssertSqlSafe, Column, ConnectOptions, Row, ValueRef};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        let names: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table'")
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let mut found = BTreeMap::new();
        for name in names.into_iter().filter(|name| !without.contains(&name.as_str())) {
            let text = AssertSqlSafe(format!("SELECT * FROM {name} ORDER BY 1"));
            let mut digest = Digesting::default();
            for row in sqlx::query(text).fetch_all(&mut connection).await.unwrap() {
                for column in row.columns() {
                    let value = row.try_get_raw(column.ordinal()).unwrap();
                    let kind = u8::from(value.is_null());
                    let bytes = match value.is_null() {
                        true => Vec::new(),
                        false => row.try_get_unchecked::<Vec<u8>, _>(column.ordinal()).unwrap(),
                    };
                    digest.put(kind, &bytes);
                }
            }
            found.insert(name, digest.end().to_string());
        }
        found
    })
}
