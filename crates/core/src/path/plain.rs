//! Text out of markup: tags of HTML and JATS go, references become letters, blanks become one.
//!
//! Only what looks like a tag is one: `p < 0.05 and q > 1` stays. A tag that begins a block (`<p>`, `<h4>`,
//! `<jats:sec>`, `<br>`) leaves a blank, any other (`<i>`, `<sub>`) leaves nothing, so that H<sub>2</sub>O is H2O.

/// Local names of elements that stand on lines of their own.
const BLOCKS: [&str; 16] =
    ["p", "br", "div", "sec", "title", "h1", "h2", "h3", "h4", "h5", "h6", "li", "list-item", "label", "td", "tr"];

/// The text without markup; `None` where nothing is left.
pub fn plain(text: &str) -> Option<String> {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        push(&mut output, &rest[..at]);
        rest = &rest[at..];
        if let Some((name, after)) = tag(rest) {
            if BLOCKS.iter().any(|block| block.eq_ignore_ascii_case(name)) {
                push(&mut output, " ");
            }
            rest = after;
        } else if let Some((letters, after)) = reference(rest) {
            push(&mut output, letters.encode_utf8(&mut [0; 4]));
            rest = after;
        } else {
            push(&mut output, &rest[..1]);
            rest = &rest[1..];
        }
    }
    push(&mut output, rest);
    output.truncate(output.trim_end().len());
    (!output.is_empty()).then_some(output)
}

/// Appends with every run of blanks as one space and none at the beginning.
fn push(output: &mut String, text: &str) {
    for letter in text.chars() {
        match letter.is_whitespace() {
            true if output.is_empty() || output.ends_with(' ') => {}
            true => output.push(' '),
            false => output.push(letter),
        }
    }
}

/// Local name of a tag or comment at the beginning, and what follows it.
fn tag(text: &str) -> Option<(&str, &str)> {
    if let Some(comment) = text.strip_prefix("<!--") {
        return comment.split_once("-->").map(|(_, after)| ("", after));
    }
    let inside = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    if !inside.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let ends =
        inside.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, ':' | '-' | '_' | '.'))?;
    let name = &inside[..ends];
    let close = inside.find(['>', '<']).filter(|at| inside[*at..].starts_with('>'))?;
    // `a<b and c>d`: behind the name of a tag comes an attribute or its end.
    let attributes = inside[ends..close].trim_end_matches('/').trim();
    (attributes.is_empty() || attributes.contains('=')).then(|| (local(name), &inside[close + 1..]))
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The letter of a reference at the beginning, and what follows it.
fn reference(text: &str) -> Option<(char, &str)> {
    let (name, after) = text.strip_prefix('&')?.split_once(';').filter(|(name, _)| name.len() <= 10)?;
    let letter = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ if !name.starts_with('#') => named(name)?,
        _ => {
            let number = &name[1..];
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|letter| !letter.is_control())?
        }
    };
    Some((letter, after))
}

/// Letters from U+00A0 on, in their order.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 \
    sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml \
    Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml \
    times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave \
    eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute \
    ucirc uuml yacute thorn yuml";

const LETTERS: [(&str, char); 27] = [
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("hellip", '…'),
    ("bull", '•'),
    ("trade", '™'),
    ("euro", '€'),
    ("alpha", 'α'),
    ("beta", 'β'),
    ("gamma", 'γ'),
    ("delta", 'δ'),
    ("kappa", 'κ'),
    ("lambda", 'λ'),
    ("mu", 'μ'),
    ("sigma", 'σ'),
    ("omega", 'ω'),
    ("Delta", 'Δ'),
    ("le", '≤'),
    ("ge", '≥'),
    ("asymp", '≈'),
    ("minus", '−'),
    ("rarr", '→'),
];

fn named(name: &str) -> Option<char> {
    if let Some((_, letter)) = LETTERS.iter().find(|(known, _)| *known == name) {
        return Some(*letter);
    }
    let at = LATIN.split_ascii_whitespace().position(|known| known == name)?;
    char::from_u32(0xa0 + u32::try_from(at).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_goes_and_text_stays() {
        for (text, want) in [
            ("The role of <i>BRCA1</i>", Some("The role of BRCA1")),
            ("CO<sub>2</sub>\n      and H<SUP>+</SUP>", Some("CO2 and H+")),
            ("<jats:p>One.</jats:p>\n<jats:p>Two.</jats:p>", Some("One. Two.")),
            ("<jats:title>Abstract</jats:title><jats:p>Text</jats:p>", Some("Abstract Text")),
            ("<h4>Aim</h4>To see.<br/>Done", Some("Aim To see. Done")),
            ("p < 0.05 and q > 1", Some("p < 0.05 and q > 1")),
            ("a<b and c>d", Some("a<b and c>d")),
            ("x &lt; y &amp;amp; z&#x2013;1 &unknown; &", Some("x < y &amp; z–1 &unknown; &")),
            ("<mml:math xmlns:mml=\"http://x\"><mml:mi>k</mml:mi></mml:math>-mer", Some("k-mer")),
            ("a<!-- gone -->b", Some("ab")),
            ("&bdquo;f&uuml;r&yuml;&shy;&nbsp;x", Some("„fürÿ\u{ad} x")),
            ("<p> \u{a0} </p>", None),
            ("", None),
        ] {
            assert_eq!(plain(text).as_deref(), want, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_ends_trimmed_and_without_runs_of_blanks(text in "[<>/&;a-c =#x0-9 \\n\u{a0}é-]{0,60}") {
            if let Some(plain) = plain(&text) {
                proptest::prop_assert_eq!(plain.trim(), plain.as_str());
                proptest::prop_assert!(!plain.contains("  "));
            }
        }
    }
}
