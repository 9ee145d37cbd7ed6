//! The content hash of a JSON record: a record whose keys come in another order or with other blanks is the same.
//!
//! The record's bytes are known to be valid JSON, so a plain scanner copies its tokens, sorted by key and without
//! the excluded paths, and hashes the copy. Strings and numbers are copied as written: no number is rounded on the
//! way, and `"é"` and `"\u00e9"` count as different. Sorting moves bytes that are already written, no tree is built.
//! Real sources send a key twice in one object: both members count, in the order they were written.

use std::borrow::Cow;
use std::ops::Range;

use patra_core::hash::Hash32;

use super::trie::Trie;

/// Deepest nesting of a record.
pub const DEPTH_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhashable {
    #[error("nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("not valid JSON")]
    Malformed,
}

/// Buffers that are used again for the next record.
#[derive(Default)]
pub struct Canonical {
    output: Vec<u8>,
    scratch: Vec<u8>,
    /// A key that came twice in one object of the record hashed last.
    pub repeated: Option<String>,
}

impl Canonical {
    pub fn hash(&mut self, raw: &str, exclude: &Trie) -> Result<Hash32, Unhashable> {
        self.output.clear();
        self.repeated = None;
        let mut writer = Writer {
            text: raw,
            bytes: raw.as_bytes(),
            at: 0,
            exclude,
            output: &mut self.output,
            scratch: &mut self.scratch,
            repeated: &mut self.repeated,
            members: Vec::new(),
        };
        writer.value(0, (!exclude.is_empty()).then_some(0))?;
        writer.blanks();
        if writer.at != raw.len() {
            return Err(Unhashable::Malformed);
        }
        Ok(Hash32::of(&self.output))
    }
}

struct Writer<'a, 'b> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    exclude: &'b Trie,
    output: &'b mut Vec<u8>,
    scratch: &'b mut Vec<u8>,
    repeated: &'b mut Option<String>,
    /// Members of the objects that are open, innermost last: key and place in the output.
    members: Vec<(Cow<'a, str>, Range<usize>)>,
}

