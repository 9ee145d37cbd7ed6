//! The compiled specification of one endpoint, and what its failures mean.

mod auth;
pub mod checks;
pub mod compile;
mod derive;
pub mod errors;
pub mod expression;
pub mod hashes;
mod merge;
pub mod origin;
pub mod overrides;
pub mod rate;
pub mod review;
pub mod sample;
pub mod snapshot;

pub use compile::{Compiled, compile};
pub use derive::PAGE_SHARE_PERCENT;
pub use merge::built_in_value;
pub use origin::{Level, Origin};
pub use overrides::TriggerOverrides;
pub use review::{check_definition, specs_of};

#[cfg(test)]
mod tests;

#[cfg(test)]
mod recorded;
