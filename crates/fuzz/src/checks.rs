//! What must hold for any input, beside that nothing panics. `Err` says which law an input breaks.

use std::sync::LazyLock;

use patra_core::path::{Extract, JsonQuery, Path};
use patra_core::query::{Mapped, Query, Rules, eval, render};
use patra_core::registry::{self, from_rows, to_rows};
use patra_core::spec::check_definition;
use patra_core::spec::snapshot::Format;
use patra_core::template::{OUTPUT_BYTES_MAX, TemplateError};
use patra_core::time::Timestamp;
use patra_source::decode::trie::{Found, Trie};
use patra_source::next;
use patra_source::rate;
use serde_json::Value;

use crate::corpus::targets::{self, BASE, Clock, JSON_SAMPLE, JsonShape, LIMITS, Packing, Target, Verdict, XmlShape};
use crate::pages::{json, xml};

/// Targets as they are called on the command line.
pub const NAMES: [&str; 11] = [
    "json",
    "xml",
    "template",
    "next-url",
    "retry-after",
    "date",
    "definition",
    "unpack",
    "json-path",
    "xml-path",
    "query",
];

pub fn name_of(target: Target) -> &'static str {
    match target {
        Target::Json(_) => "json",
        Target::Xml(_) => "xml",
        Target::Template => "template",
        Target::NextUrl | Target::LinkHeader => "next-url",
        Target::RetryAfter => "retry-after",
        Target::Date(_) => "date",
        Target::Definition => "definition",
        Target::Unpack(_) => "unpack",
        Target::JsonPath => "json-path",
        Target::XmlPath => "xml-path",
    }
}

/// Runs one input through every form of a target. The text describes the ends it came to: an input that comes to
/// new ends is worth keeping.
pub fn check(name: &str, input: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(input);
    match name {
        "json" => {
            let shapes = [JsonShape::Plain, JsonShape::Ids, JsonShape::Filtered, JsonShape::Piped];
            joined(shapes.into_iter().map(|shape| json(shape, input)))
        }
        "xml" => {
            joined([XmlShape::Plain, XmlShape::Oai, XmlShape::Attribute].into_iter().map(|shape| xml(shape, input)))
        }
        "template" => template(&text),
        "next-url" => next_url(&text),
        "retry-after" => retry_after(&text),
        "date" => {
            let clocks = [Clock::Iso, Clock::IsoNewYork, Clock::Seconds, Clock::Millis, Clock::Partial];
            joined(clocks.into_iter().map(|clock| date(clock, input)))
        }
        "definition" => definition(&text),
        "unpack" => {
            let packings = [Packing::Gzip, Packing::Deflate, Packing::Brotli, Packing::Zstd];
            joined(packings.into_iter().map(|packing| unpack(packing, input)))
        }
        "json-path" => json_path(&text),
        "xml-path" => Ok(shape_of(&targets::run(Target::XmlPath, input))),
        "query" => query(&text),
        _ => Err(format!("no target `{name}`")),
    }
}

/// A query reads back from its normal form, is written for every source, and its mistakes lie inside the text.
fn query(text: &str) -> Result<String, String> {
    let query = match Query::parse(text) {
        Ok(query) => query,
        Err(error) => {
            if error.at.end > text.len() || !text.is_char_boundary(error.at.start) {
                return Err("a mistake outside the text".to_owned());
            }
            error.to_string();
            return Ok(bare(&error.message));
        }
    };
    let again = Query::parse(&query.to_string()).map_err(|error| format!("the normal form is no query: {error}"))?;
    if again != query {
        return Err(format!("the normal form reads as {again}"));
    }
    let mut shape = format!("{}", query.expr().terms().len().next_power_of_two());
    for rules in RULES.iter() {
        let rendered = render(&query, rules);
        if rendered.q.as_ref().is_some_and(|sent| sent.matches('"').count() % 2 == 1) {
            return Err(format!("quotes that do not close: {:?}", rendered.q));
        }
        if let Some(filter) = &rendered.filter {
            eval(filter, &Mapped::read("{}"), &rules.codes);
        }
        shape.push_str(if rendered.filter.is_some() { "f" } else { "e" });
    }
    Ok(shape)
}