impl<'a> Writer<'a, '_> {
    fn value(&mut self, depth: usize, node: Option<usize>) -> Result<(), Unhashable> {
        if depth > DEPTH_MAX {
            return Err(Unhashable::TooDeep);
        }
        self.blanks();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth, node),
            Some(b'[') => self.list(depth, node),
            Some(b'"') => {
                let token = self.string()?;
                self.output.extend_from_slice(&self.bytes[token]);
                Ok(())
            }
            Some(_) => self.word(),
            None => Err(Unhashable::Malformed),
        }
    }

    fn object(&mut self, depth: usize, node: Option<usize>) -> Result<(), Unhashable> {
        self.at += 1;
        self.output.push(b'{');
        let (first, start) = (self.members.len(), self.output.len());
        loop {
            self.blanks();
            match self.bytes.get(self.at) {
                Some(b'}') => break,
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(b'"') => {}
                _ => return Err(Unhashable::Malformed),
            }
            let token = self.string()?;
            let key = self.key(&token)?;
            self.blanks();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(Unhashable::Malformed);
            }
            self.at += 1;
            let child = node.and_then(|node| self.exclude.child_of_name(node, &key));
            let written = self.output.len();
            self.output.extend_from_slice(&self.bytes[token]);
            self.output.push(b':');
            self.value(depth + 1, child)?;
            self.output.push(b',');
            if child.is_some_and(|child| self.exclude.ends_at(child)) {
                self.output.truncate(written);
            }
            self.members.push((key, written..self.output.len()));
        }
        self.at += 1;
        self.sort(first, start);
        self.output.push(b'}');
        Ok(())
    }

    /// Brings the members written since `start` into the order of their keys.
    fn sort(&mut self, first: usize, start: usize) {
        let members = &mut self.members[first..];
        let sorted = members.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !sorted {
            members.sort_by(|left, right| left.0.cmp(&right.0));
            if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                *self.repeated = Some(pair[0].0.chars().take(100).collect());
            }
            self.scratch.clear();
            for (_, range) in members.iter() {
                self.scratch.extend_from_slice(&self.output[range.clone()]);
            }
            self.output[start..].copy_from_slice(self.scratch);
        }
        self.members.truncate(first);
    }

    fn list(&mut self, depth: usize, node: Option<usize>) -> Result<(), Unhashable> {
        self.at += 1;
        self.output.push(b'[');
        let mut index = 0;
        loop {
            self.blanks();
            match self.bytes.get(self.at) {
                Some(b']') => break,
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let child = node.and_then(|node| self.exclude.child_of_index(node, index));
            let written = self.output.len();
            self.value(depth + 1, child)?;
            self.output.push(b',');
            if child.is_some_and(|child| self.exclude.ends_at(child)) {
                self.output.truncate(written);
            }
            index += 1;
        }
        self.at += 1;
        self.output.push(b']');
        Ok(())
    }

    /// The range of a string with its quotes.
    fn string(&mut self) -> Result<Range<usize>, Unhashable> {
        let start = self.at;
        let mut at = start + 1;
        loop {
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return Err(Unhashable::Malformed),
            }
        }
        self.at = at + 1;
        Ok(start..self.at)
    }

    fn key(&self, token: &Range<usize>) -> Result<Cow<'a, str>, Unhashable> {
        let quoted = &self.text[token.clone()];
        if !quoted.contains('\\') {
            return Ok(Cow::Borrowed(&quoted[1..quoted.len() - 1]));
        }
        serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| Unhashable::Malformed)
    }

    fn word(&mut self) -> Result<(), Unhashable> {
        let rest = &self.bytes[self.at..];
        let ends =
            |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b'"' | b'{' | b'[') || byte.is_ascii_whitespace();
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        if length == 0 {
            return Err(Unhashable::Malformed);
        }
        self.output.extend_from_slice(&rest[..length]);
        self.at += length;
        Ok(())
    }

    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use patra_core::path::JsonStep;

    use super::*;

    fn hash(text: &str, exclude: &[&[JsonStep]]) -> Result<Hash32, Unhashable> {
        let mut trie = Trie::default();
        exclude.iter().for_each(|steps| {
            trie.add(steps);
        });
        Canonical::default().hash(text, &trie)
    }

    fn name(text: &str) -> JsonStep {
        JsonStep::Name(text.into())
    }

    #[test]
    fn order_and_blanks_do_not_count_but_content_does() {
        let base = hash(r#"{"a":1,"b":{"c":[1,2],"d":"x"}}"#, &[]).unwrap();
        for same in [r#"{ "b" : {"d":"x", "c":[1, 2]} , "a":1 }"#, "{\"b\":{\"d\":\"x\",\n\"c\":[1,2]},\"a\":1}"] {
            assert_eq!(hash(same, &[]).unwrap(), base, "{same}");
        }
        for other in [
            r#"{"a":1,"b":{"c":[2,1],"d":"x"}}"#,
            r#"{"a":1.0,"b":{"c":[1,2],"d":"x"}}"#,
            r#"{"a":1,"b":{"c":[1,2],"d":"x "}}"#,
            r#"{"a":"1","b":{"c":[1,2],"d":"x"}}"#,
            r#"{"a":1,"b":{"c":[12],"d":"x"}}"#,
        ] {
            assert_ne!(hash(other, &[]).unwrap(), base, "{other}");
        }
    }

    #[test]
    fn excluded_paths_are_left_out() {
        let steps: [&[JsonStep]; 3] =
            [&[name("indexed")], &[name("refs"), JsonStep::Wildcard, name("n")], &[name("list"), JsonStep::Index(1)]];
        let one = hash(r#"{"id":1,"indexed":{"t":5},"refs":[{"n":1,"k":2}],"list":[1,2,3]}"#, &steps).unwrap();
        let two = hash(r#"{"indexed":{"t":6},"id":1,"refs":[{"k":2,"n":9}],"list":[1,7,3]}"#, &steps).unwrap();
        let three = hash(r#"{"indexed":{"t":6},"id":1,"refs":[{"k":3,"n":9}],"list":[1,7,3]}"#, &steps).unwrap();
        assert_eq!(one, two);
        assert_ne!(one, three);
    }

    #[test]
    fn a_key_that_comes_twice_counts_twice_and_is_named() {
        let mut canonical = Canonical::default();
        for (raw, repeated) in
            [(r#"{"b":{"x":1,"x":2},"a":1}"#, Some("x")), (r#"{"id":1,"\u0069d":2}"#, Some("id")), ("{}", None)]
        {
            canonical.hash(raw, &Trie::default()).unwrap();
            assert_eq!(canonical.repeated.as_deref(), repeated, "{raw}");
        }
        let of = |raw: &str| hash(raw, &[]).unwrap();
        assert_eq!(of(r#"{"x":1,"a":0,"x":2}"#), of(r#"{"a":0,"x":1, "x":2}"#));
        assert_ne!(of(r#"{"x":1,"x":2}"#), of(r#"{"x":2,"x":1}"#));
        assert_ne!(of(r#"{"x":1,"x":2}"#), of(r#"{"x":2}"#));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(hash(&deep(100), &[]).is_ok());
        assert_eq!(hash(&deep(100_000), &[]), Err(Unhashable::TooDeep));
    }

    proptest::proptest! {
        #[test]
        fn hashing_any_text_never_panics(text in ".{0,80}", json in "[\\[\\]{}\",:a0 \\\\]{0,60}") {
            let _ = hash(&text, &[]);
            let _ = hash(&json, &[&[name("a")]]);
        }
    }
}
