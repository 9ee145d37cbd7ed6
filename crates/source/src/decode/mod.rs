//! A body becomes a page: items, and the words about total, more and next.
//!
//! A body is taken only whole: it must parse to its end, and the place where items stand must be there, else an
//! error body under status 200 would pass for an empty page. One bad record does not cost the others.

pub mod canonical;
mod compile;
mod exact;
mod fields;
mod group;
mod json;
pub mod record;
pub mod text;
mod time;
pub mod trie;
mod xml;
mod xmltrie;

use bytes::Bytes;
use patra_core::page::{BadItem, Item};
use patra_core::spec::errors::{BodyFault, FetchError};
use patra_core::spec::snapshot::Format;
use serde_json::Value;

use self::record::{Matches, Slots};
use self::text::Text;

pub use compile::{Around, Probe, ResponseProgram};

/// Most items of one page. A small body can hold millions of tiny ones, each of which costs a hundred times its size.
pub const ITEMS_MAX: usize = 100_000;

/// What a body was decoded into. `body` is the text that items are slices of.
#[derive(Debug)]
pub struct Decoded {
    pub items: Vec<Item>,
    pub bad: Vec<BadItem>,
    pub total: Option<u64>,
    pub has_more: Option<bool>,
    pub next_token: Option<String>,
    pub next_url: Option<String>,
    pub body: Bytes,
}

/// The body is not a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotAPage {
    pub fault: BodyFault,
    pub message: String,
}

impl NotAPage {
    fn malformed(message: impl Into<String>) -> NotAPage {
        NotAPage { fault: BodyFault::Malformed, message: message.into() }
    }

    fn of_json(error: &serde_json::Error) -> NotAPage {
        let fault = if error.is_eof() { BodyFault::Short } else { BodyFault::Malformed };
        NotAPage { fault, message: format!("not whole JSON: {error}") }
    }
}

impl From<NotAPage> for FetchError {
    fn from(error: NotAPage) -> FetchError {
        FetchError::Body { fault: error.fault, message: error.message }
    }
}

impl ResponseProgram {
    /// Decodes a whole body; `content_type` may name its encoding.
    pub fn decode(&self, body: Bytes, content_type: Option<&str>) -> Result<Decoded, NotAPage> {
        let text = Text::new(body, self.format, content_type);
        match self.format {
            Format::Json => json::decode(self, &text),
            Format::Xml => xml::decode(self, &text),
        }
    }
}

impl ResponseProgram {
    /// Decodes one record again from the bytes that were kept of it.
    pub fn reread(&self, raw: Bytes) -> Result<Item, BadItem> {
        let text = Text::new(raw, self.format, None);
        match self.format {
            Format::Json => json::reread(self, &text),
            Format::Xml => xml::reread(self, &text),
        }
    }
}

/// The page-level words, read once all matches are there.
struct Words {
    total: Option<u64>,
    has_more: Option<bool>,
    next_token: Option<String>,
    next_url: Option<String>,
}

impl Words {
    fn read(program: &ResponseProgram, matches: Matches<'_, '_>, body: &Text) -> Result<Words, NotAPage> {
        let word = |slots: &Option<Slots>| -> Result<Option<String>, String> {
            let text = slots.as_ref().map_or(Ok(None), |slots| slots.text(matches))?;
            Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
        };
        // A next page that cannot be read is not the end, and a changed token would lead to another page.
        let next = |slots: &Option<Slots>| match word(slots) {
            Ok(Some(text)) if body.is_spoilt(&text) => Err("it holds bytes that are no text".to_owned()),
            other => other,
        };
        let next = |slots| {
            next(slots).map_err(|message| NotAPage::malformed(format!("the next page cannot be told: {message}")))
        };
        let hint = |slots| word(slots).ok().flatten();
        Ok(Words {
            total: hint(&program.total).and_then(|text| whole_number(&text)),
            has_more: hint(&program.has_more).and_then(|text| yes_or_no(&text)),
            next_token: next(&program.next_token)?,
            next_url: next(&program.next_url)?,
        })
    }

    fn decoded(self, items: Vec<Item>, bad: Vec<BadItem>, body: Bytes) -> Decoded {
        let Words { total, has_more, next_token, next_url } = self;
        Decoded { items, bad, total, has_more, next_token, next_url, body }
    }

    /// Without a place for items the body is a page only if it says that there are none.
    fn check_place(&self, present: bool, program: &ResponseProgram) -> Result<(), NotAPage> {
        if present || self.total == Some(0) {
            return Ok(());
        }
        let message = format!("nothing at `{}`", program.item_paths.join("`, `"));
        Err(NotAPage { fault: BodyFault::ErrorBody, message })
    }
}

/// Refuses a page with more items than can be kept at once.
fn check_count(count: usize) -> Result<(), NotAPage> {
    if count > ITEMS_MAX {
        return Err(NotAPage::malformed(format!("more than {ITEMS_MAX} items on one page")));
    }
    Ok(())
}

fn whole_number(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse::<u64>() {
        return Some(number);
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "y" | "1" => Some(true),
        "false" | "no" | "n" | "0" => Some(false),
        other => other.parse::<f64>().ok().map(|number| number != 0.0),
    }
}

impl Probe {
    /// The value at the probe's path in a body of any kind, for error rules.
    pub fn value(&self, body: &Bytes, content_type: Option<&str>) -> Option<Value> {
        let text = Text::new(body.clone(), self.format, content_type);
        match self.format {
            Format::Json => json::probe(self, &text),
            Format::Xml => xml::probe(self, &text),
        }
    }
}
