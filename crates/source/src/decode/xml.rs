//! XML bodies: one pass over the events, the bytes of each item kept as they are.
//!
//! Nothing outside the body is ever read: a plain DOCTYPE is accepted and not fetched, one that declares entities
//! is refused. An entity that nobody declared stays in the text as written. Items are hashed as they stand in the
//! body, without the excluded parts; they may use namespace prefixes that were declared further up.

use std::ops::Range;

use patra_core::hash::Hash32;
use patra_core::page::{BadItem, BadReason, Item};
use patra_core::spec::errors::BodyFault;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use serde_json::Value;

use super::compile::{Probe, ResponseProgram};
use super::record::{bad, is_empty};
use super::text::Text;
use super::xmltrie::{Namespaces, Walker, XmlTrie};
use super::{Decoded, NotAPage, Words, check_count};

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 128;

pub fn decode(program: &ResponseProgram, text: &Text) -> Result<Decoded, NotAPage> {
    let mut pass = Pass::new(text, &program.page.xml, Some(program));
    pass.run()?;
    let words = Words::read(program, pass.page.matches(), text)?;
    words.check_place(pass.present, program)?;
    Ok(words.decoded(pass.items, pass.bad, text.body().clone()))
}

/// Reads one record by itself: the whole text is the item. Prefixes that were declared further up are not known here.
pub fn reread(program: &ResponseProgram, text: &Text) -> Result<Item, BadItem> {
    let mut pass = Pass::new(text, &program.page.xml, Some(program));
    pass.alone = true;
    let malformed = |message: String| bad(None, (BadReason::Malformed, String::new(), message), text.body().clone());
    pass.run().map_err(|error| malformed(error.message))?;
    match (pass.items.pop(), pass.bad.pop()) {
        (Some(item), _) => Ok(item),
        (None, Some(one)) => Err(one),
        (None, None) => Err(malformed("there is no element".to_owned())),
    }
}

pub fn probe(probe: &Probe, text: &Text) -> Option<Value> {
    let mut pass = Pass::new(text, &probe.paths.xml, None);
    pass.run().ok()?;
    let one = probe.slots.value(pass.page.matches()).ok()??;
    one.tree().ok().filter(|value| !is_empty(value))
}

struct Pass<'p, 'a> {
    text: &'a Text,
    body: &'a str,
    program: Option<&'p ResponseProgram>,
    namespaced: bool,
    namespaces: Namespaces,
    page: Walker<'p>,
    record: Option<Walker<'p>>,
    /// Start of the item that is open.
    item: Option<usize>,
    /// The root element is the item.
    alone: bool,
    too_deep: bool,
    depth: usize,
    root_seen: bool,
    present: bool,
    items: Vec<Item>,
    bad: Vec<BadItem>,
}

