//! Everything known about one source, joined: its truth by record, its answers by hash, the pages that became batches,
//! and which version of each record is stored. Maps that findings come from are sorted: the same run gives the same
//! verdict.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::dump::{Batch, Dump, Record, Sha};
use crate::input::{Kind, ServedRow, SourceRules, TruthRow};
use crate::verdict::SourceVerdict;
use crate::{CheckInput, cover::SliceTree};

/// One version of a record, with the first version of the run of equal content it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    pub row: &'a TruthRow,
    pub sha: Sha,
    pub class: u32,
    /// When the next version takes its place.
    pub until: i64,
}

impl Version<'_> {
    /// Shown by the source during the whole of `[begin, end]`. Equal times prove nothing: two requests may arrive in
    /// the same microsecond, with the change between them.
    pub fn shown_throughout(&self, begin: i64, end: i64) -> bool {
        self.row.visible_at < begin && self.until > end
    }
}

/// A version that came in a page whose batch committed.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub version: u32,
    pub fetched_at: i64,
    pub batch: i64,
    /// The batch dropped records outside its window and this is one of them, or records that its query did not want
    /// and this may be one of them: it need not be stored.
    pub optional: bool,
}

/// A committed batch with the answer it was made from.
#[derive(Clone, Copy, Debug)]
pub struct CommittedPage<'a> {
    pub batch: &'a Batch,
    /// `None`: nobody served that answer.
    pub served: Option<&'a ServedRow>,
}

/// What is stored of a record.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    pub record: &'a Record,
    /// The version with these bytes; `None` when the source never held them.
    pub version: Option<u32>,
}

pub struct Case<'a> {
    pub rules: &'a SourceRules,
    pub dump: &'a Dump,
    pub tree: SliceTree<'a>,
    pub end: i64,
    pub at_rest: bool,
    pub steady_clock: bool,
    pub overlap_us: i64,
    /// Versions of each record in rising order.
    pub truth: BTreeMap<&'a str, Vec<Version<'a>>>,
    /// Requests in the order of arrival.
    pub served: Vec<&'a ServedRow>,
    pub pages: Vec<CommittedPage<'a>>,
    pub deliveries: BTreeMap<&'a str, Vec<Delivery>>,
    pub stored: BTreeMap<&'a str, Stored<'a>>,
    pub quarantine: Quarantined<'a>,
}

/// What was set aside instead of stored.
#[derive(Debug, Default)]
pub struct Quarantined<'a> {
    ids: HashSet<&'a str>,
    in_batch: HashSet<(i64, &'a str)>,
    raw: HashSet<Sha>,
}

impl Quarantined<'_> {
    /// This delivery was set aside: by name in its batch, or by its bytes when no name could be read.
    pub fn holds(&self, batch: i64, id: &str, sha: Option<&Sha>) -> bool {
        self.in_batch.contains(&(batch, id)) || sha.is_some_and(|sha| self.raw.contains(sha))
    }

    /// The record or this version of it was set aside at least once.
    pub fn knows(&self, id: &str, sha: &Sha) -> bool {
        self.ids.contains(id) || self.raw.contains(sha)
    }
}

impl<'a> Case<'a> {
    pub fn new(input: &'a CheckInput, rules: &'a SourceRules, dump: &'a Dump) -> Case<'a> {
        let mut served: Vec<&ServedRow> = input.served.iter().filter(|row| row.source == rules.source).collect();
        served.sort_by_key(|row| row.at_us);
        let truth = truth_of(&input.truth, &rules.source);
        let pages = pages_of(dump, rules, &served, input.steady_clock);
        let mut case = Case {
            rules,
            dump,
            tree: SliceTree::new(&dump.slices),
            end: input.end(),
            at_rest: input.at_rest,
            steady_clock: input.steady_clock,
            overlap_us: input.overlap_us,
            truth,
            served,
            pages,
            deliveries: BTreeMap::new(),
            stored: BTreeMap::new(),
            quarantine: quarantine_of(dump, rules),
        };
        case.deliveries = case.find_deliveries();
        case.stored = case.find_stored();
        case
    }

    /// The line of this source with what needs no judging.
    pub fn opening(&self) -> SourceVerdict {
        let ours = |provenance: &str| provenance == self.rules.provenance_code;
        SourceVerdict {
            source: self.rules.source.clone(),
            stored: self.stored.len() as u64,
            quarantined: self.dump.quarantine.iter().filter(|row| ours(&row.provenance)).count() as u64,
            outbox_events: self.dump.outbox.iter().filter(|row| ours(&row.provenance)).count() as u64,
            requests: self.served.len() as u64,
            ..SourceVerdict::default()
        }
    }

    pub fn source(&self) -> &str {
        &self.rules.source
    }

    pub fn version(&self, id: &str, number: u32) -> Option<&Version<'a>> {
        self.truth.get(id)?.iter().find(|version| version.row.version == number)
    }

    /// When the request of a page arrived at the source; by the ledger's own account when there is no log.
    pub fn arrived_at(&self, page: &CommittedPage<'_>) -> Option<i64> {
        page.served.map(|row| row.at_us).or(page.batch.asked_at)
    }

