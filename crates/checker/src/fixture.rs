//! A small run made by hand, good in every respect, and the way to spoil it.
//!
//! Origin is second 0, lag 10 s, lookback 20 s. Plan 1 reads [0, 100) at 111..118 in slices 11 and 12; slice 12 is split
//! into 13 and 14, and the run of 14 is taken over after its first page. `b` is updated and `e` appears late, so plan 2
//! reads again from 87 (what was not yet finished) and goes on to 200. `d` is re-stamped, `q` is quarantined, `never`
//! appears later than allowed and `soon` after the last reading.

use std::fmt::Write as _;

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqlitePoolOptions;

use crate::dump::{Outbox, sha256};
use crate::{CheckInput, Database, Kind, ServedRow, SourceRules, TruthRow};

/// What the ledger's tables are made of, in order.
const MIGRATIONS: [&str; 6] = [
    include_str!("../../../migrations/sqlite/0001_registry.sql"),
    include_str!("../../../migrations/sqlite/0002_ledger.sql"),
    include_str!("../../../migrations/sqlite/0003_claim.sql"),
    include_str!("../../../migrations/sqlite/0004_outbox.sql"),
    include_str!("../../../migrations/sqlite/0009_signals.sql"),
    include_str!("../../../migrations/sqlite/0011_tombstones.sql"),
];
const BASE: i64 = 1_700_000_000;

pub const NOTE_HIDDEN: &str = "INSERT INTO ing_missing_id VALUES
    (1, 'crossref', 'works', 'hidden', 1, 'NOT_RETURNED', 401, '2023-11-14T22:15:12Z', '2023-11-14T22:15:12Z',
     '2023-11-14T23:15:12Z', 'OPEN')";

/// Record `a` was asked for twice, a day apart, did not come and is gone since: version 2, told by the batch that noticed.
pub const GONE: &str = "INSERT INTO ing_missing_id VALUES
    (1, 'crossref', 'works', 'a', 2, 'NOT_RETURNED', 407, '2023-11-15T22:15:12Z', '2023-11-16T22:15:12Z',
     '2023-11-17T22:15:12Z', 'TOMBSTONE');
    UPDATE ing_record SET deleted = 1, version_no = 2, gone_at = '2023-11-16T22:15:12Z' WHERE provider_id = 'a';
    UPDATE ing_task_run_batch SET stats = json_set(stats, '$.tombstoned', 1) WHERE id = 407;
    UPDATE ing_task_run SET stats = json_set(stats, '$.tombstoned', 1) WHERE id = 306;
    UPDATE ing_plan_slice SET stats = json_set(stats, '$.tombstoned', 1) WHERE id = 15";

/// Slice 13 fails and an operator lets it go before the watermark moves.
pub const WAIVE_SECOND_QUARTER: &str = "UPDATE ing_plan_slice SET status_code = 'FAILED' WHERE id = 13;
    INSERT INTO ing_waiver VALUES
    (1, X'AA', '2023-11-14T22:14:10Z', '2023-11-14T22:14:35Z', 'op', 'gone', '2023-11-14T22:15:14Z')";

/// The event of a record that [`GONE`] has marked.
pub async fn tell_gone(input: &CheckInput, id: &str) {
    let record = 500 + i64::from(id.as_bytes()[0]);
    let content = sha256(format!("content {id}.1").as_bytes());
    let updated_at = all_truth().iter().find(|row| row.id == id).unwrap().updated_at;
    let mut event = Outbox { version_no: 2, content_hash: content.to_vec(), ..Outbox::default() };
    (event.provenance, event.entity, event.provider_id) = ("crossref".into(), "works".into(), id.to_owned());
    event.updated_at = Some(updated_at);
    let (name, hash) = (hex(&crate::checks::events::name_of(&event)), hex(&content));
    let updated = stamp((updated_at / 1_000_000 - BASE) * 10);
    let told = format!(
        "INSERT INTO ing_outbox VALUES (9000, {record}, 2, X'{name}', 'crossref', 'works', '{id}', 'DELETED', '{updated}',
         X'{hash}', '{{}}', 407, 'PENDING', '{updated}', NULL, NULL, NULL, NULL, NULL, NULL)"
    );
    run(input, &told).await;
}

/// Microseconds of a second of the run.
pub fn seconds(second: i64) -> i64 {
    (BASE + second) * 1_000_000
}

