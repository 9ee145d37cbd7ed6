//! From a compiled spec to plans and slices: what is still owed, cut into pieces that tile.

pub mod build;
pub mod campaign;
pub mod coverage;
pub mod estimate;
pub mod portion;
pub mod ranges;
pub mod refresh;
pub mod slicer;
pub mod split;
pub mod waive;
