//! The compiled specification of one endpoint, and what its failures mean.

mod auth;
pub mod checks;
pub mod compile;
mod derive;
pub mod errors;
mod merge;
pub mod origin;
pub mod overrides;
pub mod snapshot;

pub use compile::{Compiled, compile};
pub use origin::{Level, Origin};
pub use overrides::TriggerOverrides;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use crate::spec::snapshot::Operation;

    #[test]
    fn crossref_compiles_from_its_rows() {
        let text = include_str!("../../../../sources/crossref.yaml");
        let written = registry::decode("sources/crossref.yaml", text).unwrap_or_else(|m| panic!("{}", m[0]));
        let rows = registry::to_rows(&written);
        let stored = registry::from_rows("crossref", &rows).unwrap();
        assert_eq!(stored, written);
        let compiled = compile(&stored, None, Operation::Harvest, &TriggerOverrides::default(), 1, "stable");
        let compiled = compiled.unwrap_or_else(|m| panic!("{}", m[0]));
        assert_eq!(compiled.spec.pagination.size, 1000);
        println!("{}", serde_json::to_string_pretty(&compiled.spec).unwrap());
        for (path, origin) in &compiled.origins { println!("{path}: {origin}"); }
    }
}