/// A time column; `tenths` of a second of the run.
fn stamp(tenths: i64) -> String {
    let instant = jiff::Timestamp::from_microsecond(BASE * 1_000_000 + tenths * 100_000).unwrap();
    format!("{instant:.6}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn payload(id: &str, version: u32) -> String {
    format!("{id}.{version}")
}

pub fn truth(id: &str, version: u32, updated: i64, visible: i64, same: Option<u32>) -> TruthRow {
    TruthRow {
        source: "cr".to_owned(),
        id: id.to_owned(),
        version,
        updated_at: seconds(updated),
        visible_at: seconds(visible),
        deleted: false,
        same_content_as: same,
        detail_missing: false,
        payload_sha256: hex(&sha256(payload(id, version).as_bytes())),
    }
}

fn all_truth() -> Vec<TruthRow> {
    let mut rows = vec![truth("b", 2, 90, 113, None), truth("d", 2, 180, 181, Some(1))];
    let first = [
        ("a", 10, 11),
        ("b", 20, 21),
        ("c", 49, 50),
        ("d", 80, 81),
        ("e", 95, 120),
        ("f", 120, 121),
        ("g", 160, 161),
        ("h", 170, 171),
        ("q", 30, 31),
        ("z", 2_000_000_000, 1),
        ("never", 20, 150),
        ("soon", 195, 214),
    ];
    rows.extend(first.map(|(id, updated, visible)| truth(id, 1, updated, visible, None)));
    rows
}

struct Page {
    batch: i64,
    run: i64,
    slice: i64,
    epoch: i64,
    seq: i64,
    last: bool,
    at: i64,
    /// Id, version, and what becomes of it: inserted, updated, unchanged (n), quarantined.
    items: &'static [(&'static str, u32, char)],
}

impl Page {
    const fn new(ids: [i64; 5], last: bool, at: i64, items: &'static [(&'static str, u32, char)]) -> Page {
        let [batch, run, slice, epoch, seq] = ids;
        Page { batch, run, slice, epoch, seq, last, at, items }
    }
}

const PAGES: [Page; 8] = [
    Page::new([401, 301, 11, 1, 0], false, 111, &[("a", 1, 'i'), ("b", 1, 'i')]),
    Page::new([402, 301, 11, 1, 1], true, 112, &[("c", 1, 'i'), ("q", 1, 'q')]),
    Page::new([403, 302, 12, 1, 0], false, 113, &[("d", 1, 'i')]),
    Page::new([404, 303, 13, 1, 0], true, 115, &[]),
    Page::new([405, 304, 14, 1, 0], false, 117, &[("d", 1, 'n')]),
    Page::new([406, 305, 14, 2, 1], true, 118, &[("b", 2, 'u')]),
    Page::new([407, 306, 15, 1, 0], true, 211, &[("b", 2, 'n'), ("e", 1, 'i'), ("f", 1, 'i')]),
    Page::new([408, 307, 16, 1, 0], true, 213, &[("g", 1, 'i'), ("h", 1, 'i'), ("d", 2, 'n')]),
];

/// Id, window, second of the first page, tenth of the end, status.
const SLICES: [(i64, i64, i64, i64, i64, &str); 6] = [
    (11, 0, 50, 111, 1125, "SUCCEEDED"),
    (12, 50, 100, 113, 1136, "SPLIT"),
    (13, 50, 75, 115, 1155, "SUCCEEDED"),
    (14, 75, 100, 117, 1185, "SUCCEEDED"),
    (15, 87, 150, 211, 2116, "SUCCEEDED"),
    (16, 150, 200, 213, 2136, "SUCCEEDED"),
];

fn stats(pages: impl Iterator<Item = &'static Page>) -> String {
    let kinds: Vec<char> = pages.flat_map(|page| page.items.iter().map(|item| item.2)).collect();
    let count = |kind: char| kinds.iter().filter(|have| **have == kind).count();
    format!(
        r#"{{"fetched":{},"inserted":{},"updated":{},"unchanged":{},"stale":0,"duplicate":0,"quarantined":{},"filtered":0,"latency_ms":7}}"#,
        kinds.len(),
        count('i'),
        count('u'),
        count('n'),
        count('q'),
    )
}

fn plan_of(slice: i64) -> i64 {
    if slice < 15 { 1 } else { 2 }
}

