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
const SHAPES: [usize; 4] = [200, 32, 4, 1];

/// Cuts `rows` into statement sizes.
pub(crate) fn chunks(rows: usize, rows_max: usize) -> Vec<usize> {
    let mut left = rows;
    let mut sizes = Vec::new();
    for shape in SHAPES {
        let shape = shape.min(rows_max.max(1));
        while left >= shape {
            sizes.push(shape);
            left -= shape;
        }
    }
    sizes
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

/// Placeholders carry no number: SQLite looks a numbered one up by its name, which makes a statement of thousands
/// of them quadratic. A name that stands twice is bound twice.
pub(crate) fn render(dialect: Dialect, text: &str, count: usize) -> Rendered {
    let mut sql = String::with_capacity(text.len());
    let mut slots = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find([':', '{']) {
        let (plain, tail) = rest.split_at(at);
        sql.push_str(plain);
        if let Some(inside) = tail.strip_prefix('{') {
            let (fragment, after) = inside.split_once('}').unwrap_or((inside, ""));
            write_fragment(dialect, fragment, count, &mut sql, &mut slots);
            rest = after;
            continue;
        }
        let name: String = tail[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        rest = &tail[1 + name.len()..];
        sql.push_str(dialect.placeholder());
        slots.push(Slot::Name(name));
    }
    sql.push_str(rest);
    Rendered { sql: sql.into(), slots }
}

fn write_fragment(dialect: Dialect, fragment: &str, count: usize, sql: &mut String, slots: &mut Vec<Slot>) {
    let (name, argument) = fragment.split_once(':').unwrap_or((fragment, ""));
    match name {
        "rows" => {
            let width = argument.parse().expect("{rows:n} names its width");
            for row in 0..count {
                sql.push_str(if row == 0 { "(" } else { ", (" });
                write_list(dialect, sql, width);
                sql.push(')');
            }
            slots.push(Slot::Values);
        }
        "list" => {
            write_list(dialect, sql, count);
            slots.push(Slot::Values);
        }
        "upsert" => {
            let (key, columns) = argument.split_once(';').expect("{upsert:key;columns} names both");
            sql.push_str(&dialect.upsert(key, columns));
        }
        "insert_new" => sql.push_str(&dialect.insert_new(argument)),
        "limit" => {
            sql.push_str(dialect.limit());
            slots.push(Slot::Name(argument.to_owned()));
        }
        "skip_locked" => sql.push_str(dialect.skip_locked()),
        other => panic!("statement fragment {other} does not exist"),
    }
}

fn write_list(dialect: Dialect, sql: &mut String, count: usize) {
    for at in 0..count {
        if at > 0 {
            sql.push_str(", ");
        }
        sql.push_str(dialect.placeholder());
    }
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
    }

    #[test]
    fn rows_are_cut_into_a_few_fixed_shapes() {
        assert_eq!(chunks(0, 200), Vec::<usize>::new());
        assert_eq!(chunks(1000, 200), [200; 5]);
        assert_eq!(chunks(239, 200), [200, 32, 4, 1, 1, 1]);
        assert_eq!(chunks(9, 3), [3, 3, 3]);
        assert_eq!((list_shape(1), list_shape(5), list_shape(200)), (1, 32, 200));
    }
}
