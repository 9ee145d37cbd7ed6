//! What differs between the databases: named fragments of a statement and the meaning of error codes.
//!
//! A statement is one text for all of them. `:name` becomes a placeholder; `{...}` is one of:
//! `{rows:n}` (as many rows of n placeholders as are bound), `{list}` (placeholders of an IN list),
//! `{one_of:table;column;condition}` (rows of the condition whose column is in the list, looked up one by one),
//! `{upsert:key;columns}` and `{insert_new:key}` (the tail of an INSERT that meets an existing key),
//! `{limit:name}` (as many rows as the parameter says), `{first_after:table;index;condition;columns}` (what follows a
//! key), `{for_update}` (keeps the rows as they are until the commit), `{skip_locked}` (the same, passing over rows that
//! another transaction holds).

use std::fmt::Write as _;

/// What a code of the database means for the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Busy,
    Stale,
    Unique,
    Data,
    Full,
    Unavailable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

/// How a transaction begins: by itself, and with the database's clock in microseconds as the answer.
#[derive(Clone, Copy)]
pub(crate) struct Begin {
    pub plain: &'static str,
    pub on_time: &'static str,
}

macro_rules! begin {
    ($plain:literal, $clock:literal) => {
        Begin { plain: $plain, on_time: concat!($plain, "; ", $clock) }
    };
}

impl Dialect {
    pub fn begin_write(self) -> Begin {
        match self {
            // A deferred transaction fails with BUSY_SNAPSHOT whatever its timeout is.
            Dialect::Sqlite => begin!("BEGIN IMMEDIATE", ""),
            Dialect::Postgres => begin!(
                "BEGIN ISOLATION LEVEL READ COMMITTED",
                "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT::TEXT"
            ),
            Dialect::Mysql => {
                begin!("START TRANSACTION", "SELECT CAST(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) AS CHAR)")
            }
        }
    }

