//! Request templates: `${...}` with a white list of functions and filters, no loops, no I/O.
//!
//! A template is literal text with expressions in it. Everything an expression may name is listed in
//! [`names`]; what is not listed is refused when the registry is compiled, with the place in the text. Each
//! expression runs in an empty environment with a fuel limit, and the output is bounded, so a definition can
//! neither read anything nor run long. The rendered text goes to the request writer, which encodes it for the
//! place it stands in.

mod context;
mod environment;
mod names;

use std::ops::Range;

use minijinja::value::ValueKind;
use minijinja::{Expression, Value};

pub use context::{Context, ContextError};

/// Longest template text.
pub const TEMPLATE_BYTES_MAX: usize = 64 * 1024;
/// Longest rendered text.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// A template that cannot be used, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    pub message: String,
    pub at: Range<usize>,
}

impl TemplateError {
    fn new(message: impl Into<String>, at: Range<usize>) -> TemplateError {
        TemplateError { message: message.into(), at }
    }
}

/// Parses a template and checks that it names only known variables, functions and filters.
pub fn check(text: &str) -> Result<(), TemplateError> {
    let template = Template::parse(text)?;
    // A trial run finds what only shows when evaluated, such as an unknown letter in a date format.
    template.values(&Context::sample()).try_for_each(|rendered| rendered.map(|_| ()))
}

/// A checked template, ready to render any number of times.
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
    names: Vec<String>,
}

enum Piece {
    Literal(String),
    Expression { program: Expression<'static, 'static>, at: Range<usize> },
}

/// A rendered piece: literal text of the definition, or the value of an expression.
enum Rendered<'a> {
    Literal(&'a str),
    Value(Value, Range<usize>),
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.text).finish()
    }
}

impl Template {
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::new("the template is longer than 64 KiB", 0..text.len()));
        }
        for block in ["{%", "{#"] {
            if let Some(start) = text.find(block) {
                return Err(TemplateError::new(
                    format!("`{block}` is not allowed here, only `${{...}}`"),
                    start..start + 2,
                ));
            }
        }
        let (mut pieces, mut names, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(start) = text[at..].find("${").map(|found| at + found) {
            push_literal(&mut pieces, &text[at..start]);
            let end = names::end_of_expression(text, start + 2)?;
            let inside = start + 2..end;
            names.extend(names::check(&text[inside.clone()], inside.start)?);
            pieces.push(compile(text, inside)?);
            at = end + 1;
        }
        push_literal(&mut pieces, &text[at..]);
        Ok(Template { text: text.to_owned(), pieces, names })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Variables the template mentions, as dotted names (`page.token`).
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Renders the text; `None` when the template is exactly one expression whose value is null.
    pub fn render(&self, context: &Context) -> Result<Option<String>, TemplateError> {
        self.render_with(context, |value| Ok(value.to_owned()))
    }

    /// Renders the text and passes every value, but no literal text, through `encode`.
    pub fn render_with(
        &self,
        context: &Context,
        mut encode: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<Option<String>, TemplateError> {
        let mut output = String::new();
        for rendered in self.values(context) {
            match rendered? {
                Rendered::Literal(text) => output.push_str(text),
                Rendered::Value(value, _) if is_null(&value) => return Ok(None),
                Rendered::Value(value, at) => {
                    let text = text_of(&value).map_err(|message| TemplateError::new(message, at.clone()))?;
                    output.push_str(&encode(&text).map_err(|message| TemplateError::new(message, at.clone()))?);
                }
            }
            if output.len() > OUTPUT_BYTES_MAX {
                return Err(TemplateError::new("the rendered text is longer than 1 MB", 0..self.text.len()));
            }
        }
        Ok(Some(output))
    }

    /// Renders for a JSON body: a template of exactly one expression keeps the type of its value.
    pub fn render_json(&self, context: &Context) -> Result<Option<serde_json::Value>, TemplateError> {
        let [Piece::Expression { .. }] = self.pieces.as_slice() else {
            return Ok(self.render(context)?.map(serde_json::Value::String));
        };
        match self.values(context).next().transpose()? {
            Some(Rendered::Value(value, at)) if !is_null(&value) => {
                json_of(&value).map(Some).map_err(|message| TemplateError::new(message, at))
            }
            _ => Ok(None),
        }
    }

    /// The values one after the other, so that a long text can be given up half way.
    fn values(&self, context: &Context) -> impl Iterator<Item = Result<Rendered<'_>, TemplateError>> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Literal(text) => Ok(Rendered::Literal(text)),
            Piece::Expression { program, at } => {
                let value = program.eval(context.value().clone()).map_err(|error| located(&error, at))?;
                // A null that vanished from the middle of a text would widen a query without a sound.
                if is_null(&value) && self.pieces.len() > 1 && !context.is_sample() {
                    let name = self.text[at.clone()].trim();
                    let message = format!("`{name}` is null inside a longer text: give a default or an `else`");
                    return Err(TemplateError::new(message, at.clone()));
                }
                Ok(Rendered::Value(value, at.clone()))
            }
        })
    }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text.to_owned()));
    }
}

fn compile(text: &str, inside: Range<usize>) -> Result<Piece, TemplateError> {
    if text[inside.clone()].trim().is_empty() {
        return Err(TemplateError::new("an empty expression", inside.start - 2..inside.end + 1));
    }
    let program = environment::shared()
        .compile_expression_owned(text[inside.clone()].to_owned())
        .map_err(|error| located(&error, &inside))?;
    Ok(Piece::Expression { program, at: inside })
}

/// Turns an error of the expression engine into one of the whole text.
fn located(error: &minijinja::Error, inside: &Range<usize>) -> TemplateError {
    let at = match error.range() {
        Some(range) if inside.start + range.end <= inside.end => inside.start + range.start..inside.start + range.end,
        _ => inside.clone(),
    };
    let message = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    TemplateError::new(message, at)
}

fn is_null(value: &Value) -> bool {
    value.is_none() || value.is_undefined()
}

fn text_of(value: &Value) -> Result<String, String> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    match value.kind() {
        ValueKind::Bool | ValueKind::Number | ValueKind::Plain => Ok(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => Err("a list cannot stand in a text: use `join`".to_owned()),
        other => Err(format!("a value of kind {other} cannot stand in a text")),
    }
}

fn json_of(value: &Value) -> Result<serde_json::Value, String> {
    match value.kind() {
        ValueKind::Plain => text_of(value).map(serde_json::Value::String),
        _ => serde_json::to_value(value).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests;
