//! Tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;

/// Rows as a table of the given keys; numbers to the right.
pub fn of_rows(rows: &[Value], columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|column| column.replace('_', " ")));
    for row in rows {
        table.add_row(columns.iter().map(|column| text_of(&row[*column])));
    }
    for (at, column) in columns.iter().enumerate() {
        if rows.iter().any(|row| row[*column].is_number())
            && let Some(column) = table.column_mut(at)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A value as a person reads it. Control characters of data cannot reach the terminal.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

fn plain(text: &str) -> String {
    let whole_second = text.strip_suffix(".000000Z").map(|text| format!("{text}Z"));
    let text = whole_second.as_deref().unwrap_or(text);
    text.chars().map(|letter| if letter.is_control() || is_bidi(letter) { '\u{fffd}' } else { letter }).collect()
}

fn is_bidi(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}
