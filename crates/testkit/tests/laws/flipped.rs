//! A certificate rests on every column of every row it covers: whichever value is changed, `--verify` notices, and when it is
//! put back all is well again.

use std::collections::BTreeSet;

use patra_core::ports::{DigestAsk, Prove};
use patra_core::proof::{Certificate, Flaw};
use patra_testkit::lab::{Lab, LabResult};
use patra_testkit::simulation::stormed;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use super::certified::{certificate, options};

/// Tables that a storm fills. Waivers are a person's, and the simulators send no record that must be set aside.
const TABLES: [&str; 6] =
    ["ing_plan_slice", "ing_plan", "ing_task", "ing_task_run", "ing_task_run_batch", "ing_missing_id"];
/// Storms until each of the tables had a covered row.
const SEEDS_MAX: u64 = 200;

/// Another value of the same kind, and some value for none.
fn another(column: &str) -> String {
    format!(
        "CASE typeof({column}) WHEN 'integer' THEN {column} + 1000003 WHEN 'text' THEN {column} || 'x'
             WHEN 'blob' THEN CAST({column} || x'00' AS BLOB) ELSE '1' END"
    )
}

struct Flipping {
    lab: Lab,
    certificate: Certificate,
    connection: SqliteConnection,
    _folder: tempfile::TempDir,
}

impl Flipping {
    fn begin(seed: u64) -> LabResult<Option<Flipping>> {
        let (lab, folder) = stormed(options(seed))?;
        let compiled = lab.runtime.block_on(lab.planner().compile(&lab.trigger(lab.plan.sources[0])));
        let spec = compiled.map_err(|error| error.to_string())?.spec;
        let Some(certificate) = certificate(&lab, &spec)? else { return Ok(None) };
        let connect = SqliteConnectOptions::new()
            .filename(lab.database())
            .pragma("ignore_check_constraints", "ON")
            .foreign_keys(false);
        let connection = lab.runtime.block_on(connect.connect()).map_err(|error| error.to_string())?;
        Ok(Some(Flipping { lab, certificate, connection, _folder: folder }))
    }

    fn run(&mut self, sql: String) -> u64 {
        let done = self.lab.runtime.block_on(sqlx::query(AssertSqlSafe(sql.clone())).execute(&mut self.connection));
        done.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_affected()
    }

    /// A row of the table that the certificate covers.
    fn covered(&mut self, table: &str) -> Option<i64> {
        let slices: Vec<String> = self.certificate.basis.digests.slices.keys().map(|id| id.0.to_string()).collect();
        let slices = slices.join(", ");
        let found = match table {
            "ing_plan_slice" => format!("id IN ({slices})"),
            "ing_plan" => format!("id IN (SELECT plan_id FROM ing_plan_slice WHERE id IN ({slices}))"),
            "ing_missing_id" => {
                format!("batch_id IN (SELECT id FROM ing_task_run_batch WHERE slice_id IN ({slices}))")
            }
            _ => format!("slice_id IN ({slices})"),
        };
        let sql = format!("SELECT id FROM {table} WHERE {found} ORDER BY id LIMIT 1");
        let row = self.lab.runtime.block_on(sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut self.connection));
        row.unwrap().map(|row| row.get(0))
    }

    /// What `--verify` would say; a ledger that cannot be read is a flaw as well.
    fn flaws(&self) -> Vec<Flaw> {
        let ask = DigestAsk {
            provenance: self.certificate.subject.source.clone(),
            entity: self.certificate.subject.entity.clone(),
            slices: self.certificate.basis.digests.slices.keys().copied().collect(),
            waivers: Vec::new(),
            columns: self.certificate.basis.columns.clone(),
        };
        match self.lab.runtime.block_on(self.lab.store.digests(&ask)) {
            Ok(now) => self.certificate.flaws_against(&now),
            Err(error) => vec![Flaw { what: error.to_string(), slice: None, window: None }],
        }
    }

    /// Changes every column in turn; those that nobody noticed.
    fn unnoticed(&mut self, table: &str, id: i64) -> Vec<String> {
        let columns = self.certificate.basis.columns[table].clone();
        self.run("DROP TABLE IF EXISTS temp.kept".into());
        self.run(format!("CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE id = {id}"));
        let mut unnoticed = Vec::new();
        for column in columns {
            let changed = self.run(format!("UPDATE {table} SET {column} = {} WHERE id = {id}", another(&column)));
            assert_eq!(changed, 1, "{table}.{column}");
            if self.flaws().is_empty() {
                unnoticed.push(format!("{table}.{column}"));
            }
            self.run(format!("DELETE FROM {table} WHERE id IN ({id}, {id} + 1000003)"));
            self.run(format!("INSERT INTO {table} SELECT * FROM temp.kept"));
        }
        assert_eq!(self.flaws(), [], "{table} was put back");
        unnoticed
    }
}

#[test]
fn a_changed_value_in_any_column_of_a_covered_row_is_noticed() {
    super::quiet_crashes();
    let mut left: BTreeSet<&str> = TABLES.into();
    let mut unnoticed = Vec::new();
    for seed in 1..=SEEDS_MAX {
        let Some(mut flipping) = Flipping::begin(seed).unwrap() else { continue };
        for table in left.clone() {
            if let Some(id) = flipping.covered(table) {
                unnoticed.extend(flipping.unnoticed(table, id));
                left.remove(table);
            }
        }
        if left.is_empty() {
            break;
        }
    }
    assert!(left.is_empty(), "no storm has filled {left:?}");
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
