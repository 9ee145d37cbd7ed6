//! Laws of pages: JSON and XML, beside another reader.

use patra_core::time::Timestamp;
use patra_source::decode::{Decoded, NotAPage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::checks::bare;
use crate::corpus::targets::{JsonShape, XmlShape, json_page, xml_page};

fn page_shape(page: &Result<Decoded, NotAPage>) -> String {
    match page {
        Err(error) => bare(&error.message),
        Ok(page) => {
            let mut reasons: Vec<String> =
                page.bad.iter().map(|bad| format!("{:?} {}", bad.reason, bare(&bad.message))).collect();
            reasons.sort();
            reasons.dedup();
            format!(
                "{} {reasons:?} {:?} {:?}",
                page.items.len().min(4),
                page.total.is_some(),
                page.next_token.is_some()
            )
        }
    }
}

/// Laws of every page: a cut body is no page, and the kept body reads the same again.
fn page_laws(page: &Decoded, input: &[u8], decode: impl Fn(&[u8]) -> Result<Decoded, NotAPage>) -> Result<(), String> {
    let cut = input.trim_ascii_end();
    if decode(&cut[..cut.len().saturating_sub(1)]).is_ok() {
        return Err("without its last byte it is still a page".to_owned());
    }
    let again = decode(&page.body).map_err(|error| format!("the kept body is no page: {error}"))?;
    if page.items != again.items || page.bad != again.bad || page.next_token != again.next_token {
        return Err("the kept body reads differently".to_owned());
    }
    for item in &page.items {
        if item.id.is_empty() || item.id.len() > 2048 || item.id.chars().any(char::is_control) {
            return Err(format!("the id {:?} should have been refused", item.id));
        }
        if serde_json::from_str::<Value>(&item.fields).is_err() {
            return Err(format!("the fields {:?} are not JSON", item.fields));
        }
        if item.updated_at.is_some_and(|at| !(Timestamp::MIN..=Timestamp::MAX).contains(&at)) {
            return Err("a time out of range".to_owned());
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    #[expect(dead_code, reason = "read so that a key that comes twice is refused")]
    next: Option<&'a RawValue>,
    #[serde(borrow, default)]
    #[expect(dead_code, reason = "read so that a key that comes twice is refused")]
    total: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
}

pub fn json(shape: JsonShape, input: &[u8]) -> Result<String, String> {
    let page = json_page(shape, input);
    if let Ok(page) = &page {
        page_laws(page, input, |bytes| json_page(shape, bytes))?;
        for item in &page.items {
            let payload = std::str::from_utf8(&item.payload).map_err(|_| "a record that is no text".to_owned())?;
            let raw = match shape {
                JsonShape::Plain => serde_json::from_str::<Identified<'_>>(payload).ok().map(|record| record.id.get()),
                JsonShape::Ids => Some(payload),
                JsonShape::Filtered | JsonShape::Piped => continue,
            };
            same_id(raw, &item.id)?;
        }
    }
    if shape == JsonShape::Plain {
        reference(&page, input)?;
    }
    Ok(page_shape(&page))
}

/// The id is what the record says, letter by letter.
fn same_id(raw: Option<&str>, id: &str) -> Result<(), String> {
    let raw = raw.ok_or_else(|| format!("a record without an id became {id:?}"))?;
    let want = match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(raw).map_err(|error| format!("{raw}: {error}"))?,
        // Objects and lists have rules of their own.
        Some(b'[' | b'{') => return Ok(()),
        _ => raw.to_owned(),
    };
    if want == id { Ok(()) } else { Err(format!("the id {want:?} became {id:?}")) }
}

/// What another reader makes of the page: it finds the same number of items, or none of both takes it.
fn reference(page: &Result<Decoded, NotAPage>, input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    match (serde_json::from_str::<Reference<'_>>(text), page) {
        (Ok(reference), Ok(page)) if page.items.len() + page.bad.len() != reference.items.len() => {
            Err(format!("{} items, but {} were there", page.items.len() + page.bad.len(), reference.items.len()))
        }
        (Ok(_), Err(error)) if !error.message.contains("next") && !error.message.contains("more than") => {
            Err(format!("a whole page was refused: {error}"))
        }
        (Err(_), Ok(_)) => {
            let controls = text.bytes().any(|byte| byte < 0x20);
            let whole = serde_json::from_str::<serde::de::IgnoredAny>(text.trim_start_matches('\u{feff}')).is_ok();
            if whole || controls { Ok(()) } else { Err("a page that is not JSON was accepted".to_owned()) }
        }
        _ => Ok(()),
    }
}

pub fn xml(shape: XmlShape, input: &[u8]) -> Result<String, String> {
    let page = xml_page(shape, input);
    if let Ok(page) = &page {
        page_laws(page, input, |bytes| xml_page(shape, bytes))?;
        for item in &page.items {
            if !item.payload.starts_with(b"<") || !item.payload.ends_with(b">") {
                return Err("a record that is no element".to_owned());
            }
            if shape == XmlShape::Oai {
                continue;
            }
            let alone = [&b"<set>"[..], &item.payload, b"</set>"].concat();
            let again = xml_page(shape, &alone).map_err(|error| format!("a record that is not whole: {error}"))?;
            let ids: Vec<&str> = again.items.iter().map(|item| item.id.as_str()).collect();
            if ids != [item.id.as_str()] {
                return Err(format!("the id {:?} alone reads {ids:?}", item.id));
            }
        }
    }
    Ok(page_shape(&page))
}
