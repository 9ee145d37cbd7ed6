//! C9: no secret is anywhere: not in any text or blob of any table, nor in the given files, raw, percent-encoded, in
//! base64 at any alignment, in hex, or escaped for JSON. A finding names the place, never the secret.

use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Row};

use crate::rows::DumpError;
use crate::verdict::Findings;
use crate::{CheckInput, Unpack};

const CHECK: &str = "C9";
const PAGE_ROWS: usize = 1_000;
/// Shorter patterns would be found everywhere by chance.
const PATTERN_BYTES_MIN: usize = 6;
/// The one column that is packed.
const PACKED_COLUMN: &str = "body_zstd";

pub async fn check(
    input: &CheckInput,
    connection: &mut SqliteConnection,
    findings: &mut Findings,
) -> Result<(), DumpError> {
    if input.canaries.is_empty() {
        return Ok(());
    }
    let scanner = Scanner::new(&input.canaries);
    for path in &input.files {
        let place = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match std::fs::read(path) {
            Ok(bytes) => tell(scanner.find(&bytes), &place, findings),
            Err(error) => findings.error(CHECK, "", format!("file {place} cannot be searched: {error}"), json!(null)),
        }
    }
    let tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    for row in sqlx::query(tables).fetch_all(&mut *connection).await? {
        let (name, sql): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        search_table(&name, &sql, &scanner, input.unpack, &mut *connection, findings).await?;
    }
    Ok(())
}

async fn search_table(
    name: &str,
    sql: &str,
    scanner: &Scanner,
    unpack: Option<Unpack>,
    connection: &mut SqliteConnection,
    findings: &mut Findings,
) -> Result<(), DumpError> {
    let has_rowid = !sql.to_ascii_uppercase().contains("WITHOUT ROWID");
    let quoted = name.replace('"', "\"\"");
    let select = if has_rowid {
        format!("SELECT rowid, * FROM \"{quoted}\" WHERE rowid > ? ORDER BY rowid LIMIT ?")
    } else {
        format!("SELECT 0, * FROM \"{quoted}\" LIMIT -1 OFFSET ? + 0 * ?")
    };
    let mut last = if has_rowid { i64::MIN } else { 0 };
    let mut packed = false;
    loop {
        let query = sqlx::query(AssertSqlSafe(select.clone())).bind(last).bind(PAGE_ROWS as i64);
        let rows = query.fetch_all(&mut *connection).await?;
        for row in &rows {
            packed |= search_row(name, row, scanner, unpack, findings)?;
        }
        match rows.last() {
            Some(row) if has_rowid && rows.len() == PAGE_ROWS => last = row.try_get(0)?,
            _ => break,
        }
    }
    if packed {
        findings.note(CHECK, "", format!("{name}.{PACKED_COLUMN} is packed and was not searched"));
    }
    Ok(())
}

/// True when a packed column was left closed.
fn search_row(
    table: &str,
    row: &SqliteRow,
    scanner: &Scanner,
    unpack: Option<Unpack>,
    findings: &mut Findings,
) -> Result<bool, DumpError> {
    let mut closed = false;
    for (at, column) in row.columns().iter().enumerate().skip(1) {
        let Some(bytes) = row.try_get_unchecked::<Option<&[u8]>, _>(at)? else { continue };
        let place = format!("{table}.{}", column.name());
        tell(scanner.find(bytes), &place, findings);
        if column.name() == PACKED_COLUMN {
            match unpack.and_then(|unpack| unpack(bytes)) {
                Some(open) => tell(scanner.find(&open), &place, findings),
                None => closed = true,
            }
        }
    }
    Ok(closed)
}

fn tell(hit: Option<&Pattern>, place: &str, findings: &mut Findings) {
    if let Some(hit) = hit {
        let message = format!("canary {} stands in {place}, {}", hit.canary, hit.encoding);
        findings.error(CHECK, "", message, json!({"canary": hit.canary, "place": place}));
    }
}

struct Pattern {
    canary: usize,
    encoding: &'static str,
    bytes: Vec<u8>,
}

/// Looks for all patterns in one pass; only where two bytes fit the beginning of one are they compared.
struct Scanner {
    patterns: Vec<Pattern>,
    starts: Vec<bool>,
}

impl Scanner {
    fn new(canaries: &[String]) -> Scanner {
        let mut patterns: Vec<Pattern> = Vec::new();
        for (canary, text) in canaries.iter().enumerate() {
            for (encoding, bytes) in encodings(text) {
                let known = patterns.iter().any(|pattern| pattern.bytes == bytes);
                if bytes.len() >= PATTERN_BYTES_MIN && !known {
                    patterns.push(Pattern { canary, encoding, bytes });
                }
            }
        }
        let mut starts = vec![false; 1 << 16];
        for pattern in &patterns {
            starts[start(&pattern.bytes)] = true;
        }
        Scanner { patterns, starts }
    }

