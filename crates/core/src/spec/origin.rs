//! Where each value of a compiled spec came from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The five levels, low to high; a higher one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Built in, or derived from other values.
    Default,
    /// A row of the whole source.
    Source,
    /// The endpoint's own row.
    Endpoint,
    /// A row of one of the endpoint's blocks.
    Block,
    /// This trigger only.
    Trigger,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub level: Level,
    /// `table.column`, the override's key, or how a default was derived.
    pub at: String,
}

impl Origin {
    pub fn new(level: Level, at: impl Into<String>) -> Origin {
        Origin { level, at: at.into() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Default => "default",
            Level::Source => "source",
            Level::Endpoint => "endpoint",
            Level::Block => "block",
            Level::Trigger => "trigger",
        };
        write!(f, "{level} ({})", self.at)
    }
}
