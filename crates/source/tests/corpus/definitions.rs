//! Source definitions: YAML that expands, repeats, nests or lies is refused with a code, never half read.

use super::targets::Target;
use super::{Family, Want};

pub const VALID: &str = "\
source: demo
name: Demo
base_url: https://demo.org
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
    fields: { title: \"$.title\" }
";

pub fn build(family: &mut Family) {
    family.add(Target::Definition, "a valid definition", VALID, Want::Nothing);
    expansion(family);
    texts(family);
    changes(family);
}

fn expansion(family: &mut Family) {
    let target = Target::Definition;
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    family.add(target, "an alias bomb of lists", bomb, Want::RefusedWith("yaml"));
    let mut bomb = String::from("a0: &a0 { x: 1 }\n");
    for level in 1..12 {
        let inner: String = (0..10).map(|n| format!("k{n}: *a{}, ", level - 1)).collect();
        bomb.push_str(&format!("a{level}: &a{level} {{ {inner} }}\n"));
    }
    family.add(target, "an alias bomb of blocks", bomb, Want::RefusedWith("yaml"));
    let text = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(190));
    family.add(target, "a long text repeated by aliases", text, Want::Refused);
    for (name, text) in [
        ("an alias to itself", "a: &a [*a]\n"),
        ("an alias to itself in a block", "a: &a { b: *a }\n"),
        ("aliases in a ring", "a: &a [*b]\nb: &b [*a]\n"),
        ("an alias nobody declared", "a: *nobody\n"),
        ("an anchor twice", "a: &x 1\nb: &x 2\nc: *x\n"),
        ("a merge key", "a: &a { source: x }\n<<: *a\nname: Demo\n"),
        ("a merge key of a list", "<<: [{ source: x }, { name: y }]\n"),
        ("a merge key of itself", "a: &a { <<: *a }\n"),
        ("a merge key of a number", "<<: 1\n"),
    ] {
        family.add(target, name, text, Want::Refused);
    }
    let anchors: String = (0..5_000).map(|n| format!("k{n}: &a{n} 1\n")).collect();
    family.add(target, "thousands of anchors", anchors, Want::RefusedWith("yaml"));
    for (name, open, close) in [("lists", "[", "]"), ("blocks", "{a: ", "}"), ("mixed", "[{a: ", "}]")] {
        for depth in [33, 10_000] {
            let text = format!("source: {}1{}\n", open.repeat(depth), close.repeat(depth));
            family.add(target, format!("{name} nested {depth} deep"), text, Want::RefusedWith("yaml"));
        }
        family.add(target, format!("{name} never closed"), open.repeat(100_000), Want::RefusedWith("yaml"));
    }
    let indented: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    family.add(target, "blocks indented five hundred deep", indented, Want::RefusedWith("yaml"));
    family.add(target, "dashes ten thousand deep", "- ".repeat(10_000), Want::RefusedWith("yaml"));
    family.add(target, "questions ten thousand deep", "? ".repeat(10_000), Want::RefusedWith("yaml"));
    let nodes = format!("source: [{}]\n", "x, ".repeat(100_000));
    family.add(target, "a hundred thousand nodes", nodes, Want::RefusedWith("yaml"));
    family.add(target, "10 MB", format!("{VALID}# {}", "x".repeat(10 << 20)), Want::RefusedWith("file_too_large"));
    family.add(target, "a comment of 900 KB", format!("{VALID}# {}", "x".repeat(900_000)), Want::Nothing);
    family.add(target, "900 KB of line ends", format!("{VALID}{}", "\n".repeat(900_000)), Want::Nothing);
}

