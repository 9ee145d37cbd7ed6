//! What differs between the databases: named fragments of a statement and the meaning of error codes.
//!
//! A statement is one text for all of them. `:name` becomes a placeholder; `{...}` is one of:
//! `{rows:n}` (as many rows of n placeholders as are bound), `{list}` (placeholders of an IN list),
//! `{upsert:key;columns}` and `{insert_new:key}` (the tail of an INSERT that meets an existing key),
//! `{limit:name}` (as many rows as the parameter says), `{skip_locked}` (passes over rows that another transaction holds).

/// What a code of the database means for the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Busy,
    Unique,
    Data,
    Unavailable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Sqlite,
}

impl Dialect {
    pub fn begin_write(self) -> &'static str {
        match self {
            // A deferred transaction fails with BUSY_SNAPSHOT whatever its timeout is.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
        }
    }

    pub fn begin_read(self) -> &'static str {
        match self {
            Dialect::Sqlite => "BEGIN DEFERRED",
        }
    }

    pub fn placeholder(self) -> &'static str {
        match self {
            Dialect::Sqlite => "?",
        }
    }

    /// Most parameters one statement may carry.
    pub fn binds_max(self) -> usize {
        match self {
            Dialect::Sqlite => 32_000,
        }
    }

    pub fn upsert(self, key: &str, columns: &str) -> String {
        match self {
            Dialect::Sqlite => {
                let set: Vec<String> =
                    columns.split(',').map(str::trim).map(|column| format!("{column} = excluded.{column}")).collect();
                format!("ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
            }
        }
    }

    pub fn insert_new(self, key: &str) -> String {
        match self {
            Dialect::Sqlite => format!("ON CONFLICT ({key}) DO NOTHING"),
        }
    }

    /// A LIMIT whose number is the next parameter.
    pub fn limit(self) -> &'static str {
        match self {
            // SQLite plans for the value of a bare parameter and prepares the statement anew at every use.
            Dialect::Sqlite => "LIMIT ? + 0",
        }
    }

    pub fn skip_locked(self) -> &'static str {
        match self {
            // Write transactions begin immediate: there is never another one.
            Dialect::Sqlite => "",
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
        }
    }

    /// Meaning of the driver's error code.
    pub fn meaning(self, code: &str) -> Meaning {
        let Dialect::Sqlite = self;
        let code: i64 = code.parse().unwrap_or(0);
        match (code, code & 0xff) {
            (2067 | 1555, _) => Meaning::Unique,
            (_, 5 | 6) => Meaning::Busy,
            // TOOBIG, CONSTRAINT, MISMATCH, RANGE
            (_, 18 | 19 | 20 | 25) => Meaning::Data,
            _ => Meaning::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_read_as_the_database_wants_them() {
        let dialect = Dialect::Sqlite;
        assert_eq!(dialect.upsert("a, b", "c, d"), "ON CONFLICT (a, b) DO UPDATE SET c = excluded.c, d = excluded.d");
        assert_eq!(dialect.insert_new("a"), "ON CONFLICT (a) DO NOTHING");
        assert_eq!(dialect.placeholder(), "?");
        assert_eq!(dialect.limit(), "LIMIT ? + 0");
        assert_eq!(dialect.skip_locked(), "");
    }

    #[test]
    fn codes_say_what_to_do() {
        for (code, want) in [
            ("5", Meaning::Busy),
            ("517", Meaning::Busy),
            ("2067", Meaning::Unique),
            ("1555", Meaning::Unique),
            ("275", Meaning::Data),
            ("18", Meaning::Data),
            ("13", Meaning::Unavailable),
            ("778", Meaning::Unavailable),
        ] {
            assert_eq!(Dialect::Sqlite.meaning(code), want, "{code}");
        }
    }
}
