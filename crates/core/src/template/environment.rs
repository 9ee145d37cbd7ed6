//! The engine that expressions run in: empty, but for the filters and functions added here.
//!
//! Every filter passes null on, so a missing value drops its parameter however it is formatted.

use std::sync::LazyLock;

use jiff::tz::TimeZone;
use minijinja::value::Rest;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use super::OUTPUT_BYTES_MAX;
use super::context::Instant;
use crate::time::Timestamp;

/// Steps one expression may take.
const FUEL: u64 = 20_000;

/// Filters an expression may use.
pub const FILTERS: &[&str] =
    &["date", "iso", "epoch_s", "epoch_ms", "join", "default", "coalesce", "concat", "lower", "upper", "trim", "quote"];
/// Functions an expression may call.
pub const FUNCTIONS: &[&str] = &["coalesce", "concat", "quote"];
/// Tests an expression may use after `is`.
pub const TESTS: &[&str] = &["none", "defined"];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(build);

pub fn shared() -> &'static Environment<'static> {
    &ENVIRONMENT
}

fn build() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    // Unknown names are refused at parse time; what is undefined here is an unset parameter, and counts as null.
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.add_filter("date", date);
    environment.add_filter("iso", |value: Value| on_instant(&value, |at| Ok(Value::from(at.iso()))));
    environment.add_filter("epoch_s", |value: Value| {
        on_instant(&value, |at| Ok(Value::from(at.at.micros().div_euclid(1_000_000))))
    });
    environment.add_filter("epoch_ms", |value: Value| {
        on_instant(&value, |at| Ok(Value::from(at.at.micros().div_euclid(1_000))))
    });
    environment.add_filter("join", join);
    environment.add_filter("default", |value: Value, other: Value| if is_null(&value) { other } else { value });
    environment.add_filter("coalesce", |value: Value, others: Rest<Value>| coalesce(Some(value), others.0));
    environment.add_filter("concat", |value: Value, others: Rest<Value>| concat(Some(value), others.0));
    environment.add_filter("lower", |value: Value| on_text(&value, |text| text.to_lowercase()));
    environment.add_filter("upper", |value: Value| on_text(&value, |text| text.to_uppercase()));
    environment.add_filter("trim", |value: Value| on_text(&value, |text| text.trim().to_owned()));
    environment.add_filter("quote", |value: Value| on_text(&value, phrase));
    environment.add_function("coalesce", |values: Rest<Value>| coalesce(None, values.0));
    environment.add_function("concat", |values: Rest<Value>| concat(None, values.0));
    environment.add_function("quote", |value: Value| on_text(&value, phrase));
    environment.add_test("none", |value: Value| is_null(&value));
    environment.add_test("defined", |value: Value| !is_null(&value));
    environment
}

fn is_null(value: &Value) -> bool {
    value.is_none() || value.is_undefined()
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn on_instant(value: &Value, then: impl FnOnce(&Instant) -> Result<Value, Error>) -> Result<Value, Error> {
    if is_null(value) {
        return Ok(Value::from(()));
    }
    if let Some(instant) = value.downcast_object_ref::<Instant>() {
        return then(instant);
    }
    let text = value.as_str().ok_or_else(|| invalid("not a time"))?;
    let at: Timestamp = text.parse().map_err(|_| invalid("not a time"))?;
    then(&Instant { at, zone: TimeZone::UTC })
}

fn date(value: Value, format: String) -> Result<Value, Error> {
    // The format is tried on a fixed instant too, so that a mistake shows even where the value is null.
    let trial = Instant { at: Timestamp::from_seconds(0), zone: TimeZone::UTC };
    trial.format(&format).map_err(invalid)?;
    on_instant(&value, |at| at.format(&format).map(Value::from).map_err(invalid))
}

fn join(value: Value, separator: Option<String>) -> Result<Value, Error> {
    if is_null(&value) {
        return Ok(value);
    }
    if value.as_str().is_some() {
        return Err(invalid("`join` needs a list"));
    }
    let mut text = String::new();
    for (at, part) in value.try_iter()?.enumerate() {
        if at > 0 {
            text.push_str(separator.as_deref().unwrap_or(","));
        }
        text.push_str(&part.to_string());
        bounded(&text)?;
    }
    Ok(Value::from(text))
}

/// Fuel counts steps, not bytes: a text is measured while it grows, not only when it is done.
fn bounded(text: &str) -> Result<(), Error> {
    if text.len() > OUTPUT_BYTES_MAX { Err(invalid("the text is longer than 1 MB")) } else { Ok(()) }
}

fn on_text(value: &Value, then: impl FnOnce(&str) -> String) -> Result<Value, Error> {
    if is_null(value) {
        return Ok(Value::from(()));
    }
    let text = then(&super::text_of(value).map_err(invalid)?);
    // A chain of `quote` doubles its backslashes each time.
    bounded(&text)?;
    Ok(Value::from(text))
}

fn coalesce(first: Option<Value>, others: Vec<Value>) -> Value {
    first.into_iter().chain(others).find(|value| !is_null(value)).unwrap_or(Value::from(()))
}

/// Joins its arguments to one text; null as soon as one of them is.
fn concat(first: Option<Value>, others: Vec<Value>) -> Result<Value, Error> {
    let mut text = String::new();
    for value in first.into_iter().chain(others) {
        if is_null(&value) {
            return Ok(Value::from(()));
        }
        text.push_str(&super::text_of(&value).map_err(invalid)?);
        bounded(&text)?;
    }
    Ok(Value::from(text))
}

/// A phrase as Lucene and PubMed read it: in double quotes, with quotes and backslashes escaped.
fn phrase(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}
