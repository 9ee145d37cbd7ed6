use std::sync::Arc;

use super::*;
use crate::page::{PageAsk, PageStep, Part, Position};
use crate::spec::snapshot::SpecSnapshot;
use crate::window::Window;

const SPEC: &str = r#"{
  "format": 1, "provenance": "demo", "endpoint": "works", "entity": "works", "operation": "HARVEST",
  "registry_version": 7, "channel": "stable",
  "http": {"base_url": "https://api.example.org", "allow_http": false, "allow_hosts": [], "connect_timeout": "PT10S",
    "read_timeout": "PT30S", "total_timeout": "PT120S", "redirects": 0, "proxy": null, "user_agent": "PatraIngest/0.1",
    "body_bytes_max": 1000000, "ratio_max": 200},
  "auth": {"type": "NONE"},
  "request": {"method": "GET", "path": "/works", "query": [], "headers": [], "body": null},
  "pagination": {"type": "TOKEN", "size": 100, "size_max": null, "max_page": null, "base": 1, "initial": "*",
    "next_token": null, "next_url": null, "replayable": true, "ttl": null, "stop": [], "result_cap": null,
    "max_per_slice": null, "overlap": 0, "backward": false, "tail_probe": false},
  "window": {"updated_since": true, "key": "indexed_at", "origin": "2002-01-01T00:00:00Z",
    "boundary": {"kind": "DAY_INCL", "grain": "P1D", "zone": "America/New_York", "fractional": false},
    "align": "day", "min": "P1D", "max": "P31D", "slice": "P1D", "safety_lag": "PT1H", "lookback": "PT2H",
    "out_of_range": "clip", "ordered": null, "client_filter": false, "as_of": false, "second_key": null},
  "response": {"format": "JSON", "namespaces": {}, "items": ["$.items[*]"], "id": ["$.id"], "updated_at": null,
    "time": {"kind": "iso", "zone": "UTC"}, "version": null, "deleted": null, "total": null, "total_tolerance": 0,
    "has_more": null, "hash_exclude": [], "fields": []},
  "detail": null, "errors": [],
  "retry": {"first": "PT0.1S", "factor": 2, "longest": "PT30S", "jitter": 0.2, "attempts": 5, "statuses": []},
  "rate": {"windows": [], "burst": 1, "concurrency": 1, "key": ["source"], "respect_headers": true, "cost": 1},
  "expr": {"q": "heart \"failure\"", "params": {"type": "review", "x-y": "z"}, "contact": "ops@example.org"},
  "namespace": "GLOBAL", "blackbox": "full", "quarantine": {"share_max": 0.5, "records_max": 10},
  "priority": 3, "warnings": []
}"#;

fn ask(position: Position) -> PageAsk {
    let spec: SpecSnapshot = serde_json::from_str(SPEC).unwrap();
    PageAsk {
        spec: Arc::new(spec),
        window: Window::new("2026-03-08T05:00:00Z".parse().unwrap(), "2026-03-09T04:00:00Z".parse().unwrap()).unwrap(),
        part: None,
        as_of: "2026-04-01".parse().unwrap(),
        step: PageStep::Search { position, size: 100 },
        received: 0,
        correlation: "c-1".into(),
    }
}

fn context() -> Context {
    Context::new(&ask(Position::Token(Some("a+b".into())))).unwrap()
}

fn render(text: &str) -> Option<String> {
    Template::parse(text).unwrap().render(&context()).unwrap()
}

