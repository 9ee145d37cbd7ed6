//! No value leaves its quotes: whatever is asked for, the signs and operators around it stay those of a harmless value.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::rendering::{SOURCES, definition};
use crate::query::{Expr, Field, Query, Rules, Style, Term, Value, explain, render};

const NASTY: [&str; 22] = [
    "\"",
    "\\",
    "\\\"",
    "[ti]",
    "]",
    ") OR (",
    "(",
    " AND ",
    " NOT ",
    "*",
    "?",
    "${expr.q}",
    "{{7*7}}",
    ",type:book",
    "|",
    "!",
    "\n",
    "all[sb]",
    ":",
    "%22",
    "&api_key=x",
    "~2",
];

fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(&NASTY[..]).prop_map(str::to_owned),
        2 => "[a-zA-Z]{1,5}",
        1 => "\\PC{1,3}",
    ];
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

static RULES: LazyLock<Vec<(&str, Rules)>> =
    LazyLock::new(|| SOURCES.iter().map(|(source, _)| (*source, Rules::of(&definition(source)).0)).collect());

fn as_query(field: Field, value: &str) -> Option<Query> {
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    Query::parse(&format!("{field}:\"{quoted}\"")).ok()
}

/// Signs and capital letters outside of quotes: what a source could read as syntax.
fn skeleton(text: &str) -> String {
    assert!(text.matches('"').count().is_multiple_of(2), "{text}");
    let outside: String = text.split('"').step_by(2).collect();
    let syntax = |letter: &char| !matches!(letter, '-' | '\'' | '’' | '.' | ' ' | '\u{300}'..='\u{36f}');
    outside.chars().filter(|c| c.is_ascii_uppercase() || (syntax(c) && !c.is_alphanumeric())).collect()
}

fn sent(query: &Query, rules: &Rules) -> String {
    let rendered = render(query, rules);
    let terms: Vec<String> = rendered.terms.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}{}", rendered.q.unwrap_or_default(), terms.join("&"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn words_never_become_syntax(value in nasty()) {
        for (source, rules) in RULES.iter() {
            for field in [Field::Title, Field::TitleAbstract, Field::Author, Field::Affiliation, Field::Keyword] {
                let Some(query) = as_query(field, &value) else { continue };
                let Expr::Term(Term { value: Value::Text(text), .. }) = query.expr() else { unreachable!() };
                let count = crate::query::words::words(text).len();
                let harmless = as_query(field, &vec!["harmless"; count].join(" ")).unwrap();
                let (hostile, harmless) = (sent(&query, rules), sent(&harmless, rules));
                prop_assert_eq!(skeleton(&hostile), skeleton(&harmless), "{}: {}", source, hostile);
            }
        }
    }

    #[test]
    fn codes_and_identifiers_are_sent_as_they_are_or_not_at_all(value in nasty()) {
        for (source, rules) in RULES.iter() {
            let doi = format!("10.1000/{}", value.replace(char::is_whitespace, ""));
            for (field, value) in [(Field::Doi, &doi), (Field::Journal, &value), (Field::Mesh, &value)] {
                let Some(query) = as_query(field, value) else { continue };
                let Expr::Term(Term { value: Value::Text(text), .. }) = query.expr() else { unreachable!() };
                let sent = sent(&query, rules);
                if sent.is_empty() {
                    continue;
                }
                prop_assert!(sent.contains(text.as_str()), "{}: {}", source, sent);
                if rules.style == Style::Text {
                    let harmless = self::sent(&as_query(field, "10.1000/harmless").unwrap(), rules);
                    prop_assert_eq!(skeleton(&sent), skeleton(&harmless), "{}: {}", source, sent);
                } else if field == Field::Doi {
                    prop_assert!(!sent.contains([',', '|', '"']), "{}: {}", source, sent);
                }
            }
        }
    }
}

#[test]
fn a_value_is_no_template() {
    for (source, parameter) in
        [("crossref", "filter"), ("openalex", "filter"), ("datacite", "query"), ("pubmed", "term")]
    {
        let query = as_query(Field::Doi, "10.1000/${page.size}").unwrap();
        let sent = explain(&definition(source), &query).sent;
        let value = &sent.iter().find(|(name, _)| name == parameter).unwrap().1;
        assert!(value.contains("10.1000/${page.size}"), "{source}: {value}");
    }
}
