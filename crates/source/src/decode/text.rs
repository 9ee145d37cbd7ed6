//! The body as text: byte order mark, other encodings, and bytes that are no text at all.
//!
//! Bytes that are not UTF-8 must not cost the page, only their record. So the decoders read a copy in which each
//! such byte is a [`MASK`]: places in the copy are places in the body, and a record whose own bytes differ from the
//! copy is set aside.

use std::ops::Range;

use bytes::Bytes;
use encoding_rs::Encoding;
use patra_core::spec::snapshot::Format;

/// Stands for a byte that is no text. No honest text holds it, yet JSON and XML both allow it.
const MASK: u8 = 0x7f;
/// How much of the body is searched for an XML declaration.
const DECLARATION_BYTES: usize = 256;

/// A body and the text to read it by.
#[derive(Debug)]
pub struct Text {
    body: Bytes,
    masked: Option<String>,
    start: usize,
}

impl Text {
    /// Turns other encodings into UTF-8. A body that is UTF-8 stays as it is, whatever it is labelled as: labels
    /// lie, and text in another encoding is hardly ever valid UTF-8 by chance.
    pub fn new(body: Bytes, format: Format, content_type: Option<&str>) -> Text {
        let body = match foreign_encoding(&body, format, content_type) {
            Some(encoding) => transcode(&body, encoding, format),
            None => body,
        };
        let start = if body.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let masked = std::str::from_utf8(&body).is_err().then(|| mask_invalid(&body));
        Text { body, masked, start }
    }

    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The text without its byte order mark. Looks at every byte: call it once for a body, not for each record.
    pub fn as_str(&self) -> &str {
        let text = match &self.masked {
            Some(masked) => masked,
            None => std::str::from_utf8(&self.body).unwrap_or_default(),
        };
        &text[self.start..]
    }

    /// Also masks control characters inside JSON strings; `None` if there are none.
    pub fn with_masked_controls(&self) -> Option<Text> {
        let mut bytes = match &self.masked {
            Some(masked) => masked.clone().into_bytes(),
            None => self.body.to_vec(),
        };
        let (mut inside, mut escaped, mut any) = (false, false, false);
        for byte in &mut bytes {
            match *byte {
                _ if escaped => escaped = false,
                b'\\' if inside => escaped = true,
                b'"' => inside = !inside,
                0..0x20 if inside => {
                    *byte = MASK;
                    any = true;
                }
                _ => {}
            }
        }
        let masked = String::from_utf8(bytes).ok().filter(|_| any)?;
        Some(Text { body: self.body.clone(), masked: Some(masked), start: self.start })
    }

    /// Whether a text read from here may hold bytes that were masked.
    pub fn is_spoilt(&self, text: &str) -> bool {
        self.masked.is_some() && text.as_bytes().contains(&MASK)
    }

    /// The body's own bytes of a part of `whole`, which is [`Text::as_str`], and whether they are what was read.
    pub fn raw(&self, whole: &str, part: &str) -> (Bytes, bool) {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        if start > whole.len() || start + part.len() > whole.len() {
            return (Bytes::copy_from_slice(part.as_bytes()), true);
        }
        self.raw_range(start..start + part.len())
    }

    pub fn raw_range(&self, range: Range<usize>) -> (Bytes, bool) {
        let same = self.masked.is_none()
            || self.as_str().as_bytes()[range.clone()] == self.body[self.start + range.start..self.start + range.end];
        (self.body.slice(self.start + range.start..self.start + range.end), same)
    }
}

fn foreign_encoding(body: &[u8], format: Format, content_type: Option<&str>) -> Option<&'static Encoding> {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return (encoding != encoding_rs::UTF_8).then_some(encoding);
    }
    let declared = match format {
        Format::Xml => declared_encoding(body),
        Format::Json => None,
    };
    let charset = declared.map(|(_, encoding)| encoding).or_else(|| charset_of(content_type?));
    let charset = charset.filter(|encoding| *encoding != encoding_rs::UTF_8)?;
    // Both formats begin with an ASCII letter, of which every UTF-16 text has a zero byte.
    let wide = charset == encoding_rs::UTF_16LE || charset == encoding_rs::UTF_16BE;
    if wide && !body.iter().take(2).any(|byte| *byte == 0) {
        return None;
    }
    let is_utf8 = std::str::from_utf8(body).is_ok();
    (!is_utf8 || !charset.is_ascii_compatible()).then_some(charset)
}