fn texts(family: &mut Family) {
    let target = Target::Definition;
    for (name, text) in [
        ("nothing", ""),
        ("null", "null\n"),
        ("a text", "demo"),
        ("a list", "- a\n- b\n"),
        ("a number", "1"),
        ("JSON with a mistake", "{\"source\": \"demo\",}"),
        ("HTML", "<html><body>Not found</body></html>"),
        ("a tab for indentation", "source:\n\tname: x\n"),
        ("an open text", "source: \"demo\n"),
        ("an open list", "source: [a, b\n"),
        ("an open block", "source: { a: b\n"),
        ("a stray bracket", "source: demo\n]\n"),
        ("two documents", "source: a\n---\nsource: b\n"),
        ("a key without a colon", "source demo\nname: x\n"),
        ("a directive nobody knows", "%FOO bar\n---\nsource: demo\n"),
        ("a version of the future", "%YAML 9.9\n---\nsource: demo\n"),
        ("a list as key", "? [a, b]\n: 1\n"),
        ("a block as key", "? { a: b }\n: 1\n"),
        ("a number as key", "1: 2\n"),
        ("a null key", "~: 2\n"),
        ("a flag as key", "true: 2\n"),
        ("a tag of a language", "source: !!python/object/apply:os.system [\"true\"]\n"),
        ("a tag nobody knows", "source: !evil demo\n"),
        ("a binary tag", "source: !!binary aGVsbG8=\n"),
        ("a wrong binary tag", "source: !!binary \"%%%\"\n"),
        ("a NUL", "source: a\0b\n"),
        ("a control character", "source: a\u{1}b\n"),
        ("an escaped NUL", "source: \"a\\0b\"\n"),
        ("half of a pair", "source: \"\\ud800\"\n"),
        ("an escape nobody knows", "source: \"\\q\"\n"),
        ("a next line", "source: a\u{85}name: b\n"),
        ("a line separator", "source: a\u{2028}name: b\n"),
        ("a key of the wrong case", "Source: demo\n"),
    ] {
        family.add(target, format!("the text is {name}"), text, Want::Refused);
    }
    family.add(target, "an unknown key of 900 KB", format!("? {}\n: 1\n", "k".repeat(900_000)), Want::Refused);
    let codes = VALID.replace("type: token", &format!("type: {}", "t".repeat(900_000)));
    family.add(target, "a code of 900 KB", codes, Want::RefusedWith("unknown_code"));
    let keys: String = (0..9_000).map(|n| format!("key{n}: 1\n")).collect();
    family.add(target, "nine thousand unknown keys", keys, Want::RefusedWith("unknown_key"));
    let paths: String = (0..9_000).map(|n| format!("      f{n}: \"$.[\"\n")).collect();
    let paths = VALID.replace("    fields: { title: \"$.title\" }\n", &format!("    fields:\n{paths}"));
    family.add(target, "nine thousand bad paths", paths, Want::RefusedWith("bad_path"));
    let wide: Vec<u8> = [0xfeff].into_iter().chain(VALID.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    family.add(target, "UTF-16", wide, Want::Refused);
    family.add(target, "a byte order mark", format!("\u{feff}{VALID}"), Want::Nothing);
    family.add(target, "line ends of Windows", VALID.replace('\n', "\r\n"), Want::Nothing);
    family.add(target, "line ends of old", VALID.replace('\n', "\r"), Want::Nothing);
}

/// One change of the valid definition and the code it must be refused with.
fn changes(family: &mut Family) {
    for (find, replacement, code) in [
        ("name: Demo", "name: Demo\nname: Twice", "duplicate_key"),
        ("name: Demo", "name: Demo\n\"name\": Twice", "duplicate_key"),
        ("name: Demo", "name: Demo\n\"n\\u0061me\": Twice", "duplicate_key"),
        ("size: 50,", "size: 50, size: 60,", "duplicate_key"),
        ("name: Demo", "name: Demo\n__proto__: { x: 1 }", "unknown_key"),
        ("size: 50", "size: 99999999999999999999", "wrong_type"),
        ("size: 50", "size: -1", "out_of_bounds"),
        ("size: 50", "size: 0", "out_of_bounds"),
        ("size: 50", "size: 1e400", "yaml"),
        ("size: 50", "size: .inf", "yaml"),
        ("size: 50", "size: .nan", "yaml"),
        ("size: 50", "size: 50.5", "wrong_type"),
        ("size: 50", "size: [50]", "wrong_type"),
        ("updated_since: true", "updated_since: on", "wrong_type"),
        ("https://demo.org", "\"javascript:alert(1)\"", "bad_url"),
        ("https://demo.org", "file:///etc/passwd", "bad_url"),
        ("https://demo.org", "https://user:pass@demo.org", "literal_secret"),
        ("https://demo.org", "http://169.254.169.254", "private_host"),
        ("${window.from}", "${env.HOME}", "bad_template"),
        ("${window.from}", "{% for x in y %}", "bad_template"),
        ("$.title", "$..[", "bad_path"),
        ("slice: PT6H", "slice: PT99999999999999999999H", "bad_span"),
        ("slice: PT6H", "slice: P1M", "bad_span"),
        ("slice: PT6H", "slice: -PT6H", "bad_span"),
        ("origin: 2020-01-01", "origin: 2020-02-30", "bad_time"),
        ("zone: UTC", "zone: ../../etc/passwd", "bad_zone"),
        ("  list:", "  \"list/../x\":", "bad_name"),
        ("source: demo", "source: \"demo; DROP TABLE\"", "bad_name"),
        ("source: demo", "source: ''", "bad_name"),
    ] {
        assert!(VALID.contains(find), "{find}");
        let text = VALID.replacen(find, replacement, 1);
        family.add(Target::Definition, format!("{replacement} instead of {find}"), text, Want::RefusedWith(code));
    }
    let huge = "(a{1000}){1000}){1000}";
    let rule =
        format!("    errors:\n      - {{ when: {{ status: 400, body: \"({huge}\" }}, then: retry }}\n    fields:");
    family.add(Target::Definition, "a pattern that grows", VALID.replace("    fields:", &rule), Want::Refused);
}
