//! SHA-256 digests and the canonical JSON they are taken over.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A SHA-256 digest; prints as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash32([u8; 32]);

impl Hash32 {
    pub fn of(bytes: &[u8]) -> Hash32 {
        Hash32(Sha256::digest(bytes).into())
    }

    /// Over several parts, each preceded by its length so that parts cannot run into each other.
    pub fn of_parts(parts: &[&[u8]]) -> Hash32 {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Hash32(hasher.finalize().into())
    }

    /// Over the canonical JSON of a value.
    pub fn of_json(value: &serde_json::Value) -> Hash32 {
        Hash32::of(canonical(value).as_bytes())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Hash32 {
        Hash32(bytes)
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes, for sets that need not withstand an adversary.
    pub fn short(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(first)
    }
}

/// [`Hash32::of`] over bytes that come piece by piece.
#[derive(Default)]
pub struct Hashing(Sha256);

impl Hashing {
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn end(self) -> Hash32 {
        Hash32(self.0.finalize().into())
    }
}

/// A digest over parts that come one after the other, each with its kind and length.
#[derive(Default)]
pub struct Digesting(Sha256);

impl Digesting {
    pub fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.0.update([kind]);
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub fn end(self) -> Hash32 {
        Hash32(self.0.finalize().into())
    }
}

impl fmt::Display for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest in hex")]
pub struct NotAHash;

impl FromStr for Hash32 {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        if text.len() != 64 || !text.is_ascii() {
            return Err(NotAHash);
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| NotAHash)?;
        }
        Ok(Hash32(bytes))
    }
}

impl Serialize for Hash32 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Canonical JSON: keys sorted by UTF-16 units, nulls in objects left out, numbers as ECMAScript prints them.
pub fn canonical(value: &serde_json::Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &serde_json::Value, text: &mut String) {
    match value {
        serde_json::Value::Null => text.push_str("null"),
        serde_json::Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        serde_json::Value::Number(number) => write_number(number, text),
        serde_json::Value::String(string) => write_string(string, text),
        serde_json::Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        serde_json::Value::Object(map) => write_object(map, text),
    }
}

fn write_object(map: &serde_json::Map<String, serde_json::Value>, text: &mut String) {
    let mut entries: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
    entries.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
    text.push('{');
    for (at, (key, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_string(key, text);
        text.push(':');
        write_canonical(value, text);
    }
    text.push('}');
}

fn write_number(number: &serde_json::Number, text: &mut String) {
    if let Some(integer) = number.as_i64() {
        text.push_str(itoa::Buffer::new().format(integer));
    } else if let Some(integer) = number.as_u64() {
        text.push_str(itoa::Buffer::new().format(integer));
    } else {
        text.push_str(ryu_js::Buffer::new().format(number.as_f64().unwrap_or(f64::NAN)));
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for letter in string.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if (control as u32) < 0x20 => text.push_str(&format!("\\u{:04x}", control as u32)),
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_json_sorts_keys_drops_nulls_and_normalises_numbers() {
        let value = json!({"b": 1.0, "a": [null, {"z": null, "y": 1e21}], "é": "\u{1}\"", "c": 0.1});
        assert_eq!(canonical(&value), r#"{"a":[null,{"y":1e+21}],"b":1,"c":0.1,"é":"\u0001\""}"#);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(Hash32::of_parts(&[b"ab", b"c"]), Hash32::of_parts(&[b"a", b"bc"]));
    }

    #[test]
    fn a_digest_reads_back() {
        let digest = Hash32::of(b"patra");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("xyz".parse::<Hash32>().is_err());
    }
}
