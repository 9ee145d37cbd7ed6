//! What the checker must know of a source, read from its compiled spec.

use patra_checker::SourceRules;
use patra_core::registry::catalogue;
use patra_core::spec::snapshot::SpecSnapshot;
use patra_core::time::Span;
use patra_sim::Source;

/// How late versions become visible in every world; no definition settles faster than the two together.
pub const LAG: Span = Span::from_seconds(600);
pub const LOOKBACK: Span = Span::from_seconds(3_600);

/// File name and text of the definition that reads a simulated source.
pub fn definition_of(source: Source) -> (&'static str, &'static str) {
    let found = catalogue::ALL.iter().find(|entry| entry.source == source.name());
    found.map_or(("", ""), |entry| (entry.file, entry.text))
}

/// The rules under which a source was read with this spec.
pub fn rules_of(source: &str, spec: &SpecSnapshot) -> SourceRules {
    let window = &spec.window;
    SourceRules {
        source: source.to_owned(),
        provenance_code: spec.provenance.clone(),
        entity: spec.entity.clone(),
        origin_us: window.origin.micros(),
        lag_us: window.safety_lag.micros(),
        lookback_us: window.lookback.micros(),
        grain_us: window.boundary.grain.micros(),
        zone: window.boundary.zone.clone(),
        rates: spec.rate.windows.iter().map(|rate| (rate.requests, rate.per.micros())).collect(),
        expect_deletes: spec.response.deleted.is_some(),
        two_phase: spec.detail.is_some(),
        clock_grain_us: Span::SECOND.micros(),
        slices_pruned: false,
    }
}
