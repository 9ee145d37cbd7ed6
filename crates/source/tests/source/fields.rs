//! Mapped fields: objects, lists of values, lists of objects inside each other, in both formats.

use bytes::Bytes;
use patra_core::page::BadReason;
use patra_source::decode::{Around, Decoded, ResponseProgram};
use serde_json::{Value, json};

fn decode(format: &str, item: &str, fields: &[(&str, &str)], body: &str) -> Decoded {
    let required = |name: &str| name.ends_with('!');
    let fields: Vec<Value> = fields
        .iter()
        .map(|(name, path)| json!({"name": name.trim_end_matches('!'), "path": path, "required": required(name)}))
        .collect();
    let spec = crate::testspec::spec(json!({"response": {
        "format": format, "items": [item], "id": [if format == "JSON" { "$.id" } else { "id" }],
        "updated_at": null, "total": null, "fields": fields,
    }}));
    let program = ResponseProgram::compile(&spec.response, Around::default()).unwrap();
    program.decode(Bytes::copy_from_slice(body.as_bytes()), None).unwrap()
}

fn fields(format: &str, item: &str, fields: &[(&str, &str)], body: &str) -> Vec<Value> {
    let decoded = decode(format, item, fields, body);
    assert!(decoded.bad.is_empty(), "{:?}", decoded.bad);
    decoded.items.iter().map(|item| serde_json::from_str(&item.fields).unwrap()).collect()
}

const JSON_FIELDS: &[(&str, &str)] = &[
    ("title", "$.title"),
    ("ids.doi", "$.doi | doi"),
    ("ids.isbn[]", "$.isbn[*] | isbn"),
    ("authors[]", "$.authors[*] || $.creators[*]"),
    ("authors[].family", "$.family"),
    ("authors[].places[]", "$.at[*]"),
    ("authors[].places[].name", "$.name || $"),
    ("authors[].tags[]", "$.tags[*]"),
    ("notices[]", "$.notices[*]"),
    ("notices[].kind!", "$.t | codes('r=retraction')"),
    ("notices[].doi", "$.doi | doi"),
    ("people[]", "$.people | split(';')"),
    ("people[].name", "$ | plain"),
];

#[test]
fn values_of_a_json_record_stand_where_their_names_say() {
    let body = json!({"items": [
        {"id": 1, "title": "A", "doi": "doi:10.1000/X", "isbn": ["9783161484100", "978-3-16-148410-0", "no"],
         "authors": [
            {"family": "One", "at": [{"name": "P"}, "Q"], "tags": ["a", "a", "b"]},
            {"at": [], "tags": []},
            {"family": "Three", "at": [{"name": "R"}]}],
         "notices": [{"t": "x", "doi": "10.1000/n"}, {"t": "r"}, null],
         "people": "Ada <i>E</i>.; Bob;"},
        {"id": 2, "creators": [{"family": "Four"}], "authors": [], "notices": [{"t": "x"}]},
    ]});
    let got = fields("JSON", "$.items[*]", JSON_FIELDS, &body.to_string());
    let one = json!({
        "title": "A",
        "ids": {"doi": "10.1000/x", "isbn": ["9783161484100"]},
        "authors": [
            {"family": "One", "places": [{"name": "P"}, {"name": "Q"}], "tags": ["a", "b"]},
            {"family": "Three", "places": [{"name": "R"}]}],
        "notices": [{"kind": "retraction"}],
        "people": [{"name": "Ada E."}, {"name": "Bob"}],
    });
    assert_eq!(got, [one, json!({"authors": [{"family": "Four"}]})]);
}

#[test]
fn values_of_an_xml_record_stand_where_their_names_say() {
    let body = "<r><item><id>1</id><list>\
        <a Kind='x'><f>One</f><at><n>P</n></at><at><n>Q</n></at></a>\
        <a/><a Kind='y'><at><n>R</n></at><f>Three <b>B</b></f></a></list></item>\
        <item><id>2</id><list/><f>not an author</f></item></r>";
    let wanted: &[(&str, &str)] = &[
        ("authors[]", "list/a"),
        ("authors[].kind", "@Kind"),
        ("authors[].family", "f"),
        ("authors[].places[]", "at"),
        ("authors[].places[].name", "n"),
        ("names[]", "list/a/f | lower"),
    ];
    let got = fields("XML", "item", wanted, body);
    let one = json!({
        "authors": [
            {"kind": "x", "family": "One", "places": [{"name": "P"}, {"name": "Q"}]},
            {"kind": "y", "family": "Three B", "places": [{"name": "R"}]}],
        "names": ["one", "three b"],
    });
    assert_eq!(got, [one, json!({})]);
}

#[test]
fn a_required_list_and_a_required_member_of_an_object_are_asked_of_the_record() {
    for wanted in [&[("a[]!", "$.a[*]"), ("a[].b", "$.b")][..], &[("o.v!", "$.v")], &[("l[]!", "$.l[*]")]] {
        let decoded = decode("JSON", "$.items[*]", wanted, r#"{"items":[{"id":1,"a":[{"c":1}]}]}"#);
        assert_eq!(decoded.bad[0].reason, BadReason::MissingField, "{wanted:?}");
    }
}

proptest::proptest! {
    /// Elements never lend their values to others, whatever is missing in them.
    #[test]
    fn every_element_keeps_its_own(shape in proptest::collection::vec((0u8..3, 0usize..4), 0..8)) {
        let authors: Vec<Value> = shape.iter().enumerate().map(|(at, (has, places))| {
            let mut author = serde_json::Map::new();
            if *has > 0 {
                author.insert("family".into(), format!("f{at}").into());
            }
            let places = (0..*places).map(|place| json!({"name": format!("p{at}.{place}")}));
            author.insert("at".into(), places.collect());
            Value::Object(author)
        }).collect();
        let body = json!({"items": [{"id": 1, "authors": authors}]});
        let got = fields("JSON", "$.items[*]", JSON_FIELDS, &body.to_string()).remove(0);
        let want: Vec<Value> = shape.iter().enumerate().filter(|(_, (has, places))| *has > 0 || *places > 0).map(|(at, (has, places))| {
            let mut author = serde_json::Map::new();
            if *has > 0 {
                author.insert("family".into(), format!("f{at}").into());
            }
            if *places > 0 {
                author.insert("places".into(), (0..*places).map(|place| json!({"name": format!("p{at}.{place}")})).collect());
            }
            Value::Object(author)
        }).collect();
        let got = got.get("authors").cloned().unwrap_or_else(|| json!([]));
        proptest::prop_assert_eq!(got, Value::Array(want));
    }
}