    pub fn begin_read(self) -> Begin {
        match self {
            Dialect::Sqlite => begin!("BEGIN DEFERRED", ""),
            Dialect::Postgres => begin!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT::TEXT"
            ),
            Dialect::Mysql => begin!(
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
                "SELECT CAST(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) AS CHAR)"
            ),
        }
    }

    /// Writes the `number`th parameter. SQLite looks a numbered one up by its name, which makes a statement of
    /// thousands of them quadratic.
    pub fn placeholder(self, number: usize, sql: &mut String) {
        match self {
            Dialect::Sqlite | Dialect::Mysql => sql.push('?'),
            Dialect::Postgres => write!(sql, "${number}").expect("a string takes text"),
        }
    }

    /// Most parameters one statement may carry.
    pub fn binds_max(self) -> usize {
        match self {
            Dialect::Sqlite => 32_000,
            Dialect::Postgres | Dialect::Mysql => 65_000,
        }
    }

    pub fn upsert(self, key: &str, columns: &str) -> String {
        let set = |value: fn(&str) -> String| {
            let set: Vec<String> = columns.split(',').map(str::trim).map(value).collect();
            set.join(", ")
        };
        match self {
            Dialect::Sqlite | Dialect::Postgres => {
                let set = set(|column| format!("{column} = excluded.{column}"));
                format!("ON CONFLICT ({key}) DO UPDATE SET {set}")
            }
            Dialect::Mysql => {
                format!("ON DUPLICATE KEY UPDATE {}", set(|column| format!("{column} = VALUES({column})")))
            }
        }
    }

    pub fn insert_new(self, key: &str) -> String {
        match self {
            Dialect::Sqlite | Dialect::Postgres => format!("ON CONFLICT ({key}) DO NOTHING"),
            // INSERT IGNORE would turn data errors into warnings.
            Dialect::Mysql => {
                let first = key.split(',').next().unwrap_or(key).trim();
                format!("ON DUPLICATE KEY UPDATE {first} = {first}")
            }
        }
    }

    /// What follows the parameter of a LIMIT.
    pub fn limit_tail(self) -> &'static str {
        match self {
            // SQLite plans for the value of a bare parameter and prepares the statement anew at every use.
            Dialect::Sqlite => " + 0",
            Dialect::Postgres | Dialect::Mysql => "",
        }
    }

    pub fn for_update(self) -> &'static str {
        match self {
            // Write transactions begin immediate: there is never another one.
            Dialect::Sqlite => "",
            Dialect::Postgres | Dialect::Mysql => "FOR UPDATE",
        }
    }

    pub fn skip_locked(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres | Dialect::Mysql => "FOR UPDATE SKIP LOCKED",
        }
    }

    pub fn migration_table(self) -> &'static str {
        match self {
            Dialect::Sqlite => {
                "CREATE TABLE IF NOT EXISTS sys_schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL,
                checksum BLOB NOT NULL, applied_at TEXT NOT NULL, needs_version INTEGER)"
            }
            Dialect::Postgres => {
                "CREATE TABLE IF NOT EXISTS sys_schema_migration (version BIGINT PRIMARY KEY, name TEXT NOT NULL,
                checksum BYTEA NOT NULL, applied_at TIMESTAMPTZ NOT NULL, needs_version BIGINT)"
            }
            Dialect::Mysql => {
                "CREATE TABLE IF NOT EXISTS sys_schema_migration (version BIGINT PRIMARY KEY, name LONGTEXT NOT NULL,
                checksum BINARY(32) NOT NULL, applied_at DATETIME(6) NOT NULL, needs_version BIGINT) ENGINE = InnoDB"
            }
        }
    }

    /// One process migrates at a time.
    pub fn migration_lock(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres => "SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(7291840)",
            Dialect::Mysql => "SELECT GET_LOCK(CONCAT('patra.', DATABASE()), 600)",
        }
    }

    pub fn migration_unlock(self) -> &'static str {
        match self {
            Dialect::Sqlite | Dialect::Postgres => "",
            Dialect::Mysql => "SELECT RELEASE_LOCK(CONCAT('patra.', DATABASE()))",
        }
    }

    /// (table_name, column_name) of every table, in the order of the columns.
    pub fn columns_query(self) -> &'static str {
        match self {
            Dialect::Sqlite => {
                "-- schema.columns
                SELECT m.name AS table_name, c.name AS column_name
                  FROM sqlite_master m JOIN pragma_table_info(m.name) c
                 WHERE m.type = 'table' ORDER BY m.name, c.cid"
            }
            Dialect::Postgres => {
                "-- schema.columns
                SELECT CAST(t.relname AS TEXT) AS table_name, CAST(c.attname AS TEXT) AS column_name
                  FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid
                  JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
                 WHERE n.nspname = current_schema() AND t.relkind = 'r' AND c.attnum > 0 AND NOT c.attisdropped
                 ORDER BY t.relname, c.attnum"
            }
            Dialect::Mysql => {
                "-- schema.columns
                SELECT table_name AS table_name, column_name AS column_name FROM information_schema.columns
                 WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
            }
        }
    }

    /// Meaning of the driver's error code.
    pub fn meaning(self, code: &str) -> Meaning {
        match self {
            Dialect::Sqlite => meaning_sqlite(code.parse().unwrap_or(0)),
            Dialect::Postgres => meaning_postgres(code),
            Dialect::Mysql => meaning_mysql(code.parse().unwrap_or(0)),
        }
    }
}

fn meaning_sqlite(code: i64) -> Meaning {
    match (code, code & 0xff) {
        (2067 | 1555, _) => Meaning::Unique,
        (_, 5 | 6) => Meaning::Busy,
        (_, 13) => Meaning::Full,
        // TOOBIG, CONSTRAINT, MISMATCH, RANGE
        (_, 18 | 19 | 20 | 25) => Meaning::Data,
        _ => Meaning::Unavailable,
    }
}

