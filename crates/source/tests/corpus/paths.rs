//! Paths of definitions: what is too long, too deep or not of the grammar is refused, the rest finds its value.

use super::targets::Target;
use super::{Family, Want, is};

pub fn build(family: &mut Family) {
    for (name, text) in [
        ("nothing", ""),
        ("blanks", "  "),
        ("no dollar", "a.b"),
        ("two dollars", "$$"),
        ("an open bracket", "$["),
        ("an open text", "$['a"),
        ("an open filter", "$[?"),
        ("a dot at the end", "$."),
        ("three dots", "$...a"),
        ("a leading blank inside", "$ .a b"),
        ("an index that is too large", "$[9007199254740993]"),
        ("an index of many digits", "$[99999999999999999999]"),
        ("minus zero", "$[-0]"),
        ("a leading zero", "$[01]"),
        ("a function nobody knows", "$[?evil(@.a)]"),
        ("a filter that is no test", "$[?@.a=]"),
        ("a script", "$[(@.length-1)]"),
        ("half of a pair", r#"$["\ud800"]"#),
        ("a NUL", "$.a\0"),
        ("a pipe without a name", "$.a |"),
        ("a pipe nobody knows", "$.a | shout"),
        ("a pipe with an open argument", "$.a | join('"),
        ("a pipe without its bracket", "$.a | join(';'"),
        ("a pipe without quotes", "$.a | join(;)"),
        ("an alternative that is missing", "$.a || "),
        ("only alternatives", "||||"),
        ("an XPath", "/a/b"),
        ("a colon", "$.a:b"),
    ] {
        family.add(Target::JsonPath, format!("JSON path: {name}"), text, Want::Refused);
    }
    for (name, text, want) in [
        ("a name", "$.value", is("1.5")),
        ("an empty name", "$['']['*'][0]", is("0")),
        ("a wildcard in quotes", "$['']['*']", is("[0]")),
        ("a wildcard", "$.items[*].id", is("[\"1\",2]")),
        ("a wildcard of names", "$.b.*", is("[{\"a\":{\"a\":1}}]")),
        ("a filter", "$.a[?@.type=='doi'].c", is("[\"x\"]")),
        ("a negative index", "$.a[-1]", is("4")),
        ("descendants", "$..id", is("[\"1\",2]")),
        ("a slice that counts down", "$.a[::-1]", Want::Accepted),
        ("a slice with step 0", "$.a[::0]", Want::Nothing),
        ("a slice of large numbers", "$.a[-9007199254740991:9007199254740991:1]", Want::Accepted),
        ("an alternative", "$.none || $.value", is("1.5")),
        ("an alternative in quotes", "$['a || b'] || $.value", is("1.5")),
        ("a pipe", "$.items[*].id | join('|')", is("\"1|2\"")),
        ("a bar in a filter", "$.a[?@.type=='x' || @.type=='doi'].c", is("[\"x\"]")),
        ("a name that is not there", "$.a.b.c.d.e", Want::Nothing),
        ("a pattern", "$.a[?match(@.c, 'x')].c", is("[\"x\"]")),
        ("a pattern that is none", "$.a[?match(@.c, '(')].c", Want::Nothing),
        ("a pattern that grows", "$.a[?search(@.c, '(((x{1000}){1000}){1000})')].c", Want::Nothing),
        ("a pattern that is slow elsewhere", "$.a[?search(@.c, '(x|x)*y')].c", Want::Nothing),
    ] {
        family.add(Target::JsonPath, format!("JSON path: {name}"), text, want);
    }
    for (name, text) in [
        ("longer than 4096 bytes", format!("${}", ".a".repeat(2_100))),
        ("a thousand filters", format!("$.a{}", "[?@.a".repeat(700))),
        ("a thousand brackets", format!("$[?{}@.a{}]", "(".repeat(1_500), ")".repeat(1_500))),
        ("a thousand nots", format!("$[?{}@.a]", "!(".repeat(1_500))),
        ("a hundred alternatives", ["$.a"; 100].join(" || ")),
        ("a hundred pipes", format!("$.a{}", " | trim".repeat(100))),
    ] {
        family.add(Target::JsonPath, format!("JSON path: {name}"), text, Want::Refused);
    }
    let descents = format!("$..[?{}]", ["$..*"; 12].join(" || "));
    family.add(Target::JsonPath, "JSON path: descents in descents", descents, Want::Refused);
    let descents = format!("${}", "..*".repeat(6));
    family.add(Target::JsonPath, "JSON path: descents of descents", descents, Want::Refused);
    let descents = format!("${}", "..*".repeat(40));
    family.add(Target::JsonPath, "JSON path: forty descents of descents", descents, Want::Refused);
    let selectors = format!("$[{}]", vec!["*"; 1_000].join(","));
    family.add(Target::JsonPath, "JSON path: a thousand wildcards in one step", selectors, Want::Refused);
    let selectors = format!("${}", format!("[{}]", ["*"; 20].join(",")).repeat(6));
    family.add(Target::JsonPath, "JSON path: twenty wildcards in each of six steps", selectors, Want::Refused);
    xml(family);
}

fn xml(family: &mut Family) {
    for (name, text) in [
        ("nothing", ""),
        ("a slash", "/"),
        ("descendants", "//a"),
        ("a parent", "../a"),
        ("a slash at the end", "a/"),
        ("an attribute in the middle", "@a/b"),
        ("two attributes", "@a/@b"),
        ("an index", "a[1]"),
        ("an open predicate", "a[@t='doi'"),
        ("a predicate without quotes", "a[@t=doi]"),
        ("a predicate of an element", "a[b='x']"),
        ("two predicates", "a[@t='x'][@q='y']"),
        ("a quote in a predicate", "a[@t='it''s']"),
        ("a function", "text()"),
        ("an axis", "child::a"),
        ("two colons", "p:a:b"),
        ("a prefix nobody declared", "nobody:a"),
        ("a name that begins with a digit", "1a"),
        ("a NUL", "a\0b"),
        ("a dot in the middle", "a/./b"),
        ("a variable", "$x"),
    ] {
        family.add(Target::XmlPath, format!("XML path: {name}"), text, Want::Refused);
    }
    for (name, text, want) in [
        ("a name", "a/b", is("[\"u\",\"\"]")),
        ("an attribute", "@x", is("\"1\"")),
        ("an absolute path", "/set/a/@t", is("\"doi\"")),
        ("a predicate", "a[@t='doi']", is("\"tu\"")),
        ("a predicate of presence", "a[@t]/b", is("\"u\"")),
        ("a namespace", "p:a", is("\"v\"")),
        ("an attribute in a namespace", "a/@p:q", is("\"2\"")),
        ("wildcards", "*/*", is("[\"u\",\"\"]")),
        ("itself", ".", is("\"tuv\"")),
        ("a slash in a predicate", "a[@t='a/b']", Want::Nothing),
        ("a bar in a predicate", "a[@t='a|b'] || @x", is("\"1\"")),
    ] {
        family.add(Target::XmlPath, format!("XML path: {name}"), text, want);
    }
    family.add(Target::XmlPath, "XML path: a hundred steps", ["a"; 100].join("/"), Want::Refused);
    family.add(Target::XmlPath, "XML path: sixty-four steps", ["*"; 64].join("/"), Want::Nothing);
    family.add(Target::XmlPath, "XML path: longer than 4096 bytes", "a".repeat(4097), Want::Refused);
}
