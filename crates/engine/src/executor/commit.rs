//! From a decoded page to the commit that stores it.

use patra_core::healing::Course;
use patra_core::page::{Item, Page, Position};
use patra_core::pass::{DetailPlace, Place, page_ids, page_times};
use patra_core::planted::{Defect, planted};
use patra_core::ports::{BatchCommit, KeptBody, OpenBatch, RateKey};
use patra_core::query::Answer;
use patra_core::record::NewRecord;
use patra_core::refit::Policy;
use patra_core::spec::snapshot::{Blackbox, Operation};
use patra_core::time::{Span, Timestamp};
use serde_json::{Map, Value, json};

use super::fetch::Fetched;
use super::reading::Reading;

/// What of a page did not become records, and why.
#[derive(Default)]
struct Dropped {
    /// All that was left out on purpose.
    filtered: u32,
    /// Of these, what the query does not want.
    by_query: u32,
    /// Kept although the record does not say whether the query wants it.
    undecided: u32,
    out_of_window: u32,
}

impl Dropped {
    fn tell(&self, by_query: bool, stats: &mut Map<String, Value>) {
        if by_query {
            stats.insert("filteredByQuery".into(), self.by_query.into());
            stats.insert("undecidedByQuery".into(), self.undecided.into());
        }
    }
}