fn charset_of(content_type: &str) -> Option<&'static Encoding> {
    let lower = content_type.to_ascii_lowercase();
    let value = lower.split(';').find_map(|part| part.trim().strip_prefix("charset="))?;
    Encoding::for_label(value.trim_matches(['"', '\'', ' ']).as_bytes())
}

/// Range and meaning of the encoding named in the XML declaration.
fn declared_encoding(body: &[u8]) -> Option<(Range<usize>, &'static Encoding)> {
    let head = &body[..body.len().min(DECLARATION_BYTES)];
    let head = std::str::from_utf8(head)
        .unwrap_or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or(""));
    if !head.starts_with("<?xml") {
        return None;
    }
    let declaration = &head[..head.find("?>")?];
    let label = declaration.find("encoding")?;
    let open = label + declaration[label..].find(['"', '\''])?;
    let quote = declaration[open..].chars().next()?;
    let close = open + 1 + declaration[open + 1..].find(quote)?;
    Some((open + 1..close, Encoding::for_label(&declaration.as_bytes()[open + 1..close])?))
}

fn transcode(body: &[u8], encoding: &'static Encoding, format: Format) -> Bytes {
    let (text, _, broken) = encoding.decode(body);
    let mut text = text.into_owned();
    if format == Format::Xml
        && let Some((range, _)) = declared_encoding(text.as_bytes())
    {
        // The kept body is read again at a replay and must then say what it is.
        text.replace_range(range, "UTF-8");
    }
    if !broken {
        return Bytes::from(text);
    }
    // What could not be read must not pass for a letter: as bytes that are no text it costs its record only.
    let parts: Vec<&[u8]> = text.split('\u{fffd}').map(str::as_bytes).collect();
    Bytes::from(parts.join(&[0xff; 3][..]))
}

/// The same length, with a [`MASK`] for every byte that is not part of valid UTF-8.
fn mask_invalid(body: &[u8]) -> String {
    let mut masked = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        masked.push_str(chunk.valid());
        masked.extend(chunk.invalid().iter().map(|_| char::from(MASK)));
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_followed_only_where_the_bytes_are_not_utf8() {
        let xml = |body: &'static [u8], label: Option<&str>| {
            Text::new(Bytes::from_static(body), Format::Xml, label).as_str().to_owned()
        };
        assert_eq!(
            xml(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", None),
            "<?xml version='1.0' encoding='UTF-8'?><a>é</a>"
        );
        assert_eq!(xml(b"<a>\xe9</a>", Some("text/html;charset=ISO-8859-1")), "<a>é</a>");
        assert_eq!(xml("<a>é</a>".as_bytes(), Some("text/html; charset=\"ISO-8859-1\"")), "<a>é</a>");
        assert_eq!(xml(b"\xef\xbb\xbf<a/>", None), "<a/>");
        assert_eq!(xml(b"\xff\xfe<\x00a\x00/\x00>\x00", None), "<a/>");
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_place() {
        let text = Text::new(Bytes::from_static(b"[\"a\xff\xfeb\",\"c\"]"), Format::Json, None);
        assert_eq!(text.as_str(), "[\"a\u{7f}\u{7f}b\",\"c\"]");
        let (raw, same) = text.raw(text.as_str(), &text.as_str()[1..7]);
        assert_eq!((&raw[..], same), (&b"\"a\xff\xfeb\""[..], false));
        let (raw, same) = text.raw(text.as_str(), &text.as_str()[8..11]);
        assert_eq!((&raw[..], same), (&b"\"c\""[..], true));
    }
}
