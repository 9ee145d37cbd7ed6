//! JSON pages: size, depth, numbers, texts, wrong types, wrong documents, and a page cut at every point.

use super::targets::JsonShape::{Filtered, Ids, Piped, Plain};
use super::targets::Target;
use super::{Family, Want, ids};

/// A page with these items.
pub fn page(items: &str) -> String {
    format!(r#"{{"total":2,"items":[{items}],"next":"n"}}"#)
}

pub fn build(family: &mut Family) {
    sizes(family);
    documents(family);
    places(family);
    numbers(family);
    texts(family);
    filters(family);
    encodings(family);
}

fn sizes(family: &mut Family) {
    let plain = Target::Json(Plain);
    for depth in [127, 128, 129, 1_000, 100_000] {
        let deep = format!(r#"{{"id":"a","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let want = if depth < 129 { Want::Counts(2, 0) } else { Want::Counts(1, 1) };
        family.add(
            plain,
            format!("lists nested {depth} deep in a record"),
            page(&format!(r#"{deep},{{"id":"b"}}"#)),
            want,
        );
    }
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    family.add(plain, "a page of nested lists", deep("[", "]"), Want::Refused);
    family.add(plain, "a page of nested objects", deep(r#"{"a":"#, "}"), Want::Refused);
    family.add(plain, "nested lists never closed", "[".repeat(100_000), Want::Refused);
    family.add(plain, "nested objects never closed", r#"{"items":"#.repeat(100_000), Want::Refused);
    family.add(plain, "items inside items", deep(r#"{"items":["#, "]}"), Want::Counts(0, 1));
    family.add(
        plain,
        "nesting beside the items",
        format!(r#"{{"x":{},"items":[{{"id":"a"}}]}}"#, deep("[", "]")),
        ids(&["a"]),
    );
    let long = format!(r#"{{"id":"a","t":"{}"}}"#, "x".repeat(10_000_000));
    family.add(plain, "a text of 10 MB", page(&long), ids(&["a"]));
    family.add(
        plain,
        "an escaped text of 6 MB",
        page(&format!(r#"{{"id":"a","title":"{}"}}"#, "\\u0041".repeat(1_000_000))),
        ids(&["a"]),
    );
    let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"k{n}\":1")).collect();
    family.add(plain, "a record of a million keys", page(&format!(r#"{{"id":"a",{}}}"#, keys.join(","))), ids(&["a"]));
    family.add(plain, "a page of a million keys", format!(r#"{{{},"items":[]}}"#, keys.join(",")), ids(&[]));
    let falling: Vec<String> = (0..200_000).rev().map(|n| format!("\"k{n:06}\":1")).collect();
    family.add(plain, "keys in falling order", page(&format!(r#"{{"id":"a",{}}}"#, falling.join(","))), ids(&["a"]));
    family.add(plain, "fifty thousand empty records", page(&vec!["{}"; 50_000].join(",")), Want::Counts(0, 50_000));
    family.add(
        plain,
        "a million nulls for records",
        page(&vec!["null"; 1_000_000].join(",")),
        Want::RefusedWith("items"),
    );
    family.add(
        plain,
        "a million small records",
        page(&vec![r#"{"id":1}"#; 1_000_000].join(",")),
        Want::RefusedWith("items"),
    );
    family.add(plain, "a key of 1 MB", page(&format!(r#"{{"id":"a","{}":1}}"#, "k".repeat(1 << 20))), ids(&["a"]));
    family.add(
        plain,
        "a megabyte of blanks",
        format!("{}{}", " \n\t\r".repeat(1 << 18), page(r#"{"id":"a"}"#)),
        ids(&["a"]),
    );
}

fn documents(family: &mut Family) {
    let plain = Target::Json(Plain);
    for (name, body) in [
        ("nothing", ""),
        ("a blank", " "),
        ("a line end", "\n"),
        ("HTML", "<html><body>Service temporarily unavailable</body></html>"),
        ("XML", "<?xml version='1.0'?><set><item><id>a</id></item></set>"),
        ("plain text", "Resource not found."),
        ("null", "null"),
        ("true", "true"),
        ("a number", "7"),
        ("a text", "\"items\""),
        ("a list", r#"[{"id":"a"}]"#),
        ("an empty list", "[]"),
        ("an empty object", "{}"),
        ("an error object", r#"{"error":"API rate limit exceeded","count":"11"}"#),
        ("a validation failure with an array", r#"{"status":"failed","message":[{"type":"parameter"}]}"#),
        ("JSON lines", "{\"items\":[]}\n{\"items\":[]}\n"),
        ("a page and a word", r#"{"items":[]} x"#),
        ("a page and a brace", r#"{"items":[]}}"#),
        ("a page and a NUL", "{\"items\":[]}\0"),
        ("a page and HTML", r#"{"items":[]}<br/><b>Warning</b>"#),
        ("JSONP", r#"callback({"items":[]})"#),
        ("a prefix against hijacking", ")]}',\n{\"items\":[]}"),
        ("a comment", r#"{"items":[] /* none */}"#),
        ("a trailing comma", r#"{"items":[],}"#),
        ("a trailing comma in the list", r#"{"items":[{"id":"a"},]}"#),
        ("two commas", r#"{"items":[{"id":"a"},,{"id":"b"}]}"#),
        ("single quotes", "{'items':[]}"),
        ("keys without quotes", "{items:[]}"),
        ("a missing colon", r#"{"items" []}"#),
        ("a wrong bracket", r#"{"items":[}}"#),
        ("NaN", r#"{"items":[],"x":NaN}"#),
        ("Infinity", r#"{"items":[],"x":Infinity}"#),
        ("undefined", r#"{"items":[],"x":undefined}"#),
        ("a leading plus", r#"{"items":[],"x":+1}"#),
        ("a leading zero", r#"{"items":[],"x":01}"#),
        ("a hex number", r#"{"items":[],"x":0x10}"#),
        ("a bare minus", r#"{"items":[],"x":-}"#),
        ("an open exponent", r#"{"items":[],"x":1e}"#),
        ("items twice", r#"{"items":[{"id":"a"}],"items":[{"id":"b"}]}"#),
        ("items twice, once escaped", r#"{"items":[{"id":"a"}],"\u0069tems":[]}"#),
        ("next twice", r#"{"items":[],"next":"a","next":"b"}"#),
        ("a NUL at the start", "\0{\"items\":[]}"),
        ("a vertical tab as a blank", "{\"items\":\u{b}[]}"),
        ("a form feed as a blank", "{\"items\":\u{c}[{\"id\":\"a\"}]}"),
        ("a wide blank", "{\"items\":\u{a0}[]}"),
        ("wide quotes", "{\u{201c}items\u{201d}:[]}"),
        ("a key that is half of a pair", "{\"\\ud800\":1,\"items\":[]}"),
    ] {
        family.add(plain, format!("the body is {name}"), body, Want::Refused);
    }
}

fn places(family: &mut Family) {
    let plain = Target::Json(Plain);
    for (name, body, want) in [
        ("null", r#"{"items":null}"#, Want::Refused),
        ("null, and the total is 0", r#"{"items":null,"total":0}"#, ids(&[])),
        ("a text", r#"{"items":"none","total":3}"#, Want::Refused),
        ("a number", r#"{"items":0}"#, Want::Refused),
        ("a flag", r#"{"items":false}"#, Want::Refused),
        ("absent, and the total is 0", r#"{"total":0}"#, ids(&[])),
        ("absent, and the total is \"0\"", r#"{"total":"0"}"#, ids(&[])),
        ("absent, and the total is -0", r#"{"total":-0}"#, ids(&[])),
        ("absent, and the total is 1", r#"{"total":1}"#, Want::Refused),
        ("absent, and the total is null", r#"{"total":null}"#, Want::Refused),
        ("an empty object", r#"{"items":{}}"#, ids(&[])),
        ("an object of records", r#"{"items":{"x":{"id":"a"},"y":{"id":"b"}}}"#, ids(&["a", "b"])),
        ("a list in a list", r#"{"items":[[{"id":"a"}]]}"#, Want::Counts(0, 1)),
        ("a list of scalars", r#"{"items":["a",1,true,null,1.5]}"#, Want::Counts(0, 5)),
        ("under another spelling", r#"{"Items":[{"id":"a"}]}"#, Want::Refused),
        ("escaped", r#"{"\u0069\u0074\u0065\u006d\u0073":[{"id":"a"}]}"#, ids(&["a"])),
    ] {
        family.add(plain, format!("items are {name}"), body, want);
    }
    for (name, total) in [
        ("a text", "\"many\""),
        ("negative", "-5"),
        ("too large", "1e400"),
        ("of thirty digits", "123456789012345678901234567890"),
        ("a fraction", "1.5"),
        ("a list", "[1]"),
        ("an object", "{\"value\":1}"),
        ("a flag", "true"),
        ("a broken text", "\"\\ud800\""),
    ] {
        family.add(
            plain,
            format!("the total is {name}"),
            format!(r#"{{"total":{total},"items":[{{"id":"a"}}]}}"#),
            ids(&["a"]),
        );
    }
    for (name, next) in [("an empty list", "[]"), ("a flag", "false"), ("too large", "1e400")] {
        family.add(
            plain,
            format!("next is {name}"),
            format!(r#"{{"items":[{{"id":"a"}}],"next":{next}}}"#),
            ids(&["a"]),
        );
    }
    // A token that was changed on the way would ask for another page without a word.
    family.add(
        plain,
        "next holds bytes that are no text",
        &b"{\"items\":[{\"id\":\"a\"}],\"next\":\"a\xffb\"}"[..],
        Want::Refused,
    );
    family.add(
        plain,
        "next holds a bare control character",
        &b"{\"items\":[{\"id\":\"a\"}],\"next\":\"a\x01b\"}"[..],
        Want::Refused,
    );
    family.add(plain, "next is an object", r#"{"items":[{"id":"a"}],"next":{"a":1}}"#, Want::Refused);
    family.add(plain, "next is half of a pair", r#"{"items":[{"id":"a"}],"next":"\ud800"}"#, Want::Refused);
}

fn numbers(family: &mut Family) {
    let big = "123456789012345678901234567890";
    for (name, id) in [
        ("a small number", "7"),
        ("minus zero", "-0"),
        ("a fraction", "1.10"),
        ("the largest i64", "9223372036854775807"),
        ("one above u64", "18446744073709551616"),
        ("thirty digits", big),
        ("minus thirty digits", "-123456789012345678901234567890"),
        ("1e400", "1e400"),
        ("1E+2", "1E+2"),
        ("one above 2^53", "9007199254740993"),
        ("true", "true"),
    ] {
        family.add(Target::Json(Plain), format!("an id of {name}"), page(&format!(r#"{{"id":{id}}}"#)), ids(&[id]));
        if id != "true" {
            let list = format!(r#"{{"list":[{id}]}}"#);
            family.add(Target::Json(Ids), format!("an id alone, {name}"), list, ids(&[id]));
        }
    }
    for id in ["9007199254740993", "18446744073709551615", "18446744073709551616", big] {
        let record = format!(r#"{{"id":{id},"more":[{{"v":1}}]}}"#);
        family.add(Target::Json(Piped), format!("a piped id of {id}"), page(&record), ids(&[&format!("{id}:1")]));
        let record = format!(r#"{{"id":"p","more":[{{"v":{id}}}]}}"#);
        family.add(Target::Json(Piped), format!("a listed id of {id}"), page(&record), ids(&[&format!("p:{id}")]));
        family.add(
            Target::Json(Plain),
            format!("a list as id with {id}"),
            page(&format!(r#"{{"id":[{id}]}}"#)),
            ids(&[id]),
        );
        let group = format!(r#"{{"groups":[{{"ok":true,"items":[{{"ids":[{{"type":"own","value":{id}}}]}}]}}]}}"#);
        family.add(Target::Json(Filtered), format!("a filtered id of {id}"), group, ids(&[id]));
    }
}

fn texts(family: &mut Family) {
    let plain = Target::Json(Plain);
    for (name, id, want) in [
        ("a pair", r"\ud83d\ude00", "😀"),
        ("an escaped letter", r"\u00e9", "é"),
        ("a decomposed letter", "e\u{301}", "e\u{301}"),
        ("an escaped slash", r"10.1\/a", "10.1/a"),
        ("letters of a SICI", "10.1002/(SICI)1<1::AID>3.0.CO;2-#", "10.1002/(SICI)1<1::AID>3.0.CO;2-#"),
        ("a quote", r#"a\"b"#, "a\"b"),
        ("SQL", "'; DROP TABLE ing_task; --", "'; DROP TABLE ing_task; --"),
        ("markup", "<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a template", "${env.HOME}{{7*7}}", "${env.HOME}{{7*7}}"),
        ("the end of a plane", "\u{10ffff}", "\u{10ffff}"),
        ("a replacement character", "\u{fffd}", "\u{fffd}"),
        ("a byte order mark", "\u{feff}a", "\u{feff}a"),
        ("a right-to-left override", "\u{202e}abc", "\u{202e}abc"),
        ("outer blanks", " a ", " a "),
    ] {
        family.add(plain, format!("an id with {name}"), page(&format!(r#"{{"id":"{id}"}}"#)), ids(&[want]));
    }
    let long = "x".repeat(2048);
    family.add(plain, "an id of exactly 2048 bytes", page(&format!(r#"{{"id":"{long}"}}"#)), ids(&[&long]));
    family.add(plain, "the id key escaped", page(r#"{"\u0069d":"a"}"#), ids(&["a"]));
    family.add(plain, "a record of two spellings of one letter", page(r#"{"id":"a","é":1,"e\u0301":2}"#), ids(&["a"]));
}

fn filters(family: &mut Family) {
    let filtered = Target::Json(Filtered);
    let own = |id: &str| format!(r#"{{"ids":[{{"type":"own","value":{id}}}]}}"#);
    let groups =
        |items: &str| format!(r#"{{"groups":[{{"ok":true,"items":[{items}]}},{{"ok":false,"items":[{{}}]}}]}}"#);
    family.add(filtered, "two records", groups(&format!("{},{}", own("\"a\""), own("\"b\""))), ids(&["a", "b"]));
    family.add(filtered, "no group matches", r#"{"groups":[{"ok":1,"items":[{}]}]}"#, Want::Refused);
    family.add(
        filtered,
        "a number that no float holds",
        groups(&format!(r#"{{"x":1e400}},{}"#, own("\"b\""))),
        Want::Counts(1, 1),
    );
    family.add(filtered, "many records", groups(&vec![own("\"a\""); 20_000].join(",")), Want::Counts(20_000, 0));
    let wide: Vec<String> =
        (0..60_000).map(|n| format!(r#"{{"ok":true,"items":[{}]}}"#, own(&n.to_string()))).collect();
    family.add(filtered, "many groups", format!(r#"{{"groups":[{}]}}"#, wide.join(",")), Want::Counts(60_000, 0));
    family.add(
        filtered,
        "groups twice",
        r#"{"groups":[{"ok":true,"items":[{}]}],"groups":[{"ok":true,"items":[{}]}]}"#,
        Want::Refused,
    );
    family.add(filtered, "a filter on scalars", r#"{"groups":[1,"a",null,[true]]}"#, Want::Refused);
}

fn encodings(family: &mut Family) {
    let plain = Target::Json(Plain);
    let body = page(r#"{"id":"é"}"#);
    family.add(plain, "a byte order mark", [b"\xef\xbb\xbf", body.as_bytes()].concat(), ids(&["é"]));
    family.add(plain, "two byte order marks", [b"\xef\xbb\xbf\xef\xbb\xbf", body.as_bytes()].concat(), Want::Refused);
    let little: Vec<u8> = [0xfeff].into_iter().chain(body.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = [0xfeff].into_iter().chain(body.encode_utf16()).flat_map(u16::to_be_bytes).collect();
    family.add(plain, "UTF-16 little endian", little.clone(), ids(&["é"]));
    family.add(plain, "UTF-16 big endian", big, ids(&["é"]));
    family.add(plain, "UTF-16 without a mark", little[2..].to_vec(), Want::Refused);
    family.add(plain, "UTF-16 cut inside a letter", little[..little.len() - 1].to_vec(), Want::Refused);
    let units = |id: &[u16]| -> Vec<u8> {
        let (head, tail) = (r#"{"items":[{"id":""#.encode_utf16(), r#""},{"id":"b"}]}"#.encode_utf16());
        let units = [0xfeff].into_iter().chain(head).chain(id.iter().copied()).chain(tail);
        units.flat_map(u16::to_le_bytes).collect()
    };
    family.add(plain, "UTF-16 with half a pair in an id", units(&[0x61, 0xd800]), Want::Counts(1, 1));
    family.add(plain, "UTF-16 with another half in an id", units(&[0xdc00, 0x61]), Want::Counts(1, 1));
    family.add(
        plain,
        "UTF-32",
        body.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect::<Vec<u8>>(),
        Want::Refused,
    );
    family.add(
        plain,
        "an overlong slash",
        &b"{\"items\":[{\"id\":\"a\xc0\xafb\"},{\"id\":\"b\"}]}"[..],
        Want::Counts(1, 1),
    );
    family.add(
        plain,
        "a surrogate in UTF-8",
        &b"{\"items\":[{\"id\":\"\xed\xa0\x80\"},{\"id\":\"b\"}]}"[..],
        Want::Counts(1, 1),
    );
    family.add(
        plain,
        "bytes that are no text between records",
        &b"{\"items\":[{\"id\":\"a\"},\xff{\"id\":\"b\"}]}"[..],
        Want::Refused,
    );
    family.add(plain, "bytes that are no text after the page", &b"{\"items\":[{\"id\":\"a\"}]}\xff"[..], Want::Refused);
    family.add(plain, "a key of bytes that are no text", &b"{\"\xff\":1,\"items\":[{\"id\":\"a\"}]}"[..], ids(&["a"]));
}

/// A page in which every kind of token occurs; it is cut before each byte that ends or begins one.
pub fn build_cuts(family: &mut Family) {
    let body = r#"{"total":2,"items":[{"id":"a","title":"x\"y\u00e9","n":-1.5e3,"f":true},{"id":"b","z":[null,{}]}],"next":"é"}"#;
    for cut in 0..body.len() {
        let (before, at) = (body.as_bytes()[cut.saturating_sub(1)], body.as_bytes()[cut]);
        let structural = |byte: u8| b"{}[],:\"\\.-".contains(&byte) || byte >= 0x80;
        if cut == 0 || structural(before) || structural(at) {
            family.add(Target::Json(Plain), format!("cut at {cut}"), &body.as_bytes()[..cut], Want::Refused);
        }
    }
    family.add(Target::Json(Plain), "not cut", body, ids(&["a", "b"]));
    let ids_only = r#"{"list":["1",2]}"#;
    for cut in 1..ids_only.len() {
        family.add(Target::Json(Ids), format!("cut at {cut}"), &ids_only.as_bytes()[..cut], Want::Refused);
    }
}