    fn find(&self, text: &[u8]) -> Option<&Pattern> {
        for at in 0..text.len().saturating_sub(1) {
            if self.starts[start(&text[at..])] {
                let hit = self.patterns.iter().find(|pattern| text[at..].starts_with(&pattern.bytes));
                if hit.is_some() {
                    return hit;
                }
            }
        }
        None
    }
}

fn start(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

/// Every way a text may be written down.
fn encodings(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = text.as_bytes();
    let json = serde_json::Value::from(text).to_string();
    let escaped = json[1..json.len() - 1].to_owned();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let percent = |all: bool, upper: bool| -> String {
        bytes
            .iter()
            .map(|byte| match (plain(byte) && !all, upper) {
                (true, _) => char::from(*byte).to_string(),
                (false, true) => format!("%{byte:02X}"),
                (false, false) => format!("%{byte:02x}"),
            })
            .collect()
    };
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut list = vec![
        ("raw", text.to_owned()),
        ("escaped for JSON", escaped.replace('/', "\\/")),
        ("escaped for JSON", escaped),
        ("in hex", hex.to_uppercase()),
        ("in hex", hex),
        ("as a form value", percent(false, true).replace("%20", "+")),
    ];
    for (all, upper) in [(false, true), (false, false), (true, true), (true, false)] {
        list.push(("percent-encoded", percent(all, upper)));
    }
    for shift in 0..3 {
        let standard = base64_inside(bytes, shift);
        list.push(("in base64", standard.replace('+', "-").replace('/', "_")));
        list.push(("in base64", standard));
    }
    list.into_iter().map(|(encoding, text)| (encoding, text.into_bytes())).collect()
}

/// The letters of base64 that depend on these bytes alone when `shift` other bytes stand before them.
fn base64_inside(bytes: &[u8], shift: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let first = (shift * 8).div_ceil(6);
    let end = (shift + bytes.len()) * 8 / 6;
    let bit = |at: usize| {
        let byte = bytes[at / 8 - shift];
        usize::from(byte >> (7 - at % 8) & 1)
    };
    (first..end)
        .map(|letter| (0..6).fold(0, |value, offset| value << 1 | bit(letter * 6 + offset)))
        .map(|value| char::from(LETTERS[value]))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, good, plant, run};

    const CANARY: &str = "k3y/with \"odd\" signs+ü";

    fn planted<'a>(name: &'a str, text: &str) -> Planted<'a> {
        let sql = format!("UPDATE ing_task SET params = '{}' WHERE id = 21", text.replace('\'', "''"));
        Planted::sql(name, &sql, "canary 0 stands in ing_task.params")
            .with(|input| input.canaries = vec![CANARY.to_owned()])
    }

    #[tokio::test]
    async fn a_secret_is_found_however_it_is_written() {
        plant(
            "C9",
            &[
                planted("raw", &format!("x{CANARY}y")),
                planted("in a query", "k=k3y%2Fwith%20%22odd%22%20signs%2B%C3%BC&x"),
                planted("in a form", "k3y%2Fwith+%22odd%22+signs%2B%C3%BC"),
                planted("in JSON", r#"{"url":"k3y\/with \"odd\" signs+ü"}"#),
                planted("in hex", "ff6b33792f7769746820226f646422207369676e732bc3bc00"),
                planted("in base64 of user:password", "dXNlcjprM3kvd2l0aCAib2RkIiBzaWducyvDvA=="),
                planted("in base64 of xk", "eGszeS93aXRoICJvZGQiIHNpZ25zK8O8"),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn packed_bodies_and_files_are_searched_too() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("patra.log");
        std::fs::write(&log, format!("GET /?key={CANARY}")).unwrap();
        let mut input = good().await;
        input.canaries = vec![CANARY.to_owned()];
        input.files = vec![log, folder.path().join("gone.log")];
        let reversed: String = CANARY.bytes().rev().map(|byte| format!("{byte:02x}")).collect();
        run(&input, &format!("INSERT INTO ing_page_body VALUES (X'01', 1, 9, X'{reversed}', 'x')")).await;
        let closed = crate::check(&input).await;
        assert!(closed.findings.iter().any(|finding| finding.message.contains("was not searched")));
        input.unpack = Some(|bytes| Some(bytes.iter().rev().copied().collect()));
        let messages: Vec<String> =
            crate::check(&input).await.errors("C9").map(|finding| finding.message.clone()).collect();
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].contains("patra.log, raw") && messages[1].contains("gone.log"), "{messages:?}");
        assert!(messages[2].contains("ing_page_body.body_zstd"), "{messages:?}");
        assert!(messages.iter().all(|message| !message.contains("k3y")));
    }
}
