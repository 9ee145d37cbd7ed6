//! What a plan is restricted to beside its operation: an activity with coverage of its own, or single windows.
//!
//! A BACKFILL keeps to its activity: the cursor, the coverage and the one live plan of it are nobody else's, so it can
//! neither move nor excuse the watermark of the HARVEST (INV-10). Without a name the window that was asked for is the
//! activity, and the same command goes on with it.

use crate::hash::Hash32;
use crate::plan::build::namespace_of;
use crate::plan::coverage::Coverage;
use crate::ports::Namespace;
use crate::spec::hashes;
use crate::spec::snapshot::{Operation, SpecSnapshot};
use crate::time::Timestamp;
use crate::window::Window;

/// The activity under which the holes of a harvest are filled.
pub const HOLES: &str = "holes";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Campaign {
    /// BACKFILL and UPDATE: its name.
    pub activity: Option<String>,
    /// Only these windows of what is owed.
    pub only: Option<Vec<Window>>,
}

impl Campaign {
    /// The namespace of a plan (K of the invariants).
    pub fn namespace(&self, spec: &SpecSnapshot, until: Option<Timestamp>) -> Namespace {
        let plain = namespace_of(spec);
        if spec.operation == Operation::Harvest {
            return plain;
        }
        let activity = match &self.activity {
            Some(name) => name.clone(),
            None => format!("{}/{}", spec.window.origin, until.map_or("..".to_owned(), |until| until.to_string())),
        };
        let proto = hashes::expr_proto_hash(spec);
        let key = Hash32::of_parts(&[spec.endpoint.as_bytes(), proto.bytes(), activity.as_bytes()]);
        Namespace { key: key.to_string(), ..plain }
    }

    /// What of the owed windows this campaign reads.
    pub fn restrict(&self, owed: Vec<Window>) -> Vec<Window> {
        let Some(only) = &self.only else { return owed };
        let wanted = Coverage::of(only.iter().copied());
        let both =
            |owed: &Window| wanted.windows().iter().filter_map(|wanted| owed.intersect(wanted)).collect::<Vec<_>>();
        owed.iter().flat_map(both).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    fn window(from: i64, to: i64) -> Window {
        Window::new(Timestamp::from_seconds(from), Timestamp::from_seconds(to)).unwrap()
    }

    #[test]
    fn an_activity_is_a_namespace_of_its_own_and_a_harvest_has_none() {
        let named = |name: &str| Campaign { activity: Some(name.into()), only: None };
        let harvest = sample::snapshot();
        let mut backfill = sample::snapshot();
        backfill.operation = Operation::Backfill;
        assert_eq!(named("a").namespace(&harvest, None), namespace_of(&harvest));
        let until = Some(backfill.window.origin.plus(crate::time::Span::DAY));
        let keys: Vec<String> = [
            named("a").namespace(&backfill, None),
            named("b").namespace(&backfill, None),
            Campaign::default().namespace(&backfill, None),
            Campaign::default().namespace(&backfill, until),
        ]
        .map(|namespace| namespace.key)
        .to_vec();
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        assert_eq!(named("a").namespace(&backfill, until).key, keys[0], "a name goes on whatever the window");
    }

    #[test]
    fn only_what_is_owed_of_the_wanted_windows_is_read() {
        let owed = vec![window(0, 30), window(50, 60)];
        let only = Campaign { activity: None, only: Some(vec![window(20, 55), window(58, 90)]) };
        assert_eq!(only.restrict(owed.clone()), [window(20, 30), window(50, 55), window(58, 60)]);
        assert_eq!(Campaign::default().restrict(owed.clone()), owed);
    }
}
