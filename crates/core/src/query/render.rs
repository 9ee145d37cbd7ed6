//! A query in a source's own words, and what of it the source cannot say.
//!
//! What a source cannot say is left out only where leaving it out finds more, never less: a condition that must hold is
//! dropped, an alternative takes its whole group with it, and an exclusion is written only where the source excludes
//! exactly. Conditions that were not said exactly become the filter. A value of words holds letters, digits and a few
//! harmless signs when it is written, and identifiers with signs that the source forbids are not written at all, so no
//! value can leave its quotes.

use std::collections::{BTreeMap, BTreeSet};

use super::Query;
use super::ast::{Expr, Term, Value};
use super::eval::Codes;
use super::field::{Field, Kind};
use super::rules::{Rule, Rules, Style};
use super::words::words;

/// What is sent for a query, and what is left to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text for `expr.q`; `None` where nothing of the query can be said in it.
    pub q: Option<String>,
    /// Values by parameter.
    pub terms: BTreeMap<String, String>,
    /// What records must still be asked, because the source finds more.
    pub filter: Option<Expr>,
    pub lacks: Vec<Lack>,
}

/// A condition that a source cannot express as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Lack {
    pub condition: String,
    pub reason: String,
}

/// Words that a source may take for operators, whatever their case.
const RESERVED: [&str; 6] = ["and", "or", "not", "andnot", "to", "near"];

pub fn render(query: &Query, rules: &Rules) -> Rendered {
    let mut writer = Writer { rules, lacks: BTreeSet::new(), seen: BTreeSet::new() };
    let mut rendered = Rendered::default();
    let mut left = Vec::new();
    let mut said = Vec::new();
    for clause in query.expr().clauses() {
        let (written, exact) = match rules.style {
            Style::Text => writer.clause(clause),
            Style::Params => writer.condition(clause, &mut rendered.terms),
        };
        said.extend(written);
        if !exact {
            left.push(clause.clone());
        }
    }
    if rules.style == Style::Text {
        rendered.q = writer.conjunction(said);
        // Where exclusions alone cannot be written, they are ours after all.
        if rendered.q.is_none() {
            left = query.expr().clauses().to_vec();
        }
    }
    rendered.filter = match left.len() {
        0 => None,
        1 => left.pop(),
        _ => Some(Expr::And(left)),
    };
    rendered.lacks = writer.lacks.into_iter().collect();
    rendered
}

/// Fields that a filter asks of records and `mapped` records do not have, or that the source refuses.
pub fn undecidable(filter: &Expr, rules: &Rules, mapped: &BTreeSet<Field>) -> BTreeSet<Field> {
    let decided = |term: &&&Term| {
        let known = match &term.value {
            Value::Text(text) if term.field.kind() == Kind::Code => rules.code(term.field, text).is_some(),
            _ => true,
        };
        known && !rules.refused.contains(&term.field) && mapped.contains(&term.field)
    };
    filter.terms().iter().filter(|term| !decided(term)).map(|term| term.field).collect()
}

/// The source's words for codes that a filter compares.
pub fn codes_of(filter: &Expr, rules: &Rules) -> Codes {
    let used: BTreeSet<Field> = filter.terms().iter().map(|term| term.field).collect();
    rules.codes.iter().filter(|(field, _)| used.contains(field)).map(|(field, codes)| (*field, codes.clone())).collect()
}

/// A written condition; `excluded`: records that meet it are left out.
struct Said {
    text: String,
    excluded: bool,
}

/// A term as the source reads it.
enum Written {
    Exact(String),
    /// Finds more than asked, and why.
    Wider(String, String),
    Not(String),
}

struct Writer<'a> {
    rules: &'a Rules,
    lacks: BTreeSet<Lack>,
    /// Fields that a condition was written for.
    seen: BTreeSet<Field>,
}

