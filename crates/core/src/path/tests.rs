use serde_json::{Value, json};

use super::*;

fn steps(text: &str) -> Option<Vec<JsonStep>> {
    match Extract::parse(text, Format::Json).unwrap().alternatives.remove(0).path {
        Path::Json(JsonQuery::Steps(steps)) => Some(steps),
        _ => None,
    }
}

#[test]
fn simple_json_paths_become_steps_and_others_stay_queries() {
    let name = |text: &str| JsonStep::Name(text.into());
    for (text, want) in [
        ("$", Some(vec![])),
        ("$.message.items[*]", Some(vec![name("message"), name("items"), JsonStep::Wildcard])),
        ("$.issued['date-parts'][0]", Some(vec![name("issued"), name("date-parts"), JsonStep::Index(0)])),
        ("$.a.*.b", Some(vec![name("a"), JsonStep::Wildcard, name("b")])),
        ("$['a[*]b'][*]", Some(vec![name("a[*]b"), JsonStep::Wildcard])),
        ("$['it\\'s']", Some(vec![name("it's")])),
        ("$..a", None),
        ("$.a[-1]", None),
        ("$.a[0:2]", None),
        ("$.a[?@.b == 'c' || @.d == '|'].e", None),
    ] {
        assert_eq!(steps(text), want, "{text}");
    }
}

#[test]
fn pipes_at_the_end_count_for_alternatives_without_their_own() {
    let extract = Extract::parse("$.a || $.b | lower || $.c | partial_date", Format::Json).unwrap();
    let pipes: Vec<_> = extract.alternatives.iter().map(|one| one.pipes.clone()).collect();
    assert_eq!(pipes, [vec![Pipe::PartialDate], vec![Pipe::Lower], vec![Pipe::PartialDate]]);
}

#[test]
fn xml_paths_have_names_attributes_predicates_and_prefixes() {
    let path = |text: &str| match Extract::parse(text, Format::Xml).unwrap().alternatives.remove(0).path {
        Path::Xml(path) => path,
        Path::Json(_) => panic!("an XML path"),
    };
    let name = |prefix: Option<&str>, local: Option<&str>| XmlName {
        prefix: prefix.map(str::to_owned),
        local: local.map(str::to_owned),
    };
    let plain = path("/feed/entry/@version");
    assert!(plain.absolute);
    assert_eq!(plain.steps.len(), 2);
    assert_eq!(plain.target, XmlTarget::Attribute(name(None, Some("version"))));
    let predicate = path("ArticleIdList/ArticleId[@IdType='doi/x']");
    assert_eq!(
        predicate.steps[1].predicate,
        Some(XmlPredicate { attribute: name(None, Some("IdType")), value: Some("doi/x".into()) })
    );
    assert_eq!(path("dc:title/*").steps[0].name, name(Some("dc"), Some("title")));
    assert_eq!(path("dc:title/*").steps[1].name, name(None, None));
    assert_eq!(path(".").steps, []);
}

#[test]
fn mistakes_are_refused_with_their_place() {
    for (text, format, at) in [
        ("$.a[", Format::Json, 3..4),
        ("$.a | loud", Format::Json, 6..10),
        ("$.a | join(';)", Format::Json, 11..14),
        ("$.a || ", Format::Json, 6..7),
        ("a//b", Format::Xml, 2..2),
        ("a/../b", Format::Xml, 2..4),
        ("a/@x/b", Format::Xml, 5..6),
        ("a[1]", Format::Xml, 0..4),
        ("a[@x=1]", Format::Xml, 0..7),
        ("/", Format::Xml, 0..1),
    ] {
        let error = check(text, format).unwrap_err();
        assert!(error.at.start <= at.start && error.at.end >= at.start, "{text}: {error:?}");
        assert!(error.at.end <= text.len(), "{text}: {error:?}");
    }
}

