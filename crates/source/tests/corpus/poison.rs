//! Records that cannot be kept, at the first, middle and last place of a page: each costs itself and nothing else.

use patra_core::page::BadReason::{self, BadField, BadText, BadTime, Malformed, NoId, TooLong};

use super::targets::{JsonShape, Target, XmlShape};
use super::{Family, Want};

type Poison = (Vec<u8>, BadReason);

/// Puts each poison at three places between two good records.
fn spread(family: &mut Family, target: Target, poisons: Vec<Poison>, good: [&str; 2], around: [&str; 3]) {
    for (number, (poison, reason)) in poisons.into_iter().enumerate() {
        for (place, called) in ["first", "middle", "last"].into_iter().enumerate() {
            let mut records: Vec<&[u8]> = good.iter().map(|good| good.as_bytes()).collect();
            records.insert(place, &poison);
            let body = [around[0].as_bytes(), &records.join(around[1].as_bytes()), around[2].as_bytes()].concat();
            let shown: String = String::from_utf8_lossy(&poison).chars().take(40).collect();
            let want = Want::Page(vec!["one".into(), "two".into()], vec![reason]);
            family.add(target, format!("poison {number} {called}: {shown}"), body, want);
        }
    }
}

pub fn build_json(family: &mut Family) {
    let good = [r#"{"id":"one"}"#, r#"{"id":"two"}"#];
    let around = [r#"{"total":3,"items":["#, ",", r#"],"next":"n"}"#];
    spread(family, Target::Json(JsonShape::Plain), json_poisons(), good, around);
}

fn json_poisons() -> Vec<Poison> {
    let mut poisons = Vec::new();
    for (text, reason) in [
        ("{}", NoId),
        ("null", NoId),
        ("7", NoId),
        ("true", NoId),
        ("\"a\"", NoId),
        ("[]", NoId),
        ("[[]]", NoId),
        (r#"[{"id":"a"}]"#, NoId),
        (r#"{"id":null}"#, NoId),
        (r#"{"id":""}"#, NoId),
        (r#"{"id":"   "}"#, NoId),
        (r#"{"id":"\u00a0"}"#, NoId),
        (r#"{"id":"\t"}"#, NoId),
        (r#"{"id":[]}"#, NoId),
        (r#"{"id":{}}"#, NoId),
        (r#"{"id":[null,""]}"#, NoId),
        (r#"{"ID":"a"}"#, NoId),
        (r#"{"x":{"id":"a"}}"#, NoId),
        (r#"{"":"a"}"#, NoId),
        (r#"{"id":{"a":1}}"#, BadText),
        (r#"{"id":[{"a":1}]}"#, BadText),
        (r#"{"id":"a\u0000b"}"#, BadText),
        (r#"{"id":"a\nb"}"#, BadText),
        (r#"{"id":"a\u001bb"}"#, BadText),
        (r#"{"id":"a\u0085b"}"#, BadText),
        (r#"{"id":"\u007f"}"#, BadText),
        (r#"{"id":"\ud800"}"#, BadText),
        (r#"{"id":"\udc00\ud800"}"#, BadText),
        (r#"{"id":"\ud800\u0041"}"#, BadText),
        (r#"{"id":"a","id":"b"}"#, Malformed),
        (r#"{"id":"a","id":"a"}"#, Malformed),
        (r#"{"id":"a","\u0069d":"b"}"#, Malformed),
        (r#"{"id":"a","updated":"2026-01-01","updated":"2026-01-02"}"#, Malformed),
        (r#"{"id":"a","updated":"2026-01-01","\u0075pdated":"2026-01-02"}"#, Malformed),
        (r#"{"id":"a","x":1,"id":"a","id":"c"}"#, Malformed),
        (r#"{"id":"a","\ud800":1}"#, Malformed),
        (r#"{"id":"a","updated":"yesterday"}"#, BadTime),
        (r#"{"id":"a","updated":"0000-00-00"}"#, BadTime),
        (r#"{"id":"a","updated":"2026-02-30"}"#, BadTime),
        (r#"{"id":"a","updated":"2026-01-01T25:00:00Z"}"#, BadTime),
        (r#"{"id":"a","updated":"(:tba)"}"#, BadTime),
        (r#"{"id":"a","updated":"07.04.2017"}"#, BadTime),
        (r#"{"id":"a","updated":"March 2011"}"#, BadTime),
        (r#"{"id":"a","updated":{"date":null,"dateType":null}}"#, BadTime),
        (r#"{"id":"a","updated":{"x":1}}"#, BadTime),
        (r#"{"id":"a","updated":true}"#, BadTime),
        (r#"{"id":"a","updated":1e400}"#, BadTime),
        (r#"{"id":"a","updated":"\ud800"}"#, BadTime),
        (r#"{"id":"a","title":"x\u0000"}"#, BadText),
        (r#"{"id":"a","title":{"k\u0000":1}}"#, BadText),
        (r#"{"id":"a","title":1e400}"#, BadText),
        (r#"{"id":"a","title":"\udfff"}"#, BadText),
        (r#"{"id":"a","title":["\ud800"]}"#, BadText),
        (r#"{"id":"a","version":{"x":1}}"#, BadField),
        (r#"{"id":"a","version":"\ud800"}"#, BadField),
    ] {
        poisons.push((text.as_bytes().to_vec(), reason));
    }
    for (bytes, reason) in [
        (&b"{\"id\":\"a\xff\"}"[..], BadText),
        (b"{\"id\":\"\xc3\x28\"}", BadText),
        (b"{\"id\":\"a\",\"z\":\"\xe9t\xe9\"}", BadText),
        (b"{\"id\":\"a\",\"\xff\":1}", BadText),
        (b"{\"id\":\"a\x00b\"}", BadText),
        (b"{\"id\":\"a\",\"t\":\"line\nbreak\"}", BadText),
        (b"{\"id\":\"a\",\"t\":\"\x1f\"}", BadText),
        (b"{\"id\":\"a\",\"t\":\"\xed\xa0\x80\"}", BadText),
        (b"{\"id\":\"a\",\"t\":\"\xf4\x90\x80\x80\"}", BadText),
    ] {
        poisons.push((bytes.to_vec(), reason));
    }
    poisons.push((format!(r#"{{"id":"{}"}}"#, "x".repeat(2049)).into_bytes(), TooLong));
    poisons.push((format!(r#"{{"id":"{}"}}"#, "é".repeat(1025)).into_bytes(), TooLong));
    poisons.push((format!(r#"{{"id":{}}}"#, "1".repeat(2049)).into_bytes(), TooLong));
    poisons.push((format!(r#"{{"id":"d","x":{}{}}}"#, "[".repeat(3000), "]".repeat(3000)).into_bytes(), Malformed));
    poisons.push((format!(r#"{}{{}}{}"#, r#"{"id":"#.repeat(200), "}".repeat(200)).into_bytes(), Malformed));
    poisons
}

pub fn build_xml(family: &mut Family) {
    let good = ["<item><id>one</id></item>", "<item><id>two</id></item>"];
    let around = ["<?xml version='1.0' encoding='UTF-8'?>\n<set total='3'>", "\n", "<next>n</next></set>"];
    spread(family, Target::Xml(XmlShape::Plain), xml_poisons(), good, around);
    let good = ["<item id='one'/>", "<item id='two'/>"];
    let poisons = vec![
        (b"<item/>".to_vec(), NoId),
        (b"<item id=''/>".to_vec(), NoId),
        (b"<item ID='a'/>".to_vec(), NoId),
        (b"<item x:id='a'/>".to_vec(), NoId),
        (b"<item id='a&#0;'/>".to_vec(), BadText),
        (b"<item id='a&#1;'/>".to_vec(), BadText),
        (b"<item id='a&#xD800;'/>".to_vec(), BadText),
        (b"<item id='a\xff'/>".to_vec(), BadText),
        (b"<item id='a\x01'/>".to_vec(), BadText),
        (b"<item id='a' id='b'/>".to_vec(), BadText),
        (format!("<item id='{}'/>", "x".repeat(2049)).into_bytes(), TooLong),
    ];
    spread(family, Target::Xml(XmlShape::Attribute), poisons, good, ["<set>", "", "</set>"]);
}

fn xml_poisons() -> Vec<Poison> {
    let mut poisons: Vec<Poison> = [
        (&b"<item></item>"[..], NoId),
        (b"<item/>", NoId),
        (b"<item><id/></item>", NoId),
        (b"<item><id> \n </id></item>", NoId),
        (b"<item><id><!-- a --></id></item>", NoId),
        (b"<item><id><?a b?></id></item>", NoId),
        (b"<item><ID>a</ID></item>", NoId),
        (b"<item><x><id>a</id></x></item>", NoId),
        (b"<item>a</item>", NoId),
        (b"<item><id>a\xff</id></item>", BadText),
        (b"<item><id>a\x00b</id></item>", BadText),
        (b"<item><id>a</id><title>\x0b</title></item>", BadText),
        (b"<item><id>a</id><x y='\x1f'/></item>", BadText),
        (b"<item><id>a</id><title>\xe9</title></item>", BadText),
        (b"<item><id>a&#0;</id></item>", BadText),
        (b"<item><id>a&#x0;b</id></item>", BadText),
        (b"<item><id>a&#xD800;</id></item>", BadText),
        (b"<item><id>a&#x110000;</id></item>", BadText),
        (b"<item><id>a&#99999999999999999999;</id></item>", BadText),
        (b"<item><id>a&#xZZ;</id></item>", BadText),
        (b"<item><id>a&#10;b</id></item>", BadText),
        (b"<item><id>a&#1;b</id></item>", BadText),
        (b"<item><id>a\nb</id></item>", BadText),
        (b"<item><id>a</id><title>&#0;</title></item>", BadText),
        (b"<item><id>a</id><updated>soon</updated></item>", BadTime),
        (b"<item><id>a</id><updated>0000-00-00</updated></item>", BadTime),
        (b"<item><id>a</id><updated>2026-02-30T00:00:00Z</updated></item>", BadTime),
        (b"<item><id>a</id><updated>&#0;</updated></item>", BadTime),
        (b"<item><id>a</id><updated><Year>MMXX</Year></updated></item>", BadTime),
        (b"<item><id>a</id><updated><Year>2026</Year><Month>13</Month><Day>1</Day></updated></item>", BadTime),
    ]
    .into_iter()
    .map(|(bytes, reason)| (bytes.to_vec(), reason))
    .collect();
    poisons.push((format!("<item><id>{}</id></item>", "x".repeat(2049)).into_bytes(), TooLong));
    let deep = format!("<item><id>a</id>{}{}</item>", "<x>".repeat(127), "</x>".repeat(127));
    poisons.push((deep.into_bytes(), Malformed));
    let deep = format!("<item><id>a</id>{}{}</item>", "<x>".repeat(100_000), "</x>".repeat(100_000));
    poisons.push((deep.into_bytes(), Malformed));
    poisons
}
