//! JSON bodies: good ones, poisoned ones, hostile ones.

use bytes::Bytes;
use patra_core::page::BadReason;
use patra_core::spec::snapshot::ResponseSpec;
use patra_source::decode::{Around, Decoded, NotAPage, ResponseProgram};
use serde_json::{Value, json};

use crate::testspec;

fn response(overrides: Value) -> ResponseSpec {
    testspec::spec(json!({ "response": overrides })).response
}

fn decode_with(overrides: Value, body: impl Into<Bytes>) -> Result<Decoded, NotAPage> {
    let around = Around { next_token: Some("$.next"), ..Around::default() };
    ResponseProgram::compile(&response(overrides), around).unwrap().decode(body.into(), None)
}

fn decode(body: impl Into<Bytes>) -> Result<Decoded, NotAPage> {
    decode_with(json!({}), body)
}

#[test]
fn a_page_is_split_into_items_that_are_slices_of_the_body() {
    let body = Bytes::from_static(
        br#"{"total":"2","next":"abc","items":[ {"id":"a","updated":"2026-01-01T10:00:00Z","title":"T"} ,{"id":7}]}"#,
    );
    let page = decode(body.clone()).unwrap();
    assert_eq!((page.total, page.next_token.as_deref(), page.bad.len()), (Some(2), Some("abc"), 0));
    let ids: Vec<&str> = page.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["a", "7"]);
    assert_eq!(page.items[0].updated_at, Some("2026-01-01T10:00:00Z".parse().unwrap()));
    assert_eq!(page.items[0].fields, r#"{"title":"T"}"#);
    let range = body.as_ptr() as usize..body.as_ptr() as usize + body.len();
    assert!(range.contains(&(page.items[0].payload.as_ptr() as usize)), "the payload is not a copy");
    assert_eq!(&page.items[1].payload[..], br#"{"id":7}"#);
}

#[test]
fn the_words_about_more_pages_are_read_in_their_forms() {
    for (body, total, next) in [
        (r#"{"items":[],"total":3,"next":null}"#, Some(3), None),
        (r#"{"items":[],"total":"60 568","next":""}"#, None, None),
        (r#"{"items":[],"total":60568.0,"next":25}"#, Some(60568), Some("25")),
        (r#"{"items":[],"total":-1}"#, None, None),
        (r#"{"items":[]}"#, None, None),
    ] {
        let page = decode(body).unwrap();
        assert_eq!((page.total, page.next_token.as_deref()), (total, next), "{body}");
    }
    for (word, want) in [("true", Some(true)), ("\"N\"", Some(false)), ("0", Some(false)), ("null", None)] {
        let body = format!(r#"{{"items":[],"more":{word}}}"#);
        assert_eq!(decode_with(json!({"has_more": "$.more"}), body).unwrap().has_more, want, "{word}");
    }
}

#[test]
fn a_body_without_the_place_for_items_is_no_page_unless_it_counts_zero() {
    for body in [r#"{"error":"no"}"#, r#"{"items":null}"#, r#"{"items":"x","total":5}"#, "[]", "{}", "null", "7"] {
        assert!(decode(body).is_err(), "{body}");
    }
    assert!(decode(r#"{"total":0}"#).unwrap().items.is_empty());
    assert!(decode(r#"{"items":null,"total":0}"#).unwrap().items.is_empty());
    assert!(decode(r#"{"items":[]}"#).unwrap().items.is_empty());
}

#[test]
fn a_search_that_gives_only_ids_has_scalars_as_items() {
    let overrides = json!({"items": ["$.list[*]"], "id": [], "updated_at": null, "fields": []});
    let page = decode_with(overrides, r#"{"list":["123",456,12345678901234567890123]}"#).unwrap();
    let ids: Vec<&str> = page.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["123", "456", "12345678901234567890123"]);
}

#[test]
fn ids_have_parts_and_alternatives() {
    let overrides = json!({"id": ["$.doi || $.other", "$.version"], "updated_at": null, "fields": []});
    let page = decode_with(
        overrides,
        r#"{"items":[{"doi":"d","version":2},{"doi":"","other":"o","version":"1"},{"doi":"x"}]}"#,
    );
    let page = page.unwrap();
    assert_eq!(page.items[0].id, "d:2");
    assert_eq!(page.items[1].id, "o:1");
    assert_eq!((page.bad[0].reason, page.bad[0].path.as_str()), (BadReason::NoId, "$.version"));
}

#[test]
fn filters_and_descendants_are_asked_of_a_tree() {
    let overrides = json!({"items": ["$.groups[?@.ok==true].items[*]"], "fields": [
        {"name": "doi", "path": "$.ids[?@.type=='doi'].value | first", "required": false},
        {"name": "last", "path": "$.list[-1]", "required": false}]});
    let body = r#"{"groups":[{"ok":false,"items":[{"id":"no"}]},{"ok":true,"items":[{"id":"yes",
        "ids":[{"type":"x","value":"1"},{"type":"doi","value":"10.1/x"}],"list":[1,2,3]}]}]}"#;
    let page = decode_with(overrides, body).unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].fields, r#"{"doi":"10.1/x","last":3}"#);
    assert!(page.items[0].payload.starts_with(b"{\"id\":\"yes\""));
}

#[test]
fn fields_keep_numbers_as_written_and_leave_out_what_is_empty() {
    let fields = json!([
        {"name": "n", "path": "$.n", "required": false}, {"name": "s", "path": "$.s", "required": false},
        {"name": "e", "path": "$.e", "required": false}, {"name": "a", "path": "$.a[*].f", "required": false},
        {"name": "d", "path": "$.d['date-parts'][0] | partial_date", "required": false},
        {"name": "j", "path": "$.a[*].f | join('; ')", "required": false}]);
    let body = r#"{"items":[{"id":"x","n":12345678901234567890123.50,"s":"é\n","e":[],"a":[{"f":"p"},{"f":"q"}],
        "d":{"date-parts":[[2026,1]]}}]}"#;
    let page = decode_with(json!({ "fields": fields }), body).unwrap();
    let want = r#"{"n":12345678901234567890123.50,"s":"é\n","a":["p","q"],"d":"2026-01","j":"p; q"}"#;
    assert_eq!(page.items[0].fields, want);
}

#[test]
fn one_bad_record_does_not_cost_the_page_at_any_place() {
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(2049));
    let deep = format!(r#"{{"id":"d","x":{}{}}}"#, "[".repeat(3000), "]".repeat(3000));
    let poisons: Vec<(Vec<u8>, BadReason)> = vec![
        (b"{}".to_vec(), BadReason::NoId),
        (br#"{"id":null}"#.to_vec(), BadReason::NoId),
        (br#"{"id":""}"#.to_vec(), BadReason::NoId),
        (br#"{"id":"  "}"#.to_vec(), BadReason::NoId),
        (b"null".to_vec(), BadReason::NoId),
        (b"7".to_vec(), BadReason::NoId),
        (b"[]".to_vec(), BadReason::NoId),
        (br#"{"id":{"a":1}}"#.to_vec(), BadReason::BadText),
        (br#"{"id":"a\u0000b"}"#.to_vec(), BadReason::BadText),
        (br#"{"id":"a\nb"}"#.to_vec(), BadReason::BadText),
        (br#"{"id":"\ud800"}"#.to_vec(), BadReason::BadText),
        (b"{\"id\":\"a\xff\"}".to_vec(), BadReason::BadText),
        (b"{\"id\":\"a\",\"z\":\"\xc3\x28\"}".to_vec(), BadReason::BadText),
        (b"{\"id\":\"a\x00b\"}".to_vec(), BadReason::BadText),
        (b"{\"id\":\"a\",\"t\":\"line\nbreak\"}".to_vec(), BadReason::BadText),
        (long.into_bytes(), BadReason::TooLong),
        (deep.into_bytes(), BadReason::Malformed),
        (br#"{"id":"a","id":"b"}"#.to_vec(), BadReason::Malformed),
        (br#"{"id":"a","title":1,"title":2}"#.to_vec(), BadReason::Malformed),
        (br#"{"id":"a","\u0069d":"b"}"#.to_vec(), BadReason::Malformed),
        (br#"{"id":"a","updated":"yesterday"}"#.to_vec(), BadReason::BadTime),
        (br#"{"id":"a","updated":{"x":1}}"#.to_vec(), BadReason::BadTime),
        (br#"{"id":"a","title":"x\u0000"}"#.to_vec(), BadReason::BadText),
        (br#"{"id":"a","title":1e400}"#.to_vec(), BadReason::BadText),
    ];
    for (poison, reason) in poisons {
        for place in 0..3 {
            let mut records: Vec<Vec<u8>> = vec![br#"{"id":"one"}"#.to_vec(), br#"{"id":"two"}"#.to_vec()];
            records.insert(place, poison.clone());
            let body = [&b"{\"items\":["[..], &records.join(&b","[..]), &b"]}"[..]].concat();
            let shown = String::from_utf8_lossy(&poison[..poison.len().min(60)]).into_owned();
            let page = decode(body).unwrap_or_else(|error| panic!("{shown}: {error}"));
            let ids: Vec<&str> = page.items.iter().map(|item| item.id.as_str()).collect();
            assert_eq!(ids, ["one", "two"], "{shown}");
            assert_eq!(page.bad.len(), 1, "{shown}");
            assert_eq!(page.bad[0].reason, reason, "{shown}: {}", page.bad[0].message);
            assert_eq!(&page.bad[0].raw[..], &poison[..], "{shown}");
        }
    }
}

#[test]
fn required_fields_must_be_there_except_on_tombstones() {
    let overrides = json!({"deleted": "$.gone", "fields": [{"name": "title", "path": "$.title", "required": true}]});
    let body = r#"{"items":[{"id":"a"},{"id":"b","gone":true},{"id":"c","gone":false,"title":"t"},{"id":"d","gone":"2026-01-01"}]}"#;
    let page = decode_with(overrides, body).unwrap();
    assert_eq!((page.bad[0].id.as_deref(), page.bad[0].reason), (Some("a"), BadReason::MissingField));
    let deleted: Vec<(&str, bool)> = page.items.iter().map(|item| (item.id.as_str(), item.deleted)).collect();
    assert_eq!(deleted, [("b", true), ("c", false), ("d", true)]);
}

#[test]
fn the_content_hash_ignores_order_and_declared_noise() {
    let overrides = || json!({"hash_exclude": ["$.indexed", "$.score"]});
    let hash =
        |record: &str| decode_with(overrides(), format!(r#"{{"items":[{record}]}}"#)).unwrap().items[0].content_hash;
    let one = hash(r#"{"id":"a","indexed":{"t":1},"title":"T","score":1.5}"#);
    assert_eq!(one, hash(r#"{ "title":"T", "score":2, "id":"a" ,"indexed":{"t":2}}"#));
    assert_ne!(one, hash(r#"{"id":"a","title":"U"}"#));
}

#[test]
fn hostile_json_is_refused_or_set_aside_s15() {
    let deep = format!(r#"{{"items":[{}{}]}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(decode(deep).unwrap().bad.len(), 1);
    let deep_page = format!("{}{}", r#"{"items":"#.repeat(100_000), "}".repeat(100_000));
    let _ = decode(deep_page);
    let string = format!(r#"{{"items":[{{"id":"a","t":"{}"}}]}}"#, "x".repeat(10_000_000));
    assert_eq!(decode(string).unwrap().items.len(), 1);
    let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"k{n}\":1")).collect();
    assert_eq!(decode(format!(r#"{{"items":[{{"id":"a",{}}}]}}"#, keys.join(","))).unwrap().items.len(), 1);
    for body in [
        &br#"{"items":[]} x"#[..],
        br#"{"items":[]}{"items":[]}"#,
        br#"{"items":[{"id":"a"}"#,
        br#"{"items":[{"id":"a"},]}"#,
        br#"{"items":[],"items":[]}"#,
        b"",
        b"\x00",
        b"<html>",
        b"{\"items\":[]}\x00",
    ] {
        assert!(decode(body).is_err(), "{}", String::from_utf8_lossy(body));
    }
    assert!(decode(&b"\xef\xbb\xbf{\"items\":[]}"[..]).is_ok(), "a byte order mark is tolerated");
    let big = decode(r#"{"items":[{"id":123456789012345678901234567890},{"id":1e400}]}"#).unwrap();
    assert_eq!(big.items[0].id, "123456789012345678901234567890");
    assert_eq!(big.items[1].id, "1e400");
}

#[test]
fn a_body_cut_anywhere_is_never_a_page() {
    let body = r#"{"total":2,"items":[{"id":"a","title":"x\"y"},{"id":"b"}],"next":"é"}"#;
    for cut in 0..body.len() {
        assert!(decode(&body.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
    assert!(decode(body).is_ok());
}

proptest::proptest! {
    #[test]
    fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = decode(bytes);
    }

    #[test]
    fn decoding_json_like_text_never_panics(text in "[\\[\\]{}\",:a0 \\\\u\\x00-\\x08\u{e9}]{0,60}") {
        let _ = decode(format!(r#"{{"items":[{text}]}}"#));
        let _ = decode(text);
    }
}

#[test]
fn a_repeated_key_costs_the_record_only_where_it_could_be_meant() {
    let body = r#"{"items":[{"id":"a","rel":{"provider":1,"provider":2}},{"id":"b","id":"c"}]}"#;
    let page = decode(body).unwrap();
    let ids: Vec<&str> = page.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["a"], "the key is on no path");
    assert_eq!(page.bad.iter().map(|bad| bad.reason).collect::<Vec<_>>(), [BadReason::Malformed]);
    let fields = json!([{"name": "doi", "path": "$.ids[?@.type=='doi'].id | first", "required": false}]);
    let page = decode_with(json!({ "fields": fields }), body).unwrap();
    assert_eq!((page.items.len(), page.bad.len()), (0, 2), "a path with a filter needs a tree");
}

#[test]
fn a_record_read_by_itself_is_the_one_of_its_page() {
    let body = r#"{"items":[ {"id":"a","updated":"2026-01-01T10:00:00Z","title":"T"} ,{"id":7},{"title":"no id"}]}"#;
    let page = decode(body).unwrap();
    let program = ResponseProgram::compile(&response(json!({})), Around::default()).unwrap();
    for item in &page.items {
        assert_eq!(program.reread(item.payload.clone()).as_ref(), Ok(item));
    }
    assert_eq!(program.reread(page.bad[0].raw.clone()).unwrap_err().reason, BadReason::NoId);
    assert_eq!(program.reread(Bytes::from_static(br#"{"id":"#)).unwrap_err().reason, BadReason::Malformed);
}