/// Rows of plan, slices and tasks.
fn plans_sql(sql: &mut String) {
    for (id, from, to, created) in [(1, 0, 100, 110), (2, 87, 200, 210)] {
        let (from, to, created) = (stamp(from * 10), stamp(to * 10), stamp(created * 10));
        writeln!(sql, "INSERT INTO ing_plan VALUES ({id}, 1, 'plan{id}', NULL, 'crossref', 'works', 'HARVEST', 'indexed',
            'EXPR', 'k', X'AA', '{from}', '{to}', 'TIME', '{{}}', 'h', '{{}}', 'f', '{{}}', 1, 1, 2, 0, 'COMPLETED', NULL,
            '{created}', '{created}');").unwrap();
    }
    for (id, from, to, read, ended, status) in SLICES {
        let (plan, task) = (plan_of(id), id + 10);
        let parent = if matches!(id, 13 | 14) { "12" } else { "NULL" };
        let read_at = if status == "SPLIT" { "NULL".to_owned() } else { format!("'{}'", stamp(read * 10)) };
        let sums = stats(PAGES.iter().filter(move |page| page.slice == id));
        let (from, to, begun, ended) = (stamp(from * 10), stamp(to * 10), stamp(read * 10 - 5), stamp(ended));
        writeln!(sql, "INSERT INTO ing_plan_slice VALUES ({id}, {plan}, {parent}, 'crossref', 'works', 'HARVEST', X'AA', {id},
            'sig{id}', '{{}}', 'h', '{{}}', '{from}', '{to}', NULL, {read_at}, '{status}', NULL, '{sums}', NULL, '{begun}',
            '{ended}');").unwrap();
        let outcome = if status == "SPLIT" { "PARTIAL" } else { status };
        let epoch = PAGES.iter().filter(|page| page.slice == id).map(|page| page.epoch).max().unwrap();
        writeln!(sql, "INSERT INTO ing_task VALUES ({task}, 1, {plan}, {id}, 'crossref', 'works', 'HARVEST', NULL, '{{}}', 'p0',
            X'{task:08x}', 'h', 3, '{outcome}', '{begun}', NULL, NULL, {epoch}, {epoch}, NULL, {epoch}, 0, 0, 1, 0, NULL,
            '{begun}', '{ended}', '{begun}', '{ended}');").unwrap();
    }
}

/// Rows of runs and batches.
fn runs_sql(sql: &mut String) {
    let mut runs: Vec<i64> = PAGES.iter().map(|page| page.run).collect();
    runs.dedup();
    for id in runs {
        let first = PAGES.iter().find(|page| page.run == id).unwrap();
        let (slice, plan, epoch) = (first.slice, plan_of(first.slice), first.epoch);
        let status = if matches!(id, 302 | 304) { "PARTIAL" } else { "SUCCEEDED" };
        let sums = stats(PAGES.iter().filter(move |page| page.run == id));
        let begun = stamp(first.at * 10 - 2);
        writeln!(sql, "INSERT INTO ing_task_run VALUES ({id}, X'{id:032x}', {}, {slice}, {plan}, {epoch}, {epoch}, 'w', 'crossref',
            'works', 'HARVEST', '{status}', NULL, '{sums}', '{begun}', '{begun}', NULL, NULL, '{begun}', '{begun}', '{begun}',
            '{begun}');", slice + 10).unwrap();
    }
    for page in &PAGES {
        let Page { batch, run, slice, epoch, seq, .. } = page;
        let (plan, task) = (plan_of(*slice), slice + 10);
        let after = if page.last { "NULL".to_owned() } else { format!("'p{}'", seq + 1) };
        let (asked, fetched, committed) = (stamp(page.at * 10), stamp(page.at * 10 + 4), stamp(page.at * 10 + 5));
        let (sums, hash) = (stats(std::iter::once(page)), hex(&sha256(format!("page {batch}").as_bytes())));
        writeln!(sql, "INSERT INTO ing_task_run_batch VALUES ({batch}, {run}, {task}, {slice}, {plan}, 'h', 'crossref', 'works',
            'HARVEST', {epoch}, {}, 'search', 1, {seq}, 'p{seq}', X'{batch:08x}', {after}, X'{batch:08x}', {}, NULL, NULL, NULL,
            'f', '{asked}', '{asked}', '{fetched}', X'{hash}', NULL, NULL, NULL, '{sums}', NULL, 'SUCCEEDED', '{asked}',
            '{committed}');", seq + 1, page.items.len()).unwrap();
    }
}

