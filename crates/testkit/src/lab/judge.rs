//! The verdict on a laboratory: truth, request log and database handed to the checker.

use std::io::Write;
use std::path::Path;

use patra_checker::{CheckInput, Database, Kind, ServedRow, TruthRow, Verdict};
use patra_core::hash::Hash32;
use patra_core::ports::{Inspect, ListFilter, Noun};
use patra_sim::{Counters, Source, World};

use super::rules::rules_of;
use super::{Lab, LabResult};

impl Lab {
    /// What the checker finds, now.
    pub fn verdict(&self) -> LabResult<Verdict> {
        Ok(self.judge(&self.check_input()?))
    }

    /// What the checker finds in a given input.
    pub fn judge(&self, input: &CheckInput) -> Verdict {
        self.runtime.block_on(patra_checker::check(input))
    }

    fn place(&self) -> Database {
        Database::at(&self.plan.database.to_string_lossy())
    }

    /// Everything the checker reads.
    pub fn check_input(&self) -> LabResult<CheckInput> {
        let mut input = CheckInput::new(self.place());
        input.end_us = Some(self.now().micros());
        for source in &self.plan.sources {
            let compiled = self.runtime.block_on(self.planner().compile(&self.trigger(*source)));
            let spec = compiled.map_err(|error| error.to_string())?.spec;
            input.rules.push(rules_of(source.name(), &spec));
            add_seen(&mut input, &self.world.lock(), *source);
        }
        Ok(input)
    }

    /// Copies the database and writes truth, request log and rules beside it, as `patra-check` reads them.
    pub fn keep(&self, folder: &Path) -> LabResult<()> {
        self.keep_files(folder).map_err(|error| error.to_string())
    }

    fn keep_files(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let input = self.check_input().map_err(std::io::Error::other)?;
        write_lines(&folder.join("truth.jsonl"), &input.truth)?;
        write_lines(&folder.join("served.jsonl"), &input.served)?;
        std::fs::write(folder.join("rules.json"), serde_json::to_vec_pretty(&input.rules)?)?;
        if let Database::Server(url) = self.place() {
            let copied = self.runtime.block_on(patra_checker::copy_server(&url, &folder.join("demo.db")));
            return copied.map_err(std::io::Error::other);
        }
        let name = self.plan.database.file_name().unwrap_or_default();
        if self.plan.database.parent() != Some(folder) {
            self.runtime.block_on(self.store.close());
            std::fs::copy(&self.plan.database, folder.join(name))?;
        }
        Ok(())
    }

    /// A hash over every run there was, newest first.
    pub fn leases(&self) -> LabResult<String> {
        let filter = ListFilter { limit: 100_000, ..ListFilter::default() };
        let runs = self.runtime.block_on(self.store.list(Noun::Run, &filter)).map_err(|error| error.to_string())?;
        let text = serde_json::to_vec(&runs).map_err(|error| error.to_string())?;
        Ok(Hash32::of(&text).to_string())
    }

    pub fn counters(&self, source: Source) -> Counters {
        self.world.lock().counters(source.name()).clone()
    }
}

fn write_lines<T: serde::Serialize>(path: &Path, rows: &[T]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for row in rows {
        serde_json::to_writer(&mut file, row)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// What the world holds of a source and what it was asked for.
pub fn add_seen(input: &mut CheckInput, world: &World, source: Source) {
    input.truth.extend(world.truth_rows(source.name()).into_iter().map(truth_row));
    input.served.extend(world.served(source.name()).iter().map(served_row));
}

fn truth_row(row: patra_sim::TruthRow) -> TruthRow {
    TruthRow {
        source: row.source,
        id: row.id,
        version: row.version,
        updated_at: row.updated_at,
        visible_at: row.visible_at,
        deleted: row.deleted,
        same_content_as: row.same_content_as,
        detail_missing: row.detail_missing,
        payload_sha256: row.payload_sha256,
    }
}

fn served_row(row: &patra_sim::ServedRow) -> ServedRow {
    ServedRow {
        source: row.source.clone(),
        at_us: row.at_us,
        method: row.method.clone(),
        path_query: row.path_query.clone(),
        status: row.status,
        fault: row.fault.clone(),
        response_sha256: row.response_sha256.clone(),
        items: row.items.clone(),
        kind: match row.kind {
            patra_sim::Kind::Search => Kind::Search,
            patra_sim::Kind::Detail => Kind::Detail,
        },
        token: row.token.clone(),
    }
}