impl<'p, 'a> Pass<'p, 'a> {
    fn new(text: &'a Text, page: &'p XmlTrie, program: Option<&'p ResponseProgram>) -> Pass<'p, 'a> {
        let record = program.map(|program| &program.record.xml);
        Pass {
            text,
            body: text.as_str(),
            program,
            namespaced: page.namespaced || record.is_some_and(|record| record.namespaced),
            namespaces: Namespaces::default(),
            page: Walker::new(page),
            record: record.map(Walker::new),
            item: None,
            alone: false,
            too_deep: false,
            depth: 0,
            root_seen: false,
            present: false,
            items: Vec::new(),
            bad: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), NotAPage> {
        let mut reader = Reader::from_str(self.body);
        let config = reader.config_mut();
        config.check_comments = false;
        config.expand_empty_elements = false;
        loop {
            let start = offset(reader.buffer_position());
            let event = reader.read_event().map_err(|error| unreadable(&error, reader.error_position()))?;
            let end = offset(reader.buffer_position());
            match event {
                Event::Start(tag) => self.open(&tag, start)?,
                Event::End(_) => self.close(start, end)?,
                Event::Empty(tag) => {
                    self.open(&tag, start)?;
                    self.close(start, end)?;
                }
                Event::Text(text) => self.characters(&text.xml10_content())?,
                Event::CData(text) => self.characters(&text.xml10_content())?,
                Event::GeneralRef(reference) => self.characters(&resolved(&reference))?,
                Event::DocType(doctype) => refuse_entities(&doctype.xml10_content())?,
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::Eof => break,
            }
        }
        match (self.depth, self.root_seen) {
            (0, true) => Ok(()),
            (0, false) => Err(NotAPage::malformed("not whole XML: there is no element")),
            (open, _) => {
                let message = format!("not whole XML: {open} elements are still open at the end");
                Err(NotAPage { fault: BodyFault::Short, message })
            }
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>, at: usize) -> Result<(), NotAPage> {
        if self.depth == 0 && self.root_seen {
            return Err(NotAPage::malformed("not whole XML: a second root element"));
        }
        self.root_seen = true;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            if self.item.is_none() {
                return Err(NotAPage::malformed(format!("elements are nested deeper than {DEPTH_MAX}")));
            }
            self.too_deep = true;
            return Ok(());
        }
        if self.namespaced {
            self.namespaces.open(tag, self.depth);
        }
        let body = self.body;
        if let (Some(record), Some(_)) = (&mut self.record, self.item) {
            record.start(tag, &self.namespaces, body, at);
            return Ok(());
        }
        let seen = self.page.start(tag, &self.namespaces, body, at);
        self.present |= seen.item || seen.container;
        if let (true, Some(record)) = (seen.item || self.alone, &mut self.record) {
            record.reset();
            record.start(tag, &self.namespaces, body, at);
            self.item = Some(at);
            self.too_deep = false;
        }
        Ok(())
    }

    fn close(&mut self, _start: usize, end: usize) -> Result<(), NotAPage> {
        if self.depth == 0 {
            return Err(NotAPage::malformed("not whole XML: an end tag without its start"));
        }
        self.depth -= 1;
        if self.depth >= DEPTH_MAX {
            return Ok(());
        }
        if self.namespaced {
            self.namespaces.close(self.depth + 1);
        }
        if let (Some(record), Some(start)) = (&mut self.record, self.item) {
            record.end(end);
            if record.depth() > 0 {
                return Ok(());
            }
            self.item = None;
            self.finish(start..end);
            check_count(self.items.len() + self.bad.len())?;
        }
        self.page.end(end);
        Ok(())
    }

    fn characters(&mut self, text: &str) -> Result<(), NotAPage> {
        if self.depth == 0 {
            let blank = text.chars().all(char::is_whitespace);
            return if blank {
                Ok(())
            } else {
                Err(NotAPage::malformed("not whole XML: text outside the root element"))
            };
        }
        match (&mut self.record, self.item) {
            (Some(record), Some(_)) => record.text(text),
            _ => self.page.text(text),
        }
        Ok(())
    }

    fn finish(&mut self, range: Range<usize>) {
        let (Some(program), Some(record)) = (self.program, &self.record) else { return };
        let (payload, clean) = self.text.raw_range(range.clone());
        let raw = &self.body[range.clone()];
        let trouble = if !clean || raw.bytes().any(is_illegal) {
            Some((BadReason::BadText, "the record holds bytes that are no text"))
        } else if self.too_deep {
            Some((BadReason::Malformed, "the record is nested too deep"))
        } else {
            None
        };
        if let Some((reason, message)) = trouble {
            self.bad.push(bad(None, (reason, String::new(), message.to_owned()), payload));
            return;
        }
        let hash = hash_without(raw, range.start, &record.excluded);
        match program.plan.build(record.matches(), hash, payload) {
            Ok(item) => self.items.push(item),
            Err(one) => self.bad.push(one),
        }
    }
}

fn offset(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

/// Control characters that XML 1.0 forbids.
fn is_illegal(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// The text a reference stands for; one that nobody declared stays as written.
pub(super) fn resolved(reference: &BytesRef<'_>) -> String {
    match reference.resolve_char_ref() {
        Ok(Some(letter)) => return letter.to_string(),
        Ok(None) => {}
        // A number that is no character becomes NUL, which no text may hold.
        Err(_) => return '\0'.to_string(),
    }
    let name = reference.xml10_content();
    resolve_xml_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned)
}

/// What ends in the middle of a tag was cut off; the rest was never XML.
fn unreadable(error: &quick_xml::Error, at: u64) -> NotAPage {
    let fault = match error {
        quick_xml::Error::Syntax(_) => BodyFault::Short,
        _ => BodyFault::Malformed,
    };
    NotAPage { fault, message: format!("not whole XML: {error} at byte {at}") }
}

fn refuse_entities(doctype: &str) -> Result<(), NotAPage> {
    let subset = doctype.find('[').map(|at| doctype[at..].to_ascii_uppercase());
    match subset {
        Some(subset) if subset.contains("<!ENTITY") || subset.contains('%') => {
            Err(NotAPage::malformed("the document declares entities, which is refused"))
        }
        _ => Ok(()),
    }
}

fn hash_without(raw: &str, start: usize, excluded: &[Range<usize>]) -> Hash32 {
    if excluded.is_empty() {
        return Hash32::of(raw.as_bytes());
    }
    let mut ranges: Vec<Range<usize>> = excluded.to_vec();
    ranges.sort_by_key(|range| range.start);
    let (mut kept, mut at) = (Vec::with_capacity(raw.len()), 0);
    for range in ranges {
        let (from, to) = (range.start.saturating_sub(start), range.end.saturating_sub(start).min(raw.len()));
        if from > at {
            kept.extend_from_slice(&raw.as_bytes()[at..from]);
        }
        at = at.max(to);
    }
    kept.extend_from_slice(&raw.as_bytes()[at.min(raw.len())..]);
    Hash32::of(&kept)
}
