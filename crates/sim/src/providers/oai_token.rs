//! Where a list goes on, as the resumption token of each kind of server spells it.

use crate::content::xml_text;
use crate::moment::{DAY_US, floor, iso_seconds};
use crate::request::{encode_query, parse_query};
use crate::timeline::Key;

/// Whose OAI-PMH server is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Seconds, oldest first, a token that names the last record.
    Plain,
    /// Days only, oldest first, a token that says how many records to skip.
    Arxiv,
    /// Newest first, a token of the last stamp and how many of it were sent; the last 30 days are held back.
    Doaj,
}

/// A position in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub issued_at: i64,
    pub from: i64,
    pub to: i64,
    pub place: Place,
    /// Records sent before this position.
    pub served: usize,
    pub set: Option<String>,
    pub prefix: String,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Records at or above this key.
    From(Key),
    /// Records after so many.
    Skip(usize),
    /// Records of this stamp or older, after so many of them.
    Older { stamp: i64, sent: usize },
}

impl Style {
    /// Where a new list begins.
    pub fn start(self, from: i64, to: i64) -> Place {
        match self {
            Style::Plain => Place::From((from, 0)),
            Style::Arxiv => Place::Skip(0),
            Style::Doaj => Place::Older { stamp: to.saturating_sub(1), sent: 0 },
        }
    }

    /// The token's text.
    pub fn write(self, token: &Token) -> String {
        let Token { issued_at, from, to, served, prefix, .. } = token;
        let set = token.set.as_deref().unwrap_or_default();
        match token.place {
            Place::From((at, index)) => format!("{issued_at}!{from}!{to}!{at}!{index}!{served}!{prefix}!{set}"),
            Place::Older { stamp, sent } => format!("{issued_at}!{from}!{to}!{stamp}!{sent}!{served}!{prefix}!{set}"),
            Place::Skip(skip) => encode_query(
                &[("from", from), ("until", to), ("at", issued_at)]
                    .map(|(name, number)| (name.to_owned(), number.to_string()))
                    .into_iter()
                    .chain(
                        [("set", set.to_owned()), ("metadataPrefix", prefix.clone()), ("skip", skip.to_string())]
                            .map(|(name, text)| (name.to_owned(), text)),
                    )
                    .collect::<Vec<_>>(),
            ),
        }
    }

    /// The position that a token's text stands for.
    pub fn read(self, text: &str) -> Option<Token> {
        if self == Style::Arxiv {
            return read_skip(text);
        }
        let parts: Vec<&str> = text.split('!').collect();
        let [issued_at, from, to, first, second, served, prefix, set] = parts[..] else {
            return None;
        };
        let place = match self {
            Style::Doaj => Place::Older { stamp: first.parse().ok()?, sent: second.parse().ok()? },
            _ => Place::From((first.parse().ok()?, second.parse().ok()?)),
        };
        Some(Token {
            issued_at: issued_at.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            place,
            served: served.parse().ok()?,
            set: (!set.is_empty()).then(|| set.to_owned()),
            prefix: prefix.to_owned(),
        })
    }

    /// The element around a token; arXiv names its end in a word of its own and gives neither count nor place.
    pub fn element(self, token: &Token, life_us: i64, size: &str) -> String {
        let (name, end) = match self {
            Style::Arxiv => ("expires", midnight_after(token.issued_at)),
            _ => ("expirationDate", token.issued_at + life_us),
        };
        format!(
            "<resumptionToken {name}=\"{}\"{size}>{}</resumptionToken>",
            iso_seconds(end),
            xml_text(&self.write(token))
        )
    }
}

/// The next midnight in UTC.
pub(super) fn midnight_after(at: i64) -> i64 {
    floor(at, DAY_US) + DAY_US
}

fn read_skip(text: &str) -> Option<Token> {
    let pairs = parse_query(text);
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let number = |name: &str| value(name)?.parse::<i64>().ok();
    let skip = usize::try_from(number("skip")?).ok()?;
    Some(Token {
        issued_at: number("at")?,
        from: number("from")?,
        to: number("until")?,
        place: Place::Skip(skip),
        served: skip,
        set: value("set").filter(|set| !set.is_empty()).map(str::to_owned),
        prefix: value("metadataPrefix")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_the_whole_position_in_every_style() {
        for (style, place, set) in [
            (Style::Plain, Place::From((3, 4)), None),
            (Style::Arxiv, Place::Skip(100), Some("physics:hep-th".to_owned())),
            (Style::Doaj, Place::Older { stamp: 7, sent: 2 }, None),
        ] {
            let token = Token { issued_at: 5, from: i64::MIN, to: 9, place, served: 100, set, prefix: "oai_dc".into() };
            assert_eq!(style.read(&style.write(&token)), Some(token), "{style:?}");
            assert_eq!(style.read("nonsense"), None);
        }
    }
}
