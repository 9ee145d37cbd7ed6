//! Coverage, worked out again from the slices: an interval map that grows one credit at a time, so the prefix can be
//! asked after each of them.

use std::collections::{BTreeMap, HashMap};

use crate::dump::Slice;

/// A union of half-open spans, kept merged.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    spans: BTreeMap<i64, i64>,
}

impl Cover {
    pub fn add(&mut self, from: i64, to: i64) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        // Everything that touches the new span is swallowed by it.
        while let Some((have_from, have_to)) = self.spans.range(..=to).next_back().map(|(a, b)| (*a, *b)) {
            if have_to < from {
                break;
            }
            self.spans.remove(&have_from);
            from = from.min(have_from);
            to = to.max(have_to);
        }
        self.spans.insert(from, to);
    }

    /// The largest x with `[from, x)` covered; `from` itself when nothing covers it.
    pub fn reach(&self, from: i64) -> i64 {
        let holder = self.spans.range(..=from).next_back();
        holder.map_or(from, |(_, to)| (*to).max(from))
    }

    /// What of `[from, to)` is not covered.
    pub fn holes(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        let mut holes = Vec::new();
        let mut open = self.reach(from);
        while open < to {
            let next = self.spans.range(open..).next().map_or(to, |(start, _)| *start);
            holes.push((open, next.min(to)));
            open = self.reach(next);
        }
        holes
    }
}

/// A window that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    pub from: i64,
    pub to: i64,
    /// Source time when the reading began.
    pub read_at: i64,
    /// Database time when the ledger knew it.
    pub known_at: i64,
    /// The slices that were read for it.
    pub leaves: Vec<i64>,
}

impl Credit {
    /// The part that had settled for `delay` when it was read.
    pub fn settled(&self, delay: i64) -> (i64, i64) {
        (self.from, self.to.min(self.read_at.saturating_sub(delay)))
    }
}

/// Slices of a ledger by parent.
pub struct SliceTree<'a> {
    children: HashMap<i64, Vec<&'a Slice>>,
}

impl<'a> SliceTree<'a> {
    pub fn new(slices: &'a [Slice]) -> SliceTree<'a> {
        let mut children: HashMap<i64, Vec<&Slice>> = HashMap::new();
        for slice in slices {
            if let Some(parent) = slice.parent {
                children.entry(parent).or_default().push(slice);
            }
        }
        SliceTree { children }
    }

    pub fn children(&self, slice: i64) -> &[&'a Slice] {
        self.children.get(&slice).map_or(&[], Vec::as_slice)
    }

    /// Windows proven by these root slices and everything below them. A window cut into parts counts when every part
    /// was read, from the earliest of their readings.
    pub fn credits(&self, roots: impl IntoIterator<Item = &'a Slice>) -> Vec<Credit> {
        let mut credits = Vec::new();
        self.collect(roots.into_iter().collect(), &mut credits);
        credits
    }

    fn collect(&self, siblings: Vec<&'a Slice>, credits: &mut Vec<Credit>) {
        let mut parts: BTreeMap<(i64, i64, i64), Vec<&Slice>> = BTreeMap::new();
        for slice in siblings {
            if slice.part.is_some() {
                parts.entry((slice.plan_id, slice.from, slice.to)).or_default().push(slice);
            } else if slice.status == "SPLIT" {
                self.collect(self.children(slice.id).to_vec(), credits);
            } else {
                credits.extend(self.done(slice));
            }
        }
        for group in parts.into_values() {
            let all: Option<Vec<Credit>> = group.iter().map(|slice| self.done(slice)).collect();
            credits.extend(all.and_then(|all| together(&all)));
        }
    }

    /// What one slice proves when it is done, itself or by all of its parts.
    fn done(&self, slice: &Slice) -> Option<Credit> {
        match slice.status.as_str() {
            "SUCCEEDED" => slice.read_at.map(|read_at| Credit {
                from: slice.from,
                to: slice.to,
                read_at,
                known_at: slice.updated_at,
                leaves: vec![slice.id],
            }),
            "SPLIT" => {
                let all: Option<Vec<Credit>> = self.children(slice.id).iter().map(|child| self.done(child)).collect();
                all.and_then(|all| together(&all))
            }
            _ => None,
        }
    }
}

/// Parts of one window: as early as the first reading, known with the last.
fn together(parts: &[Credit]) -> Option<Credit> {
    let first = parts.first()?;
    Some(Credit {
        from: first.from,
        to: first.to,
        read_at: parts.iter().map(|part| part.read_at).min()?,
        known_at: parts.iter().map(|part| part.known_at).max()?,
        leaves: parts.iter().flat_map(|part| part.leaves.iter().copied()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_spans_merge_and_holes_are_what_is_left() {
        let mut cover = Cover::default();
        for (from, to) in [(40, 60), (0, 20), (80, 100), (20, 30), (100, 100)] {
            cover.add(from, to);
        }
        assert_eq!((cover.reach(0), cover.reach(35), cover.reach(40)), (30, 35, 60));
        assert_eq!(cover.holes(-5, 120), vec![(-5, 0), (30, 40), (60, 80), (100, 120)]);
        cover.add(25, 90);
        assert_eq!(cover.holes(0, 100), vec![]);
        assert_eq!(cover.spans.len(), 1);
    }

    fn slice(id: i64, parent: Option<i64>, window: (i64, i64), part: Option<&str>, status: &str) -> Slice {
        Slice {
            id,
            parent,
            from: window.0,
            to: window.1,
            part: part.map(str::to_owned),
            status: status.to_owned(),
            read_at: Some(200 + id),
            updated_at: 300 + id,
            ..Slice::default()
        }
    }

    #[test]
    fn a_window_cut_into_parts_counts_only_when_all_of_them_were_read() {
        let mut slices = vec![
            slice(1, None, (0, 50), None, "SUCCEEDED"),
            slice(2, None, (50, 90), None, "SPLIT"),
            slice(3, Some(2), (50, 90), Some("x"), "SUCCEEDED"),
            slice(4, Some(2), (50, 90), Some("y"), "SPLIT"),
            slice(5, Some(4), (50, 90), Some("y1"), "SUCCEEDED"),
            slice(6, Some(4), (50, 90), Some("y2"), "FAILED"),
        ];
        let tree = SliceTree::new(&slices);
        let roots = |slices: &[Slice]| slices.iter().filter(|s| s.parent.is_none()).map(|s| s.id).collect::<Vec<_>>();
        assert_eq!(roots(&slices), [1, 2]);
        assert_eq!(tree.credits(&slices[..2]).len(), 1);
        slices[5].status = "SUCCEEDED".to_owned();
        let credits = SliceTree::new(&slices).credits(&slices[..2]);
        assert_eq!(credits[1], Credit { from: 50, to: 90, read_at: 203, known_at: 306, leaves: vec![3, 5, 6] });
        assert_eq!(credits[1].settled(150), (50, 53));
    }
}