/// Rows of records, events and quarantine, as the pages brought them.
fn records_sql(sql: &mut String) {
    for page in &PAGES {
        for (id, version, kind) in page.items {
            let (batch, plan, run, task) = (page.batch, plan_of(page.slice), page.run, page.slice + 10);
            let (at, raw) = (stamp(page.at * 10 + 4), hex(payload(id, *version).as_bytes()));
            if *kind == 'q' {
                writeln!(
                    sql,
                    "INSERT INTO ing_quarantine VALUES (1, 'crossref', 'works', '{id}', 'BAD_TIME', '$', 'm', X'{raw}',
                    {plan}, {}, {task}, {run}, {batch}, 'OPEN', '{at}');",
                    page.slice
                )
                .unwrap();
                continue;
            }
            if *kind == 'n' {
                continue;
            }
            let record = 500 + i64::from(id.as_bytes()[0]);
            let content = sha256(format!("content {id}.{version}").as_bytes());
            let updated_at =
                all_truth().iter().find(|row| row.id == *id && row.version == *version).unwrap().updated_at;
            let (updated, hash) = (stamp((updated_at / 1_000_000 - BASE) * 10), hex(&content));
            let mut event =
                Outbox { version_no: i64::from(*version), content_hash: content.to_vec(), ..Outbox::default() };
            (event.provenance, event.entity, event.provider_id) = ("crossref".into(), "works".into(), id.to_string());
            event.updated_at = Some(updated_at);
            let name = hex(&crate::checks::events::name_of(&event));
            let change = if *kind == 'i' { "CREATED" } else { "UPDATED" };
            writeln!(sql, "INSERT OR REPLACE INTO ing_record VALUES ({record}, 'crossref', 'works', '{id}', {version}, '{updated}',
                '{updated}', NULL, '{at}', X'{hash}', 1, X'00', 'h', 0, '{{}}', X'{raw}', {plan}, {task}, {run}, {batch}, '{at}',
                '{at}', '{at}', NULL, NULL, NULL);
                INSERT INTO ing_outbox VALUES ({record}00 + {version}, {record}, {version}, X'{name}', 'crossref', 'works', '{id}',
                '{change}', '{updated}', X'{hash}', '{{}}', {batch}, 'PENDING', '{at}', NULL, NULL, NULL, NULL, NULL, NULL);").unwrap();
        }
    }
}

fn cursor_sql(sql: &mut String) {
    let steps = [(0, 50, 11), (50, 75, 13), (75, 100, 14), (100, 150, 15), (150, 200, 16)];
    for (number, (from, to, slice)) in (1..).zip(steps) {
        let ended = SLICES.iter().find(|row| row.0 == slice).unwrap().4;
        let (from, to, at) = (stamp(from * 10), stamp(to * 10), stamp(ended));
        writeln!(sql, "INSERT INTO ing_cursor_event VALUES ({}, 'crossref', 'works', 'HARVEST', 'indexed', 'EXPR', 'k', X'AA',
            'TIME', {number}, 'FORWARD', 'SLICE', '{from}', '{to}', '{from}', '{to}', NULL, NULL, NULL, '{from}', '{to}',
            X'{number:08x}', 1, {}, {slice}, {}, NULL, NULL, 'h', NULL, '{at}');", 600 + number, plan_of(slice), slice + 10).unwrap();
    }
    let (at, finished, now) = (stamp(2000), stamp(870), stamp(2136));
    writeln!(sql, "INSERT INTO ing_cursor VALUES (1, 'crossref', 'works', 'HARVEST', 'indexed', 'EXPR', 'k', X'AA', 'TIME', '{at}',
        '{at}', NULL, NULL, '{finished}', 5, 1, 2, 16, 26, 307, 408, 'h', '{now}', '{now}');").unwrap();
}

/// A fresh copy of the good run.
pub async fn good() -> CheckInput {
    good_in("sqlite::memory:").await
}

/// The good run in a database of its own.
pub async fn good_in(url: &str) -> CheckInput {
    let pool = SqlitePoolOptions::new().max_connections(1).connect(url).await.unwrap();
    let mut sql = MIGRATIONS.concat();
    plans_sql(&mut sql);
    runs_sql(&mut sql);
    records_sql(&mut sql);
    cursor_sql(&mut sql);
    let mut input = CheckInput::new(Database::Pool(pool));
    run(&input, &sql).await;
    input.truth = all_truth();
    input.served = PAGES
        .iter()
        .map(|page| ServedRow {
            source: "cr".to_owned(),
            at_us: seconds(page.at),
            method: "GET".to_owned(),
            path_query: format!("/works?page={}", page.batch),
            status: 200,
            fault: None,
            response_sha256: hex(&sha256(format!("page {}", page.batch).as_bytes())),
            items: page.items.iter().map(|(id, version, _)| (id.to_string(), *version)).collect(),
            kind: Kind::Search,
            token: None,
        })
        .collect();
    input.rules = vec![SourceRules {
        source: "cr".to_owned(),
        provenance_code: "crossref".to_owned(),
        entity: "works".to_owned(),
        origin_us: seconds(0),
        lag_us: 10_000_000,
        lookback_us: 20_000_000,
        grain_us: 1_000_000,
        zone: "UTC".to_owned(),
        rates: vec![(3, 1_000_000)],
        expect_deletes: false,
        two_phase: false,
        slices_pruned: false,
        clock_grain_us: 1_000_000,
    }];
    input.end_us = Some(seconds(220));
    input
}

