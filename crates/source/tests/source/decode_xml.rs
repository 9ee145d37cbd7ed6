//! XML bodies: mixed content, namespaces, entities, poison.

use bytes::Bytes;
use patra_core::page::BadReason;
use patra_source::decode::{Around, Decoded, NotAPage, ResponseProgram};
use serde_json::{Value, json};

use crate::testspec;

fn decode_with(overrides: Value, body: impl Into<Bytes>) -> Result<Decoded, NotAPage> {
    let mut base = json!({"format": "XML", "items": ["/set/item"], "id": ["id"], "updated_at": "updated",
        "total": "@total", "fields": [{"name": "title", "path": "title", "required": false}]});
    base.as_object_mut().unwrap().extend(overrides.as_object().unwrap().clone());
    let spec = testspec::spec(json!({ "response": base })).response;
    let around = Around { next_token: Some("resumptionToken"), ..Around::default() };
    ResponseProgram::compile(&spec, around).unwrap().decode(body.into(), None)
}

fn decode(body: impl Into<Bytes>) -> Result<Decoded, NotAPage> {
    decode_with(json!({}), body)
}

#[test]
fn items_keep_their_bytes_and_texts_keep_their_mixed_content() {
    let body = Bytes::from_static(
        "<?xml version='1.0'?>\n<!DOCTYPE set SYSTEM \"http://example.org/x.dtd\">\n<set total='2'><item><id> a </id>\
         <title>On <i>E. coli</i> &amp; &#x3b2;-<sup>2</sup> &nbsp; <![CDATA[<raw>]]></title><updated>2026-01-31</updated></item>\
         <item v='1'><id>b</id><title/></item><resumptionToken>t/1=</resumptionToken></set>"
            .as_bytes(),
    );
    let page = decode(body.clone()).unwrap();
    assert_eq!((page.total, page.next_token.as_deref(), page.bad.len()), (Some(2), Some("t/1="), 0));
    assert_eq!(page.items[0].id, "a");
    let fields: Value = serde_json::from_str(&page.items[0].fields).unwrap();
    assert_eq!(fields["title"], "On E. coli & β-2 &nbsp; <raw>");
    assert_eq!(page.items[0].updated_at, Some("2026-01-31".parse().unwrap()));
    assert_eq!(&page.items[1].payload[..], b"<item v='1'><id>b</id><title/></item>");
    assert_eq!(page.items[1].fields, "{}");
    assert_eq!(
        page.items[1].payload.as_ptr() as usize - body.as_ptr() as usize,
        body.windows(6).rposition(|part| part == b"<item ").unwrap()
    );
}

#[test]
fn an_empty_token_and_no_token_are_the_end() {
    for token in [
        "",
        "<resumptionToken/>",
        "<resumptionToken cursor='5'></resumptionToken>",
        "<resumptionToken> \n</resumptionToken>",
    ] {
        let page = decode(format!("<set><item><id>a</id></item>{token}</set>")).unwrap();
        assert_eq!(page.next_token, None, "{token}");
    }
}

#[test]
fn the_place_for_items_must_be_there() {
    assert!(decode("<set/>").unwrap().items.is_empty());
    assert!(decode("<eFetchResult><ERROR>no</ERROR></eFetchResult>").is_err());
    assert!(decode("<x total='0'/>").unwrap().items.is_empty());
    let nested = json!({"items": ["IdList/Id"], "id": [], "updated_at": null, "fields": [], "total": "Count"});
    let page = decode_with(nested.clone(), "<r><Count>2</Count><IdList><Id>1</Id><Id>2</Id></IdList></r>").unwrap();
    let ids: Vec<&str> = page.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!((ids, page.total), (vec!["1", "2"], Some(2)));
    assert!(decode_with(nested, "<r><ERROR>x</ERROR></r>").is_err());
}

