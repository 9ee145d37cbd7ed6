//! How a slice that is too much, or that cannot be read to its end, is replaced by smaller ones.

use crate::page::Part;
use crate::pass::Prefix;
use crate::plan::build::Child;
use crate::plan::ranges::IdSample;
use crate::plan::slicer::{Slicer, split_part};
use crate::spec::snapshot::WindowSpec;
use crate::window::Window;

/// The pieces of a slice: together they tile it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// What its order proves of it; never a slice that has parts.
    pub proven: Option<(Window, Prefix)>,
    /// What is still to be read.
    pub children: Vec<Child>,
}

/// By time down to the grain, then by the second key. What was proven need not be read again: then the rest alone is
/// smaller than the slice was. `None` when nothing makes it smaller.
pub fn cut(
    spec: &WindowSpec,
    window: Window,
    part: Option<&Part>,
    prefix: Option<Prefix>,
    parts: u64,
    sample: &IdSample,
) -> Option<Cut> {
    let prefix = prefix.filter(|_| part.is_none());
    let proven = prefix.and_then(|prefix| Some((Window::new(window.from(), prefix.to)?, prefix)));
    let rest = match proven {
        Some((_, prefix)) => Window::new(prefix.to, window.to())?,
        None => window,
    };
    let children = match pieces(spec, rest, part, parts, sample) {
        Some(children) => children,
        None if proven.is_some() => vec![Child { window: rest, part: None }],
        None => return None,
    };
    Some(Cut { proven, children })
}

fn pieces(spec: &WindowSpec, window: Window, part: Option<&Part>, parts: u64, sample: &IdSample) -> Option<Vec<Child>> {
    if part.is_none()
        && let Ok(slicer) = Slicer::new(spec)
        && let Some(windows) = slicer.split(window, parts)
    {
        return Some(windows.into_iter().map(|window| Child { window, part: None }).collect());
    }
    let cut = split_part(part, spec.second_key.as_ref(), parts, sample)?;
    Some(cut.into_iter().map(|part| Child { window, part: Some(part) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;
    use crate::spec::snapshot::SecondKey;
    use crate::time::Timestamp;

    fn window(from: i64, to: i64) -> Window {
        Window::new(Timestamp::from_seconds(from), Timestamp::from_seconds(to)).unwrap()
    }

    fn prefix(to: i64) -> Option<Prefix> {
        Some(Prefix { to: Timestamp::from_seconds(to), read_at: Timestamp::from_seconds(1_000) })
    }

    fn shown(cut: &Cut) -> (Option<Window>, Vec<(Window, bool)>) {
        let children = cut.children.iter().map(|child| (child.window, child.part.is_some())).collect();
        (cut.proven.map(|(window, _)| window), children)
    }

    #[test]
    fn a_slice_is_cut_in_time_then_by_its_second_key_and_what_is_proven_is_kept() {
        let plain = sample::snapshot().window;
        let mut keyed = plain.clone();
        keyed.second_key = Some(SecondKey::IdRange { from: 1, to: 9 });
        let range = Part::IdRange { from: 1, to: 1 };
        // (spec, window, part, prefix, what comes of it)
        for (spec, slice, part, prefix, want) in [
            (&plain, window(0, 4), None, None, Some((None, vec![(window(0, 2), false), (window(2, 4), false)]))),
            (&plain, window(0, 1), None, None, None),
            (&keyed, window(0, 1), None, None, Some((None, vec![(window(0, 1), true); 2]))),
            (
                &plain,
                window(0, 6),
                None,
                prefix(2),
                Some((Some(window(0, 2)), vec![(window(2, 4), false), (window(4, 6), false)])),
            ),
            (&plain, window(0, 3), None, prefix(2), Some((Some(window(0, 2)), vec![(window(2, 3), false)]))),
            (&keyed, window(0, 3), None, prefix(2), Some((Some(window(0, 2)), vec![(window(2, 3), true); 2]))),
            (&keyed, window(0, 3), Some(&range), prefix(2), None),
        ] {
            let found = cut(spec, slice, part, prefix, 2, &IdSample::default());
            assert_eq!(found.as_ref().map(shown), want, "{slice} {part:?} {prefix:?}");
        }
    }
}
