//! Compilation end to end: from the text of a definition through its rows to the snapshot.

use std::collections::BTreeSet;

use super::*;
use crate::registry::{self, Definition, Diagnostic};
use crate::spec::snapshot::*;
use crate::time::Span;

pub const SHIPPED: [(&str, &str); 7] = [
    ("crossref", include_str!("../../../../sources/crossref.yaml")),
    ("pubmed", include_str!("../../../../sources/pubmed.yaml")),
    ("oai-pmh", include_str!("../../../../sources/oai-pmh.yaml")),
    ("doaj", include_str!("../../../../sources/doaj.yaml")),
    ("datacite", include_str!("../../../../sources/datacite.yaml")),
    ("openfda", include_str!("../../../../sources/openfda.yaml")),
    ("timefeed", include_str!("../../../../sources/timefeed.yaml")),
];

pub fn shipped(name: &str) -> Definition {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name).unwrap();
    let file = format!("sources/{name}.yaml");
    registry::decode(&file, text).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)))
}

/// A shipped definition compiled as the database would give it back.
pub fn compiled(name: &str, operation: Operation) -> Compiled {
    let written = shipped(name);
    let stored = registry::from_rows(name, &registry::to_rows(&written)).unwrap();
    compile(&stored.with_places_of(&written), None, operation, &TriggerOverrides::default(), 1, "stable")
        .unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)))
}

fn shown(mistakes: &[Diagnostic]) -> String {
    mistakes.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_shipped_definition_compiles_from_its_rows_and_is_the_same_definition() {
    for (name, _) in SHIPPED {
        let written = shipped(name);
        let stored = registry::from_rows(name, &registry::to_rows(&written)).unwrap();
        assert_eq!(stored, written, "{name}");
        for operation in [Operation::Harvest, Operation::Backfill] {
            let compiled = compiled(name, operation);
            assert_eq!(compiled.spec.provenance, name);
        }
    }
}

#[test]
fn the_facts_of_the_shipped_sources_reach_the_spec() {
    let crossref = compiled("crossref", Operation::Harvest).spec;
    assert!(!crossref.pagination.replayable && crossref.window.boundary.grain == Span::HOUR);
    let pubmed = compiled("pubmed", Operation::Harvest).spec;
    assert_eq!(pubmed.window.second_key, Some(SecondKey::IdRange { from: 1, to: 99_999_999 }));
    assert_eq!(
        pubmed.detail.as_ref().map(|detail| (detail.id_batch_size, detail.response.format)),
        Some((200, Format::Xml))
    );
    assert_eq!((pubmed.pagination.size, pubmed.pagination.max_per_slice), (9_999, Some(9_500)));
    let doaj = compiled("doaj", Operation::Harvest).spec;
    assert!(doaj.pagination.backward && doaj.pagination.max_per_slice == Some(900));
    let datacite = compiled("datacite", Operation::Harvest).spec;
    assert_eq!(datacite.pagination.next_url.as_deref(), Some("$.links.next"));
    assert_eq!(datacite.rate.windows.len(), 2);
    let timefeed = compiled("timefeed", Operation::Harvest).spec;
    assert_eq!(timefeed.pagination.kind, PagingKind::Time);
    assert!(timefeed.window.client_filter);
    let openfda = compiled("openfda", Operation::Harvest).spec;
    assert_eq!(openfda.pagination.overlap, 50);
}

#[test]
fn a_refresh_of_crossref_asks_by_doi_and_keeps_to_its_own_namespace() {
    let spec = compiled("crossref", Operation::Update).spec;
    assert_eq!(spec.detail.map(|detail| detail.endpoint).as_deref(), Some("by_doi"));
    assert_eq!((spec.namespace, spec.priority), (NamespaceScope::Custom, 5));
    assert!(compiled("crossref", Operation::Harvest).spec.detail.is_none());
}

/// A small definition with `blocks` in its endpoint and `top` beside it.
fn small(top: &str, blocks: &str) -> Definition {
    let text = format!(
        "source: s\nname: S\nbase_url: https://s.org\n{top}\nendpoints:\n  e:\n    request: {{ path: /x }}\n    \
         response: {{ items: $.i, id: $.d, updated_at: $.u, total: $.t }}\n{blocks}\n"
    );
    registry::decode("s.yaml", &text).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)))
}

