//! The paper itself: subject, judgement, evidence, and digests of the rows, sealed over its own contents.
//!
//! The seal is no signature: it finds a slip of the hand, not a forger who can compute SHA-256. Against the ledger nothing
//! helps a forger, because the rows are read again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::Counts;
use crate::proof::judge::last_readings;
use crate::proof::{Columns, Digests, Evidence, Judgement, Leaf, Terms, judge};
use crate::time::Timestamp;
use crate::window::Window;

/// What is certified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    pub source: String,
    pub endpoint: String,
    /// Name of its records.
    pub entity: String,
    pub operation: String,
    pub query: Option<String>,
    pub namespace: Hash32,
    pub window: Window,
    pub terms: Terms,
}

/// What it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    pub columns: Columns,
    pub digests: Digests,
    /// Over all of them.
    pub digest: Hash32,
}

impl Basis {
    pub fn new(columns: Columns, digests: Digests) -> Basis {
        let digest = over(&columns, &digests);
        Basis { columns, digests, digest }
    }
}

fn over(columns: &Columns, digests: &Digests) -> Hash32 {
    Hash32::of_json(&serde_json::json!({ "columns": columns, "digests": digests }))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Version of this form.
    pub certificate: u32,
    pub subject: Subject,
    pub made_at: Timestamp,
    pub watermark: Option<Timestamp>,
    #[serde(flatten)]
    pub judgement: Judgement,
    pub sums: Sums,
    pub evidence: Evidence,
    pub basis: Basis,
    /// Over everything above.
    pub seal: Hash32,
}

/// Of the last reading of every window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    pub windows: u64,
    /// Where every window had a total.
    pub total: Option<u64>,
    pub distinct: u64,
    #[serde(flatten)]
    pub counts: Counts,
    pub missing: u64,
    pub unsettled: u64,
}

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Certificate {
    pub const VERSION: u32 = 1;

    pub fn new(
        subject: Subject,
        evidence: Evidence,
        basis: Basis,
        made_at: Timestamp,
        watermark: Option<Timestamp>,
    ) -> Certificate {
        let judgement = judge(subject.window, &evidence, subject.terms);
        let sums = Sums::of(&evidence.leaves);
        let mut made = Certificate {
            certificate: Certificate::VERSION,
            subject,
            made_at,
            watermark,
            judgement,
            sums,
            evidence,
            basis,
            seal: Hash32::default(),
        };
        made.seal = made.sealed();
        made
    }

    /// Of every window the reading that counts.
    pub fn readings(&self) -> Vec<&Leaf> {
        last_readings(&self.evidence.leaves)
    }

    fn sealed(&self) -> Hash32 {
        let mut text = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut text {
            fields.remove("seal");
        }
        Hash32::of_json(&text)
    }

    /// What is wrong with the paper by itself.
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut wrong = |what: &str| flaws.push(Flaw { what: what.to_owned(), slice: None, window: None });
        if self.certificate != Certificate::VERSION {
            wrong("it has a form that this build does not know");
        }
        if self.seal != self.sealed() {
            wrong("its text was changed after it was made");
        }
        if self.basis.digest != over(&self.basis.columns, &self.basis.digests) {
            wrong("its digest is not that of its rows");
        }
        if self.judgement != judge(self.subject.window, &self.evidence, self.subject.terms) {
            wrong("its verdict does not follow from its evidence");
        }
        if self.sums != Sums::of(&self.evidence.leaves) {
            wrong("its sums are not those of its windows");
        }
        flaws
    }

    /// What is wrong with it as the ledger is now.
    pub fn flaws_against(&self, now: &Digests) -> Vec<Flaw> {
        let then = &self.basis.digests;
        let mut flaws = Vec::new();
        for leaf in self.evidence.leaves.iter().filter(|leaf| leaf.is_settled()) {
            let what = match (then.slices.get(&leaf.slice), now.slices.get(&leaf.slice)) {
                (Some(then), Some(now)) if then == now => continue,
                (None, _) => "the certificate has no digest of this slice",
                (_, None) => "the ledger does not have this slice any more",
                _ => "the rows of this slice are not those that were certified",
            };
            flaws.push(Flaw { what: what.into(), slice: Some(leaf.slice), window: Some(leaf.window) });
        }
        for waiver in &self.evidence.waivers {
            if then.waivers.get(&waiver.id).is_none_or(|hash| now.waivers.get(&waiver.id) != Some(hash)) {
                let what = "the waiver is not the one that was certified".into();
                flaws.push(Flaw { what, slice: None, window: Some(waiver.window) });
            }
        }
        flaws
    }
}

impl Sums {
    fn of(leaves: &[Leaf]) -> Sums {
        let mut sums = Sums { total: Some(0), ..Sums::default() };
        for leaf in last_readings(leaves) {
            sums.windows += 1;
            sums.total = sums.total.zip(leaf.total).map(|(sum, total)| sum + total);
            sums.distinct += leaf.distinct.unwrap_or_default();
            sums.counts.add(&leaf.counts);
            sums.missing += leaf.missing;
            sums.unsettled += leaf.unsettled;
        }
        sums
    }
}
