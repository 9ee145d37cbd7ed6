//! C5, tiling: the slices of a plan, and the children of a split, tile what they replace; every edge is one the source
//! can name. A hole between two slices of a plan is allowed only where nothing was owed any more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::case::Case;
use crate::checks::watermark::{self, Namespace};
use crate::dump::{Plan, Slice};
use crate::time::{Grain, shown, shown_span};
use crate::verdict::Findings;

const CHECK: &str = "C5";

pub fn check(case: &Case<'_>, findings: &mut Findings) {
    let ours = |provenance: &str| provenance == case.rules.provenance_code;
    let grain = Grain::new(case.rules.grain_us, &case.rules.zone).unwrap_or_else(|fallback| {
        findings.note(CHECK, case.source(), format!("zone `{}` is unknown, edges are judged in UTC", case.rules.zone));
        fallback
    });
    for slice in case.dump.slices.iter().filter(|slice| ours(&slice.provenance)) {
        for edge in [slice.from, slice.to].into_iter().filter(|edge| !grain.is_edge(*edge)) {
            let message = format!("slice {} has the edge {}, which is no multiple of the grain", slice.id, shown(edge));
            findings.error(CHECK, case.source(), message, json!({"slice": slice.id}));
        }
        if slice.status == "SPLIT" {
            let told = tile(case.tree.children(slice.id), slice.from, slice.to, slice.part.as_deref());
            report(case, &format!("the children of slice {}", slice.id), told.all(), findings);
        }
    }
    let namespaces = watermark::namespaces(case);
    for plan in case.dump.plans.iter().filter(|plan| ours(&plan.provenance)) {
        if matches!(plan.status.as_str(), "DRAFT" | "SLICING" | "FAILED") {
            continue;
        }
        check_plan(case, plan, &namespaces, findings);
    }
}

fn check_plan(case: &Case<'_>, plan: &Plan, namespaces: &[Namespace<'_>], findings: &mut Findings) {
    let is_root = |slice: &&Slice| slice.plan_id == plan.id && slice.parent.is_none();
    let roots: Vec<&Slice> = case.dump.slices.iter().filter(is_root).collect();
    let mut told = tile(&roots, plan.from, plan.to, None);
    if let Some(namespace) = namespaces.iter().find(|namespace| namespace.hash == plan.namespace) {
        // A plan leaves out what needs no reading: for HARVEST what is finished, else what is covered.
        let lookback = if namespace.operation == "HARVEST" { case.rules.lookback_us } else { 0 };
        let seen = plan.created_at.saturating_add(case.overlap_us);
        let known_at = if case.steady_clock { seen } else { i64::MAX };
        let done = namespace.cover(case.rules.lag_us + lookback, known_at);
        told.holes.retain(|(from, to)| !done.holes(*from, *to).is_empty());
    }
    if let Some(only) = plan.only() {
        let asked = |hole: &(i64, i64)| only.iter().any(|(from, to)| *from < hole.1 && hole.0 < *to);
        told.holes.retain(asked);
    }
    report(case, &format!("the slices of plan {}", plan.id), told.all(), findings);
}

fn report(case: &Case<'_>, whose: &str, told: Vec<String>, findings: &mut Findings) {
    for what in told {
        findings.error(CHECK, case.source(), format!("{whose} {what}"), Value::Null);
    }
}

/// How a set of slices fails to tile.
#[derive(Debug, Default, PartialEq)]
struct Faults {
    holes: Vec<(i64, i64)>,
    others: Vec<String>,
}

impl Faults {
    fn all(self) -> Vec<String> {
        let holes = self.holes.into_iter().map(|(from, to)| format!("leave the hole {}", shown_span(from, to)));
        self.others.into_iter().chain(holes).collect()
    }
}

fn tile(slices: &[&Slice], from: i64, to: i64, part: Option<&str>) -> Faults {
    let mut faults = Faults::default();
    let mut windows: BTreeMap<(i64, i64), Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        windows.entry((slice.from, slice.to)).or_default().push(slice);
    }
    let mut open = from;
    for ((start, end), group) in &windows {
        if start >= end {
            faults.others.push(format!("hold the empty window {}", shown_span(*start, *end)));
        }
        if *start > open {
            faults.holes.push((open, *start));
        }
        if *start < open {
            faults.others.push(format!("overlap at {}", shown(*start)));
        }
        open = open.max(*end);
        faults.others.extend(parts_fault(group, part));
    }
    if open > to {
        faults.others.push(format!("reach past the end {}", shown(to)));
    } else if open < to {
        faults.holes.push((open, to));
    }
    faults
}

