//! JSON text as a tree in which no number has lost a digit.
//!
//! A machine number holds neither an id of thirty digits nor 1e400: the one would be rounded without a word, the
//! other would cost the whole text. In the tree both become the text that was written.

use std::borrow::Cow;

use serde_json::Value;

/// Whole numbers shorter than this always fit.
const SHORT: usize = 19;

/// Reads a text that is known to be valid JSON.
pub fn tree(raw: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&quoted(raw))
}

/// The text with quotes around the numbers that would not survive.
fn quoted(raw: &str) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let (mut output, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_text(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                if !fits(&raw[at..end]) {
                    output.push_str(&raw[copied..at]);
                    output.push('"');
                    output.push_str(&raw[at..end]);
                    output.push('"');
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(raw);
    }
    output.push_str(&raw[copied..]);
    Cow::Owned(output)
}

fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

fn fits(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.len() < SHORT || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    number.parse::<f64>().map_or(true, f64::is_finite)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_no_machine_number_holds_stay_as_written() {
        let tree = tree(
            r#"[1,-5,1.5,18446744073709551615,18446744073709551616,-9223372036854775808,
            -9223372036854775809,1e400,-1E+400,"18446744073709551616","a\"99999999999999999999"]"#,
        );
        let want = json!([
            1,
            -5,
            1.5,
            18446744073709551615u64,
            "18446744073709551616",
            -9223372036854775808i64,
            "-9223372036854775809",
            "1e400",
            "-1E+400",
            "18446744073709551616",
            "a\"99999999999999999999"
        ]);
        assert_eq!(tree.unwrap(), want);
    }
}
