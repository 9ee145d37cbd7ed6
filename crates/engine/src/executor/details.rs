//! The second phase: details of the ids a search page found, in groups, each its own batch.
//!
//! A request that is refused is halved until the bad id is alone; ids asked for and not returned are noted, and so is which
//! record came in place of one.

use std::sync::Arc;

use patra_core::absence::{Lack, Settled, settle};
use patra_core::pass::{DetailPlace, Place};
use patra_core::planted::{Defect, planted};
use patra_core::spec::errors::{ErrorClass, FetchError};

use super::Halt;
use super::fetch::Fetched;
use super::reading::{Reading, Step};

impl Reading<'_> {
    /// The ids of one detail request.
    pub(super) async fn detail_ids(&mut self, place: &DetailPlace) -> Result<Vec<String>, Halt> {
        let ids = self.ids_of(place).await?;
        let from = (place.offset as usize).min(ids.len());
        let to = (from + self.detail_size).min(ids.len());
        Ok(ids[from..to].to_vec())
    }

    async fn ids_of(&mut self, place: &DetailPlace) -> Result<Arc<Vec<String>>, Halt> {
        match &self.id_list {
            Some((batch, ids)) if *batch == place.batch => Ok(ids.clone()),
            _ => {
                let ids = Arc::new(self.outside.ledger.id_list(place.batch).await?);
                self.id_list = Some((place.batch, ids.clone()));
                Ok(ids)
            }
        }
    }

    pub(super) async fn take_detail(&mut self, place: DetailPlace, fetched: Fetched) -> Result<Step, Halt> {
        let asked = self.detail_ids(&place).await?;
        let readable: Vec<&str> = fetched.page.items.iter().map(|item| item.id.as_str()).collect();
        let unreadable = fetched.page.bad.iter().filter_map(|bad| bad.id.as_deref());
        let shown: Vec<&str> = readable.iter().copied().chain(unreadable).collect();
        let Settled::Lacks(missing) = settle(&asked, &shown, &readable) else {
            // Asked for in halves, each strange record is seen to stand for one id, or for none.
            self.detail_size = asked.len().div_ceil(2);
            return Ok(Step::On(None));
        };
        self.answered_ids += readable.len() as u64;
        let all = self.ids_of(&place).await?.len();
        self.detail_size = self.full_detail_size();
        let after = after_detail(&place, asked.len(), all);
        let mut commit = self.page_commit(fetched, after.as_ref(), true);
        commit.missing = if planted(Defect::MissingForgotten) { Vec::new() } else { missing };
        commit.total = None;
        self.pass.step_committed(commit.source_now);
        self.commit(commit, after).await
    }

    /// A refused detail request: halve it, or note the one id that is refused and go on.
    pub(super) async fn detail_refused(
        &mut self,
        place: DetailPlace,
        class: ErrorClass,
        error: &FetchError,
    ) -> Result<Option<Step>, Halt> {
        let asked = self.detail_ids(&place).await?;
        if !matches!(class, ErrorClass::Denied | ErrorClass::TooLarge | ErrorClass::Skip | ErrorClass::Split) {
            return Ok(None);
        }
        if asked.len() > 1 {
            self.outside.failpoints.hit("bisect").map_err(patra_core::ports::LedgerError::from)?;
            self.detail_size = asked.len().div_ceil(2);
            return Ok(Some(Step::On(None)));
        }
        // What a rule skips is expected to be refused.
        self.refused_ids += u64::from(class != ErrorClass::Skip);
        if let Some(reason) = self.refuses_too_much(error) {
            self.fail("REQUEST_ERRORS", reason).await?;
            return Ok(Some(Step::Done));
        }
        let all = self.ids_of(&place).await?.len();
        self.detail_size = self.full_detail_size();
        let after = after_detail(&place, asked.len(), all);
        let lack = if error.says_absent() { Lack::NotReturned } else { Lack::Refused };
        let refused = asked.into_iter().map(|id| (id, lack.clone())).collect();
        let commit = self.refused_commit(refused, after.as_ref(), error);
        self.pass.step_committed(commit.source_now);
        self.commit(commit, after).await.map(Some)
    }

    /// So many ids are refused that it is the request and not the ids (L2): the task stops and says what was asked.
    fn refuses_too_much(&self, error: &FetchError) -> Option<String> {
        let thresholds = &self.outside.settings.thresholds;
        let (refused, all) = (self.refused_ids, self.refused_ids + self.answered_ids);
        let share = refused * 100 > all * u64::from(thresholds.denied_percent);
        (share && refused >= u64::from(thresholds.denied_min)).then(|| {
            let endpoint = self.spec().detail.as_ref().map_or("", |detail| detail.endpoint.as_str());
            format!("{refused} of {all} ids were refused by `{endpoint}`, one at a time; the last answer: {error}")
        })
    }

    fn full_detail_size(&self) -> usize {
        self.spec().detail.as_ref().map_or(1, |detail| detail.id_batch_size.max(1) as usize)
    }
}

fn after_detail(place: &DetailPlace, asked: usize, all: usize) -> Option<Place> {
    let step = if planted(Defect::DetailStepTooWide) { asked.max(2) } else { asked };
    let offset = place.offset as usize + step;
    if offset < all {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        return Some(Place::Detail(DetailPlace { offset, ..place.clone() }));
    }
    place.next.clone().map(Place::Search)
}
