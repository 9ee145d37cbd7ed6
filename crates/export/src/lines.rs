//! Formats of one record after the other: JSON lines and CSV.

use patra_core::export::{Exported, SCHEMA};
use patra_core::id::Id;
use patra_core::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ExportError;
use crate::neutral::neutral;
use crate::row::{Cell, cells, columns};

/// A line of JSON; `fields` stands in it as it is kept.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    source: &'a str,
    entity: &'a str,
    id: &'a str,
    version: i64,
    deleted: bool,
    merged_into: Option<&'a str>,
    updated_at: Option<Timestamp>,
    first_seen_at: Timestamp,
    changed_at: Timestamp,
    content_hash: String,
    batch_id: Id,
    fields: &'a RawValue,
}

pub fn jsonl(records: &[Exported]) -> Result<Vec<u8>, ExportError> {
    let mut piece = Vec::new();
    for record in records {
        let wrong =
            |error: serde_json::Error| ExportError::Record { id: record.id.clone(), message: error.to_string() };
        let fields: &RawValue = serde_json::from_str(&record.fields).map_err(wrong)?;
        let line = Line {
            schema: SCHEMA,
            source: &record.source,
            entity: &record.entity,
            id: &record.id,
            version: record.version,
            deleted: record.deleted,
            merged_into: record.merged_into.as_deref(),
            updated_at: record.updated_at,
            first_seen_at: record.first_seen_at,
            changed_at: record.changed_at,
            content_hash: record.content_hash.to_string(),
            batch_id: record.batch,
            fields,
        };
        serde_json::to_writer(&mut piece, &line).map_err(wrong)?;
        piece.push(b'\n');
    }
    Ok(piece)
}

pub fn csv(records: &[Exported], header: bool) -> Result<Vec<u8>, ExportError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let wrong = |id: &str, error: csv::Error| ExportError::Record { id: id.to_owned(), message: error.to_string() };
    if header {
        writer.write_record(columns().map(|column| column.name)).map_err(|error| wrong("header", error))?;
    }
    for record in records {
        let cells = cells(record);
        for cell in &cells {
            let written = match cell {
                Cell::Empty => writer.write_field(""),
                Cell::Text(text) => writer.write_field(neutral(text).as_bytes()),
                Cell::Number(number) => writer.write_field(number.to_string()),
                Cell::Flag(flag) => writer.write_field(flag.to_string()),
                Cell::Time(time) => writer.write_field(time.to_string()),
            };
            written.map_err(|error| wrong(&record.id, error))?;
        }
        writer.write_record(None::<&[u8]>).map_err(|error| wrong(&record.id, error))?;
    }
    let whole = writer.into_inner();
    whole.map_err(|error| ExportError::Record { id: String::new(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::record;

    #[test]
    fn a_line_of_json_is_one_record_whole() {
        let text = String::from_utf8(jsonl(&[record(1, r#"{"title":"a\nb"}"#), record(2, "{}")]).unwrap()).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["fields"]["title"], &lines[0]["deleted"]), (&"a\nb".into(), &true.into()));
        assert_eq!((&lines[1]["id"], &lines[1]["batch_id"]), (&"10.1/2".into(), &"77".into()));
        assert!(jsonl(&[record(1, "not json")]).is_err());
    }

    #[test]
    fn a_table_reads_back_and_nothing_in_it_is_computed() {
        let evil = r#"{"title":"=HYPERLINK(\"http://x\",\"a\"), \"b\"\nc","venue":{"title":"@SUM(A1)"}}"#;
        let first = csv(&[record(1, evil)], true).unwrap();
        let all = [first, csv(&[record(2, "{}")], false).unwrap()].concat();
        let mut reader = csv::Reader::from_reader(all.as_slice());
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| rows[row][names.iter().position(|known| known == name).unwrap()].to_owned();
        assert_eq!(rows.len(), 2);
        assert_eq!(cell(0, "title"), "'=HYPERLINK(\"http://x\",\"a\"), \"b\"\nc");
        assert_eq!((cell(0, "venue"), cell(0, "fields")), ("'@SUM(A1)".to_owned(), evil.to_owned()));
        assert_eq!((cell(1, "title"), cell(1, "deleted")), (String::new(), "false".to_owned()));
    }
}