const WINDOW: &str = "    window: { updated_since: true, key: k, origin: 2000-01-01 }\n";

fn build(definition: &Definition, overrides: &TriggerOverrides) -> Compiled {
    compile(definition, None, Operation::Harvest, overrides, 1, "stable")
        .unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)))
}

fn set(pairs: &[(&str, &str)]) -> TriggerOverrides {
    let params = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TriggerOverrides { params, ..TriggerOverrides::default() }
}

#[test]
fn a_higher_level_wins_and_every_value_knows_its_origin() {
    let paging = "    pagination: { type: page, base: 1 }\n";
    let levels = [
        ("", "", "", Level::Default, "PT2M"),
        ("http: { total_timeout: PT50S }", "", "", Level::Source, "PT50S"),
        ("http: { total_timeout: PT50S }", "    timeout: PT40S\n", "", Level::Endpoint, "PT40S"),
        (
            "http: { total_timeout: PT50S }",
            "    timeout: PT40S\n    http: { total_timeout: PT30S }\n",
            "",
            Level::Block,
            "PT30S",
        ),
        ("", "    timeout: PT40S\n    http: { total_timeout: PT30S }\n", "PT20S", Level::Trigger, "PT20S"),
    ];
    for (top, blocks, trigger, level, want) in levels {
        let definition = small(top, &format!("{paging}{WINDOW}{blocks}"));
        let overrides = if trigger.is_empty() { set(&[]) } else { set(&[("http.total_timeout", trigger)]) };
        let compiled = build(&definition, &overrides);
        assert_eq!(compiled.spec.http.total_timeout.to_string(), want, "{level:?}");
        assert_eq!(compiled.origins["http.total_timeout"].level, level);
    }
}

#[test]
fn defaults_follow_from_what_is_declared() {
    let definition =
        small("", &format!("    pagination: {{ type: offset, size_max: 200, result_cap: 1000 }}\n{WINDOW}"));
    let spec = build(&definition, &set(&[])).spec;
    assert_eq!((spec.pagination.size, spec.pagination.overlap, spec.pagination.max_per_slice), (140, 7, Some(900)));
    assert_eq!((spec.retry.first.to_string(), spec.retry.attempts), ("PT0.1S".into(), 5));
    assert_eq!((spec.rate.burst, spec.rate.windows.clone()), (1, vec![RateWindow { requests: 1, per: Span::SECOND }]));
    assert_eq!(spec.window.safety_lag, Span::MINUTE.times(10));
    assert_eq!(spec.http.connect_timeout, Span::from_seconds(10));
    assert_eq!(spec.pagination.stop, vec![StopRule::CountReached, StopRule::EmptyPage]);
}

#[test]
fn a_trigger_sets_spec_values_and_parameters_and_nothing_else() {
    let blocks = format!("    pagination: {{ type: page, base: 1 }}\n{WINDOW}");
    let definition = registry::decode(
        "s.yaml",
        &format!(
            "source: s\nname: S\nbase_url: https://s.org\nendpoints:\n  e:\n    request: {{ path: /x, query: {{ set: \"${{params.set}}\" }} }}\n    \
             response: {{ items: $.i, id: $.d, updated_at: $.u }}\n{blocks}"
        ),
    )
    .unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    let spec =
        build(&definition, &set(&[("pagination.size", "20"), ("params.set", "a"), ("window.slice", "PT6H")])).spec;
    assert_eq!((spec.pagination.size, spec.window.slice), (20, Span::HOUR.times(6)));
    assert_eq!(spec.expr.params["set"], "a");
    for (key, value, code) in [
        ("pagination.size", "many", "bad_override"),
        ("pagination.sice", "20", "unknown_override"),
        ("request.path", "/y", "unknown_override"),
        ("sett", "a", "unknown_override"),
        ("rate.per_second", "50", "rate_over_declared"),
        ("namespace", "custom", "namespace"),
    ] {
        let mistakes = compile(&definition, None, Operation::Harvest, &set(&[(key, value)]), 1, "stable").unwrap_err();
        assert_eq!(mistakes[0].code, code, "{key}: {}", mistakes[0]);
    }
}