#[test]
fn partial_dates_are_read_in_all_shapes_seen_in_the_wild() {
    for (value, want) in [
        (json!("2026"), json!("2026")),
        (json!("2006-11"), json!("2006-11")),
        (json!("2026-01-31"), json!("2026-01-31")),
        (json!("2026-01-31T10:00:00Z"), json!("2026-01-31")),
        (json!("20260131"), json!("2026-01-31")),
        (json!("2025 Dec"), json!("2025-12")),
        (json!("2025 Dec 7"), json!("2025-12-07")),
        (json!("1998 Dec-1999 Jan"), json!("1998-12")),
        (json!("2010/2014"), json!("2010")),
        (json!("2023-02-31"), json!("2023-02")),
        (json!([2026, 1]), json!("2026-01")),
        (json!([[1957, 10]]), json!("1957-10")),
        (json!([[null]]), Value::Null),
        (json!([]), Value::Null),
        (json!({"Year": "2019", "Month": "Sep", "Day": "3"}), json!("2019-09-03")),
        (json!({"year": {"value": "2016"}, "month": null}), json!("2016")),
        (json!({"Year": "2019", "Season": "Summer"}), json!("2019")),
        (json!({"MedlineDate": "1998 Dec-1999 Jan", "#text": "1998 Dec-1999 Jan"}), json!("1998-12")),
        (json!("07.04.2017"), json!("2017-04-07")),
        (json!("March 2011"), json!("2011-03")),
        (json!("15 March 2011"), json!("2011-03-15")),
        (json!("March 15, 2011"), json!("2011-03-15")),
        (json!("07/04/2017"), Value::Null),
        (json!("Spring 2011"), Value::Null),
        (json!("(:tba)"), Value::Null),
        (json!(true), Value::Null),
    ] {
        assert_eq!(Pipe::PartialDate.apply(value.clone()), want, "{value}");
    }
}

#[test]
fn pipes_convert_or_give_null() {
    for (pipe, value, want) in [
        ("first", json!([null, "a", "b"]), json!("a")),
        ("join('; ')", json!(["a", 1, null]), json!("a; 1")),
        ("lower", json!(["A", "B"]), json!(["a", "b"])),
        ("strip_prefix('https://doi.org/')", json!("https://doi.org/10.1/x"), json!("10.1/x")),
        ("int", json!(" 12 "), json!(12)),
        ("int", json!("12a"), Value::Null),
        ("text", json!(12), json!("12")),
        ("list", json!("a"), json!(["a"])),
        ("date", json!("2026-01-31T10:00:00Z"), json!("2026-01-31")),
        ("date", json!("2026-01"), Value::Null),
        ("trim", Value::Null, Value::Null),
        ("last", json!(["a", "b", null]), json!("b")),
        ("count", json!(["a", "b"]), json!(2)),
        ("count", json!("a"), json!(1)),
        ("flag", json!(["Y", "N", "maybe"]), json!([true, false, null])),
        ("split(';')", json!("a; b;;"), json!(["a", "b"])),
        ("doi", json!(["NA", "doi:10.1234/A"]), json!([null, "10.1234/a"])),
        ("plain", json!("<i>a</i> b"), json!("a b")),
        ("codes('x=y; *=z')", json!(["q", "X"]), json!("y")),
        ("codes('x=y')", json!("q"), Value::Null),
        ("inverted", json!({"the": [0, 2], "cat": [1], "end": [3]}), json!("the cat the end")),
        ("inverted", json!("text"), Value::Null),
    ] {
        assert_eq!(Pipe::parse(pipe).unwrap().apply(value.clone()), want, "{pipe} {value}");
    }
}

proptest::proptest! {
    #[test]
    fn parsing_a_path_never_panics_and_ranges_lie_in_the_text(text in ".{0,60}") {
        for format in [Format::Json, Format::Xml] {
            if let Err(error) = check(&text, format) {
                proptest::prop_assert!(error.at.start <= error.at.end && error.at.end <= text.len());
            }
        }
    }

    #[test]
    fn path_like_text_never_panics(text in "[$.a\\[\\]'\"*?@|/:() 0-9=-]{0,40}") {
        for format in [Format::Json, Format::Xml] {
            if let Err(error) = check(&text, format) {
                proptest::prop_assert!(error.at.start <= error.at.end && error.at.end <= text.len());
            }
        }
        let _ = Pipe::parse(&text);
        let _ = PartialDate::of(&Value::String(text));
    }
}
