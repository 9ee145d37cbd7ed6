//! Rust text with its strings and comments taken out, so that rules look at code only.
//!
//! Lines keep their numbers: what is taken out becomes spaces, line ends stay.

/// One file, taken apart.
pub struct Split {
    /// The code; strings, characters and comments are blank.
    pub code: String,
    /// The comments; all else is blank.
    pub comments: String,
}

/// Takes a file apart. Bytes above ASCII never decide anything, so it works on bytes.
pub fn split(text: &str) -> Split {
    let bytes = text.as_bytes();
    let (mut code, mut comments) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_comment, is_code) = match piece(bytes, at) {
            Piece::Code => (at + 1, false, true),
            Piece::Comment(end) => (end, true, false),
            Piece::Literal(end) => (end, false, false),
        };
        for &byte in &bytes[at..end] {
            code.push(if is_code || byte == b'\n' { byte } else { b' ' });
            comments.push(if is_comment || byte == b'\n' { byte } else { b' ' });
        }
        at = end;
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Split { code: text(code), comments: text(comments) }
}

enum Piece {
    Code,
    Comment(usize),
    Literal(usize),
}

fn piece(bytes: &[u8], at: usize) -> Piece {
    let rest = &bytes[at..];
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest[0] {
        b'/' if rest.starts_with(b"//") => Piece::Comment(at + line_end(rest)),
        b'/' if rest.starts_with(b"/*") => Piece::Comment(at + block_end(rest)),
        b'"' => Piece::Literal(at + 1 + quoted_end(&rest[1..], b'"')),
        b'r' | b'b' if !word_before => match raw_end(rest) {
            Some(end) => Piece::Literal(at + end),
            None => Piece::Code,
        },
        // A character ends with its quote; a lifetime has none.
        b'\'' => match character_end(rest) {
            Some(end) => Piece::Literal(at + end),
            None => Piece::Code,
        },
        _ => Piece::Code,
    }
}

fn line_end(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_end(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Bytes up to and with the closing quote.
fn quoted_end(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br#"…"#`, and `b"…"`.
fn raw_end(rest: &[u8]) -> Option<usize> {
    let mut at = usize::from(rest[0] == b'b');
    let raw = rest.get(at) == Some(&b'r');
    at += usize::from(raw);
    let hashes = rest[at..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(at + hashes) != Some(&b'"') || (!raw && hashes > 0) {
        return None;
    }
    let begin = at + hashes + 1;
    if !raw {
        return Some(begin + quoted_end(&rest[begin..], b'"'));
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let found = rest[begin..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(rest.len(), |found| begin + found + close.len()))
}

fn character_end(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some((1 + quoted_end(&rest[1..], b'\'')).min(rest.len()));
    }
    // A character is at most four bytes long.
    let close = rest.iter().skip(2).take(4).position(|byte| *byte == b'\'')? + 2;
    std::str::from_utf8(&rest[1..close]).ok().filter(|text| text.chars().count() == 1).map(|_| close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_characters_and_comments_are_not_code() {
        let cases = [
            (r#"let a = "}{"; b"#, "let a =     ; b"),
            (r##"f(r#"a "}" b"#, 1)"##, "f(            , 1)"),
            (r#"f(b"}", br"{")"#, "f(    ,      )"),
            ("let c = '{'; let d: &'static str", "let c =    ; let d: &'static str"),
            (r"match c { '\'' => 1, '\u{7d}' => 2, '→' => 3 }", "match c {      => 1,          => 2,       => 3 }"),
            ("a /* { /* } */ */ b", "a                 b"),
            ("a // }\nb", "a     \nb"),
            (r#""\"}" x"#, "      x"),
            ("for x in r { br }", "for x in r { br }"),
        ];
        for (text, want) in cases {
            assert_eq!(split(text).code, want, "{text}");
        }
    }

    #[test]
    fn comments_are_kept_on_their_lines() {
        let split = split("a\nb // why\n\"// no\"");
        assert_eq!(split.comments.trim(), "// why");
        assert_eq!(split.comments.lines().nth(1).map(str::trim), Some("// why"));
    }
}
