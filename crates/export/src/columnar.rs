//! Parquet: a piece is a file of one row group; the whole file takes the row groups over, byte for byte.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use patra_core::export::{Exported, SCHEMA};

use crate::ExportError;
use crate::row::{Cell, Column, Kind, cells, columns};

fn schema() -> Result<TypePtr, ParquetError> {
    let mut text = String::from("message patra {");
    for Column { name, kind, optional } in columns() {
        let repetition = if optional { "OPTIONAL" } else { "REQUIRED" };
        let shape = match kind {
            Kind::Text => format!("BYTE_ARRAY {name} (STRING)"),
            Kind::Number => format!("INT64 {name}"),
            Kind::Flag => format!("BOOLEAN {name}"),
            Kind::Time => format!("INT64 {name} (TIMESTAMP(MICROS,true))"),
        };
        write!(text, " {repetition} {shape};").expect("a string takes text");
    }
    text.push_str(" }");
    parse_message_type(&text).map(Arc::new)
}

fn properties() -> WriterPropertiesPtr {
    let named = KeyValue::new("patra.schema".to_owned(), SCHEMA.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![named]))
        .set_created_by("patra".to_owned());
    Arc::new(properties.build())
}

pub fn piece(records: &[Exported]) -> Result<Vec<u8>, ExportError> {
    let rows: Vec<Vec<Cell>> = records.iter().map(cells).collect();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema()?, properties())?;
    if !rows.is_empty() {
        let mut group = writer.next_row_group()?;
        for (at, column) in columns().enumerate() {
            let Some(mut open) = group.next_column()? else { break };
            write_column(&mut open, column, rows.iter().map(|row| &row[at]))?;
            open.close()?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn write_column<'a>(
    open: &mut SerializedColumnWriter<'_>,
    column: Column,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.clone().map(|cell| i16::from(*cell != Cell::Empty)).collect();
    let levels = column.optional.then_some(levels.as_slice());
    match column.kind {
        Kind::Text => {
            let texts: Vec<ByteArray> = cells.filter_map(text_of).collect();
            open.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
        }
        Kind::Number | Kind::Time => {
            let numbers: Vec<i64> = cells.filter_map(number_of).collect();
            open.typed::<Int64Type>().write_batch(&numbers, levels, None)?;
        }
        Kind::Flag => {
            let flags: Vec<bool> = cells.map(|cell| *cell == Cell::Flag(true)).collect();
            open.typed::<BoolType>().write_batch(&flags, levels, None)?;
        }
    }
    Ok(())
}

fn text_of(cell: &Cell) -> Option<ByteArray> {
    match cell {
        Cell::Text(text) => Some(ByteArray::from(text.as_str())),
        _ => None,
    }
}

fn number_of(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Number(number) => Some(*number),
        Cell::Time(time) => Some(time.micros()),
        _ => None,
    }
}

/// One file of all pieces; one piece is open at a time.
pub fn joined<W: Write + Send>(pieces: &[PathBuf], out: W) -> Result<W, ExportError> {
    let mut writer = SerializedFileWriter::new(out, schema()?, properties())?;
    for path in pieces {
        let wrong = |error| ExportError::File { path: path.clone(), error };
        let piece = File::open(path).map_err(wrong)?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&piece)?;
        for group in metadata.row_groups() {
            let mut taken = writer.next_row_group()?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: u64::try_from(column.compressed_size()).unwrap_or_default(),
                    rows_written: u64::try_from(group.num_rows()).unwrap_or_default(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                taken.append_column(&piece, close)?;
            }
            taken.close()?;
        }
    }
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::row::tests::record;

    #[test]
    fn joined_pieces_read_back_as_one_table() {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<Exported> =
            (0..7).map(|number| record(number, &format!(r#"{{"title":"T{number}"}}"#))).collect();
        let mut paths = Vec::new();
        for (at, some) in records.chunks(3).enumerate() {
            let path = folder.path().join(format!("{at}"));
            std::fs::write(&path, piece(some).unwrap()).unwrap();
            paths.push(path);
        }
        let whole = bytes::Bytes::from(joined(&paths, Vec::new()).unwrap());
        let reader = SerializedFileReader::new(whole).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let title = columns().position(|column| column.name == "title").unwrap();
        let rows: Vec<(String, i64, bool, String)> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .map(|row| {
                let text = |at: usize| row.get_string(at).unwrap().clone();
                (text(2), row.get_long(3).unwrap(), row.get_bool(4).unwrap(), text(title))
            })
            .collect();
        let want: Vec<(String, i64, bool, String)> =
            records.iter().map(|one| (one.id.clone(), 1, one.deleted, format!("T{}", one.row))).collect();
        assert_eq!(rows, want);
    }

    #[test]
    fn no_records_are_a_table_without_rows() {
        let empty = bytes::Bytes::from(joined(&[], Vec::new()).unwrap());
        assert_eq!(SerializedFileReader::new(empty).unwrap().metadata().file_metadata().num_rows(), 0);
    }
}
