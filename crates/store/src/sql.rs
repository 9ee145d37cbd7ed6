//! Turns a statement with named parameters and fragments into what the driver takes, once per text and row count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dialect::Dialect;

/// A statement as the driver takes it, and what is bound to its placeholders, in their order.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub sql: Arc<str>,
    pub slots: Vec<Slot>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A named parameter.
    Name(String),
    /// All values of `{rows:n}` or `{list}`.
    Values,
}

/// Remembers what was rendered; texts are constants, so the number of entries is bounded by the program.
pub(crate) struct Statements {
    dialect: Dialect,
    known: Mutex<HashMap<(&'static str, usize), Arc<Rendered>>>,
}

/// Rows per statement: a few fixed shapes, so that the database's cache of prepared statements holds.
const SHAPES: [usize; 4] = [ROWS_PER_STATEMENT, 32, 4, 1];

/// Most rows that one statement writes.
pub const ROWS_PER_STATEMENT: usize = 200;

/// Bytes of values that one statement should not exceed; a single row may.
const CHUNK_BYTES: usize = 1 << 20;

/// How many of the rows with these sizes go into the next statement.
pub(crate) fn next_chunk(sizes: &[usize], rows_max: usize) -> usize {
    let fits = |rows: usize| rows == 1 || sizes[..rows].iter().sum::<usize>() <= CHUNK_BYTES;
    let shapes = SHAPES.into_iter().map(|shape| shape.min(rows_max.max(1)));
    shapes.into_iter().find(|shape| *shape <= sizes.len() && fits(*shape)).unwrap_or(1)
}

/// A text whose parameters are written `?`, as the database wants them.
pub(crate) fn numbered(dialect: Dialect, text: &str) -> Arc<str> {
    let mut sql = String::with_capacity(text.len() + 8);
    for (at, part) in text.split('?').enumerate() {
        if at > 0 {
            dialect.placeholder(at, &mut sql);
        }
        sql.push_str(part);
    }
    sql.into()
}

/// The smallest shape that holds an IN list of `count` values; the list is filled up with its last value.
pub(crate) fn list_shape(count: usize) -> usize {
    SHAPES.into_iter().rev().find(|shape| *shape >= count).unwrap_or(SHAPES[0])
}

/// Most values of one IN list.
pub(crate) const LIST_MAX: usize = SHAPES[0];

impl Statements {
    pub fn new(dialect: Dialect) -> Statements {
        Statements { dialect, known: Mutex::new(HashMap::new()) }
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn render(&self, text: &'static str, count: usize) -> Arc<Rendered> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry((text, count)).or_insert_with(|| Arc::new(render(self.dialect, text, count))).clone()
    }
}

/// A name that stands twice is bound twice.
pub(crate) fn render(dialect: Dialect, text: &str, count: usize) -> Rendered {
    let mut sql = Writer { dialect, text: String::with_capacity(text.len()), placeholders: 0 };
    let mut slots = Vec::new();
    write_text(text, count, &mut sql, &mut slots);
    Rendered { sql: sql.text.into(), slots }
}

fn write_text(text: &str, count: usize, sql: &mut Writer, slots: &mut Vec<Slot>) {
    let mut rest = text;
    while let Some(at) = rest.find([':', '{']) {
        let (plain, tail) = rest.split_at(at);
        sql.text.push_str(plain);
        if let Some(inside) = tail.strip_prefix('{') {
            let (fragment, after) = inside.split_once('}').unwrap_or((inside, ""));
            write_fragment(fragment, count, sql, slots);
            rest = after;
            continue;
        }
        let name: String = tail[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        rest = &tail[1 + name.len()..];
        sql.placeholder();
        slots.push(Slot::Name(name));
    }
    sql.text.push_str(rest);
}

/// A statement being written.
struct Writer {
    dialect: Dialect,
    text: String,
    placeholders: usize,
}

impl Writer {
    fn placeholder(&mut self) {
        self.placeholders += 1;
        self.dialect.placeholder(self.placeholders, &mut self.text);
    }

    fn list(&mut self, count: usize) {
        for at in 0..count {
            if at > 0 {
                self.text.push_str(", ");
            }
            self.placeholder();
        }
    }
}

fn write_fragment(fragment: &str, count: usize, sql: &mut Writer, slots: &mut Vec<Slot>) {
    let (name, argument) = fragment.split_once(':').unwrap_or((fragment, ""));
    let dialect = sql.dialect;
    match name {
        "rows" => {
            let width = argument.parse().expect("{rows:n} names its width");
            for row in 0..count {
                sql.text.push_str(if row == 0 { "(" } else { ", (" });
                sql.list(width);
                sql.text.push(')');
            }
            slots.push(Slot::Values);
        }
        "list" => {
            sql.list(count);
            slots.push(Slot::Values);
        }
        "one_of" => write_one_of(argument, count, sql, slots),
        "upsert" => {
            let (key, columns) = argument.split_once(';').expect("{upsert:key;columns} names both");
            sql.text.push_str(&dialect.upsert(key, columns));
        }
        "insert_new" => sql.text.push_str(&dialect.insert_new(argument)),
        "limit" => {
            sql.text.push_str("LIMIT ");
            sql.placeholder();
            sql.text.push_str(dialect.limit_tail());
            slots.push(Slot::Name(argument.to_owned()));
        }
        "first_after" => write_first_after(argument, count, sql, slots),
        "skip_locked" => sql.text.push_str(dialect.skip_locked()),
        "for_update" => sql.text.push_str(dialect.for_update()),
        other => panic!("statement fragment {other} does not exist"),
    }
}

/// PostgreSQL that believes a table to be small reads all rows of the condition and compares each with the whole list.
/// It does so until the table is analysed, so every key is looked up by itself.
fn write_one_of(argument: &str, count: usize, sql: &mut Writer, slots: &mut Vec<Slot>) {
    let mut parts = argument.splitn(3, ';');
    let (Some(table), Some(column), Some(condition)) = (parts.next(), parts.next(), parts.next()) else {
        panic!("{{one_of:table;column;condition}} names all three");
    };
    if sql.dialect != Dialect::Postgres {
        write_text(&format!("{condition} AND {column} IN ({{list}})"), count, sql, slots);
        return;
    }
    sql.text.push_str("id = ANY(ARRAY(SELECT found.id FROM (VALUES ");
    write_fragment("rows:1", count, sql, slots);
    let lookup = format!(
        ") AS wanted(value), LATERAL (SELECT id FROM {table} WHERE {condition} AND {column} = wanted.value OFFSET 0) found))"
    );
    write_text(&lookup, count, sql, slots);
}

/// The row that follows the columns `:after_column` in their order. MySQL and MariaDB do not seek by a comparison of
/// several columns at once, so there is a seek for each place where it could be and the caller takes the first of them;
/// the index is named, because a table that has just grown is believed to be small and would be sorted.
fn write_first_after(argument: &str, count: usize, sql: &mut Writer, slots: &mut Vec<Slot>) {
    let parts: Vec<&str> = argument.splitn(4, ';').collect();
    let [table, index, condition, columns] = parts[..] else {
        panic!("{{first_after:table;index;condition;columns}} names all four");
    };
    let names: Vec<&str> = columns.split(',').collect();
    let all = names.join(", ");
    let text = match sql.dialect {
        Dialect::Mysql => {
            let place = |at: usize| {
                let equal: String = names[..at].iter().map(|name| format!("{name} = :after_{name} AND ")).collect();
                let (later, order) = (names[at], names[at..].join(", "));
                format!(
                    "(SELECT {all} FROM {table} FORCE INDEX ({index}) WHERE {condition} AND {equal}{later} > \
                     :after_{later} ORDER BY {order} LIMIT 1)"
                )
            };
            (0..names.len()).map(place).collect::<Vec<_>>().join(" UNION ALL ")
        }
        Dialect::Sqlite | Dialect::Postgres => {
            let after: Vec<String> = names.iter().map(|name| format!(":after_{name}")).collect();
            let after = after.join(", ");
            format!("SELECT {all} FROM {table} WHERE {condition} AND ({all}) > ({after}) ORDER BY {all} LIMIT 1")
        }
    };
    write_text(&text, count, sql, slots);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_rows_and_fragments_become_placeholders_in_order() {
        let text = "-- t\n INSERT INTO t (a, b) VALUES {rows:2} {upsert:a;b} WHERE x = :x AND y > :y_2 AND z < :x";
        let rendered = render(Dialect::Sqlite, text, 2);
        assert_eq!(
            &*rendered.sql,
            "-- t\n INSERT INTO t (a, b) VALUES (?, ?), (?, ?) ON CONFLICT (a) DO UPDATE SET b = excluded.b \
             WHERE x = ? AND y > ? AND z < ?"
        );
        let name = |name: &str| Slot::Name(name.to_owned());
        assert_eq!(rendered.slots, [Slot::Values, name("x"), name("y_2"), name("x")]);
        assert_eq!(&*render(Dialect::Sqlite, "IN ({list})", 3).sql, "IN (?, ?, ?)");
        let found = render(Dialect::Mysql, "WHERE {one_of:ing_record;k;p = :p}", 2);
        assert_eq!(&*found.sql, "WHERE p = ? AND k IN (?, ?)");
        assert_eq!(found.slots, [Slot::Name("p".into()), Slot::Values]);
        let found = render(Dialect::Postgres, "WHERE {one_of:ing_record;k;p = :p}", 2);
        assert!(found.sql.contains("VALUES ($1), ($2)") && found.sql.contains("p = $3 AND k = wanted.value"));
        assert_eq!(found.slots, [Slot::Values, Slot::Name("p".into())]);
        let next = render(Dialect::Postgres, "{first_after:t;i;s = :s;a,b}", 0);
        assert_eq!(&*next.sql, "SELECT a, b FROM t WHERE s = $1 AND (a, b) > ($2, $3) ORDER BY a, b LIMIT 1");
        let next = render(Dialect::Mysql, "{first_after:t;i;s = :s;a,b}", 0);
        assert_eq!(
            &*next.sql,
            "(SELECT a, b FROM t FORCE INDEX (i) WHERE s = ? AND a > ? ORDER BY a, b LIMIT 1) UNION ALL \
             (SELECT a, b FROM t FORCE INDEX (i) WHERE s = ? AND a = ? AND b > ? ORDER BY b LIMIT 1)"
        );
        let text = "IN ({list}) AND x = :x AND y = :x {limit:most} {for_update}";
        assert_eq!(&*render(Dialect::Sqlite, text, 1).sql, "IN (?) AND x = ? AND y = ? LIMIT ? + 0 ");
        assert_eq!(&*render(Dialect::Postgres, text, 2).sql, "IN ($1, $2) AND x = $3 AND y = $4 LIMIT $5 FOR UPDATE");
        assert_eq!(&*render(Dialect::Mysql, text, 2).sql, "IN (?, ?) AND x = ? AND y = ? LIMIT ? FOR UPDATE");
        assert_eq!(&*numbered(Dialect::Postgres, "a = ? AND b = ?"), "a = $1 AND b = $2");
    }

    #[test]
    fn rows_are_cut_into_a_few_fixed_shapes() {
        let chunks = |sizes: &[usize], rows_max| {
            let (mut left, mut rows) = (sizes, Vec::new());
            while !left.is_empty() {
                rows.push(next_chunk(left, rows_max));
                left = &left[rows[rows.len() - 1]..];
            }
            rows
        };
        assert_eq!(chunks(&[], 200), Vec::<usize>::new());
        assert_eq!(chunks(&[100; 1000], 200), [200; 5]);
        assert_eq!(chunks(&[100; 239], 200), [200, 32, 4, 1, 1, 1]);
        assert_eq!(chunks(&[100; 9], 3), [3, 3, 3]);
        assert_eq!(chunks(&[CHUNK_BYTES / 10; 40], 200), [4; 10], "a statement stays below a megabyte");
        assert_eq!(chunks(&[CHUNK_BYTES * 9, 1, 1, 1, 1], 200), [1, 4], "a single row may be larger");
        assert_eq!((list_shape(1), list_shape(5), list_shape(200)), (1, 32, 200));
    }
}
