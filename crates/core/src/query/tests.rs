//! Laws of the language: what is written reads back, the normal form keeps the meaning, mistakes are named where they are.

mod hostile;
mod reading;
mod rendering;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A record as its fields.
#[derive(Clone, Debug, Default)]
pub struct Card(pub BTreeMap<Field, Vec<String>>);

impl Facts for Card {
    fn values(&self, field: Field) -> Option<Vec<String>> {
        self.0.get(&field).cloned()
    }
}

const WORDS: [&str; 8] = ["heart", "failure", "cardiology", "cardiac", "asthma", "o'brien", "covid-19", "β"];
const NAMES: [&str; 4] = ["smith", "müller", "garcía", "li"];

pub fn word() -> impl Strategy<Value = String> {
    prop::sample::select(&WORDS[..]).prop_map(str::to_owned)
}

fn phrase() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 1..3).prop_map(|words| words.join(" "))
}

fn day() -> impl Strategy<Value = String> {
    (2018i16..2023, 1i8..13, 1i8..29, 0u8..3).prop_map(|(year, month, day, precision)| match precision {
        0 => format!("{year}"),
        1 => format!("{year}-{month:02}"),
        _ => format!("{year}-{month:02}-{day:02}"),
    })
}

/// Any value of a field, as text of the language.
fn value(field: Field) -> BoxedStrategy<String> {
    match (field.kind(), field) {
        (Kind::Text, _) => prop_oneof![
            word(),
            phrase().prop_map(|text| format!("\"{text}\"")),
            prop::sample::select(&["card*", "fail*", "as*"][..]).prop_map(str::to_owned),
        ]
        .boxed(),
        (Kind::Name, _) => prop::sample::select(&NAMES[..]).prop_map(str::to_owned).boxed(),
        (Kind::Code, Field::Language) => prop::sample::select(&["en", "fr", "de"][..]).prop_map(str::to_owned).boxed(),
        (Kind::Code, Field::Type) => {
            prop::sample::select(&["review", "article", "trial"][..]).prop_map(str::to_owned).boxed()
        }
        (Kind::Code, _) => prop::sample::select(&["asthma", "\"heart failure\""][..]).prop_map(str::to_owned).boxed(),
        (Kind::Id, Field::Doi) => (1u8..4).prop_map(|n| format!("10.1000/{n}")).boxed(),
        (Kind::Id, Field::Pmid) => (1u8..4).prop_map(|n| n.to_string()).boxed(),
        (Kind::Id, Field::Issn) => (1u8..4).prop_map(|n| format!("0140-673{n}")).boxed(),
        (Kind::Id, _) => (1u8..4).prop_map(|n| format!("0000-0002-1825-009{n}")).boxed(),
        (Kind::Day, _) => prop_oneof![
            day(),
            (2018i16..2020, 2020i16..2023, prop::bool::ANY).prop_map(|(from, to, closed)| format!(
                "[{from}-03-01 TO {to}-02-01{}",
                if closed { ']' } else { ')' }
            )),
            (2018i16..2023).prop_map(|from| format!("[{from} TO *]")),
        ]
        .boxed(),
    }
}

pub fn any_field() -> impl Strategy<Value = Field> {
    prop::sample::select(Field::all().collect::<Vec<_>>())
}

/// Any query as a person could write it.
pub fn text() -> impl Strategy<Value = String> {
    let term = any_field().prop_flat_map(|field| value(field).prop_map(move |value| format!("{field}:{value}")));
    let leaf = prop_oneof![4 => term, 1 => word()];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| format!("NOT ({part})")),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            prop::collection::vec(inner, 2..3).prop_map(|parts| format!("({})", parts.join(" "))),
        ]
    })
}

