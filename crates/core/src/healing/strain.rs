//! When the rest of a slice is better read in smaller ones: answers that are too large, a source that refuses too often,
//! a reading that takes too long (8.4).

use crate::healing::Thresholds;
use crate::time::Span;

/// Shares of fewer requests than this say nothing.
const REQUESTS_MIN: u64 = 20;
/// Less than this is sooner read than cut.
const PAGES_LEFT_MIN: u64 = 2;

/// How the run of a slice has fared so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    pub requests: u64,
    pub throttled: u64,
    /// Of the largest answer.
    pub body_bytes: u64,
    pub took: Span,
    pub pages_read: u64,
    /// `None` where the source tells no total.
    pub pages_left: Option<u64>,
    /// What was read is proven by its order and is not read again.
    pub kept: bool,
}

impl Strain {
    /// Why the slice is to be cut; `None` when it may go on.
    pub fn relief(&self, thresholds: &Thresholds) -> Option<String> {
        if !self.is_worth_it() {
            return None;
        }
        if self.body_bytes > u64::from(thresholds.reslice_bytes) {
            return Some(format!(
                "an answer of {} bytes, {} are wanted at most",
                self.body_bytes, thresholds.reslice_bytes
            ));
        }
        let share = self.throttled * 100 > self.requests * u64::from(thresholds.throttled_percent);
        if self.requests >= REQUESTS_MIN && share {
            return Some(format!("{} of {} requests of the slice were throttled", self.throttled, self.requests));
        }
        (self.took > thresholds.reslice_after).then(|| {
            format!("the slice has been read for {}, {} are wanted at most", self.took, thresholds.reslice_after)
        })
    }

    /// More is gained than thrown away: pages whose order proves nothing are read again.
    fn is_worth_it(&self) -> bool {
        match self.pages_left {
            Some(left) => left >= PAGES_LEFT_MIN && (self.kept || left >= self.pages_read),
            None => self.kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_cut_when_it_strains_and_when_that_gains_something() {
        let usual = Thresholds::default();
        let calm = Strain { requests: 40, pages_read: 3, pages_left: Some(9), ..Strain::default() };
        let large = Strain { body_bytes: u64::from(usual.reslice_bytes) + 1, ..calm };
        let refused = Strain { throttled: 3, ..calm };
        let long = Strain { took: usual.reslice_after.plus(Span::SECOND), ..calm };
        // (strain, whether it is cut)
        for (strain, cut) in [
            (calm, false),
            (large, true),
            (Strain { body_bytes: u64::from(usual.reslice_bytes), ..calm }, false),
            (refused, true),
            (Strain { throttled: 2, ..calm }, false),
            (Strain { requests: 19, throttled: 19, ..calm }, false),
            (long, true),
            (Strain { took: usual.reslice_after, ..calm }, false),
            (Strain { pages_left: Some(1), ..large }, false),
            (Strain { pages_left: Some(2), ..large }, false),
            (Strain { pages_left: Some(2), kept: true, ..large }, true),
            (Strain { pages_left: None, ..large }, false),
            (Strain { pages_left: None, kept: true, ..large }, true),
        ] {
            assert_eq!(strain.relief(&usual).is_some(), cut, "{strain:?}");
        }
    }
}
