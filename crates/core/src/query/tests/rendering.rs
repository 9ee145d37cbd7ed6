//! 120 queries written for six sources, as snapshots.

use crate::query::{Explanation, Field, Query, Rules, Verdict, abilities, explain};
use crate::registry::{Definition, decode};

/// One query a line.
pub const EXPRESSIONS: &str = include_str!("expressions.txt");

pub const SOURCES: [(&str, &str); 6] = [
    ("pubmed", include_str!("../../../../../sources/pubmed.yaml")),
    ("europepmc", include_str!("../../../../../sources/europepmc.yaml")),
    ("crossref", include_str!("../../../../../sources/crossref.yaml")),
    ("openalex", include_str!("../../../../../sources/openalex.yaml")),
    ("datacite", include_str!("../../../../../sources/datacite.yaml")),
    ("arxiv-api", include_str!("../../../../../sources/arxiv-api.yaml")),
];

pub fn definition(source: &str) -> Definition {
    let (_, text) = SOURCES.iter().find(|(name, _)| *name == source).unwrap();
    let definition = decode(&format!("{source}.yaml"), text).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    assert_eq!(Rules::of(&definition).1, Vec::new(), "{source}");
    definition
}

/// One line: verdict, what is sent, what is filtered.
fn line(explanation: &Explanation) -> String {
    let sent: Vec<String> = explanation.sent.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match explanation.verdict {
        Verdict::Exact => sent.join(" & "),
        Verdict::Filtered => {
            format!("{} | {}", sent.join(" & "), explanation.filter.as_deref().unwrap_or_default())
        }
        Verdict::Refused => format!("REFUSED {}", explanation.reason.as_deref().unwrap_or_default()),
    }
}

#[test]
fn each_source_writes_the_queries_as_it_did() {
    assert_eq!(EXPRESSIONS.lines().count(), 120);
    for (source, _) in SOURCES {
        let definition = definition(source);
        let mut rows = String::new();
        for (number, text) in EXPRESSIONS.lines().enumerate() {
            let query = Query::parse(text).unwrap_or_else(|error| panic!("{error}"));
            rows.push_str(&format!("{:>3} {text}\n    {}\n", number + 1, line(&explain(&definition, &query))));
        }
        insta::assert_snapshot!(format!("queries_{source}"), rows);
    }
}

#[test]
fn a_definition_with_rules_comes_back_from_its_rows() {
    for (source, _) in SOURCES {
        let written = definition(source);
        let rows = crate::registry::to_rows(&written);
        assert_eq!(crate::registry::from_rows(source, &rows).unwrap(), written, "{source}");
    }
}

#[test]
fn what_is_left_out_is_named_with_its_reason() {
    let query = Query::parse("title:\"heart failure\" AND NOT language:fr AND type:article").unwrap();
    let explanation = explain(&definition("datacite"), &query);
    assert_eq!((explanation.verdict, explanation.filter), (Verdict::Exact, None));
    let query = Query::parse("title:heart AND type:review").unwrap();
    let explanation = explain(&definition("crossref"), &query);
    assert_eq!(explanation.verdict, Verdict::Refused);
    assert!(explanation.lacks.iter().any(|lack| lack.reason.contains("no type `review`")), "{explanation:?}");
}

/// The table of the documentation.
fn table() -> String {
    let mut rows: Vec<Vec<String>> = vec![vec!["Field".into()]];
    rows.extend(Field::all().map(|field| vec![format!("`{field}`")]));
    for (source, _) in SOURCES {
        rows[0].push(source.to_owned());
        let able = abilities(&Rules::of(&definition(source)).0);
        for (row, ability) in rows[1..].iter_mut().zip(able.into_values()) {
            row.push(ability);
        }
    }
    rows.insert(1, vec!["---".into(); SOURCES.len() + 1]);
    rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect()
}

#[test]
fn the_document_says_what_each_source_can_do_and_its_examples_are_read() {
    let document = include_str!("../../../../../docs/query-language.md");
    assert!(document.contains(&table()), "write it anew:\n{}", table());
    for field in Field::all() {
        let shorts: Vec<String> = field.aliases().iter().map(|alias| format!("`{alias}`")).collect();
        let row = format!("| `{field}` | {} |", shorts.join(", ")).replace("|  |", "| |");
        assert!(document.contains(&row), "{row}");
    }
    let forms =
        document.lines().skip_while(|line| !line.starts_with("| Form")).take_while(|line| line.starts_with('|'));
    let mut read = 0;
    for form in forms.skip(2) {
        let written = form.split('|').nth(1).unwrap();
        for text in written.split('`').skip(1).step_by(2).filter(|text| !text.contains("...")) {
            Query::parse(text).unwrap_or_else(|error| panic!("{error}"));
            read += 1;
        }
    }
    assert!(read >= 15, "{read} examples");
    let error = Query::parse("title:heart AND titel:failure").unwrap_err();
    assert!(document.contains(&error.to_string()), "{error}");
}
