//! What PubMed and Europe PMC are sent, read back by parsers that know nothing of the writer, and compared with what
//! the query means on made-up records.
//!
//! PubMed has no order of operators: it reads from left to right. In what Europe PMC is sent, OR never stands beside
//! AND or NOT without parentheses, so that its order of operators does not matter; the reader insists on it.

use std::collections::BTreeMap;

use super::Card;
use super::rendering::{EXPRESSIONS, definition};
use crate::query::{Answer, Field, Query, Rules, eval, render};

type Test = Box<dyn Fn(&Card) -> bool>;

/// Words in small letters, parted by signs; apostrophes vanish.
fn plain(text: &str) -> Vec<String> {
    let joined: String = text.to_lowercase().chars().filter(|letter| !"'’".contains(*letter)).collect();
    joined.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).map(String::from).collect()
}

fn texts(card: &Card, field: Field) -> Vec<Vec<String>> {
    card.0.get(&field).into_iter().flatten().map(|text| plain(text)).collect()
}

fn phrase_in(card: &Card, field: Field, wanted: &[String]) -> bool {
    texts(card, field).iter().any(|text| (0..text.len()).any(|at| text[at..].starts_with(wanted)))
}

fn prefix_in(card: &Card, field: Field, start: &str) -> bool {
    texts(card, field).iter().flatten().any(|word| word.starts_with(start))
}

fn whole_in(card: &Card, field: Field, wanted: &[String]) -> bool {
    let bare = |words: &[String]| words.strip_prefix(&["the".to_owned()]).unwrap_or(words).to_vec();
    texts(card, field).iter().any(|text| bare(text) == bare(wanted))
}

fn name_in(card: &Card, wanted: &[String]) -> bool {
    let fits = |name: &Vec<String>| {
        let word =
            |w: &String| name.contains(w) || (w.len() == 1 && name.iter().any(|part| part.starts_with(w.as_str())));
        wanted.iter().all(word)
    };
    texts(card, Field::Author).iter().any(fits)
}

fn day_in(card: &Card, field: Field, from: &str, last: &str) -> bool {
    card.0.get(&field).into_iter().flatten().any(|day| from <= day.as_str() && day.as_str() <= last)
}

struct Reader<'a> {
    rest: &'a str,
    leaf: fn(&mut Reader<'a>) -> Test,
    /// OR may not stand beside other operators.
    strict: bool,
}

impl<'a> Reader<'a> {
    fn read(text: &'a str, leaf: fn(&mut Reader<'a>) -> Test, strict: bool) -> Test {
        let mut reader = Reader { rest: text, leaf, strict };
        let test = reader.sequence();
        assert_eq!(reader.rest, "", "of {text}");
        test
    }

    fn take(&mut self, word: &str) -> bool {
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn until(&mut self, end: char) -> &'a str {
        let (text, rest) = self.rest.split_once(end).unwrap_or_else(|| panic!("`{end}` is missing in {}", self.rest));
        self.rest = rest;
        text
    }

    fn sequence(&mut self) -> Test {
        let mut all = self.primary();
        let mut operators = Vec::new();
        loop {
            let operator = [" AND ", " OR ", " NOT "].into_iter().find(|operator| self.rest.starts_with(operator));
            let Some(operator) = operator else { break };
            self.take(operator);
            operators.push(operator);
            let (left, right) = (all, self.primary());
            all = match operator {
                " AND " => Box::new(move |card| left(card) && right(card)),
                " OR " => Box::new(move |card| left(card) || right(card)),
                _ => Box::new(move |card| left(card) && !right(card)),
            };
        }
        let mixed = operators.contains(&" OR ") && operators.iter().any(|operator| *operator != " OR ");
        assert!(!(self.strict && mixed), "{operators:?}");
        all
    }

    fn primary(&mut self) -> Test {
        if self.take("(") {
            let inner = self.sequence();
            assert!(self.take(")"), "{}", self.rest);
            return inner;
        }
        (self.leaf)(self)
    }
}