#[test]
fn a_beginning_before_the_origin_is_cut_or_refused() {
    let definition = |out_of_range: &str| {
        let window = format!("    window: {{ updated_since: true, key: k, origin: 2000-01-01{out_of_range} }}\n");
        small("", &format!("    pagination: {{ type: page, base: 1 }}\n{window}"))
    };
    let since = |text: &str| TriggerOverrides { since: text.parse().ok(), ..TriggerOverrides::default() };
    let inside = build(&definition(", out_of_range: fail"), &since("2010-01-01"));
    assert_eq!(inside.spec.window.origin.to_string(), "2010-01-01T00:00:00.000000Z");
    assert_eq!(inside.origins["window.origin"].level, Level::Trigger);
    let cut = build(&definition(""), &since("1990-01-01")).spec;
    assert_eq!(cut.window.origin.to_string(), "2000-01-01T00:00:00.000000Z");
    assert!(cut.warnings.iter().any(|warning| warning.starts_with("out_of_range")), "{:?}", cut.warnings);
    let refused = definition(", out_of_range: fail");
    let mistakes = compile(&refused, None, Operation::Harvest, &since("1990-01-01"), 1, "stable").unwrap_err();
    assert_eq!((mistakes[0].code, mistakes[0].file.as_str()), ("out_of_range", "--since"));
    let no_origin = "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k }";
    assert_eq!(build(&small("", no_origin), &since("2010-01-01")).spec.window.origin, "2010-01-01".parse().unwrap());
}

#[test]
fn endpoints_that_share_a_watermark_know_each_other() {
    let endpoint = |name: &str, key: &str, namespace: &str| {
        format!(
            "  {name}:\n    request: {{ path: /{name} }}\n    response: {{ items: $.i, id: $.d, updated_at: $.u, total: $.t }}\n    \
             pagination: {{ type: page, base: 1 }}\n    window: {{ updated_since: true, key: {key}, origin: 2000-01-01 }}\n    \
             namespace: {namespace}\n"
        )
    };
    let head = "source: s\nname: S\nbase_url: https://s.org\nrate: { per_second: 1 }\nendpoints:\n";
    let three =
        format!("{head}{}{}{}", endpoint("a", "k", "global"), endpoint("b", "k", "global"), endpoint("c", "k", "expr"));
    let definition = registry::decode("s.yaml", &three).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    let of = |name: &str, operation| {
        compile(&definition, Some(name), operation, &TriggerOverrides::default(), 1, "stable").unwrap().spec
    };
    let (a, c) = (of("a", Operation::Harvest), of("c", Operation::Harvest));
    assert_eq!((a.namespace, a.shares, a.format), (NamespaceScope::Global, vec!["a".to_owned(), "b".into()], 2));
    assert_eq!((c.shares, c.format), (Vec::new(), 1));
    assert_eq!(of("a", Operation::Backfill).shares, Vec::<String>::new(), "only the harvest has a watermark to share");
    let apart = format!("{head}{}{}", endpoint("a", "k", "global"), endpoint("b", "other", "global"));
    let definition = registry::decode("s.yaml", &apart).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    let mistakes = compile(&definition, Some("a"), Operation::Harvest, &set(&[]), 1, "stable").unwrap_err();
    assert_eq!(mistakes[0].code, "shared_key");
}

