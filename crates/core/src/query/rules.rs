//! A source's rules for writing queries, read from the `query_syntax` and `queries` of its definition.

use std::collections::{BTreeMap, BTreeSet};

use super::eval::Codes;
use super::field::{Field, Kind};
use super::pattern::{Pattern, Piece};
use crate::registry::diagnostic::closest;
use crate::registry::{Definition, Diagnostic, Map, Value};

/// How the parts of a query are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One text with operators and groups: `expr.q`.
    Text,
    /// Conditions as parameters of the request, all of which must hold.
    Params,
}

/// The rules of one source.
#[derive(Clone, Debug)]
pub struct Rules {
    pub style: Style,
    pub word: Pattern,
    pub phrase: Pattern,
    pub name: Pattern,
    pub prefix: Option<Pattern>,
    pub prefix_min: usize,
    pub and: String,
    pub or: Option<String>,
    pub not: Option<String>,
    /// A condition that every record meets, for queries that only exclude.
    pub all: Option<String>,
    /// Signs that no identifier or code may hold.
    pub forbids: String,
    pub codes: Codes,
    /// Fields of which the source knows only the words in `codes`.
    pub known_only: BTreeSet<Field>,
    /// Fields that are neither searched nor left to us.
    pub refused: BTreeSet<Field>,
    pub fields: BTreeMap<Field, Rule>,
}

/// How one field is written.
#[derive(Clone, Debug)]
pub struct Rule {
    pub param: Option<String>,
    pub template: Pattern,
    pub operators: BTreeSet<String>,
    pub unsupported: bool,
    pub note: Option<String>,
}

impl Rule {
    pub fn can(&self, operator: &str) -> bool {
        self.operators.contains(operator)
    }
}

impl Rules {
    /// The rules of a definition, and what is wrong with them.
    pub fn of(definition: &Definition) -> (Rules, Vec<Diagnostic>) {
        let mut reader = Reader { definition, mistakes: Vec::new() };
        let rules = reader.rules();
        (rules, reader.mistakes)
    }

    /// The source's own word for a neutral code; `None` where it has none.
    pub fn code<'a>(&'a self, field: Field, neutral: &'a str) -> Option<&'a str> {
        let codes = self.codes.get(&field);
        let own = codes.and_then(|codes| codes.get(neutral)).map(String::as_str);
        let known = || codes.and_then(|codes| codes.values().find(|own| own.to_lowercase() == neutral));
        match own.or_else(|| known().map(String::as_str)) {
            None if self.known_only.contains(&field) => None,
            own => Some(own.unwrap_or(neutral)),
        }
    }
}

