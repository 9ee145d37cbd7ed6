//! A private place on the servers of the tests, with the roles that `docs/operations.md` makes.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection, Row};

static DRAWN: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mysql,
}

/// A schema of PostgreSQL or a database of MySQL, empty at first.
pub struct Server {
    pub kind: Kind,
    name: String,
    url: String,
}

impl Server {
    /// `None` where no server was started, which is said.
    pub fn find(kind: Kind) -> Option<Server> {
        let variable = if kind == Kind::Postgres { "PATRA_TEST_POSTGRES" } else { "PATRA_TEST_MYSQL" };
        let Ok(url) = std::env::var(variable) else {
            eprintln!("skipped: {variable} names no server; `cargo xtask test` starts one");
            return None;
        };
        let name = format!("e{}_{}", std::process::id(), DRAWN.fetch_add(1, Ordering::Relaxed));
        let server = Server { kind, name, url };
        let made = if kind == Kind::Postgres { "SCHEMA" } else { "DATABASE" };
        try_sql(kind, &server.url, &format!("CREATE {made} {}", server.name)).unwrap();
        Some(server)
    }

    /// Where the owner connects.
    pub fn owner(&self) -> String {
        match self.kind {
            Kind::Postgres => format!("{}?options=-csearch_path%3D{}", self.url, self.name),
            Kind::Mysql => format!("{}/{}", self.url.rsplit_once('/').unwrap().0, self.name),
        }
    }

    /// Where `patra_worker` or `patra_reader` connects.
    pub fn role(&self, role: &str) -> String {
        let owner = self.owner();
        let (scheme, rest) = owner.split_once("://").unwrap();
        let (_, host) = rest.split_once('@').unwrap();
        format!("{scheme}://{}:change-me@{host}", self.named(role))
    }

    /// Roles belong to the whole server, so each test has its own.
    fn named(&self, role: &str) -> String {
        role.replace("patra", &self.name)
    }

    /// Runs the statements of the document, with the names of this place.
    pub fn grant(&self) {
        for statement in self.granted().split(';').map(str::trim).filter(|text| !text.is_empty()) {
            let named =
                statement.replace("patra", &self.name).replace("SCHEMA public", &format!("SCHEMA {}", self.name));
            self.sql(&self.owner(), &named).unwrap_or_else(|error| panic!("{named}: {error}"));
        }
    }

    /// The statements of the document for a server of this kind.
    pub fn granted(&self) -> &'static str {
        let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"));
        let title = if self.kind == Kind::Postgres { "## PostgreSQL" } else { "## MySQL and MariaDB" };
        let (_, chapter) = document.split_once(title).unwrap();
        chapter.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0
    }

    pub fn sql(&self, url: &str, text: &str) -> Result<Vec<String>, sqlx::Error> {
        try_sql(self.kind, url, text)
    }

    /// Names of all tables.
    pub fn tables(&self) -> Vec<String> {
        let text = format!(
            "SELECT CAST(table_name AS CHAR(64)) FROM information_schema.tables WHERE table_schema = '{}'",
            self.name
        );
        let tables = self.sql(&self.owner(), &text).unwrap();
        tables.iter().map(|table| table.trim_end().to_owned()).collect()
    }
}

/// Runs a statement; the first column of its rows, where it is a text.
fn try_sql(kind: Kind, url: &str, text: &str) -> Result<Vec<String>, sqlx::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sql = sqlx::raw_sql(AssertSqlSafe(text));
    runtime.block_on(async {
        Ok(match kind {
            Kind::Postgres => {
                let rows = PgConnection::connect(url).await?.fetch_all(sql).await?;
                rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
            }
            Kind::Mysql => {
                let rows = MySqlConnection::connect(url).await?.fetch_all(sql).await?;
                rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
            }
        })
    })
}