/// The rules of the built-in sources.
static RULES: LazyLock<Vec<Rules>> = LazyLock::new(|| {
    let definitions = registry::catalogue::ALL.iter().filter_map(|entry| registry::decode(entry.file, entry.text).ok());
    definitions.map(|definition| Rules::of(&definition).0).collect()
});

fn joined(parts: impl Iterator<Item = Result<String, String>>) -> Result<String, String> {
    let parts: Vec<String> = parts.collect::<Result<_, _>>()?;
    Ok(parts.join(" / "))
}

/// The end without its numbers and names.
fn shape_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Refused(text) => bare(text),
        Verdict::Page { ids, bad, next, total } => {
            let mut reasons: Vec<String> = bad.iter().map(|reason| format!("{reason:?}")).collect();
            reasons.dedup();
            format!("{} {reasons:?} {} {}", ids.len().min(4), next.is_some(), total.is_some())
        }
        Verdict::Value(None) => "none".to_owned(),
        Verdict::Value(Some(value)) => format!("value of {} bytes", value.len().next_power_of_two()),
    }
}

/// The beginning of a message, before what it quotes, and without digits.
pub fn bare(text: &str) -> String {
    let letters = text.chars().take_while(|letter| !matches!(letter, '`' | '"' | '\''));
    letters.filter(|letter| !letter.is_ascii_digit()).take(60).collect()
}

fn template(text: &str) -> Result<String, String> {
    let placed = |error: &TemplateError| {
        let at = &error.at;
        at.start <= at.end && at.end <= text.len() && text.is_char_boundary(at.start) && text.is_char_boundary(at.end)
    };
    match targets::template(text) {
        Err(error) if !placed(&error) => Err(format!("a mistake out of the text: {error:?}")),
        Err(error) => Ok(bare(&error.message)),
        Ok(Some(output)) if output.len() > OUTPUT_BYTES_MAX => Err(format!("{} bytes were rendered", output.len())),
        Ok(output) => Ok(shape_of(&Verdict::Value(output))),
    }
}

fn next_url(text: &str) -> Result<String, String> {
    let link = next::link_next(&[("link".to_owned(), text.to_owned())]);
    let stored = match targets::next_url(text) {
        Err(message) if message.contains(" from ") => return Ok(format!("{} another origin", link.is_some())),
        Err(message) => return Ok(format!("{} {}", link.is_some(), bare(&message))),
        Ok(stored) => stored,
    };
    if stored.contains("secret-value") {
        return Err(format!("the key is in {stored:?}"));
    }
    if !stored.starts_with('/') || stored.starts_with("//") || stored.bytes().any(|byte| byte < 0x21 || byte == b'\\') {
        return Err(format!("{stored:?} is no path on the origin"));
    }
    let url = targets::followed(&stored).map_err(|error| format!("{stored:?} cannot be followed: {error}"))?;
    if !url.as_str().starts_with(BASE.trim_end_matches("/v1")) || !url.username().is_empty() {
        return Err(format!("{stored:?} leads to {url}"));
    }
    let again = targets::next_url(url.as_str()).map_err(|error| format!("{url} is refused: {error}"))?;
    if again != stored {
        return Err(format!("{stored:?} reads {again:?} the second time"));
    }
    Ok(format!("{} {} {}", link.is_some(), url.path().len().min(16), url.query_pairs().count().min(8)))
}

fn retry_after(text: &str) -> Result<String, String> {
    let headers = ["ratelimit", "x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining", "retry-after"]
        .map(|name| (name.to_owned(), text.to_owned()));
    let hints = rate::hints(&headers, targets::now());
    for at in [hints.reset_at, hints.retry_after, rate::http_date(text)].into_iter().flatten() {
        if at.to_string().parse() != Ok(at) {
            return Err(format!("{} µs is printed as {at}", at.micros()));
        }
    }
    if hints.retry_after.is_some() && text.trim().starts_with('-') && text.trim().parse::<f64>().is_ok_and(|n| n < 0.0)
    {
        return Err("a negative number was taken".to_owned());
    }
    Ok(format!(
        "{} {} {} {}",
        hints.limit.is_some(),
        hints.remaining.is_some(),
        hints.reset_at.is_some(),
        hints.retry_after.is_some()
    ))
}