fn pubmed_leaf(reader: &mut Reader<'_>) -> Test {
    let quoted = reader.take("\"");
    let text = if quoted { reader.until('"') } else { reader.until('[') };
    if quoted {
        assert!(reader.take("["), "{}", reader.rest);
    }
    // Inside quotes PubMed reads no parentheses.
    assert!(quoted || !text.contains(['(', ')', '"', '[', ']']), "{text}");
    let tag = reader.until(']');
    let (wanted, raw) = (plain(text), text.to_lowercase());
    let days = raw.split_once(':').map(|(from, last)| (from.replace('/', "-"), last.replace('/', "-")));
    let field = match tag {
        "sb" => return Box::new(|_| true),
        "dp" | "mdat" => {
            let ((from, last), field) = (days.unwrap(), if tag == "dp" { Field::Published } else { Field::Updated });
            return Box::new(move |card| day_in(card, field, &from, &last));
        }
        "au" if raw.ends_with('*') => Field::Author,
        "au" => return Box::new(move |card| name_in(card, &wanted)),
        "ta" => {
            return Box::new(move |card| {
                whole_in(card, Field::Journal, &wanted) || whole_in(card, Field::Issn, &wanted)
            });
        }
        "aid" => return Box::new(move |card| whole_in(card, Field::Doi, &wanted)),
        "uid" => return Box::new(move |card| whole_in(card, Field::Pmid, &wanted)),
        "pt" => return Box::new(move |card| whole_in(card, Field::Type, &wanted)),
        "la" => return Box::new(move |card| whole_in(card, Field::Language, &wanted)),
        "mh:noexp" => return Box::new(move |card| whole_in(card, Field::Mesh, &wanted)),
        "auid" => return Box::new(move |card| whole_in(card, Field::Orcid, &wanted)),
        "ti" | "tiab" => Field::Title,
        "ad" => Field::Affiliation,
        "ot" => Field::Keyword,
        "gr" => Field::Funder,
        other => panic!("PubMed knows no [{other}]"),
    };
    let fields = if tag == "tiab" { vec![Field::Title, Field::Abstract] } else { vec![field] };
    match raw.strip_suffix('*').map(str::to_owned) {
        Some(start) if !quoted => {
            assert!(start.chars().count() >= 4, "PubMed does not truncate `{start}`");
            Box::new(move |card| fields.iter().any(|field| prefix_in(card, *field, &start)))
        }
        _ => Box::new(move |card| fields.iter().any(|field| phrase_in(card, *field, &wanted))),
    }
}

fn europepmc_leaf(reader: &mut Reader<'_>) -> Test {
    let name = reader.until(':');
    if name == "SRC" {
        assert!(reader.take("MED"));
        return Box::new(|_| true);
    }
    if reader.take("[") {
        let (from, last) = reader.until(']').split_once(" TO ").unwrap();
        let (from, last) = (from.to_owned(), last.to_owned());
        let field = if name == "FIRST_PDATE" { Field::Published } else { Field::Updated };
        return Box::new(move |card| day_in(card, field, &from, &last));
    }
    let (text, quoted) = if reader.take("\"") {
        (reader.until('"'), true)
    } else {
        let end = reader.rest.find([' ', ')']).unwrap_or(reader.rest.len());
        let (word, rest) = reader.rest.split_at(end);
        assert!(word.trim_end_matches('*').chars().all(char::is_alphanumeric), "{word}");
        reader.rest = rest;
        (word, false)
    };
    let wanted = plain(text);
    let whole = |field: Field| -> Test {
        let wanted = plain(text);
        Box::new(move |card: &Card| whole_in(card, field, &wanted))
    };
    let fields = match name {
        "TITLE" => vec![Field::Title],
        "ABSTRACT" => vec![Field::Abstract],
        "AUTH" => vec![Field::Author],
        "AFF" => vec![Field::Affiliation],
        "KW" => vec![Field::Keyword, Field::Mesh],
        "GRANT_AGENCY" => vec![Field::Funder],
        "JOURNAL" => return whole(Field::Journal),
        "ISSN" => return whole(Field::Issn),
        "DOI" => return whole(Field::Doi),
        "EXT_ID" => return whole(Field::Pmid),
        "PUB_TYPE" => return whole(Field::Type),
        "LANG" => return whole(Field::Language),
        "AUTHORID" => return whole(Field::Orcid),
        other => panic!("Europe PMC knows no {other}"),
    };
    match text.strip_suffix('*').map(str::to_owned) {
        Some(start) if !quoted => Box::new(move |card| fields.iter().any(|field| prefix_in(card, *field, &start))),
        _ => Box::new(move |card| fields.iter().any(|field| phrase_in(card, *field, &wanted))),
    }
}

