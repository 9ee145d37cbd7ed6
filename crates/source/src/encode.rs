//! Small encoders: percent, base64, hex.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Encodes everything but letters, digits and `-._~`, so a value cannot end the part it stands in.
pub fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            other => {
                encoded.push('%');
                encoded.push(char::from(HEX[usize::from(other >> 4)]));
                encoded.push(char::from(HEX[usize::from(other & 15)]));
            }
        }
    }
    encoded
}

/// `name=value` pairs joined with `&`, each part encoded.
pub fn pairs(pairs: &[(String, String)]) -> String {
    let parts: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", percent(name), percent(value))).collect();
    parts.join("&")
}

pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    digits.map(|digit| char::from(digit).to_ascii_lowercase()).collect()
}

pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            if at <= chunk.len() {
                encoded.push(char::from(LETTERS[(word >> (18 - 6 * at)) as usize & 63]));
            } else {
                encoded.push('=');
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(percent("a b/ü[+]%"), "a%20b%2F%C3%BC%5B%2B%5D%25");
        assert_eq!(pairs(&[("page[size]".into(), "a&b".into())]), "page%5Bsize%5D=a%26b");
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        for (text, want) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), want);
        }
    }
}