#[test]
fn attributes_predicates_wildcards_and_parts_of_dates_are_found() {
    let overrides = json!({"id": ["PMID", "PMID/@Version"], "updated_at": "DateRevised", "time": {"kind": "iso", "zone": "UTC"},
        "deleted": "header[@status='deleted']", "version": "@v", "fields": [
        {"name": "doi", "path": "Ids/Id[@T='doi']", "required": false},
        {"name": "pub", "path": "PubDate | partial_date", "required": false},
        {"name": "names", "path": "Authors/*/Last", "required": false},
        {"name": "one", "path": "Authors/A/Last | first", "required": false}]});
    let body = "<set><item v='9'><PMID Version='2'>77</PMID><Ids><Id T='pii'>x</Id><Id T='doi'>10.1/a&lt;b</Id></Ids>\
        <PubDate><Year>2019</Year><Month>Sep</Month></PubDate><Authors><A><Last>P</Last></A><B><Last>Q</Last></B></Authors>\
        <DateRevised><Year>2020</Year><Month>01</Month><Day>05</Day></DateRevised></item>\
        <item><PMID Version='1'>78</PMID><header status='deleted'/></item></set>";
    let page = decode_with(overrides, body).unwrap();
    assert_eq!((page.items[0].id.as_str(), page.items[0].version.as_deref()), ("77:2", Some("9")));
    assert_eq!(page.items[0].updated_at, Some("2020-01-05".parse().unwrap()));
    assert_eq!(page.items[0].fields, r#"{"doi":"10.1/a<b","pub":"2019-09","names":["P","Q"],"one":"P"}"#);
    assert_eq!((page.items[0].deleted, page.items[1].deleted), (false, true));
}

#[test]
fn prefixes_stand_for_namespaces_not_for_letters() {
    let overrides = json!({"namespaces": {"dc": "http://purl.org/dc/elements/1.1/"}, "items": ["ListRecords/record"],
        "id": ["header/identifier"], "updated_at": null,
        "fields": [{"name": "title", "path": "metadata/dc:title", "required": false},
            {"name": "lang", "path": "metadata/dc:title/@xml:lang", "required": false}]});
    let body = "<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><ListRecords>\
        <record><header><identifier>1</identifier></header><metadata xmlns:x='http://purl.org/dc/elements/1.1/'>\
        <x:title xml:lang='en'>Right</x:title><title>Wrong</title></metadata></record>\
        <record><header><identifier>2</identifier></header><metadata xmlns:dc='http://example.org/other'>\
        <dc:title>Wrong</dc:title></metadata></record></ListRecords></OAI-PMH>";
    let page = decode_with(overrides, body).unwrap();
    assert_eq!(page.items[0].fields, r#"{"title":"Right","lang":"en"}"#);
    assert_eq!(page.items[1].fields, "{}");
}

#[test]
fn undeclared_prefixes_are_refused_when_compiled() {
    let spec = testspec::spec(json!({"response": {"format": "XML", "items": ["a"], "id": ["dc:id"], "total": null,
        "updated_at": null, "fields": []}}));
    let error = ResponseProgram::compile(&spec.response, Around::default()).unwrap_err();
    assert!(error.contains("dc"), "{error}");
}

#[test]
fn entities_are_not_expanded_and_nothing_is_fetched_s14() {
    let bombs = [
        "<!DOCTYPE set [<!ENTITY a 'x'><!ENTITY b '&a;&a;&a;&a;'>]><set><item><id>&b;</id></item></set>",
        "<!DOCTYPE set [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><set><item><id>&f;</id></item></set>",
        "<!DOCTYPE set [<!ENTITY f SYSTEM 'http://127.0.0.1:9/'>]><set><item><id>&f;</id></item></set>",
        "<!DOCTYPE set [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'> %p;]><set><item><id>1</id></item></set>",
        "<!DOCTYPE set PUBLIC 'x' 'y' [<!entity a 'x'>]><set><item><id>1</id></item></set>",
    ];
    for body in bombs {
        assert!(decode(body).is_err(), "{body}");
    }
    for body in [
        "<!DOCTYPE set SYSTEM 'http://127.0.0.1:9/x.dtd'><set><item><id>1</id></item></set>",
        "<!DOCTYPE set PUBLIC '-//NLM//DTD' 'https://example.org/x.dtd'><set><item><id>1</id></item></set>",
    ] {
        assert_eq!(decode(body).unwrap().items.len(), 1, "the positive control: {body}");
    }
}

#[test]
fn deep_nesting_costs_the_record_or_the_page_but_no_stack() {
    let nested = |depth: usize| format!("{}{}", "<x>".repeat(depth), "</x>".repeat(depth));
    let body = format!("<set><item><id>1</id>{}</item><item><id>2</id></item></set>", nested(100_000));
    let page = decode(body).unwrap();
    assert_eq!((page.items.len(), page.bad[0].reason), (1, BadReason::Malformed));
    assert_eq!(page.items[0].id, "2");
    assert!(decode(format!("<set>{}</set>", nested(100_000))).is_err());
}

#[test]
fn one_bad_record_does_not_cost_the_page() {
    for (poison, reason) in [
        (&b"<item></item>"[..], BadReason::NoId),
        (b"<item><id/></item>", BadReason::NoId),
        (b"<item><id>a\xff</id></item>", BadReason::BadText),
        (b"<item><id>a\x00b</id></item>", BadReason::BadText),
        (b"<item><id>a</id><title>\x0b</title></item>", BadReason::BadText),
        (b"<item><id>a&#0;</id></item>", BadReason::BadText),
        (b"<item><id>a</id><updated>soon</updated></item>", BadReason::BadTime),
    ] {
        let good = b"<item><id>1</id></item>";
        let body = [&b"<set>"[..], good, poison, good, b"</set>"].concat();
        let shown = String::from_utf8_lossy(poison).into_owned();
        let page = decode(body).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(page.items.len(), 2, "{shown}");
        assert_eq!(page.bad.first().map(|bad| bad.reason), Some(reason), "{shown}");
        assert_eq!(&page.bad[0].raw[..], poison, "{shown}");
    }
}

#[test]
fn a_body_cut_anywhere_is_never_a_page() {
    let body = "<?xml version='1.0'?><set total='1'><item a=\"b\"><id>a &amp; b</id><!-- c --><title><![CDATA[x]]></title></item></set>";
    for cut in 0..body.len() {
        assert!(decode(&body.as_bytes()[..cut]).is_err(), "cut at {cut}: {}", &body[..cut]);
    }
    for body in ["<set></item>", "<set></set><set/>", "<set></set>x", "x<set/>", "<set><item></set></item>", "<set a=1"]
    {
        assert!(decode(body).is_err(), "{body}");
    }
}

#[test]
fn the_hash_leaves_out_what_is_declared_as_noise() {
    let hash = |record: &str| {
        let overrides = json!({"hash_exclude": ["stamp", "@seen"], "updated_at": null});
        decode_with(overrides, format!("<set>{record}</set>")).unwrap().items[0].content_hash
    };
    let one = hash("<item seen='1'><id>a</id><stamp>5</stamp></item>");
    assert_eq!(one, hash("<item seen='222'><id>a</id><stamp><x/>6</stamp></item>"));
    assert_ne!(one, hash("<item seen='1'><id>a</id><stamp>5</stamp>x</item>"));
}

#[test]
fn other_encodings_are_read_and_kept_as_utf8() {
    let body = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><set><item><id>\xe9</id></item></set>";
    let page = decode(&body[..]).unwrap();
    assert_eq!(page.items[0].id, "é");
    assert!(String::from_utf8(page.body.to_vec()).unwrap().contains("encoding=\"UTF-8\""));
    assert_eq!(decode(page.body).unwrap().items[0].id, "é", "the kept body reads the same again");
}

proptest::proptest! {
    #[test]
    fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = decode(bytes);
    }

    #[test]
    fn decoding_xml_like_text_never_panics(text in "[<>/a&;!?\\[\\]'\"= \\-#x0]{0,60}") {
        let _ = decode(format!("<set><item><id>{text}</id></item></set>"));
        let _ = decode(text);
    }
}

#[test]
fn a_record_read_by_itself_is_the_one_of_its_page() {
    let body = "<set><item><id> a </id><title>T</title><updated>2026-01-31</updated></item><item><title>x</title></item></set>";
    let page = decode(body).unwrap();
    let spec = json!({"format": "XML", "items": ["/set/item"], "id": ["id"], "updated_at": "updated",
        "total": "@total", "fields": [{"name": "title", "path": "title", "required": false}]});
    let spec = testspec::spec(json!({ "response": spec })).response;
    let program = ResponseProgram::compile(&spec, Around::default()).unwrap();
    assert_eq!(program.reread(page.items[0].payload.clone()).as_ref(), Ok(&page.items[0]));
    assert_eq!(program.reread(page.bad[0].raw.clone()).unwrap_err().reason, BadReason::NoId);
    assert_eq!(program.reread(Bytes::from_static(b"<item><id>")).unwrap_err().reason, BadReason::Malformed);
}
