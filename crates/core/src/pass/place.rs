//! Where a pass stands, as it is written into `before_token` and `after_token`.

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::page::Position;
use crate::ports::Phase;

/// The next thing to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Search(Position),
    /// Details of the ids that a search batch found, from `offset` on.
    Detail(DetailPlace),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailPlace {
    /// The search batch whose `id_list` is worked off.
    pub batch: Id,
    pub offset: u32,
    /// Where the search goes on afterwards; `None` when its last page was read.
    pub next: Option<Position>,
}

/// The text is no place of a pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{token}` is not a position: {message}")]
pub struct NotAPlace {
    pub token: String,
    pub message: String,
}

impl Place {
    pub fn phase(&self) -> Phase {
        match self {
            Place::Search(_) => Phase::Search,
            Place::Detail(_) => Phase::Detail,
        }
    }

    pub fn to_token(&self) -> String {
        let json = match self {
            Place::Search(position) => serde_json::to_string(position),
            Place::Detail(detail) => serde_json::to_string(detail).map(|json| format!("d:{json}")),
        };
        json.expect("a position is plain data")
    }

    pub fn from_token(token: &str) -> Result<Place, NotAPlace> {
        let wrong = |error: serde_json::Error| NotAPlace { token: token.to_owned(), message: error.to_string() };
        match token.strip_prefix("d:") {
            Some(json) => serde_json::from_str(json).map(Place::Detail).map_err(wrong),
            None => serde_json::from_str(token).map(Place::Search).map_err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_from_its_token() {
        for place in [
            Place::Search(Position::Offset(7)),
            Place::Search(Position::Token(None)),
            Place::Search(Position::Token(Some("a\"b".into()))),
            Place::Detail(DetailPlace { batch: Id(9), offset: 200, next: Some(Position::Page(3)) }),
            Place::Detail(DetailPlace { batch: Id(9), offset: 0, next: None }),
        ] {
            assert_eq!(Place::from_token(&place.to_token()), Ok(place));
        }
        assert!(Place::from_token("nonsense").is_err());
    }
}
