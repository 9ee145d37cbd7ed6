//! Masks what points to a person in samples and log lines: e-mail addresses, phone numbers, national id numbers (14.10).
//!
//! A mask keeps the first digits of a hash, `[email:9c1185]`, so that equal values can still be compared. There are few
//! of them on purpose: with so many phone numbers behind each hash none can be told from it. Records and pages that are
//! kept whole are never masked; they are what the source gave.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};

use crate::hash::Hash32;

/// Kept or shown of an answer when only a sample is.
pub const SAMPLE_BYTES: usize = 1_024;
const HASH_DIGITS: usize = 6;
/// No value that is masked is longer, so one that begins inside a sample ends inside twice its length.
const VALUE_BYTES_MAX: usize = 320;
/// Region codes of Chinese id numbers.
const REGIONS: &[u8] = &[
    11, 12, 13, 14, 15, 21, 22, 23, 31, 32, 33, 34, 35, 36, 37, 41, 42, 43, 44, 45, 46, 50, 51, 52, 53, 54, 61, 62, 63,
    64, 65, 71, 81, 82, 83,
];

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?x-u) (?: [A-Za-z0-9._%+\-] | [\xC3-\xDF][\x80-\xBF] ){1,64} (?: @ | %40 )
          (?: [A-Za-z0-9\-\x80-\xFF]{1,63}\. ){1,8} [A-Za-z]{2,24}",
    )
});

/// Numbers, and before them what holds numbers that are none of ours.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?x-u)
          10\.[0-9]{4,9}/[^\s"'<>]+
        | (?P<plus> \+[1-9][0-9\ ()\-]{6,20}[0-9] )
        | (?P<chinese> [1-8][0-9]{16}[0-9Xx] )
        | (?P<ssn> [0-8][0-9]{2}-[0-9]{2}-[0-9]{4} )
        | (?P<phone> \([2-9][0-9]{2}\)\ ?[2-9][0-9]{2}-[0-9]{4} | [2-9][0-9]{2}-[2-9][0-9]{2}-[0-9]{4}
                   | 1[3-9][0-9][\ \-]?[0-9]{4}[\ \-]?[0-9]{4} )"#,
    )
});

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant of this file")
}

/// A text with everything masked that points to a person.
pub fn masked(text: &str) -> String {
    String::from_utf8_lossy(&masked_bytes(text.as_bytes())).into_owned()
}