#[test]
fn values_are_rendered_in_the_zone_of_the_boundary() {
    for (text, want) in [
        ("plain", "plain"),
        ("${page.size}", "100"),
        ("${page.token}/${page.offset}", "a+b/0"),
        ("${window.from | date('%Y/%m/%d')}", "2026/03/08"),
        // The window is the one civil day of the clock change: its last day is itself.
        ("${window.last | date('%Y/%m/%d')}", "2026/03/08"),
        ("${window.to | date('%Y-%m-%dT%H')}", "2026-03-09T00"),
        ("${window.from}", "2026-03-08T05:00:00Z"),
        ("${window.from | iso}", "2026-03-08T05:00:00Z"),
        ("${window.from | epoch_s}", "1772946000"),
        ("${window.from | epoch_ms}", "1772946000000"),
        ("${as_of | date('%F')}", "2026-03-31"),
        ("a:${expr.q | quote},b:${page.token}", r#"a:"heart \"failure\"",b:a+b"#),
        ("${params.type | upper}-${params['x-y']}-${expr.params.type}", "REVIEW-z-review"),
        ("${concat(params.none, ' AND ') | default('')}x", "x"),
        ("${concat(params.type, ' AND ') | default('')}x", "review AND x"),
        ("${coalesce(params.none, page.url, 'last')}", "last"),
        ("${'yes' if page.token else 'no'}", "yes"),
        ("${'a}b'}", "a}b"),
        ("${source.code}/${source.endpoint}", "demo/works"),
        ("{curly} $5 }", "{curly} $5 }"),
    ] {
        assert_eq!(render(text).as_deref(), Some(want), "{text}");
    }
}

#[test]
fn a_single_expression_that_is_null_drops_its_parameter() {
    for text in [
        "${page.number}",
        "${params.none}",
        "${page.since | date('%F')}",
        "${none if page.token else 'x'}",
        "${part.from}",
        "${params.none | lower | quote}",
        "${ids | join(',')}",
    ] {
        assert_eq!(render(text), None, "{text}");
    }
}

#[test]
fn a_null_inside_a_longer_text_is_an_error_not_a_wider_query() {
    let error = Template::parse("type:${params.none}").unwrap().render(&context()).unwrap_err();
    assert_eq!(error.at, 7..18);
    assert!(error.message.contains("null"), "{error}");
}

#[test]
fn the_last_grain_follows_the_boundary_class() {
    let last = |kind: &str, grain: &str, fractional: bool| {
        let mut ask = ask(Position::Offset(0));
        let spec = Arc::make_mut(&mut ask.spec);
        spec.window.boundary.kind = serde_json::from_value(kind.into()).unwrap();
        spec.window.boundary.grain = grain.parse().unwrap();
        spec.window.boundary.zone = "UTC".into();
        spec.window.boundary.fractional = fractional;
        ask.window = Window::new("2026-01-01".parse().unwrap(), "2026-01-02".parse().unwrap()).unwrap();
        let context = Context::new(&ask).unwrap();
        Template::parse("${window.last}").unwrap().render(&context).unwrap().unwrap()
    };
    assert_eq!(last("DAY_INCL", "P1D", false), "2026-01-01T00:00:00Z");
    assert_eq!(last("PREC_INCL", "PT1H", false), "2026-01-01T23:00:00Z");
    assert_eq!(last("PREC_INCL", "PT1S", false), "2026-01-01T23:59:59Z");
    assert_eq!(last("PREC_INCL", "PT1H", true), "2026-01-02T00:00:00Z");
}

#[test]
fn positions_and_parts_reach_the_templates() {
    let mut ask = ask(Position::Url(None));
    ask.part = Some(Part::IdRange { from: 1, to: 20 });
    let context = Context::new(&ask).unwrap();
    let text = Template::parse("${part.from}:${part.to} ${page.token}").unwrap().render(&context).unwrap();
    assert_eq!(text.as_deref(), Some("1:20 *"));
    ask.step = PageStep::Detail { ids: vec!["1".into(), "2".into()] };
    let context = Context::new(&ask).unwrap();
    let template = Template::parse("${ids | join(',')}").unwrap();
    assert_eq!(template.render(&context).unwrap().as_deref(), Some("1,2"));
    let json = Template::parse("${ids}").unwrap().render_json(&context).unwrap();
    assert_eq!(json, Some(serde_json::json!(["1", "2"])));
    assert!(Template::parse("${ids}").unwrap().render(&context).is_err(), "a list is no text");
}

#[test]
fn json_bodies_keep_the_type_of_a_single_value() {
    let json = |text: &str| Template::parse(text).unwrap().render_json(&context()).unwrap();
    assert_eq!(json("${page.size}"), Some(serde_json::json!(100)));
    assert_eq!(json("n=${page.size}"), Some(serde_json::json!("n=100")));
    assert_eq!(json("${window.from}"), Some(serde_json::json!("2026-03-08T05:00:00Z")));
    assert_eq!(json("${page.number}"), None);
}

#[test]
fn what_is_not_listed_is_refused_with_its_place() {
    for (text, part) in [
        ("a ${window.until} b", "window.until"),
        ("${env.HOME}", "env.HOME"),
        ("${window}", "window"),
        ("${window.from | shout}", "shout"),
        ("${range(10)}", "range"),
        ("${params.type.upper()}", "params.type.upper"),
        ("${'a' * 1000000}", "*"),
        ("${page.size is odd}", "odd"),
        ("{% for x in y %}", "{%"),
        ("{# note #}", "{#"),
        ("${page.size", "${page.size"),
        ("${}", "${}"),
        ("${page.size +}", ""),
        ("${window.from | date('%!')}", "window.from | date('%!')"),
        ("${'open}", "${'open}"),
    ] {
        let error = check(text).expect_err(text);
        assert!(error.at.end <= text.len(), "{text}: {error:?}");
        if !part.is_empty() {
            assert!(
                text[error.at.clone()].contains(part) || part.contains(&text[error.at.clone()]),
                "{text}: {error:?}"
            );
        }
    }
}

#[test]
fn output_is_bounded() {
    let mut ask = ask(Position::Offset(0));
    Arc::make_mut(&mut ask.spec).expr.q = Some("x".repeat(600_000));
    let context = Context::new(&ask).unwrap();
    let twice = Template::parse("${expr.q}${expr.q}").unwrap();
    assert!(twice.render(&context).unwrap_err().message.contains("1 MB"));
    assert!(Template::parse(&"x".repeat(TEMPLATE_BYTES_MAX + 1)).is_err());
}

#[test]
fn the_variables_of_a_template_are_known() {
    let template = Template::parse("${page.token}${params['a']}").unwrap();
    assert_eq!(template.names(), ["page.token", "params.a"]);
}

proptest::proptest! {
    #[test]
    fn a_template_never_panics(text in "(\\$\\{[ a-z.|()'\"\\[\\]0-9,+~<>=!-]{0,30}\\}?|.{0,8}){0,4}") {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&context());
        }
        if let Err(error) = check(&text) {
            proptest::prop_assert!(error.at.end <= text.len());
        }
    }
}
