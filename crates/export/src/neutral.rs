//! Cells that a spreadsheet would take for a formula.

use std::borrow::Cow;

/// A cell that begins with one of these is computed, not shown, by one spreadsheet or another.
const COMPUTED: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The text with an apostrophe before it where it would be computed. One that begins with an apostrophe gets another, so
/// that whoever takes one away from every cell that has one has the text again.
pub fn neutral(text: &str) -> Cow<'_, str> {
    // Wide forms of these characters are made narrow by some spreadsheets before they look.
    let first = text.chars().next();
    let narrow = first.map(|letter| match letter {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        other => other,
    });
    match narrow {
        Some(letter) if COMPUTED.contains(&letter) || letter == '\'' || letter == '\n' => {
            Cow::Owned(format!("'{text}"))
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_be_computed_is_shown() {
        for (text, want) in [
            ("=1+1", "'=1+1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-2", "'-2"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("\n=1", "'\n=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("'quoted'", "''quoted'"),
            ("10.1/x", "10.1/x"),
            ("{\"a\":1}", "{\"a\":1}"),
            ("", ""),
        ] {
            assert_eq!(neutral(text), want);
        }
    }

    proptest! {
        #[test]
        fn no_cell_is_computed_and_every_text_is_had_again(text in "[=+@\\-'\t\r\na ]{0,6}") {
            let shown = neutral(&text);
            prop_assert!(!shown.starts_with(COMPUTED), "{shown:?}");
            prop_assert_eq!(shown.strip_prefix('\'').unwrap_or(&shown), text.as_str());
        }
    }
}
