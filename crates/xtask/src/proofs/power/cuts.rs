//! Where the power is cut: most often around a sync, where a mistake would show, and sometimes anywhere.

use super::trace::{Call, Edge, Trace};
use crate::proofs::random::Random;

/// One cut in so many is made anywhere.
const ANYWHERE: u64 = 4;
/// After a sync has returned the process goes on for a few calls before others sync again.
const AFTER: u64 = 8;

/// A cut comes before the moment of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    pub before: usize,
    pub at_sync: bool,
}

/// So many cuts, in the order of time.
pub fn cuts(trace: &Trace, count: usize, random: &mut Random) -> Vec<Cut> {
    let (syncs, end) = (syncs(trace), trace.moments.len());
    let mut cuts = Vec::with_capacity(count);
    for _ in 0..count {
        cuts.push(match syncs.is_empty() || random.below(ANYWHERE) == 0 {
            true => Cut { before: random.below(end as u64 + 1) as usize, at_sync: false },
            false => Cut { before: around(random.pick(&syncs), random).min(end), at_sync: true },
        });
    }
    cuts.sort_unstable();
    cuts
}

/// Before it begins, while it runs, when it has just returned, or soon after.
fn around((begin, end): &(usize, usize), random: &mut Random) -> usize {
    match random.below(4) {
        0 => *begin,
        1 => begin + 1 + random.below((end - begin) as u64) as usize,
        2 => end + 1,
        _ => end + 1 + random.below(AFTER) as usize,
    }
}

/// First and last moment of every sync.
pub fn syncs(trace: &Trace) -> Vec<(usize, usize)> {
    let mut begun = std::collections::HashMap::new();
    let mut syncs = Vec::new();
    for (place, moment) in trace.moments.iter().enumerate() {
        match moment.edge {
            Edge::Begin(call) if matches!(trace.calls[call], Call::Sync { .. }) => drop(begun.insert(call, place)),
            Edge::Begin(_) => {}
            Edge::End(call) => syncs.extend(begun.remove(&call).map(|from| (from, place))),
        }
    }
    syncs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proofs::power::trace::Moment;

    #[test]
    fn cuts_come_in_order_before_inside_and_after_a_sync() {
        let edges = [Edge::Begin(0), Edge::End(0), Edge::Begin(1), Edge::Begin(2), Edge::End(2), Edge::End(1)];
        let say = Call::Say { text: String::new() };
        let trace = Trace {
            calls: vec![say.clone(), Call::Sync { path: String::new() }, say],
            moments: edges.iter().map(|edge| Moment { at_us: 0, edge: *edge }).collect(),
        };
        assert_eq!(syncs(&trace), [(2, 5)]);
        let cuts = cuts(&trace, 100, &mut Random::new(1));
        assert!(cuts.is_sorted() && cuts.iter().all(|cut| cut.before <= 6));
        for place in [2, 3, 4, 5, 6] {
            assert!(cuts.iter().any(|cut| cut.at_sync && cut.before == place), "{place}");
        }
        assert!(cuts.iter().any(|cut| !cut.at_sync));
    }
}