#[test]
fn plain_http_is_for_hosts_the_trigger_allows() {
    let definition = small("", &format!("    pagination: {{ type: page, base: 1 }}\n{WINDOW}"));
    let base_url = Some("http://127.0.0.1:8080/s".to_owned());
    let refused = TriggerOverrides { base_url: base_url.clone(), ..TriggerOverrides::default() };
    let mistakes = compile(&definition, None, Operation::Harvest, &refused, 1, "stable").unwrap_err();
    assert_eq!((mistakes[0].code, mistakes[0].file.as_str()), ("private_host", "--base-url"));
    assert!(mistakes[0].to_string().contains("--allow-host 127.0.0.1:8080"), "{}", mistakes[0]);
    let open = TriggerOverrides { base_url: Some("http://demo.org".into()), ..TriggerOverrides::default() };
    let mistakes = compile(&definition, None, Operation::Harvest, &open, 1, "stable").unwrap_err();
    assert_eq!(mistakes[0].code, "https_only");
    let allowed =
        TriggerOverrides { base_url, allow_hosts: vec!["127.0.0.1:8080".into()], ..TriggerOverrides::default() };
    let spec = build(&definition, &allowed).spec;
    assert!(spec.http.allow_http);
    assert_eq!(spec.http.base_url, "http://127.0.0.1:8080/s");
}

#[test]
fn an_optional_credential_is_used_where_its_secret_is_and_brings_its_rate() {
    let pubmed = shipped("pubmed");
    let with_key =
        TriggerOverrides { credentials: Some(BTreeSet::from(["key".into()])), ..TriggerOverrides::default() };
    let keyed = build(&pubmed, &with_key).spec;
    assert_eq!((keyed.auth.credential(), keyed.rate.windows[0].requests), (Some("key"), 10));
    let anonymous = build(&pubmed, &TriggerOverrides::default()).spec;
    assert_eq!((anonymous.auth, anonymous.rate.windows[0].requests), (AuthSpec::None, 3));
    assert!(anonymous.warnings.iter().any(|warning| warning.starts_with("anonymous")));
}

#[test]
fn a_contact_comes_from_the_trigger_or_the_settings() {
    let crossref = shipped("crossref");
    let by_setting = TriggerOverrides {
        settings: [("contact_email".to_owned(), "a@b.org".to_owned())].into(),
        ..TriggerOverrides::default()
    };
    assert_eq!(build(&crossref, &by_setting).spec.expr.contact.as_deref(), Some("a@b.org"));
    let spec = build(&crossref, &TriggerOverrides { contact: Some("c@d.org".into()), ..by_setting }).spec;
    assert!(spec.http.user_agent.ends_with("(mailto:c@d.org)"), "{}", spec.http.user_agent);
}

#[test]
fn degradations_are_warnings_of_the_spec() {
    let filtered = "    pagination: { type: page, base: 0 }\n    \
         window: { key: k, origin: 2000-01-01, client_filter: true, ordered: asc }\n";
    let spec = build(&small("", filtered), &set(&[])).spec;
    assert!(spec.warnings.iter().any(|warning| warning.starts_with("client_filtered")), "{:?}", spec.warnings);
    let timefeed = compiled("timefeed", Operation::Harvest).spec;
    assert!(timefeed.warnings.iter().any(|warning| warning.starts_with("no_total")));
}

/// Blocks of a small definition, the operation, overrides, and the code it must be refused with.
type Refused = (&'static str, &'static str, Operation, &'static [(&'static str, &'static str)], &'static str);

