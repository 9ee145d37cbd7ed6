//! The compiled specification of one endpoint, and what its failures mean.

pub mod errors;
pub mod snapshot;
