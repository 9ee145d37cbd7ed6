//! The compiled specification of one endpoint, and what its failures mean.

pub mod errors;
pub mod sample;
pub mod snapshot;