    fn find_deliveries(&self) -> BTreeMap<&'a str, Vec<Delivery>> {
        let windows: HashMap<i64, (i64, i64)> =
            self.dump.slices.iter().map(|slice| (slice.id, (slice.from, slice.to))).collect();
        let mut deliveries: BTreeMap<&str, Vec<Delivery>> = BTreeMap::new();
        for page in &self.pages {
            let Some(row) = page.served else { continue };
            if self.rules.two_phase && row.kind == Kind::Search {
                continue;
            }
            let filters = page.batch.stats.is_some_and(|counts| counts.filtered > 0);
            let by_query = page.batch.stats.is_some_and(|counts| counts.by_query > 0);
            let window = windows.get(&page.batch.slice_id);
            for (id, number) in &row.items {
                let inside = |at: i64| window.is_some_and(|(from, to)| *from <= at && at < *to);
                // Which records a query does not want only the engine can say; that they are counted, C8 looks at.
                let optional = by_query
                    || filters && !self.version(id, *number).is_some_and(|version| inside(version.row.updated_at));
                deliveries.entry(id).or_default().push(Delivery {
                    version: *number,
                    fetched_at: page.batch.fetched_at.unwrap_or(row.at_us),
                    batch: page.batch.id,
                    optional,
                });
            }
        }
        deliveries
    }

    fn find_stored(&self) -> BTreeMap<&'a str, Stored<'a>> {
        let ours =
            |record: &&Record| record.provenance == self.rules.provenance_code && record.entity == self.rules.entity;
        let mut stored = BTreeMap::new();
        for record in self.dump.records.iter().filter(ours) {
            let id = record.provider_id.as_str();
            let versions = self.truth.get(id).map_or(&[][..], Vec::as_slice);
            let same: Vec<u32> =
                versions.iter().filter(|version| version.sha == record.payload).map(|v| v.row.version).collect();
            // Several versions may have the same bytes; what was delivered decides between them.
            let came = self.deliveries.get(id).map_or(&[][..], Vec::as_slice);
            let delivered = same.iter().copied().filter(|n| came.iter().any(|delivery| delivery.version == *n)).max();
            stored.insert(id, Stored { record, version: delivered.or(same.last().copied()) });
        }
        stored
    }
}

/// Versions of one source by record, each with its class of equal content.
fn truth_of<'a>(rows: &'a [TruthRow], source: &str) -> BTreeMap<&'a str, Vec<Version<'a>>> {
    let mut truth: BTreeMap<&str, Vec<Version<'_>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.source == source) {
        let sha = unhex(&row.payload_sha256).unwrap_or_default();
        truth.entry(&row.id).or_default().push(Version { row, sha, class: row.version, until: i64::MAX });
    }
    for versions in truth.values_mut() {
        versions.sort_by_key(|version| version.row.version);
        for at in 1..versions.len() {
            let before = versions[at - 1];
            let now = &mut versions[at];
            // A re-stamp names any version of the run before it; a return to older content is a class of its own.
            let repeats =
                now.row.same_content_as.is_some_and(|number| (before.class..=before.row.version).contains(&number));
            if repeats || (now.sha == before.sha && now.row.deleted == before.row.deleted) {
                now.class = before.class;
            }
            versions[at - 1].until = versions[at].row.visible_at;
        }
    }
    truth
}

fn quarantine_of<'a>(dump: &'a Dump, rules: &SourceRules) -> Quarantined<'a> {
    let mut found = Quarantined::default();
    for row in dump.quarantine.iter().filter(|row| row.provenance == rules.provenance_code) {
        if let Some(id) = &row.provider_id {
            found.ids.insert(id);
            found.in_batch.insert((row.batch_id, id));
        }
        found.raw.insert(row.raw);
    }
    found
}

/// Joins committed batches to answers by the hash of the body. Of several equal answers the last one before the
/// batch had it is meant; when the batch's own times cannot be believed, the last of all. A process knows a server's
/// clock only with the delay of its answers and dates its pages a little early: when the last answer before is older
/// than the question, the one after it is meant.
fn pages_of<'a>(
    dump: &'a Dump,
    rules: &SourceRules,
    served: &[&'a ServedRow],
    steady_clock: bool,
) -> Vec<CommittedPage<'a>> {
    let mut by_hash: HashMap<Sha, Vec<&ServedRow>> = HashMap::new();
    for row in served {
        if let Some(hash) = unhex(&row.response_sha256) {
            by_hash.entry(hash).or_default().push(row);
        }
    }
    let ours = dump.batches.iter().filter(|batch| batch.committed() && batch.provenance == rules.provenance_code);
    ours.map(|batch| {
        let hash = batch.response_hash.as_deref().and_then(|hash| Sha::try_from(hash).ok());
        let rows = hash.and_then(|hash| by_hash.get(&hash)).map_or(&[][..], Vec::as_slice);
        let had = batch.fetched_at.or(batch.committed_at).filter(|_| steady_clock).unwrap_or(i64::MAX);
        let before = rows.iter().rev().find(|row| row.at_us <= had);
        let in_time = before.filter(|row| batch.asked_at.is_none_or(|asked| row.at_us >= asked));
        let committed = batch.committed_at.unwrap_or(had);
        let after = rows.iter().find(|row| had < row.at_us && row.at_us <= committed);
        CommittedPage { batch, served: in_time.or(after).or(before).or(rows.first()).copied() }
    })
    .collect()
}

fn unhex(text: &str) -> Option<Sha> {
    let mut bytes = Sha::default();
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}