fn meaning_postgres(code: &str) -> Meaning {
    match (code, code.get(..2)) {
        ("23505", _) => Meaning::Unique,
        // Serialization, deadlock, lock not available, cancelled by a timeout.
        ("40001" | "40P01" | "55P03" | "57014", _) => Meaning::Busy,
        // A prepared statement whose table has changed: a migration of the next release ran meanwhile.
        ("0A000", _) => Meaning::Stale,
        ("53100", _) => Meaning::Full,
        // Data exception, integrity constraint, program limit (a key too long for its index).
        (_, Some("22" | "23" | "54")) => Meaning::Data,
        _ => Meaning::Unavailable,
    }
}

fn meaning_mysql(code: i64) -> Meaning {
    match code {
        1062 | 1586 => Meaning::Unique,
        // Lock wait, deadlock, changed since last read.
        1205 | 1213 | 1020 => Meaning::Busy,
        // Of the disk, of a table that cannot grow.
        1021 | 1114 => Meaning::Full,
        // Null, out of range, wrong value, too long, check constraints, packet too large.
        1048 | 1153 | 1264 | 1292 | 1366 | 1406 | 3819 | 4025 => Meaning::Data,
        _ => Meaning::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dialect::{Mysql, Postgres, Sqlite};

    #[test]
    fn fragments_read_as_each_database_wants_them() {
        let upsert = "ON CONFLICT (a, b) DO UPDATE SET c = excluded.c, d = excluded.d";
        let of = |dialect: Dialect| {
            let mut placeholder = String::new();
            dialect.placeholder(3, &mut placeholder);
            let upsert = dialect.upsert("a, b", "c, d");
            (upsert, dialect.insert_new("a, b"), placeholder, dialect.for_update(), dialect.skip_locked())
        };
        let want = |upsert: &str, new: &str, placeholder: &str, lock, skip| {
            (upsert.to_owned(), new.to_owned(), placeholder.to_owned(), lock, skip)
        };
        assert_eq!(of(Sqlite), want(upsert, "ON CONFLICT (a, b) DO NOTHING", "?", "", ""));
        let locked = ("FOR UPDATE", "FOR UPDATE SKIP LOCKED");
        assert_eq!(of(Postgres), want(upsert, "ON CONFLICT (a, b) DO NOTHING", "$3", locked.0, locked.1));
        let upsert = "ON DUPLICATE KEY UPDATE c = VALUES(c), d = VALUES(d)";
        assert_eq!(of(Mysql), want(upsert, "ON DUPLICATE KEY UPDATE a = a", "?", locked.0, locked.1));
    }

    #[test]
    fn codes_say_what_to_do() {
        for (dialect, code, want) in [
            (Sqlite, "5", Meaning::Busy),
            (Sqlite, "517", Meaning::Busy),
            (Sqlite, "2067", Meaning::Unique),
            (Sqlite, "1555", Meaning::Unique),
            (Sqlite, "275", Meaning::Data),
            (Sqlite, "18", Meaning::Data),
            (Sqlite, "13", Meaning::Full),
            (Sqlite, "778", Meaning::Unavailable),
            (Postgres, "23505", Meaning::Unique),
            (Postgres, "40P01", Meaning::Busy),
            (Postgres, "22021", Meaning::Data),
            (Postgres, "23514", Meaning::Data),
            (Postgres, "54000", Meaning::Data),
            (Postgres, "0A000", Meaning::Stale),
            (Postgres, "57P01", Meaning::Unavailable),
            (Postgres, "53100", Meaning::Full),
            (Mysql, "1062", Meaning::Unique),
            (Mysql, "1213", Meaning::Busy),
            (Mysql, "1205", Meaning::Busy),
            (Mysql, "1406", Meaning::Data),
            (Mysql, "4025", Meaning::Data),
            (Mysql, "1021", Meaning::Full),
            (Mysql, "1114", Meaning::Full),
            (Mysql, "2013", Meaning::Unavailable),
        ] {
            assert_eq!(dialect.meaning(code), want, "{dialect:?} {code}");
        }
    }
}
