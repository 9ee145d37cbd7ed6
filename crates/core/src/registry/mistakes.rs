//! Wrong definitions, each with the place and the hint it must be answered with.
//!
//! A case changes a valid definition. `«` marks where the first diagnostic must point; without it that is line 1.

use super::{Diagnostic, Severity, decode};
use crate::spec::check_definition;

const VALID: &str = "\
source: demo
name: Demo
base_url: https://demo.org
credentials:
  key: { type: api_key, in: query, name: k, secret: \"env:DEMO_KEY\", optional: true }
rate: { per_second: 3, burst: 3 }
endpoints:
  list:
    role: search
    request:
      path: /list
      query: { from: \"${window.from}\", size: \"${page.size}\" }
    pagination: { type: token, size: 50, size_max: 100, next: \"$.next\" }
    window:
      updated_since: true
      key: changed_at
      origin: 2020-01-01
      boundary: { kind: half_open, grain: PT1S, zone: UTC }
      align: hour
      slice: PT6H
    response: { items: \"$.items[*]\", id: \"$.id\", updated_at: \"$.changed\", total: \"$.total\" }
    errors:
      - { when: { status: 400, body: \"cursor\" }, then: cursor_expired }
    fields: { title: \"$.title\" }
";

/// (what to replace, with what, code, part of the hint or expectation)
type Case = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("rate:", "«identiy: {}\nrate:", "unknown_key", "did you mean `identity`?"),
    ("pagination:", "«pagnation:", "unknown_key", "did you mean `pagination`?"),
    ("align: hour", "«safty_lag: PT1H", "unknown_key", "did you mean `safety_lag`?"),
    ("grain: PT1S", "«grian: PT1S", "unknown_key", "did you mean `grain`?"),
    ("status: 400", "«statsu: 400", "unknown_key", "did you mean `status`?"),
    ("type: token", "type: «tokn", "unknown_code", "did you mean `token`?"),
    ("kind: half_open", "kind: «half-open", "unknown_code", "did you mean `half_open`?"),
    ("then: cursor_expired", "then: «cursor_expried", "unknown_code", "did you mean `cursor_expired`?"),
    ("role: search", "role: «serach", "unknown_code", "did you mean `search`?"),
    ("align: hour", "align: «week", "unknown_code", "one of minute, hour, day"),
    ("size: 50", "size: «many", "wrong_type", "a whole number from 1"),
    ("rate: { per_second: 3, burst: 3 }", "rate: «fast", "wrong_type", "a block with per_second"),
    ("updated_since: true", "updated_since: «yes", "wrong_type", "true or false"),
    ("fields: { title: \"$.title\" }", "fields: «[title]", "wrong_type", "names, each with a path"),
    ("per_second: 3", "per_second: «0", "out_of_bounds", "from 1 to 10000"),
    ("rate:", "http: { redirects: «9 }\nrate:", "out_of_bounds", "from 0 to 3"),
    ("total: \"$.total\"", "total: \"$.total\", total_tolerance: «150%", "out_of_bounds", "0.5%"),
    ("slice: PT6H", "slice: PT1«X", "bad_span", "an ISO-8601 length"),
    ("slice: PT6H", "slice: \"P1«M\"", "bad_span", "an ISO-8601 length"),
    ("origin: 2020-01-01", "origin: «2020-13-01", "bad_time", "2002-01-01T00:00:00Z"),
    ("zone: UTC", "zone: «Europe/Atlantis", "bad_zone", "an IANA time zone"),
    ("https://demo.org", "«demo", "bad_url", "a URL such as"),
    ("https://demo.org", "https://demo.org/v1«?key=1", "bad_url", "move it to `request.query`"),
    ("https://demo.org", "«https://me:hunter2@demo.org", "literal_secret", "credentials"),
    ("\"env:DEMO_KEY\"", "\"«hunter2\"", "literal_secret", "env:NAME"),
    ("body: \"cursor\"", "body: \"cur«(sor\"", "bad_pattern", "a regular expression"),
    ("  list:", "  «List All:", "bad_name", "lower-case letters"),
    ("name: Demo\n", "", "missing_key", "Name as people know it"),
    ("    request:\n      path: /list", "    «request:\n      method: get", "missing_key", "add `path`"),
    ("response: { items: \"$.items[*]\", ", "«response: { ", "missing_key", "add `items`"),
    ("    response: { items: \"$.items[*]\", id: \"$.id\", updated_at: \"$.changed\", total: \"$.total\" }\n    errors:", "    errors:", "missing_key", "add `response`"),
    ("name: Demo", "name: Demo\n«name: Twice", "duplicate_key", "keep one of them"),
    ("https://demo.org", "«http://demo.org", "https_only", "allow_http"),
    (", next: \"$.next\"", "", "next_missing", "add `pagination.next`"),
    ("type: token, size: 50", "type: offset, size: 50", "paging_exclusive", "keep either"),
    ("type: token, size: 50, size_max: 100, next: \"$.next\"", "type: «page", "page_base_missing", "base: 0"),
    ("size: 50", "size: «500", "size_over_max", "lower `size`"),
    ("size: 50", "size: 50, stop: «[has_more]", "stop_rule", "remove the rule"),
    ("size: 50", "size: 50, result_cap: 10, max_per_slice: «20", "slice_over_cap", "max_per_slice"),
    ("slice: PT6H", "slice: «PT1H0.5S", "width_grain", "boundary.grain"),
    ("align: hour", "align: day\n      min: P1D", "width_align", "finer `align`"),
    ("slice: PT6H", "min: PT12H\n      slice: «PT6H", "width_order", "min <= slice <= max"),
    ("kind: half_open, grain: PT1S", "kind: day, grain: «PT1H", "grain", "P1D"),
    ("grain: PT1S", "grain: P1D", "align_grain", "multiple of the grain"),
    ("updated_since: true", "updated_since: «false", "harvest_unfiltered", "only UPDATE"),
    ("boundary: { kind: half_open", "client_filter: «false\n      boundary: { kind: from_only", "client_filter_needed", "client_filter: true"),
    ("      key: changed_at\n", "", "watermark_missing", "window.key"),
    (", updated_at: \"$.changed\"", "", "updated_at_missing", "updated_at: none"),
    ("    fields:", "    detail: { endpoint: «lst, id_batch_size: 5 }\n    fields:", "detail_unknown", "did you mean `list`?"),
    ("    fields:", "    detail: { endpoint: list, id_batch_size: 5 }\n    fields:", "detail_role", "role: detail"),
    ("burst: 3", "burst: «9", "burst", "inside the limit"),
    ("rate:", "retry: { first: «PT1M }\nrate:", "retry_delays", "first <= longest"),
    ("role: search", "role: search\n    namespace: «custom", "namespace", "BACKFILL and UPDATE"),
    ("name: k, ", "", "auth_incomplete", "add `name`"),
    ("type: api_key", "type: «custom", "signing_hook_missing", "add `hook`"),
    ("in: query", "in: «body", "auth_placement", "in: header"),
    ("role: search", "role: search\n    credential: «keys", "credential_unknown", "did you mean `key`?"),
    ("credentials:\n  key: { type: api_key, in: query, name: k, secret: \"env:DEMO_KEY\", optional: true }\n", "", "auth_required", "credentials"),
    ("path: /list", "path: /list\n      body: { json: «{ a: 1 } }", "get_with_body", "method: post"),
    ("rate:", "http: { total_timeout: «PT10M }\nrate:", "timeout", "at most PT2M"),
    ("rate:", "queries:\n  «titel: { template: \"{value}\" }\nrate:", "query_field_unknown", "did you mean `title`?"),
    ("rate:", "queries: { title: { template: «\"ti:\" } }\nrate:", "query_template", "write {value} in it"),
    ("rate:", "queries: { title: { template: «\"{val}\" } }\nrate:", "query_template", "{value}, {from}, {last} and {to}"),
    ("rate:", "query_syntax: { style: params }\nqueries: { title: «{ operators: [and] } }\nrate:", "query_param_missing", "param: NAME"),
    ("rate:", "query_syntax: { refused: [«dio] }\nrate:", "query_field_unknown", "did you mean `doi`?"),
    ("rate:", "query_syntax: { style: «filter }\nrate:", "unknown_code", "did you mean `filters`?"),
];

/// Where the mark stands, and the text without it.
fn marked(text: &str) -> (String, Option<(u32, u32)>) {
    let place = text.find('«').map(|at| {
        let line = text[..at].matches('\n').count() + 1;
        let column = text[..at].chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        (line as u32, column as u32)
    });
    (text.replace('«', ""), place)
}

/// Everything that is wrong with a text, as `patra registry check` would show it.
fn mistakes_of(text: &str) -> Vec<Diagnostic> {
    let found = match decode("demo.yaml", text) {
        Ok(definition) => check_definition(&definition),
        Err(mistakes) => mistakes,
    };
    found.into_iter().filter(|found| found.severity == Severity::Error).collect()
}

#[test]
fn the_valid_definition_has_no_mistakes() {
    assert_eq!(mistakes_of(VALID), Vec::new());
}

#[test]
fn every_mistake_is_named_where_it_stands_with_a_hint() {
    let mut all = String::new();
    let mut problems = Vec::new();
    for (find, replacement, code, hint) in CASES {
        assert!(VALID.contains(find), "{find}");
        let mut text = VALID.replacen(find, replacement, 1);
        if *code == "auth_required" {
            text = text.replace("role: search", "role: search\n    auth: «required");
        }
        let (text, place) = marked(&text);
        let Some(first) = mistakes_of(&text).into_iter().next() else {
            problems.push(format!("{code}: no mistake found after `{replacement}`"));
            continue;
        };
        let shown = first.to_string();
        let placed = place.map_or(first.line > 0, |place| place == (first.line, first.column));
        if first.code != *code || !placed || !shown.contains(hint) || shown.contains("hunter2") {
            problems.push(format!("{code} at {place:?} with `{hint}`, but got {}:\n{shown}", first.code));
        }
        all.push_str(&format!("--- {code}: {}\n{shown}\n", replacement.replace('\n', "⏎")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(CASES.len() >= 40);
    insta::assert_snapshot!("mistakes", all);
}

#[test]
fn text_that_is_no_yaml_and_no_block_is_refused() {
    assert_eq!(mistakes_of("a: [1, 2\n")[0].code, "yaml");
    assert_eq!(mistakes_of("- a\n- b\n")[0].code, "wrong_type");
    assert_eq!(mistakes_of("")[0].code, "missing_key");
    assert_eq!(mistakes_of("a: &x [*x]\n")[0].code, "yaml");
}

#[test]
fn all_mistakes_are_found_at_once_in_the_order_of_the_text() {
    let text = VALID
        .replace("rate:", "rtae:")
        .replace("PT6H", "PT6")
        .replace("type: token", "type: tokn")
        .replace("zone: UTC", "zone: Mars");
    let codes: Vec<&str> = mistakes_of(&text).iter().map(|mistake| mistake.code).collect();
    assert_eq!(codes, ["unknown_key", "unknown_code", "bad_zone", "bad_span"]);
}

#[test]
fn bad_templates_and_paths_are_named_at_their_column() {
    // Where the engines of templates and paths accept everything there is nothing to see.
    if crate::template::check("${nope.nope}").is_err() {
        let (text, place) = marked(&VALID.replace("${window.from}", "x${«windw.from}"));
        let mistakes = mistakes_of(&text);
        assert_eq!((mistakes[0].code, Some((mistakes[0].line, mistakes[0].column))), ("bad_template", place));
    }
    if crate::path::check("$.[", crate::spec::snapshot::Format::Json).is_err() {
        let (text, place) = marked(&VALID.replace("\"$.title\"", "\"$.title | «shout\""));
        let mistakes = mistakes_of(&text);
        assert_eq!((mistakes[0].code, Some((mistakes[0].line, mistakes[0].column))), ("bad_path", place));
    }
}