impl Reading<'_> {
    /// INV-18: so many bad records mean that the format has changed; the watermark must not slide over it.
    pub(super) fn systemic(&self, fetched: &Fetched) -> Option<String> {
        let (bad, all) = (fetched.page.bad.len(), fetched.page.item_count());
        let first = fetched.page.bad.first().filter(|_| self.spec().quarantine.is_exceeded(bad, all))?;
        Some(format!("{bad} of {all} records of one page cannot be read, first: {} at `{}`", first.message, first.path))
    }

    /// `min(database clock, source's Date)`; the header has whole seconds, so its second is taken as over.
    pub(super) fn source_now(&mut self, fetched: &Fetched) -> Timestamp {
        let asked = fetched.page.asked_at;
        let told = fetched.page.source_date.map_or(asked, |date| date.plus(Span::SECOND));
        self.source_behind = asked.since(told).max(Span::ZERO);
        asked.min(told)
    }

    /// Details of the ids found come first, then the next search page.
    pub(super) fn after_search(&mut self, fetched: &Fetched, next: Option<Position>) -> Option<Place> {
        if self.spec().detail.is_none() || fetched.page.items.is_empty() {
            return next.map(Place::Search);
        }
        let ids = fetched.page.items.iter().map(|item| item.id.clone()).collect();
        self.id_list = Some((self.batch.id, std::sync::Arc::new(ids)));
        Some(Place::Detail(DetailPlace { batch: self.batch.id, offset: 0, next }))
    }

    pub(super) fn search_commit(&mut self, fetched: Fetched, after: Option<&Place>) -> BatchCommit {
        let two_phase = self.spec().detail.is_some();
        let mut commit = self.page_commit(fetched, after, !two_phase);
        if two_phase {
            commit.id_list = self.id_list.as_ref().map(|(_, ids)| ids.to_vec()).or(Some(Vec::new()));
        }
        commit
    }

    /// The commit of any page; `store`: its items are records.
    pub(super) fn page_commit(&mut self, fetched: Fetched, after: Option<&Place>, store: bool) -> BatchCommit {
        let source_now = self.source_now(&fetched);
        let mut stats = self.stats(&fetched, after);
        let page_ids = page_ids(&fetched.page);
        let times = page_times(self.spec(), &fetched.page);
        let item_count = u32::try_from(fetched.page.item_count()).unwrap_or(u32::MAX);
        let body = self.kept_body(&fetched.page);
        let passage = self.passage(&fetched);
        let Page {
            items, bad, total, asked_at, fetched_at, response_hash, request_digest, mut response_digest, ..
        } = fetched.page;
        if let Value::Object(digest) = &mut response_digest {
            digest.insert("rate".into(), passage);
        }
        let observed_max = items.iter().filter_map(|item| item.updated_at).max();
        let (records, dropped) = if store {
            self.records(items, fetched_at)
        } else {
            (Vec::new(), Dropped { filtered: item_count - bad.len() as u32, ..Dropped::default() })
        };
        dropped.tell(self.filter.is_some(), &mut stats);
        BatchCommit {
            batch: self.batch.clone(),
            after_token: after.map(Place::to_token),
            next: after.map(|place| self.next_batch(place)),
            entity: self.spec().entity.clone(),
            expr_hash: self.task.expr_hash,
            mapping_hash: self.mapping_hash,
            spec_fingerprint: self.plan.spec_fingerprint,
            records,
            bad,
            quarantine: self.spec().quarantine,
            missing: Vec::new(),
            policy: Policy::of(self.spec()),
            page_ids,
            id_list: None,
            item_count,
            filtered: dropped.filtered,
            out_of_window: dropped.out_of_window,
            total,
            source_now,
            asked_at,
            fetched_at,
            response_hash: Some(response_hash),
            body,
            request_digest,
            response_digest,
            stats,
            observed_max,
            times,
        }
    }

    fn next_batch(&self, place: &Place) -> OpenBatch {
        OpenBatch {
            id: self.outside.ids.next(),
            batch_no: self.batch.batch_no + 1,
            pass_no: self.batch.pass_no,
            seq_no: self.batch.seq_no + 1,
            phase: place.phase(),
            before_token: place.to_token(),
        }
    }

    /// Records of the page. Outside the window they are dropped only where the source cannot filter itself (INV-4);
    /// what the query does not want is dropped where the source could not be asked. The proof of completeness rests
    /// on the ids of the whole page.
    fn records(&self, items: Vec<Item>, fetched_at: Timestamp) -> (Vec<NewRecord>, Dropped) {
        let (window, spec) = (self.task.window, self.spec());
        let mut dropped = Dropped::default();
        let mut records = Vec::with_capacity(items.len());
        for item in items {
            // The window of a refresh is one of checking.
            let outside = spec.operation != Operation::Update && item.updated_at.is_some_and(|at| !window.contains(at));
            if planted(Defect::LowerEdgeDropped) && item.updated_at == Some(window.from()) {
                dropped.filtered += 1;
                continue;
            }
            if (outside && spec.window.client_filter) || !self.wanted(&item, &mut dropped) {
                dropped.filtered += 1;
                continue;
            }
            dropped.out_of_window += u32::from(outside);
            records.push(NewRecord::of(item, fetched_at, spec.registry_version, &self.pointers));
        }
        (records, dropped)
    }

    /// Whether the query keeps an item. What cannot be decided is kept, and counted; so is a deletion, which shows no
    /// fields to decide by.
    fn wanted(&self, item: &Item, dropped: &mut Dropped) -> bool {
        let Some(filter) = self.filter.as_ref().filter(|_| !item.deleted) else { return true };
        match filter.ask(&item.fields) {
            Answer::Yes => true,
            Answer::Unknown => {
                dropped.undecided += 1;
                true
            }
            Answer::No => {
                dropped.by_query += 1;
                false
            }
        }
    }

    fn kept_body(&self, page: &Page) -> Option<KeptBody> {
        match self.spec().blackbox {
            Blackbox::Full => Some(KeptBody { bytes: page.body.clone(), whole: true }),
            Blackbox::Sample => Some(KeptBody::sample(&page.body)),
            Blackbox::Off => None,
        }
    }

    /// How the page came through the gate (4.10.7).
    fn passage(&self, fetched: &Fetched) -> Value {
        let (rate, tries) = (&self.spec().rate, &fetched.tries);
        let tightest = rate.tightest();
        let per_second = f64::from(tightest.requests) * 1e6 / tightest.per.micros().max(1) as f64;
        json!({
            "limitKey": RateKey::of(self.spec()).as_str(),
            "permitCost": rate.permits(),
            "waitMs": tries.waited.millis(),
            "decision": if tries.waited > Span::ZERO { "WAIT" } else { "ALLOW" },
            "r": (per_second * tries.pace as f64 / 1e3).round() / 1e3,
            "burst": rate.burst,
        })
    }

    fn stats(&self, fetched: &Fetched, after: Option<&Place>) -> Map<String, Value> {
        let page = &fetched.page;
        let stats = json!({
            "itemsCount": page.item_count(),
            "latencyMs": page.latency.millis(),
            "parseMs": page.decode.millis(),
            "requests": fetched.tries.requests,
            "retryCount": fetched.tries.requests.saturating_sub(1),
            "429Count": fetched.tries.throttled,
            "waitMs": fetched.tries.waited.millis(),
            "hasNext": after.is_some(),
            "nextHint": after.map(Place::to_token),
            "bytesIn": page.body.len(),
            "http": { "status": page.status, "bytes": page.body.len() },
        });
        match stats {
            Value::Object(mut map) => {
                let course = self.desk.vitals.course(self.spec());
                if course != Course::USUAL {
                    let lowered = json!({ "concurrency": course.concurrency, "pagePercent": course.page_percent });
                    map.insert("healing".into(), lowered);
                }
                map
            }
            _ => Map::new(),
        }
    }
}
