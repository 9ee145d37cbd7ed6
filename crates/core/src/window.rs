//! Half-open windows of time, the unit of coverage.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// Half-open `[from, to)`: never empty, never inverted, so windows tile without overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bounds", into = "Bounds")]
pub struct Window {
    from: Timestamp,
    to: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Bounds {
    from: Timestamp,
    to: Timestamp,
}

impl Window {
    pub fn new(from: Timestamp, to: Timestamp) -> Option<Window> {
        (from < to).then_some(Window { from, to })
    }

    pub const fn from(&self) -> Timestamp {
        self.from
    }

    pub const fn to(&self) -> Timestamp {
        self.to
    }

    pub fn width(&self) -> Span {
        self.to.since(self.from)
    }

    pub fn contains(&self, instant: Timestamp) -> bool {
        self.from <= instant && instant < self.to
    }

    pub fn intersect(&self, other: &Window) -> Option<Window> {
        Window::new(self.from.max(other.from), self.to.min(other.to))
    }
}

impl From<Window> for Bounds {
    fn from(window: Window) -> Self {
        Bounds { from: window.from, to: window.to }
    }
}

impl TryFrom<Bounds> for Window {
    type Error = String;

    fn try_from(bounds: Bounds) -> Result<Self, String> {
        Window::new(bounds.from, bounds.to)
            .ok_or_else(|| format!("window [{}, {}) is empty or inverted", bounds.from, bounds.to))
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {})", self.from, self.to)
    }
}
