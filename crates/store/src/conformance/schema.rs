//! The schema is the same everywhere: tables, columns and which of them may be empty.

use super::bench::{Bench, Place};
use crate::dialect::Dialect;

fn columns(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "SELECT m.name, '.', c.name, ' ', CASE WHEN c.\"notnull\" = 1 OR c.pk > 0 THEN 'filled' ELSE 'or null' END
               FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name <> 'sqlite_sequence'"
        }
        Dialect::Postgres => {
            "SELECT CAST(t.relname AS TEXT), '.', CAST(c.attname AS TEXT), ' ',
                    CASE WHEN c.attnotnull THEN 'filled' ELSE 'or null' END
               FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid
               JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
              WHERE n.nspname = current_schema() AND t.relkind = 'r' AND c.attnum > 0 AND NOT c.attisdropped"
        }
        Dialect::Mysql => {
            "SELECT table_name, '.', column_name, ' ', CASE WHEN is_nullable = 'NO' THEN 'filled' ELSE 'or null' END
               FROM information_schema.columns WHERE table_schema = DATABASE()"
        }
    }
}

async fn schema_of(bench: &Bench) -> Vec<String> {
    let mut found = bench.column(columns(bench.store.inner.db.dialect())).await;
    found.sort();
    found
}

pub(super) async fn every_database_has_the_same_tables_and_columns(bench: Bench) {
    let plain = schema_of(&Bench::open(Place::Memory).await).await;
    assert!(plain.len() > 400 && plain.contains(&"ing_task.leased_until or null".to_owned()), "{plain:?}");
    assert_eq!(schema_of(&bench).await, plain);
}
