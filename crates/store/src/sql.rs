//! Turns a statement with named parameters and fragments into what the driver takes, once per text and row count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dialect::Dialect;

/// A statement as the driver takes it, and its named parameters in the order of their placeholders.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub sql: Arc<str>,
    pub names: Vec<String>,
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

pub(crate) fn render(dialect: Dialect, text: &str, count: usize) -> Rendered {
    let mut names: Vec<String> = Vec::new();
    let mut parts: Vec<Piece> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find([':', '{']) {
        let (plain, tail) = rest.split_at(at);
        parts.push(Piece::Plain(plain.to_owned()));
        if let Some(inside) = tail.strip_prefix('{') {
            let (fragment, after) = inside.split_once('}').unwrap_or((inside, ""));
            parts.push(piece(dialect, fragment));
            rest = after;
            continue;
        }
        let name: String = tail[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        rest = &tail[1 + name.len()..];
        let number = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        parts.push(Piece::Plain(dialect.placeholder(number + 1)));
    }
    parts.push(Piece::Plain(rest.to_owned()));
    let mut sql = String::with_capacity(text.len());
    for part in parts {
        match part {
            Piece::Plain(plain) => sql.push_str(&plain),
            Piece::Rows(width) => write_rows(dialect, &mut sql, names.len(), count, width),
            Piece::List => write_list(dialect, &mut sql, names.len(), count),
        }
    }
    Rendered { sql: sql.into(), names }
}

enum Piece {
    Plain(String),
    Rows(usize),
    List,
}

fn piece(dialect: Dialect, fragment: &str) -> Piece {
    let (name, argument) = fragment.split_once(':').unwrap_or((fragment, ""));
    match name {
        "rows" => Piece::Rows(argument.parse().expect("{rows:n} names its width")),
        "list" => Piece::List,
        "upsert" => {
            let (key, columns) = argument.split_once(';').expect("{upsert:key;columns} names both");
            Piece::Plain(dialect.upsert(key, columns))
        }
        "insert_new" => Piece::Plain(dialect.insert_new(argument)),
        "skip_locked" => Piece::Plain(dialect.skip_locked().to_owned()),
        other => panic!("statement fragment {other} does not exist"),
    }
}

fn write_rows(dialect: Dialect, sql: &mut String, named: usize, rows: usize, width: usize) {
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for at in 1..=width {
            sql.push_str(if at == 1 { "" } else { ", " });
            let number = named + row * width + at;
            sql.push_str(&match named {
                0 => dialect.placeholder_in_order(number),
                _ => dialect.placeholder(number),
            });
        }
        sql.push(')');
    }
}

fn write_list(dialect: Dialect, sql: &mut String, before: usize, count: usize) {
    for at in 1..=count {
        sql.push_str(if at == 1 { "" } else { ", " });
        sql.push_str(&dialect.placeholder(before + at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_used_twice_is_one_placeholder_and_rows_come_after_the_names() {
        let text = "-- t\n INSERT INTO t (a, b) VALUES {rows:2} {upsert:a;b} WHERE x = :x AND y > :y AND z < :x";
        let rendered = render(Dialect::Sqlite, text, 2);
        assert_eq!(
            &*rendered.sql,
            "-- t\n INSERT INTO t (a, b) VALUES (?3, ?4), (?5, ?6) ON CONFLICT (a) DO UPDATE SET b = excluded.b \
             WHERE x = ?1 AND y > ?2 AND z < ?1"
        );
        assert_eq!(rendered.names, ["x", "y"]);
    }

    #[test]
    fn rows_alone_are_bound_in_their_order() {
        let rendered = render(Dialect::Sqlite, "INSERT INTO t (a, b) VALUES {rows:2}", 2);
        assert_eq!(&*rendered.sql, "INSERT INTO t (a, b) VALUES (?, ?), (?, ?)");
        assert!(rendered.names.is_empty());
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
