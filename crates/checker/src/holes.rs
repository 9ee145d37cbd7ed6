//! What a certificate should say, worked out again from the rows: the holes of a source's harvests, and what is lacking
//! inside the windows that were read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sqlx::Connection;

use crate::cover::{Cover, SliceTree};
use crate::dump::{Dump, Slice};
use crate::rows::DumpError;

/// A window, in microseconds.
pub type Span = (i64, i64);

/// What is wrong with the harvest of a source between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncovered {
    pub holes: Vec<Span>,
    /// Quarantined records of windows that were not read again since.
    pub quarantined: u64,
    /// Ids that were listed and not delivered.
    pub undelivered: u64,
}

impl Uncovered {
    pub fn is_complete(&self) -> bool {
        *self == Uncovered::default()
    }
}

/// Looks at the harvests of a source in a SQLite file.
pub async fn uncovered(file: &Path, source: &str, lag_us: i64, window: Span) -> Result<Uncovered, DumpError> {
    let mut connection = crate::open(file).await?;
    let mut snapshot = connection.begin().await?;
    let dump = Dump::load(&mut snapshot).await?;
    Ok(of(&dump, source, lag_us, window))
}

fn of(dump: &Dump, source: &str, lag_us: i64, (from, to): Span) -> Uncovered {
    let plans: Vec<i64> = dump
        .plans
        .iter()
        .filter(|plan| plan.provenance == source && plan.operation == "HARVEST")
        .map(|plan| plan.id)
        .collect();
    let own = |slice: &&Slice| plans.contains(&slice.plan_id);
    let tree = SliceTree::new(&dump.slices);
    let mut cover = Cover::default();
    for credit in tree.credits(dump.slices.iter().filter(own).filter(|slice| slice.parent.is_none())) {
        let (from, to) = credit.settled(lag_us);
        cover.add(from, to);
    }
    // Of several readings of one window the one that began last is believed.
    let mut last: BTreeMap<(i64, i64, &Option<String>), &Slice> = BTreeMap::new();
    let read = dump.slices.iter().filter(own).filter(|slice| slice.status == "SUCCEEDED");
    for slice in read.filter(|slice| slice.from < to && slice.to > from) {
        let held = last.entry((slice.from, slice.to, &slice.part)).or_insert(slice);
        if (held.read_at, held.id) < (slice.read_at, slice.id) {
            *held = slice;
        }
    }
    let batches = Dump::by_id(&dump.batches, |batch| batch.id);
    // One without a page of its own is what its parent had read before it was cut.
    let paged: BTreeSet<i64> = dump.batches.iter().map(|batch| batch.slice_id).collect();
    let read_by = |slice: &&Slice| if paged.contains(&slice.id) { slice.id } else { slice.parent.unwrap_or(slice.id) };
    let believed: Vec<i64> = last.values().map(read_by).collect();
    let of_believed = |batch: i64| batches.get(&batch).is_some_and(|batch| believed.contains(&batch.slice_id));
    let quarantined = dump.quarantine.iter().filter(|row| row.status == "OPEN" && of_believed(row.batch_id));
    let open = dump.missing_ids.iter().filter(|row| row.provenance == source && row.status == "OPEN");
    let undelivered = open.filter(|row| {
        let Some(batch) = batches.get(&row.batch_id) else { return false };
        // Missed last by a reading that proves nothing of the window: who listed it before does not show it any more.
        let elsewhere = dump.slices.iter().find(|slice| slice.id == batch.slice_id).is_some_and(|slice| {
            let proves = own(&slice) && (slice.status == "SUCCEEDED" || slice.read_at.is_some());
            slice.from < to && slice.to > from && !proves
        });
        batch.operation == "UPDATE" || elsewhere || of_believed(row.batch_id)
    });
    Uncovered {
        holes: cover.holes(from, to),
        quarantined: quarantined.count() as u64,
        undelivered: undelivered.count() as u64,
    }
}