impl Writer<'_> {
    fn lack(&mut self, condition: &impl ToString, reason: impl Into<String>) {
        self.lacks.insert(Lack { condition: condition.to_string(), reason: reason.into() });
    }

    /// One of the conditions that must all hold, as text.
    fn clause(&mut self, expr: &Expr) -> (Option<Said>, bool) {
        if let Some(reason) = self.twice(expr) {
            self.lack(expr, reason);
            return (None, false);
        }
        self.said(expr)
    }

    /// A field that may stand in one condition only and has been used.
    fn twice(&mut self, expr: &Expr) -> Option<String> {
        for field in expr.terms().iter().map(|term| term.field).collect::<BTreeSet<_>>() {
            let once = self.rules.fields.get(&field).is_some_and(|rule| !rule.unsupported && !rule.can("AND"));
            if !self.seen.insert(field) && once {
                return Some(format!("only one condition on `{field}` can be sent"));
            }
        }
        None
    }

    fn said(&mut self, expr: &Expr) -> (Option<Said>, bool) {
        match expr {
            Expr::Term(term) => match self.term(term) {
                Written::Exact(text) => (Some(Said { text, excluded: false }), true),
                Written::Wider(text, reason) => {
                    self.lack(term, reason);
                    (Some(Said { text, excluded: false }), false)
                }
                Written::Not(reason) => {
                    self.lack(term, reason);
                    (None, false)
                }
            },
            Expr::Not(inner) => self.excluded(inner),
            Expr::And(parts) => {
                let (said, exact) = self.all_said(parts);
                let text = self.conjunction(said);
                let exact = exact && text.is_some();
                (text.map(|text| Said { text: format!("({text})"), excluded: false }), exact)
            }
            Expr::Or(parts) => self.alternatives(expr, parts),
        }
    }

    fn all_said(&mut self, parts: &[Expr]) -> (Vec<Said>, bool) {
        let (mut all, mut exact) = (Vec::new(), true);
        for part in parts {
            let (said, was_exact) = self.said(part);
            exact &= was_exact;
            all.extend(said);
        }
        (all, exact)
    }

    /// Normal form: only terms are excluded.
    fn excluded(&mut self, inner: &Expr) -> (Option<Said>, bool) {
        let Expr::Term(term) = inner else { return (None, false) };
        match self.excludable(term) {
            Ok(text) => (Some(Said { text, excluded: true }), true),
            Err(reason) => {
                self.lack(&format!("NOT {term}"), reason);
                (None, false)
            }
        }
    }

    fn excludable(&mut self, term: &Term) -> Result<String, String> {
        let can = self.rules.fields.get(&term.field).is_some_and(|rule| rule.can("NOT")) && self.rules.not.is_some();
        match self.term(term) {
            Written::Exact(text) if can => Ok(text),
            Written::Exact(_) => Err(format!("`{}` cannot be excluded", term.field)),
            Written::Wider(_, reason) => Err(format!("excluding it would leave out too much: {reason}")),
            Written::Not(reason) => Err(reason),
        }
    }

    fn alternatives(&mut self, expr: &Expr, parts: &[Expr]) -> (Option<Said>, bool) {
        let Some(or) = self.rules.or.clone() else {
            self.lack(expr, "there are no alternatives");
            return (None, false);
        };
        for term in expr.terms() {
            let rule = self.rules.fields.get(&term.field).filter(|rule| !rule.unsupported);
            if rule.is_some_and(|rule| !rule.can("OR")) {
                self.lack(expr, format!("`{}` cannot stand among alternatives", term.field));
                return (None, false);
            }
        }
        let (mut texts, mut exact, mut whole) = (Vec::new(), true, true);
        for part in parts {
            let (said, was_exact) = self.said(part);
            exact &= was_exact;
            let text = match said {
                Some(Said { text, excluded: false }) => Some(text),
                Some(said) => self.conjunction(vec![said]).map(|text| format!("({text})")),
                None => None,
            };
            whole &= text.is_some();
            texts.extend(text);
        }
        if !whole {
            return (None, false);
        }
        (Some(Said { text: format!("({})", texts.join(&or)), excluded: false }), exact)
    }

    /// What is wanted, then what is excluded: read from left to right this needs no order of operators.
    fn conjunction(&mut self, said: Vec<Said>) -> Option<String> {
        let (excluded, wanted): (Vec<Said>, Vec<Said>) = said.into_iter().partition(|said| said.excluded);
        let mut wanted: Vec<String> = wanted.into_iter().map(|said| said.text).collect();
        if wanted.is_empty() {
            if excluded.is_empty() {
                return None;
            }
            let Some(all) = self.rules.all.clone() else {
                let texts: Vec<&str> = excluded.iter().map(|said| said.text.as_str()).collect();
                self.lack(&format!("NOT {}", texts.join(" NOT ")), "nothing can be excluded from everything");
                return None;
            };
            wanted.push(all);
        }
        let mut text = wanted.join(&self.rules.and);
        for said in excluded {
            text.push_str(self.rules.not.as_deref().unwrap_or_default());
            text.push_str(&said.text);
        }
        Some(text)
    }

    /// One condition as a parameter.
    fn condition(&mut self, expr: &Expr, terms: &mut BTreeMap<String, String>) -> (Option<Said>, bool) {
        let exact = match self.parameter(expr) {
            Ok((param, text, wider)) => {
                let joiner = if wider.is_some() { " " } else { &self.rules.and };
                let value = terms.entry(param).or_default();
                if !value.is_empty() {
                    value.push_str(joiner);
                }
                value.push_str(&text);
                if let Some(reason) = &wider {
                    self.lack(expr, reason);
                }
                wider.is_none()
            }
            Err(reason) => {
                self.lack(expr, reason);
                false
            }
        };
        (None, exact)
    }

    /// Parameter, text, and why it finds more.
    fn parameter(&mut self, expr: &Expr) -> Result<(String, String, Option<String>), String> {
        let (terms, excluded): (Vec<&Term>, bool) = match expr {
            Expr::Term(term) => (vec![term], false),
            Expr::Not(inner) => (inner.terms(), true),
            Expr::Or(parts) if parts.iter().all(|part| matches!(part, Expr::Term(_))) => (expr.terms(), false),
            _ => return Err("conditions inside alternatives cannot be sent".into()),
        };
        let field = terms[0].field;
        if terms.iter().any(|term| term.field != field) {
            return Err("alternatives over several fields cannot be sent".into());
        }
        let rule = self.rule(field)?;
        let (param, can_or) = (rule.param.clone().unwrap_or_default(), rule.can("OR"));
        if terms.len() > 1 && !can_or {
            return Err(format!("`{field}` takes one value, no alternatives"));
        }
        if excluded {
            let [only] = terms.as_slice() else { return Err("only single values can be excluded".into()) };
            self.excludable(only)?;
        }
        if let Some(reason) = self.twice(expr) {
            return Err(reason);
        }
        self.parameter_text(field, &terms, excluded).map(|(text, wider)| (param, text, wider))
    }

    fn parameter_text(
        &self,
        field: Field,
        terms: &[&Term],
        excluded: bool,
    ) -> Result<(String, Option<String>), String> {
        let rule = self.rule(field)?;
        if let [Term { value: Value::Days(days), .. }] = terms {
            if excluded || !rule.can("RANGE") {
                return Err(format!("days of `{field}` cannot be sent so"));
            }
            let (text, exact) = rule.template.with_days(days);
            return Ok((text, (!exact).then(|| coarse(field))));
        }
        let not = self.rules.not.as_deref().filter(|_| excluded).unwrap_or_default();
        let (mut values, mut wider) = (Vec::new(), None);
        for term in terms {
            match self.value(rule, term) {
                Written::Exact(text) => values.push(format!("{not}{text}")),
                Written::Wider(text, reason) => {
                    values.push(format!("{not}{text}"));
                    wider = Some(reason);
                }
                Written::Not(reason) => return Err(reason),
            }
        }
        let joined = match (&wider, &self.rules.or) {
            (Some(_), _) if rule.can("WIDER") => vec![values.join(" ")],
            (_, Some(or)) => vec![values.join(or)],
            (_, None) => values,
        };
        let texts: Vec<String> = joined.iter().map(|value| rule.template.with_value(value)).collect();
        Ok((texts.join(&self.rules.and), wider))
    }

    fn rule(&self, field: Field) -> Result<&Rule, String> {
        match self.rules.fields.get(&field) {
            Some(rule) if !rule.unsupported => Ok(rule),
            Some(Rule { note: Some(note), .. }) => Err(note.clone()),
            _ => Err(format!("`{field}` cannot be searched")),
        }
    }

    fn term(&self, term: &Term) -> Written {
        let rule = match self.rule(term.field) {
            Ok(rule) => rule,
            Err(reason) => return Written::Not(reason),
        };
        if let Value::Days(days) = &term.value {
            return match rule.template.with_days(days) {
                _ if !rule.can("RANGE") => Written::Not(format!("`{}` cannot be searched by days", term.field)),
                (text, true) => Written::Exact(text),
                (text, false) => Written::Wider(text, coarse(term.field)),
            };
        }
        match self.value(rule, term) {
            Written::Exact(value) => Written::Exact(rule.template.with_value(&value)),
            Written::Wider(value, reason) => Written::Wider(rule.template.with_value(&value), reason),
            not => not,
        }
    }

    /// The value in its form, without the field.
    fn value(&self, rule: &Rule, term: &Term) -> Written {
        let written = match (&term.value, term.field.kind()) {
            (Value::Days(_), _) => Written::Not(format!("`{}` takes no list of days", term.field)),
            (Value::Prefix(start), _) => match &self.rules.prefix {
                Some(_) if start.chars().count() < self.rules.prefix_min => {
                    Written::Not(format!("a beginning needs {} letters", self.rules.prefix_min))
                }
                Some(form) if rule.can("PREFIX") => Written::Exact(form.with_value(start)),
                _ => Written::Not("words cannot be searched by their beginning".into()),
            },
            (Value::Text(text), Kind::Id) => self.whole(text, true),
            (Value::Text(text), Kind::Code) => match self.rules.code(term.field, text) {
                Some(own) => self.whole(own, false),
                None => Written::Not(format!("there is no {} `{text}` here", term.field)),
            },
            (Value::Text(text), kind) => self.words(rule, text, kind),
        };
        match written {
            Written::Exact(text) if rule.can("WIDER") => {
                let reason = rule.note.clone().unwrap_or_else(|| format!("`{}` finds more than asked", term.field));
                Written::Wider(text, reason)
            }
            other => other,
        }
    }

    /// A value that must not be changed.
    fn whole(&self, text: &str, identifier: bool) -> Written {
        if let Some(sign) = text.chars().find(|sign| sign.is_control() || self.rules.forbids.contains(*sign)) {
            return Written::Not(format!("a value with `{sign}` in it cannot be sent"));
        }
        let plain = text.chars().all(char::is_alphanumeric) && !RESERVED.contains(&text.to_lowercase().as_str());
        match self.rules.style {
            Style::Params => Written::Exact(self.rules.word.with_value(text)),
            Style::Text if plain && !identifier => Written::Exact(self.rules.word.with_value(text)),
            Style::Text => Written::Exact(self.rules.phrase.with_value(text)),
        }
    }

    fn words(&self, rule: &Rule, text: &str, kind: Kind) -> Written {
        let safe = harmless(text);
        let parts = words(text);
        let reserved = parts.iter().any(|word| RESERVED.contains(&word.as_str()));
        let phrase = rule.can("PHRASE") || rule.can("EXACT");
        match (parts.len(), safe.chars().all(char::is_alphanumeric)) {
            (1, true) if !reserved => Written::Exact(self.rules.word.with_value(&safe)),
            (1, _) => Written::Exact(self.rules.phrase.with_value(&safe)),
            _ if phrase && kind == Kind::Name && !reserved => Written::Exact(self.rules.name.with_value(&safe)),
            _ if phrase => Written::Exact(self.rules.phrase.with_value(&safe)),
            _ if rule.can("WIDER") => Written::Exact(self.rules.word.with_value(&safe)),
            // A family name comes first; of other texts the longest word says most.
            _ => {
                let one = if kind == Kind::Name { parts.first() } else { parts.iter().max_by_key(|word| word.len()) };
                let form = if one.is_some_and(|one| RESERVED.contains(&one.as_str())) {
                    &self.rules.phrase
                } else {
                    &self.rules.word
                };
                let one = one.map(String::as_str).unwrap_or_default();
                Written::Wider(form.with_value(one), "several words cannot be searched together; one of them is".into())
            }
        }
    }
}

fn coarse(field: Field) -> String {
    format!("`{field}` cannot be searched by single days; whole years or months are")
}

/// Letters, digits, and signs that part nothing and quote nothing; every other sign becomes a space.
fn harmless(text: &str) -> String {
    let kept = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '\'' | '’' | '.' | '\u{300}'..='\u{36f}');
    let spaced: String = text.chars().map(|sign| if kept(sign) { sign } else { ' ' }).collect();
    let parts = spaced.split_whitespace().map(|part| part.trim_matches(|sign: char| !sign.is_alphanumeric()));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