/// Slices of one window: the window once, or parts that make it up.
fn parts_fault(group: &[&Slice], whole: Option<&str>) -> Option<String> {
    if let [only] = group
        && only.part.as_deref() == whole
    {
        return None;
    }
    let parts: Option<Vec<Part>> = group.iter().map(|slice| Part::read(slice.part.as_deref()?)).collect();
    let Some(mut parts) = parts.filter(|parts| !parts.is_empty()) else {
        return Some("hold one window twice".to_owned());
    };
    parts.sort_unstable();
    let whole = whole.and_then(Part::read);
    let tiles = match (parts.first(), whole) {
        (Some(Part::Bucket { of, .. }), _) => {
            let want: Vec<Part> = (0..*of).map(|number| Part::Bucket { of: *of, number }).collect();
            parts == want
        }
        (Some(Part::Range { from, .. }), whole) => {
            let joined = parts.windows(2).all(|pair| match (pair[0], pair[1]) {
                (Part::Range { to, .. }, Part::Range { from, .. }) => to.checked_add(1) == Some(from),
                _ => false,
            });
            let ends = match (whole, parts.last()) {
                (Some(Part::Range { from: first, to: last }), Some(Part::Range { to, .. })) => {
                    (first, last) == (*from, *to)
                }
                _ => *from <= 1,
            };
            joined && ends
        }
        (None, _) => false,
    };
    (!tiles).then(|| format!("do not make up their window with the parts {parts:?}"))
}

/// A part of a window that time cannot cut further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Both ends included.
    Range {
        from: u64,
        to: u64,
    },
    Bucket {
        of: u64,
        number: u64,
    },
}

impl Part {
    fn read(text: &str) -> Option<Part> {
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
        if let Some(range) = value.get("id_range") {
            return Some(Part::Range { from: number(range, "from")?, to: number(range, "to")? });
        }
        let bucket = value.get("hash_bucket")?;
        Some(Part::Bucket { of: number(bucket, "buckets")?, number: number(bucket, "bucket")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn gaps_overlaps_and_edges_off_the_grain_are_found() {
        plant(
            "C5",
            &[
                Planted::sql(
                    "a tile gap between children",
                    "UPDATE ing_plan_slice SET window_from = '2023-11-14T22:14:37.000000Z' WHERE id = 14",
                    "the children of slice 12 leave the hole",
                ),
                Planted::sql(
                    "a tile gap between the slices of a plan",
                    "UPDATE ing_plan_slice SET window_from = '2023-11-14T22:15:52.000000Z' WHERE id = 16",
                    "the slices of plan 2 leave the hole",
                ),
                Planted::sql(
                    "an overlap",
                    "UPDATE ing_plan_slice SET window_from = '2023-11-14T22:15:45.000000Z' WHERE id = 16",
                    "the slices of plan 2 overlap",
                ),
                Planted::sql(
                    "an edge off the grain",
                    "UPDATE ing_plan_slice SET window_to = '2023-11-14T22:15:50.500000Z' WHERE id = 15;
                 UPDATE ing_plan_slice SET window_from = '2023-11-14T22:15:50.500000Z' WHERE id = 16",
                    "no multiple of the grain",
                ),
                Planted::sql("a child lost", "DELETE FROM ing_plan_slice WHERE id = 14", "leave the hole"),
                Planted::sql(
                    "a slice past the end of its plan",
                    "UPDATE ing_plan_slice SET window_to = '2023-11-14T22:16:41.000000Z' WHERE id = 16",
                    "reach past the end",
                ),
            ],
        )
        .await;
    }

    fn parted(part: &str) -> Slice {
        Slice { from: 0, to: 10, part: Some(part.to_owned()), ..Slice::default() }
    }

    #[test]
    fn parts_must_make_up_their_window() {
        let range = |from: u64, to: u64| parted(&format!(r#"{{"id_range":{{"from":{from},"to":{to}}}}}"#));
        let bucket = |n: u64, of: u64| parted(&format!(r#"{{"hash_bucket":{{"bucket":{n},"buckets":{of}}}}}"#));
        for (name, slices, whole, tiles) in [
            ("ranges that join", vec![range(1, 5), range(6, 9)], None, true),
            ("ranges with a hole", vec![range(1, 5), range(7, 9)], None, false),
            ("ranges that begin late", vec![range(3, 5), range(6, 9)], None, false),
            ("a range cut again", vec![range(6, 7), range(8, 9)], Some(range(6, 9)), true),
            ("a range cut again, end lost", vec![range(6, 7), range(8, 8)], Some(range(6, 9)), false),
            ("all buckets", vec![bucket(1, 2), bucket(0, 2)], None, true),
            ("a bucket lost", vec![bucket(0, 3), bucket(2, 3)], None, false),
            ("a bucket twice", vec![bucket(0, 2), bucket(1, 2), bucket(1, 2)], None, false),
        ] {
            let slices: Vec<&Slice> = slices.iter().collect();
            let whole = whole.and_then(|slice: Slice| slice.part);
            let faults = tile(&slices, 0, 10, whole.as_deref());
            assert_eq!(faults == Faults::default(), tiles, "{name}: {faults:?}");
        }
    }
}
