//! Identifiers as sources write them, in one form each. What has not the form of its kind is none.

use std::borrow::Cow;

/// A kind of identifier that a pipe brings into its normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    Doi,
    Orcid,
    Issn,
    Isbn,
    Pmid,
    Pmcid,
    Arxiv,
    Ror,
}

impl IdKind {
    pub const ALL: [(&'static str, IdKind); 8] = [
        ("doi", IdKind::Doi),
        ("orcid", IdKind::Orcid),
        ("issn", IdKind::Issn),
        ("isbn", IdKind::Isbn),
        ("pmid", IdKind::Pmid),
        ("pmcid", IdKind::Pmcid),
        ("arxiv", IdKind::Arxiv),
        ("ror", IdKind::Ror),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    pub fn normal(self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            IdKind::Doi => doi(text),
            IdKind::Orcid => orcid(last_part(text)),
            IdKind::Issn => issn(text),
            IdKind::Isbn => isbn(text),
            IdKind::Pmid => pmid(last_part(text)),
            IdKind::Pmcid => pmcid(last_part(text)),
            IdKind::Arxiv => arxiv(text),
            IdKind::Ror => ror(text),
        }
    }
}

/// What stands behind the last slash of a link; a text that is no link stays whole.
fn last_part(text: &str) -> &str {
    match text.contains("://") {
        true => text.trim_end_matches('/').rsplit('/').next().unwrap_or(text),
        false => text,
    }
}

/// The rest behind a beginning, without regard to case.
fn behind<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let head = text.get(..start.len())?;
    head.eq_ignore_ascii_case(start).then(|| &text[start.len()..])
}

/// `10.registrant/suffix` in lower case, without resolver and scheme.
fn doi(text: &str) -> Option<String> {
    let mut rest = text;
    for start in ["https://", "http://", "dx.doi.org/", "www.doi.org/", "doi.org/", "info:doi/", "doi:"] {
        rest = behind(rest, start).unwrap_or(rest).trim_start();
    }
    // A link writes what a path may not hold in percents; a bare DOI does not.
    let rest = if rest.len() == text.len() { Cow::Borrowed(rest) } else { unpercent(rest) };
    let (registrant, suffix) = rest.strip_prefix("10.")?.split_once('/')?;
    let numbered = registrant.len() >= 4 && registrant.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let written = !suffix.is_empty() && !suffix.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    (numbered && written).then(|| rest.to_lowercase())
}

fn unpercent(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// `0000-0000-0000-000X` whose check digit fits.
fn orcid(text: &str) -> Option<String> {
    let letters: Vec<char> = text.chars().filter(|letter| !matches!(letter, '-' | ' ')).collect();
    let (check, digits) = letters.split_last().filter(|(_, digits)| digits.len() == 15)?;
    let mut sum = 0;
    for digit in digits {
        sum = (sum + digit.to_digit(10)?) * 2;
    }
    let fits = (12 - sum % 11) % 11 == if check.eq_ignore_ascii_case(&'x') { 10 } else { check.to_digit(10)? };
    let group = |at: usize| letters[at..at + 4].iter().collect::<String>().to_uppercase();
    fits.then(|| format!("{}-{}-{}-{}", group(0), group(4), group(8), group(12)))
}

/// `1234-567X`. Check digits are not asked for: journals live on under ISSNs that were misprinted once.
fn issn(text: &str) -> Option<String> {
    let text = behind(text, "issn:").or_else(|| behind(text, "issn")).unwrap_or(text);
    let bare: String = text.chars().filter(|letter| !matches!(letter, '-' | ' ' | '\u{2010}'..='\u{2013}')).collect();
    let bare = bare.to_ascii_uppercase();
    let (digits, check) = bare.as_bytes().split_at_checked(7).filter(|(_, check)| check.len() == 1)?;
    let fits = digits.iter().all(u8::is_ascii_digit) && (check[0].is_ascii_digit() || check[0] == b'X');
    fits.then(|| format!("{}-{}", &bare[..4], &bare[4..]))
}

/// Ten or thirteen digits.
fn isbn(text: &str) -> Option<String> {
    let text = last_part(text);
    let text = ["urn:isbn:", "isbn:", "isbn"].iter().find_map(|start| behind(text, start)).unwrap_or(text);
    let bare: String = text.chars().filter(|letter| !matches!(letter, '-' | ' ')).collect();
    let bare = bare.to_ascii_uppercase();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = match bare.len() {
        10 => bare.is_ascii() && digits(&bare[..9]) && (digits(&bare[9..]) || bare.ends_with('X')),
        13 => digits(&bare) && (bare.starts_with("978") || bare.starts_with("979")),
        _ => false,
    };
    fits.then_some(bare)
}

fn pmid(text: &str) -> Option<String> {
    let text = ["pmid:", "pubmed:", "med:"].iter().find_map(|start| behind(text, start)).unwrap_or(text).trim();
    let fits = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.trim_start_matches('0').to_owned()).filter(|text| !text.is_empty())
}