struct Reader<'a> {
    definition: &'a Definition,
    mistakes: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn rules(&mut self) -> Rules {
        let empty = Map::default();
        let root = self.definition.root();
        let syntax = root.map("query_syntax").unwrap_or(&empty);
        let style = if syntax.text("style") == Some("PARAMS") { Style::Params } else { Style::Text };
        let text = style == Style::Text;
        let form = |reader: &mut Self, key: &str, default: &str| {
            reader.pattern(syntax.text(key).unwrap_or(default), &format!("query_syntax.{key}"))
        };
        let phrase = form(self, "phrase", "\"{value}\"");
        let prefix = syntax.text("prefix").map(|written| self.pattern(written, "query_syntax.prefix"));
        let own = |key: &str, default: Option<&str>| syntax.text(key).or(default).map(str::to_owned);
        let queries = root.map("queries").unwrap_or(&empty).blocks();
        Rules {
            style,
            word: form(self, "word", "{value}"),
            name: if syntax.text("name").is_some() { form(self, "name", "{value}") } else { phrase.clone() },
            phrase,
            prefix,
            prefix_min: match syntax.get("prefix_min") {
                Some(Value::Integer(least)) => usize::try_from(*least).unwrap_or(1),
                _ => 1,
            },
            and: own("and", Some(if text { " AND " } else { "," })).unwrap_or_default(),
            or: own("or", text.then_some(" OR ")),
            not: own("not", text.then_some(" NOT ")),
            all: own("all", None),
            forbids: own("forbids", Some(if text { "\"\\" } else { "\"\\,|" })).unwrap_or_default(),
            codes: codes(syntax),
            known_only: self.fields(syntax, "known_only"),
            refused: self.fields(syntax, "refused"),
            fields: queries.filter_map(|(name, map)| self.rule(style, name, map)).collect(),
        }
    }

    fn rule(&mut self, style: Style, name: &str, map: &Map) -> Option<(Field, Rule)> {
        let path = format!("queries.{name}");
        let field = self.field(name, &path)?;
        let unsupported = map.flag("unsupported");
        let param = map.text("param").map(str::to_owned);
        if style == Style::Params && param.is_none() && !unsupported {
            let message = format!("`{name}` names no parameter, and this source takes conditions as parameters");
            self.mistake("query_param_missing", &path, message, "add `param: NAME`, or `unsupported: true`");
        }
        let template = map.text("template").unwrap_or("{value}");
        let template = self.pattern(template, &format!("{path}.template"));
        let whole = match field.kind() {
            Kind::Day => template.0.iter().any(|piece| matches!(piece, Piece::From(_))),
            _ => template.0.contains(&Piece::Value),
        };
        if !unsupported && !whole {
            let wanted = if field.kind() == Kind::Day { "{from} and {last} or {to}" } else { "{value}" };
            let message = format!("the template of `{name}` has no place for what is asked");
            self.mistake("query_template", &format!("{path}.template"), message, &format!("write {wanted} in it"));
        }
        let operators = texts(map.get("operators")).into_iter().collect();
        Some((field, Rule { param, template, operators, unsupported, note: map.text("note").map(str::to_owned) }))
    }

    fn field(&mut self, name: &str, path: &str) -> Option<Field> {
        let field = Field::all().find(|field| field.name() == name);
        if field.is_none() {
            let near = closest(name, Field::all().map(Field::name));
            let hint = near.map_or_else(
                || format!("one of {}", Field::all().map(Field::name).collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.mistake("query_field_unknown", path, format!("the query language has no field `{name}`"), &hint);
        }
        field
    }

    fn fields(&mut self, syntax: &Map, key: &str) -> BTreeSet<Field> {
        let names = texts(syntax.get(key));
        let at = |at: usize| format!("query_syntax.{key}.{at}");
        names.iter().enumerate().filter_map(|(n, name)| self.field(name, &at(n))).collect()
    }

    fn pattern(&mut self, written: &str, path: &str) -> Pattern {
        Pattern::parse(written).unwrap_or_else(|message| {
            self.mistake(
                "query_template",
                path,
                message,
                "{value}, {from}, {last} and {to} are replaced; dates may say how, as {from:%Y/%m/%d}",
            );
            Pattern(Vec::new())
        })
    }

    fn mistake(&mut self, code: &'static str, path: &str, message: String, hint: &str) {
        let places = self.definition.places();
        // A field is named by its key in `queries`, and by a value in lists.
        let at = if path.starts_with("queries.") && code == "query_field_unknown" {
            places.key(path)
        } else {
            places.value(path)
        };
        self.mistakes.push(Diagnostic::error(code, &places.file, at, message).hint(hint));
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = match list {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    let text = |item: &Value| match item {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

fn codes(syntax: &Map) -> Codes {
    let mut codes = Codes::new();
    for (key, field) in [("types", Field::Type), ("languages", Field::Language)] {
        for (neutral, own) in syntax.map(key).into_iter().flat_map(Map::iter) {
            if let Value::Text(own) = own {
                codes.entry(field).or_default().insert(neutral.to_lowercase(), own.clone());
            }
        }
    }
    codes
}