fn date(clock: Clock, input: &[u8]) -> Result<String, String> {
    match targets::date(clock, input) {
        Ok(Some(text)) => {
            let at: Timestamp = text.parse().map_err(|_| format!("{text} is no time"))?;
            if at.to_string() == text { Ok("a time".to_owned()) } else { Err(format!("{text} reads {at}")) }
        }
        Ok(None) => Ok("none".to_owned()),
        Err(message) => Ok(bare(&message)),
    }
}

fn definition(text: &str) -> Result<String, String> {
    let mistakes = match registry::decode("fuzz.yaml", text) {
        Ok(definition) => {
            let rows = to_rows(&definition);
            match from_rows(definition.source(), &rows) {
                Ok(again) if again == definition => {}
                Ok(again) => return Err(format!("the rows give {:?}", again.root().to_json_text())),
                Err(error) => return Err(format!("the rows cannot be read: {error:?}")),
            }
            check_definition(&definition)
        }
        Err(mistakes) if mistakes.is_empty() => return Err("refused without a mistake".to_owned()),
        Err(mistakes) => mistakes,
    };
    let lines = text.split(['\n', '\r']).count() + 1;
    if let Some(lost) = mistakes.iter().find(|mistake| mistake.line as usize > lines) {
        return Err(format!("a mistake out of the text: {lost}"));
    }
    let mut codes: Vec<String> =
        mistakes.iter().map(|mistake| format!("{} {}", mistake.code, bare(&mistake.message))).collect();
    codes.sort();
    codes.dedup();
    Ok(codes.join(", "))
}

trait JsonText {
    fn to_json_text(&self) -> String;
}

impl JsonText for registry::Map {
    fn to_json_text(&self) -> String {
        registry::Value::Map(self.clone()).to_json().to_string()
    }
}

fn unpack(packing: Packing, input: &[u8]) -> Result<String, String> {
    match targets::unpack(packing, input) {
        Err(message) => Ok(bare(&message)),
        Ok(body) => {
            if body.len() as u64 > LIMITS.bytes {
                return Err(format!("{} bytes came out", body.len()));
            }
            // Brotli has no trailer: bytes behind its end are not looked at.
            let cut = &input[..input.len().saturating_sub(1)];
            if packing != Packing::Brotli && !cut.is_empty() && targets::unpack(packing, cut).is_ok() {
                return Err("without its last byte it is still whole".to_owned());
            }
            Ok(format!("{} bytes", body.len().next_power_of_two()))
        }
    }
}

/// Steps that are followed while reading find what the query finds in a tree.
fn json_path(text: &str) -> Result<String, String> {
    if let Err(error) = Extract::parse(text, Format::Json)
        && (error.at.start > error.at.end || error.at.end > text.len())
    {
        return Err(format!("a mistake out of the text: {error:?}"));
    }
    if let Ok(extract) = Extract::parse(text, Format::Json)
        && let [one] = extract.alternatives.as_slice()
        && let Path::Json(JsonQuery::Steps(steps)) = &one.path
        && one.pipes.is_empty()
    {
        let mut trie = Trie::default();
        trie.add(steps);
        let mut found = Found::default();
        trie.project(JSON_SAMPLE, &mut found).map_err(|error| error.to_string())?;
        let mut followed: Vec<String> = found.values[0]
            .iter()
            .map(|raw| serde_json::from_str::<Value>(raw).map_or_else(|e| e.to_string(), |v| v.to_string()))
            .collect();
        let tree: Value = serde_json::from_str(JSON_SAMPLE).map_err(|error| error.to_string())?;
        let query = jsonpath_rfc9535::JsonPath::parse(text.trim()).map_err(|error| format!("{error}"))?;
        let mut queried: Vec<String> = query.query_values(&tree).into_iter().map(Value::to_string).collect();
        followed.sort();
        queried.sort();
        if followed != queried {
            return Err(format!("followed {followed:?}, queried {queried:?}"));
        }
    }
    Ok(shape_of(&targets::run(Target::JsonPath, text.as_bytes())))
}