/// `PMC` and digits, without a version.
fn pmcid(text: &str) -> Option<String> {
    let text = ["pmcid:", "pmc"].iter().fold(text, |text, start| behind(text, start).unwrap_or(text).trim());
    let text = text.split('.').next().unwrap_or(text);
    let fits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| format!("PMC{text}"))
}

/// `2401.00001` or `hep-th/9901001`, without a version.
fn arxiv(text: &str) -> Option<String> {
    let mut rest = text;
    for start in
        ["https://", "http://", "www.", "export.", "arxiv.org/abs/", "arxiv.org/pdf/", "oai:arxiv.org:", "arxiv:"]
    {
        rest = behind(rest, start).unwrap_or(rest);
    }
    let rest = rest.strip_suffix(".pdf").unwrap_or(rest);
    let bare = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let bare = bare.strip_suffix('v').filter(|bare| bare.len() + 1 < rest.len()).unwrap_or(rest);
    let digits = |part: &str, least: usize| part.len() >= least && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = match (bare.split_once('/'), bare.split_once('.')) {
        (Some((archive, number)), _) => {
            let named = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'.');
            !archive.is_empty() && archive.bytes().all(named) && number.len() == 7 && digits(number, 7)
        }
        (None, Some((month, number))) => digits(month, 4) && digits(number, 4),
        _ => false,
    };
    fits.then(|| bare.to_owned())
}

/// The nine letters of a ROR id.
fn ror(text: &str) -> Option<String> {
    let last = last_part(text).rsplit('/').next().unwrap_or(text).to_ascii_lowercase();
    let fits = last.len() == 9 && last.starts_with('0') && last.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_one_form_each() {
        for (kind, text, want) in [
            (IdKind::Doi, "https://doi.org/10.1234/ABC.def", Some("10.1234/abc.def")),
            (IdKind::Doi, "doi: 10.1002/(SICI)1097<1::AID>3.0.CO;2-X", Some("10.1002/(sici)1097<1::aid>3.0.co;2-x")),
            (IdKind::Doi, "http://dx.doi.org/10.1000/a%2Fb", Some("10.1000/a/b")),
            (IdKind::Doi, "10.1234/100%25", Some("10.1234/100%25")),
            (IdKind::Doi, "NA", None),
            (IdKind::Doi, "10.1234/a b", None),
            (IdKind::Doi, "https://example.org/10.1234/x", None),
            (IdKind::Orcid, "http://orcid.org/0000-0002-1825-0097", Some("0000-0002-1825-0097")),
            (IdKind::Orcid, "000000021694233x", Some("0000-0002-1694-233X")),
            (IdKind::Orcid, "0000-0002-1825-0098", None),
            (IdKind::Issn, "ISSN 1234567x", Some("1234-567X")),
            (IdKind::Issn, "1234-5678, 2345-6789", None),
            (IdKind::Isbn, "http://id.example.org/isbn/978-3-16-148410-0", Some("9783161484100")),
            (IdKind::Isbn, "080442957X", Some("080442957X")),
            (IdKind::Pmid, "https://pubmed.ncbi.nlm.nih.gov/31393839/", Some("31393839")),
            (IdKind::Pmid, "Smith et al. 2001", None),
            (IdKind::Pmid, "0", None),
            (IdKind::Pmcid, "https://www.ncbi.nlm.nih.gov/pmc/articles/3166943", Some("PMC3166943")),
            (IdKind::Pmcid, "PMC3166943.2", Some("PMC3166943")),
            (IdKind::Arxiv, "http://arxiv.org/abs/2202.12139v1", Some("2202.12139")),
            (IdKind::Arxiv, "oai:arXiv.org:hep-th/9901001", Some("hep-th/9901001")),
            (IdKind::Arxiv, "math.GT/0309136v2", Some("math.GT/0309136")),
            (IdKind::Arxiv, "10.1234/5678", None),
            (IdKind::Ror, "https://ror.org/05dxps055", Some("05dxps055")),
        ] {
            assert_eq!(kind.normal(text).as_deref(), want, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_form_or_none_and_a_form_is_its_own(text in "[0-9xXPMC.:/%a-z é-]{0,30}") {
            for (_, kind) in IdKind::ALL {
                if let Some(normal) = kind.normal(&text) {
                    proptest::prop_assert_eq!(kind.normal(&normal), Some(normal.clone()), "{:?} {}", kind, text);
                }
            }
        }
    }
}
