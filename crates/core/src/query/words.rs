//! Words of a text, as they are compared: without regard to case and punctuation.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The words of a text in order. An apostrophe inside a word does not part it; other signs do.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let joins = matches!(letter, '\'' | '’') && letters.peek().is_some_and(|next| next.is_alphanumeric());
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric()));
        } else if !(is_mark(letter) || joins || word.is_empty()) {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The words of a text whose letters are composed: sources write the same name with one sign or with two.
pub fn composed(text: &str) -> Vec<String> {
    words(&text.nfc().collect::<String>())
}

/// The words of a text without accents, and with ligatures as letters.
pub fn folded(text: &str) -> Vec<String> {
    let plain: String = text.nfkd().filter(|letter| letter.is_alphanumeric() || !is_combining_mark(*letter)).collect();
    words(&plain)
}

/// A combining accent belongs to the letter before it.
fn is_mark(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

/// A text as it is kept in a query: lower case, one space between words, no signs at its ends.
pub fn tidy(text: &str) -> String {
    let lower: String = text.chars().flat_map(char::to_lowercase).collect();
    let trimmed = lower.trim_matches(|letter: char| !letter.is_alphanumeric());
    let spaced: Vec<&str> =
        trimmed.split(|c: char| c.is_whitespace() || c.is_control()).filter(|p| !p.is_empty()).collect();
    spaced.join(" ")
}

/// Whether `part` stands in `whole` as it is, one word after the other.
pub fn contains(whole: &[String], part: &[String]) -> bool {
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn signs_part_words_and_apostrophes_do_not() {
        assert_eq!(words("COVID-19: O'Brien’s <i>β</i>-Test."), ["covid", "19", "obriens", "i", "β", "i", "test"]);
        assert_eq!(words(" ' - "), Vec::<String>::new());
        assert_eq!(tidy("  \"Heart\u{a0}  Failure.\" "), "heart failure");
    }

    #[test]
    fn composed_and_decomposed_letters_are_the_same_and_accents_can_be_left_out() {
        assert_eq!(composed("Mu\u{308}ller"), composed("MÜLLER"));
        assert_ne!(composed("Müller"), composed("Muller"));
        for (one, other) in
            [("Mu\u{308}ller", "Müller"), ("Müller", "MULLER"), ("ﬁbrosis", "fibrosis"), ("が", "か\u{3099}")]
        {
            assert_eq!(folded(one), folded(other));
        }
        assert_eq!(folded("naïve-Bayes"), ["naive", "bayes"]);
        assert_ne!(folded("हिन्दी"), folded("हन्द"), "signs that are letters count");
    }

    proptest! {
        #[test]
        fn tidying_is_idempotent_and_keeps_the_words(text in "\\PC{0,40}") {
            prop_assert_eq!(tidy(&tidy(&text)), tidy(&text));
            prop_assert_eq!(words(&tidy(&text)), words(&text));
        }
    }
}
