//! Which windows may be waived.

use crate::calendar::{Stepper, UnknownZone};
use crate::spec::snapshot::WindowSpec;
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Why a window cannot be waived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWaivable {
    #[error("the window from {from} to {to} is empty")]
    Empty { from: Timestamp, to: Timestamp },
    #[error("{at} is no edge the source can name; the nearest are {before} and {after}")]
    NoEdge { at: Timestamp, before: Timestamp, after: Timestamp },
    #[error("nothing is owed before {origin}")]
    BeforeOrigin { origin: Timestamp },
    #[error(transparent)]
    Zone(#[from] UnknownZone),
}

/// A waived window has edges that slices can have, because the watermark rests on them (INV-4).
pub fn waivable(spec: &WindowSpec, from: Timestamp, to: Timestamp) -> Result<Window, NotWaivable> {
    let window = Window::new(from, to).ok_or(NotWaivable::Empty { from, to })?;
    let grain = Stepper::new(spec.boundary.grain.max(Span::from_micros(1)), &spec.boundary.zone)?;
    if let Some(at) = [from, to].into_iter().find(|at| !grain.is_edge(*at)) {
        return Err(NotWaivable::NoEdge { at, before: grain.floor(at), after: grain.next(at) });
    }
    if from < spec.origin {
        return Err(NotWaivable::BeforeOrigin { origin: spec.origin });
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    #[test]
    fn only_windows_between_edges_after_the_origin_can_be_waived() {
        let mut spec = sample::snapshot().window;
        spec.boundary.grain = Span::HOUR;
        let at = |minutes: i64| spec.origin.plus(Span::MINUTE.times(minutes));
        assert_eq!(waivable(&spec, at(60), at(120)), Ok(Window::new(at(60), at(120)).unwrap()));
        assert!(matches!(waivable(&spec, at(120), at(60)), Err(NotWaivable::Empty { .. })));
        let edges = NotWaivable::NoEdge { at: at(90), before: at(60), after: at(120) };
        assert_eq!(waivable(&spec, at(60), at(90)), Err(edges));
        assert!(matches!(waivable(&spec, at(-60), at(60)), Err(NotWaivable::BeforeOrigin { .. })));
    }
}