/// As [`masked`], for bytes in any encoding that has ASCII in it.
pub fn masked_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for (range, mask) in found(bytes) {
        out.extend_from_slice(&bytes[done..range.start]);
        out.extend_from_slice(mask.as_bytes());
        done = range.end;
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

/// The masked beginning of an answer, at most so many bytes of it and of the result; no mask is cut, and no value is
/// shown because it was.
pub fn sample(bytes: &[u8], most: usize) -> Vec<u8> {
    let seen = &bytes[..bytes.len().min(most + VALUE_BYTES_MAX)];
    let mut out = Vec::with_capacity(most);
    let mut done = 0;
    for (range, mask) in found(seen) {
        let before = &seen[done..range.start];
        if range.start >= most || out.len() + before.len() + mask.len() > most {
            let room = (most - out.len()).min(most.saturating_sub(done));
            return filled(out, before, room);
        }
        out.extend_from_slice(before);
        out.extend_from_slice(mask.as_bytes());
        done = range.end;
    }
    let room = (most - out.len()).min(most.saturating_sub(done));
    filled(out, &seen[done..], room)
}

/// Adds as much as there is room for, in whole characters where it is UTF-8.
fn filled(mut out: Vec<u8>, more: &[u8], room: usize) -> Vec<u8> {
    let mut room = more.len().min(room);
    while room < more.len() && room > 0 && more[room] & 0xC0 == 0x80 {
        room -= 1;
    }
    out.extend_from_slice(&more[..room]);
    out
}

/// What is to be masked, in order, each with its mask.
fn found(bytes: &[u8]) -> Vec<(Range<usize>, String)> {
    let email = |found: regex::bytes::Match<'_>| (found.range(), mask("email", &address(found.as_bytes())));
    let mut all: Vec<(Range<usize>, String)> = EMAIL.find_iter(bytes).map(email).collect();
    let emails = all.len();
    for number in NUMBER.captures_iter(bytes) {
        let Some((range, mask)) = number_of(bytes, &number) else { continue };
        if all[..emails].iter().all(|(email, _)| email.end <= range.start || range.end <= email.start) {
            all.push((range, mask));
        }
    }
    all.sort_by_key(|(range, _)| range.start);
    all
}

fn number_of(bytes: &[u8], number: &Captures<'_>) -> Option<(Range<usize>, String)> {
    let of = |name| number.name(name).filter(|found| is_free(bytes, &found.range()));
    let digits = |text: &[u8]| text.iter().filter(|byte| byte.is_ascii_digit()).copied().collect::<Vec<u8>>();
    if let Some(phone) = of("plus").or_else(|| of("phone")) {
        let digits = digits(phone.as_bytes());
        return (8..=15).contains(&digits.len()).then(|| (phone.range(), mask("phone", &digits)));
    }
    if let Some(id) = of("chinese").filter(|id| is_chinese_id(id.as_bytes())) {
        return Some((id.range(), mask("id", &id.as_bytes().to_ascii_uppercase())));
    }
    let ssn = of("ssn").filter(|ssn| is_ssn(ssn.as_bytes()))?;
    Some((ssn.range(), mask("id", ssn.as_bytes())))
}

/// The number stands alone: it is no part of a word, a path, a longer number or a date.
fn is_free(bytes: &[u8], range: &Range<usize>) -> bool {
    let joins = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let before = range.start.checked_sub(1).map(|at| &bytes[at]);
    let opens = before.is_some_and(|byte| joins(byte) || matches!(byte, b'/' | b'.' | b'+'));
    let decimal = bytes.get(range.end) == Some(&b'.') && bytes.get(range.end + 1).is_some_and(u8::is_ascii_digit);
    !opens && !decimal && !bytes.get(range.end).is_some_and(joins)
}

/// Region, day of birth and check digit are all right; ids of the ledger have as many digits.
fn is_chinese_id(id: &[u8]) -> bool {
    let number = |range: Range<usize>| id[range].iter().fold(0u32, |sum, byte| sum * 10 + u32::from(byte - b'0'));
    let weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let sum: u32 = id.iter().zip(weights).map(|(byte, weight)| u32::from(byte - b'0') * weight).sum();
    let check = b"10X98765432"[(sum % 11) as usize];
    REGIONS.contains(&(number(0..2) as u8))
        && (1850..2100).contains(&number(6..10))
        && (1..=12).contains(&number(10..12))
        && (1..=31).contains(&number(12..14))
        && id[17].to_ascii_uppercase() == check
}

fn is_ssn(ssn: &[u8]) -> bool {
    &ssn[..3] != b"000" && &ssn[..3] != b"666" && &ssn[4..6] != b"00" && &ssn[7..] != b"0000"
}

/// One spelling of an address.
fn address(found: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(found).replace("%40", "@").to_ascii_lowercase().into_bytes()
}

fn mask(kind: &str, value: &[u8]) -> String {
    format!("[{kind}:{}]", &Hash32::of(value).to_string()[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        let mask = regex::Regex::new(r"\[(email|phone|id):[0-9a-f]{6}\]").unwrap();
        mask.replace_all(&masked(text), "[$1]").into_owned()
    }

    #[test]
    fn what_points_to_a_person_is_masked() {
        for (text, want) in [
            ("write to Jane.Doe+x@mail.example.org, please", "write to [email], please"),
            (r#"{"mail":"a@b.de","x":1}"#, r#"{"mail":"[email]","x":1}"#),
            ("mailto=jane%40example.org&rows=5", "mailto=[email]&rows=5"),
            ("<li>'jörg@uni-köln.example.de'</li>", "<li>'[email]'</li>"),
            ("Tel. +49 (0)30 1234567.", "Tel. [phone]."),
            ("tel:+8613812345678", "tel:[phone]"),
            ("call 13812345678 now", "call [phone] now"),
            ("call 138-1234-5678", "call [phone]"),
            ("(415) 555-2671 or 415-555-2671", "[phone] or [phone]"),
            ("id 11010519491231002X", "id [id]"),
            (r#""id":"440524188001010014""#, r#""id":"[id]""#),
            ("SSN 078-05-1120.", "SSN [id]."),
            ("a@b.org 13912345678 c@d.org", "[email] [phone] [email]"),
        ] {
            assert_eq!(kinds(text), want, "{text}");
            assert_eq!(masked(&masked(text)), masked(text), "once is enough");
        }
    }

    #[test]
    fn what_names_a_work_a_time_or_a_row_is_left_alone() {
        for text in [
            "10.1097/00007890-199912150-00001",
            "doi:10.1000/13812345678 and 10.1016/S0140-6736(05)415-555-2671",
            r#"{"doi":"10.1234/138-1234-5678","pmid":"31452104"}"#,
            "https://doi.org/10.1371/journal.pone.0213812",
            "PMID 31452104, PMC6754321, PMC13812345678",
            "https://orcid.org/0000-0002-1825-0097 0000-0001-5109-3700 0000-0002-1694-233X",
            "ISSN 0028-0836, 1476-4687; ISBN 978-3-16-148410-0 9783161484100",
            "2026-11-18T00:00:00.000000Z 2026-11-18 18/11/2026 2026-11-18T10:00:00+0800 20261118",
            "batch 290091786641080612 of run 290091786641080613",
            "https://openalex.org/W2741809807 W13812345678 2-s2.0-13812345678",
            "arXiv:2107.12345v2, 1731926400, 1731926400000",
            "a change of +12.345678 or +1.5e10 at 138.1234567 and 0.13812345678",
            "012-345-678-901-234 pages 1234-1245 vol 78-05-1120",
            "sha256:9c1185a5c5e9fc54612808977ee8f548b2258d31",
            "110105194912310021 000-12-3456 666-12-3456 123-00-4567",
            "next-cursor=AoJ4mO2j+4cDPwNodHRw @mention user@localhost",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn equal_values_have_equal_masks_however_they_are_written() {
        assert_eq!(masked("Jane@Example.org"), masked("jane@example.org"));
        assert_eq!(masked("jane%40example.org"), masked("jane@example.org"));
        assert_eq!(masked("138 1234 5678"), masked("13812345678"));
        assert_ne!(masked("jane@example.org"), masked("john@example.org"));
    }

    #[test]
    fn a_sample_is_short_and_no_value_is_cut_in_two() {
        let text = b"author jane.doe@example.org, tel +49 30 1234567, end";
        for most in 0..80 {
            let kept = sample(text, most);
            assert!(kept.len() <= most, "{most}");
            let shown = String::from_utf8(kept).unwrap();
            assert!(!shown.contains("jane") && !shown.contains("+4"), "{most}: {shown}");
            assert_eq!(shown.matches('[').count(), shown.matches(']').count(), "{most}: {shown}");
        }
        assert_eq!(sample("größe".as_bytes(), 3), "gr".as_bytes(), "characters are whole");
        assert_eq!(sample(b"plain", 1_024), b"plain");
        assert_eq!(sample(&[0xff, 0x80, b'a'], 2), [0xff, 0x80], "bytes that are no text are kept as they are");
    }

    proptest::proptest! {
        #[test]
        fn masking_twice_is_masking_once(text in "[a-z0-9@.+() %-]{0,60}") {
            proptest::prop_assert_eq!(masked(&masked(&text)), masked(&text));
            let kept = sample(text.as_bytes(), 20);
            proptest::prop_assert!(kept.len() <= 20);
        }
    }
}