/// Any record; fields may be absent.
pub fn card() -> impl Strategy<Value = Card> {
    let held = |field: Field| {
        let values = match field.kind() {
            Kind::Text => prop::collection::vec(word(), 1..5).prop_map(|words| vec![words.join(" ")]).boxed(),
            Kind::Name => prop::collection::vec(prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1..3).boxed(),
            Kind::Day => day().prop_map(|day| vec![day]).boxed(),
            _ => value(field).prop_map(|value| vec![value.replace('"', "")]).boxed(),
        };
        prop::option::weighted(0.8, values)
    };
    let fields: Vec<_> = Field::all().filter(|field| *field != Field::TitleAbstract).map(held).collect();
    fields.prop_map(|values| {
        let named = Field::all().filter(|field| *field != Field::TitleAbstract).zip(values);
        Card(named.filter_map(|(field, values)| Some((field, values?))).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_normal_form_is_idempotent_and_reads_back_from_its_text(text in text()) {
        let query = Query::parse(&text).unwrap();
        prop_assert_eq!(&Query::of(query.expr().clone()), &query);
        prop_assert_eq!(&Query::parse(&query.to_string()).unwrap(), &query);
        let written = parse(&text).unwrap();
        prop_assert_eq!(parse(&written.to_string()).unwrap(), written);
    }

    #[test]
    fn the_normal_form_keeps_the_meaning(text in text(), card in card()) {
        let written = parse(&text).unwrap();
        let codes = Codes::new();
        prop_assert_eq!(eval(&written, &card, &codes), eval(&normal(written.clone()), &card, &codes));
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place_inside_it(text in "\\PC{0,60}") {
        match Query::parse(&text) {
            Ok(query) => prop_assert_eq!(Query::parse(&query.to_string()).unwrap(), query),
            Err(error) => {
                prop_assert!(error.at.end <= text.len() && text.is_char_boundary(error.at.start));
                prop_assert!(error.to_string().contains('^'));
            }
        }
    }
}

#[test]
fn queries_that_mean_the_same_have_the_same_text() {
    for (written, same, canonical) in [
        ("heart", "tiab:HEART", "title_abstract:heart"),
        ("ti:\"Heart  Failure\"", "title:\"heart failure\"", "title:\"heart failure\""),
        ("type:(review OR trial)", "pt:[Trial, Review]", "type:review OR type:trial"),
        ("a b", "b AND a", "title_abstract:a AND title_abstract:b"),
        ("NOT (ti:a OR NOT ti:b)", "ti:b NOT ti:a", "title:b AND NOT title:a"),
        ("published:2020", "dp:[2020-01-01 TO 2020-12-31]", "published:[2020-01-01 TO 2021-01-01)"),
        ("published:(2019 TO 2020]", "published:2020", "published:[2020-01-01 TO 2021-01-01)"),
        ("doi:https://doi.org/10.1000/AB", "doi:10.1000/ab", "doi:10.1000/ab"),
        ("issn:0140673x", "issn:0140-673X", "issn:0140-673X"),
        ("ti:(a AND (b OR c)) ti:a", "ti:a (ti:c OR ti:b)", "title:a AND (title:b OR title:c)"),
    ] {
        let query = Query::parse(written).unwrap();
        assert_eq!(query.to_string(), canonical);
        assert_eq!(Query::parse(same).unwrap(), query, "{same}");
    }
}

#[test]
fn the_example_of_the_design_is_read_as_it_is_meant() {
    let text = "title_abstract:\"heart failure\" AND (type:review OR type:trial) NOT language:fr AND \
                published:[2020-01-01 TO 2021-01-01)";
    let query = Query::parse(text).unwrap();
    let want = "title_abstract:\"heart failure\" AND published:[2020-01-01 TO 2021-01-01) AND NOT language:fr AND \
                (type:review OR type:trial)";
    assert_eq!(query.to_string(), want);
}

#[test]
fn a_record_that_does_not_say_is_not_decided() {
    let mapped = |fields: &str, text: &str| {
        let query = Query::parse(text).unwrap();
        eval(query.expr(), &Mapped::read(fields), &Codes::new())
    };
    let record = r#"{"title":"Heart <i>failure</i> in rats","authors":[{"family":"O'Brien","given":"Ann Mary"}],
        "published":"2020-05","issn":null,"journal":"The Lancet","language":"en","doi":"10.1000/AB","year":2020}"#;
    for (text, want) in [
        ("ti:\"heart failure\"", Answer::No),
        ("ti:\"failure i in rats\"", Answer::Yes),
        ("heart", Answer::Yes),
        ("lung", Answer::Unknown),
        ("NOT lung", Answer::Unknown),
        ("au:\"o'brien am\"", Answer::Yes),
        ("au:obrien", Answer::Yes),
        ("au:\"obrien z\"", Answer::No),
        ("issn:0140-6736", Answer::Unknown),
        ("published:2020", Answer::Yes),
        ("published:[2020-05-10 TO *]", Answer::Unknown),
        ("published:2021", Answer::No),
        ("doi:10.1000/ab", Answer::Yes),
        ("journal:lancet", Answer::Yes),
        ("lung language:fr", Answer::No),
        ("lung OR language:en", Answer::Yes),
    ] {
        assert_eq!(mapped(record, text), want, "{text}");
    }
    assert_eq!(mapped("nonsense", "heart"), Answer::Unknown);
}

/// Wrong queries; `«` marks where the mistake must be named.
#[rustfmt::skip]
const MISTAKES: &[(&str, &str)] = &[
    ("«", "the query is empty"),
    ("«titel:heart", "did you mean `title`?"),
    ("ti:heart AND «", "ends too early"),
    ("ti:heart OR «)", "where a condition should stand"),
    ("«(ti:heart AND ti:failure", "never closed"),
    ("ti:heart «)", "closes nothing"),
    ("ti:«\"heart failure", "never closed"),
    ("ti:«", "has no value"),
    ("ti:heart «and ti:failure", "write AND"),
    ("ti:«he*rt", "only at the end"),
    ("ti:«blood-press*", "a prefix is one word"),
    ("doi:«10.1000*", "beginning of a word"),
    ("ti:«\"--\"", "no word in it"),
    ("doi:«11.1000/1", "is not a DOI"),
    ("pmid:«12a", "is not a PMID"),
    ("issn:«1234", "is not an ISSN"),
    ("orcid:«1234", "is not an ORCID"),
    ("published:«2020-13", "is not a day"),
    ("published:[2020 TO «", "lacks an end"),
    ("published:[2020 TO 2021«", "not closed"),
    ("published:«[2021 TO 2020]", "no day lies in this range"),
    ("published:«[* TO *]", "says nothing"),
    ("published:[«yesterday TO *]", "is not a day"),
    ("ti:«[a TO b]", "has no ranges"),
    ("type:(review OR «ti:heart)", "inside the list of `type`"),
    ("type:[review «trial]", "goes on strangely"),
    ("type:[review, «]", "lacks a value"),
    ("heart«, failure", "does not fit here"),
    ("ti:heart «{x}", "means nothing here"),
    ("ti:heart\nAND lang:«", "query:2:10"),
    ("«http://example.org", "no field `http`"),
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    let mut all = String::new();
    for (marked, want) in MISTAKES {
        let (text, at) = (marked.replace('«', ""), marked.find('«').unwrap());
        let error = Query::parse(&text).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(want), "{text}: {shown}");
        assert_eq!(error.at.start, at, "{text}: {shown}");
        all.push_str(&format!("{shown}\n\n"));
    }
    insta::assert_snapshot!("query_mistakes", all);
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Query::parse(&deep(DEPTH_MAX)).is_ok());
    assert!(Query::parse(&deep(DEPTH_MAX + 1)).unwrap_err().message.contains("inside each other"));
    assert!(Query::parse(&"NOT ".repeat(5_000)).is_err());
    assert!(Query::parse(&"a ".repeat(TERMS_MAX)).is_ok());
    assert!(Query::parse(&"a ".repeat(TERMS_MAX + 1)).unwrap_err().message.contains("conditions"));
    assert!(Query::parse(&"x".repeat(TEXT_BYTES_MAX + 1)).unwrap_err().message.contains("bytes"));
    let long = format!("{} titel:x {}", "a ".repeat(200), "b ".repeat(200));
    let shown = Query::parse(&long).unwrap_err().to_string();
    assert!(shown.lines().all(|line| line.chars().count() < 400), "{shown}");
}