/// Runs statements on the database of an input.
pub async fn run(input: &CheckInput, sql: &str) {
    let Database::Pool(pool) = &input.database else { panic!("the fixture lives in memory") };
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await.unwrap();
}

/// A defect to be found.
pub struct Planted<'a> {
    name: &'a str,
    sql: String,
    spoil: fn(&mut CheckInput),
    want: &'a str,
}

impl<'a> Planted<'a> {
    /// A defect of the database.
    pub fn sql(name: &'a str, sql: &str, want: &'a str) -> Planted<'a> {
        Planted { name, sql: sql.to_owned(), spoil: |_| {}, want }
    }

    /// A defect against the truth or the arrival log.
    pub fn input(name: &'a str, spoil: fn(&mut CheckInput), want: &'a str) -> Planted<'a> {
        Planted { name, sql: String::new(), spoil, want }
    }

    pub fn with(self, spoil: fn(&mut CheckInput)) -> Planted<'a> {
        Planted { spoil, ..self }
    }
}

/// The good run is clean; each defect is found by this check, in these words.
pub async fn plant(check: &str, defects: &[Planted<'_>]) {
    let clean = crate::check(&good().await).await;
    assert!(clean.ok, "the good run: {:#?}", clean.findings);
    for defect in defects {
        let mut input = good().await;
        (defect.spoil)(&mut input);
        run(&input, &defect.sql).await;
        let verdict = crate::check(&input).await;
        let found = verdict.errors(check).any(|finding| finding.message.contains(defect.want));
        assert!(found && !verdict.ok, "{check} must find {}: {:#?}", defect.name, verdict.findings);
    }
}

/// The good run with many more records on the page of batch 407.
pub async fn large(count: u32) -> CheckInput {
    let mut input = good().await;
    let at = stamp(1100);
    let (mut records, mut events) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (id, record) = (format!("x{number:06}"), 1_000_000 + number);
        let content = sha256(id.as_bytes());
        let mut event = Outbox { version_no: 1, content_hash: content.to_vec(), ..Outbox::default() };
        (event.provenance, event.entity, event.provider_id) = ("crossref".into(), "works".into(), id.clone());
        event.updated_at = Some(seconds(110));
        let (name, hash) = (hex(&crate::checks::events::name_of(&event)), hex(&content));
        let raw = hex(payload(&id, 1).as_bytes());
        records.push(format!(
            "({record}, 'crossref', 'works', '{id}', 1, '{at}', '{at}', NULL, '{at}', X'{hash}', 1, X'00', 'h', 0, '{{}}',
             X'{raw}', 2, 25, 306, 407, '{at}', '{at}', '{at}', NULL, NULL, NULL)"
        ));
        events.push(format!(
            "({record}, {record}, 1, X'{name}', 'crossref', 'works', '{id}', 'CREATED', '{at}', X'{hash}', '{{}}', 407,
             'PENDING', '{at}', NULL, NULL, NULL, NULL, NULL, NULL)"
        ));
        input.truth.push(truth(&id, 1, 110, 111, None));
        input.served[6].items.push((id, 1));
    }
    // Small scripts: each statement of a script costs a copy of the rest of it.
    for (records, events) in records.chunks(200).zip(events.chunks(200)) {
        run(&input, &format!("INSERT INTO ing_record VALUES {}", records.join(","))).await;
        run(&input, &format!("INSERT INTO ing_outbox VALUES {}", events.join(","))).await;
    }
    let (held, inserted) = (count + 3, count + 2);
    let stats = format!(r#"{{"fetched":{held},"inserted":{inserted},"unchanged":1}}"#);
    let sums = format!(
        "UPDATE ing_task_run_batch SET record_count = {held}, stats = '{stats}' WHERE id = 407;
         UPDATE ing_task_run SET stats = '{stats}' WHERE id = 306;
         UPDATE ing_plan_slice SET stats = '{stats}' WHERE id = 15"
    );
    run(&input, &sums).await;
    input
}