/// Values that the expressions ask for, and others.
#[rustfmt::skip]
const POOLS: [(Field, &[&str]); 16] = [
    (Field::Title, &["heart", "failure", "heart failure", "lung", "disease", "cardiology", "mouse", "asthma", "attack", "covid-19", "the rise and fall", "protocol", "kidney", "liver", "β-blocker", "cardiac arrest"]),
    (Field::Abstract, &["heart", "failure", "lung disease", "mouse", "animal model", "cardiology", "brain", "heart failure", "kidney"]),
    (Field::Author, &["smith john", "smith jane", "li wei", "garcía ana", "müller eva", "doe mary"]),
    (Field::Affiliation, &["karolinska institutet", "university of oxford", "cambridge", "eth"]),
    (Field::Journal, &["Nature", "The Lancet", "Annals of Medicine, Surgery", "Cell"]),
    (Field::Issn, &["0140-6736", "1234-567X", "9999-9999"]),
    (Field::Doi, &["10.1000/182", "10.1016/s0140-6736(20)30183-5", "10.1000/1", "10.1000/2", "10.1000/a,b", "10.1000/zzz"]),
    (Field::Pmid, &["31452104", "1", "2", "7"]),
    (Field::Type, &["review", "article", "trial", "preprint", "editorial", "randomized controlled trial"]),
    (Field::Language, &["en", "fr", "de", "tlh"]),
    (Field::Mesh, &["asthma", "heart failure", "child", "mice"]),
    (Field::Keyword, &["sepsis", "blood pressure", "asthma", "other"]),
    (Field::Funder, &["wellcome trust", "national institutes of health", "nobody"]),
    (Field::Orcid, &["0000-0002-1825-0097", "0000-0002-1694-233X", "0000-0001-0000-0000"]),
    (Field::Published, &["2018-02-03", "2019-12-31", "2020-01-01", "2020-03-20", "2020-05-17", "2020-06-15", "2020-12-31", "2021-01-01"]),
    (Field::Updated, &["2023-12-31", "2024-01-01", "2024-01-31", "2024-02-01", "2025-05-05"]),
];

/// The same numbers at every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A record that shows every field, in the words of the source.
fn card(dice: &mut Dice, rules: &Rules) -> Card {
    let mut fields = BTreeMap::new();
    for (field, pool) in POOLS {
        let count = match field {
            Field::Title | Field::Abstract => 1 + dice.below(4),
            Field::Author | Field::Mesh | Field::Keyword | Field::Type => 1 + dice.below(2),
            _ => 1,
        };
        let values: Vec<String> = (0..count).map(|_| pool[dice.below(pool.len())].to_owned()).collect();
        let own = |value: &String| rules.code(field, value).unwrap_or(value).to_owned();
        let values = match field {
            Field::Title | Field::Abstract => vec![values.join(" ")],
            Field::Type | Field::Language => values.iter().map(own).collect(),
            _ => values,
        };
        fields.insert(field, values);
    }
    Card(fields)
}

/// Compares every query that the source takes on made-up records; how many it says exactly, and how often they matched.
fn compare(source: &str, read: fn(&str) -> Test) -> (usize, usize) {
    let (rules, _) = Rules::of(&definition(source));
    let (mut exact, mut matches, mut dice) = (0, 0, Dice(7));
    for text in EXPRESSIONS.lines() {
        let query = Query::parse(text).unwrap();
        let rendered = render(&query, &rules);
        let Some(sent) = &rendered.q else { continue };
        let test = read(sent);
        exact += usize::from(rendered.filter.is_none());
        for _ in 0..600 {
            let card = card(&mut dice, &rules);
            let meant = eval(query.expr(), &card, &rules.codes) == Answer::Yes;
            let kept = rendered.filter.as_ref().is_none_or(|filter| eval(filter, &card, &rules.codes) == Answer::Yes);
            let found = test(&card);
            matches += usize::from(meant);
            assert!(found || !meant, "{source} misses {card:?} for {text}: {sent}");
            assert_eq!(found && kept, meant, "{source} on {card:?} for {text}: {sent}, filter {:?}", rendered.filter);
        }
    }
    (exact, matches)
}

#[test]
fn what_pubmed_is_sent_means_what_was_asked() {
    let (exact, matches) = compare("pubmed", |text| Reader::read(text, pubmed_leaf, false));
    assert!(exact >= 100 && matches > 5_000, "{exact} queries, {matches} matches");
}

#[test]
fn what_europe_pmc_is_sent_means_what_was_asked() {
    let (exact, matches) = compare("europepmc", |text| Reader::read(text, europepmc_leaf, true));
    assert!(exact >= 100 && matches > 5_000, "{exact} queries, {matches} matches");
}