#[rustfmt::skip]
const REFUSED: &[Refused] = &[
    ("", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Update, &[], "update_needs_detail"),
    ("", "    pagination: { type: page, base: 1 }\n    window: { key: k, origin: 2000-01-01 }", Operation::Backfill, &[], "harvest_unfiltered"),
    ("", "    pagination: { type: time }\n    window: { key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "harvest_unfiltered"),
    ("", "    pagination: { type: offset, size: 5, overlap: 5 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "overlap"),
    ("", "    pagination: { type: url }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "next_missing"),
    ("", "    pagination: { type: token, next: $.n, overlap: 3 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "paging_exclusive"),
    ("", "    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "pagination_missing"),
    ("", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k }", Operation::Harvest, &[], "origin_missing"),
    ("", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k, origin: 2000-01-01, second_key: { type: id_range } }", Operation::Harvest, &[], "incomplete"),
    ("identity: { contact: \"${settings.mail}\", contact_required: true }", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "contact_missing"),
    ("", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[("window.slice", "PT90S")], "width_align"),
    ("", "    pagination: { type: page, base: 1 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Backfill, &[("namespace", "global")], "namespace"),
    ("", "    pagination: { type: page, base: 1, size_max: 10 }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[("pagination.size", "11")], "size_over_max"),
    ("", "    pagination: { type: time, tail_probe: true }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "paging_exclusive"),
    ("", "    pagination: { type: token, next: $.n, replayable: false, tail_probe: true }\n    window: { updated_since: true, key: k, origin: 2000-01-01 }", Operation::Harvest, &[], "tail_probe"),
];

#[test]
fn what_cannot_work_is_refused_before_a_plan_exists() {
    for (top, blocks, operation, overrides, code) in REFUSED {
        let definition = small(top, blocks);
        let mistakes = compile(&definition, None, *operation, &set(overrides), 1, "stable").unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.code == *code), "{code}: {}", shown(&mistakes));
    }
}

#[test]
fn pages_read_backward_need_a_total() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sources/doaj.yaml")).unwrap();
    let silent: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("total:")).collect();
    assert!(silent.len() < text.lines().count());
    let definition = registry::decode("doaj.yaml", &silent.join("\n")).unwrap();
    let mistakes =
        compile(&definition, None, Operation::Harvest, &TriggerOverrides::default(), 1, "stable").unwrap_err();
    assert!(mistakes.iter().any(|mistake| mistake.code == "backward_total"), "{}", shown(&mistakes));
}

#[test]
fn an_endpoint_is_found_named_or_asked_for() {
    let crossref = shipped("crossref");
    let code = |endpoint| {
        let overrides = TriggerOverrides::default();
        compile(&crossref, Some(endpoint), Operation::Harvest, &overrides, 1, "stable").unwrap_err()[0].code
    };
    assert_eq!(code("work"), "endpoint_unknown");
    assert_eq!(code("by_doi"), "endpoint_role");
    let query = TriggerOverrides { q: Some("x".into()), ..TriggerOverrides::default() };
    let mistakes = compile(&shipped("oai-pmh"), None, Operation::Harvest, &query, 1, "stable").unwrap_err();
    assert_eq!(mistakes[0].code, "query_unsupported");
}

#[test]
fn the_second_phase_must_ask_for_ids() {
    let text = SHIPPED[1].1.replace("${ids | join(',')}", "1");
    let definition = registry::decode("p.yaml", &text).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    let overrides = TriggerOverrides::default();
    let mistakes = compile(&definition, None, Operation::Harvest, &overrides, 1, "stable").unwrap_err();
    assert_eq!((mistakes[0].code, mistakes[0].line > 0), ("detail_without_ids", true));
}

#[test]
fn the_shipped_definitions_have_no_mistakes_as_a_whole() {
    for (name, _) in SHIPPED {
        let found = check_definition(&shipped(name));
        let errors: Vec<_> = found.iter().filter(|found| found.severity == registry::Severity::Error).collect();
        assert!(errors.is_empty(), "{name}: {}", shown(&found));
    }
}

#[test]
fn a_spec_reads_back_as_it_was_written() {
    for (name, _) in SHIPPED {
        let spec = compiled(name, Operation::Harvest).spec;
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<SpecSnapshot>(&text).unwrap(), spec, "{name}");
    }
}
