//! What the cuts have shown: a table for people, one line of JSON, and whether it is good enough.

use serde_json::{Value, json};

use super::{Looked, Resumed};
use crate::proofs::Planted;
use crate::proofs::torture::report::{Line, all_good, page, told, zero};

pub struct Report {
    pub planted: Option<Planted>,
    pub seed: u64,
    pub writes: usize,
    pub syncs: usize,
    pub told: usize,
    pub looked: Looked,
    pub resumed: Resumed,
    pub seconds: f64,
}

impl Planted {
    pub fn name(self) -> &'static str {
        match self {
            Planted::NoSync => "no-sync",
            Planted::Normal => "normal",
        }
    }
}

impl Report {
    pub fn ok(&self) -> bool {
        all_good(&self.lines())
    }

    fn lines(&self) -> Vec<Line> {
        let Looked { cuts, at_sync, sought, lost, cuts_with_loss, unsound } = &self.looked;
        let Resumed { harvests, complete, stored, expected, .. } = self.resumed;
        let lost_of = format!("{lost} of {sought} looked for, in {cuts_with_loss} cuts");
        vec![
            told("recorded", format!("{} writes, {} syncs, {} commits told", self.writes, self.syncs, self.told)),
            told("power cuts", format!("{cuts}, {at_sync} of them around a sync")),
            zero("integrity failures", unsound.len() as u64),
            ("acknowledged and lost", lost_of, Some(*lost == 0)),
            ("harvests taken up again", format!("{harvests}, {complete} complete"), Some(harvests == complete)),
            told("  records", format!("{stored} stored, {expected} expected")),
            zero("  missing", self.resumed.missing),
            zero("  extra", self.resumed.extra),
            zero("  double commits", self.resumed.double_commits),
            zero("  findings", self.resumed.findings),
        ]
    }

    pub fn table(&self) -> String {
        let planted = self.planted.map_or(String::new(), |planted| format!(", planted {}", planted.name()));
        let title = format!("power cuts of SQLite, seed {}{planted}", self.seed);
        let broken = self.looked.unsound.iter().take(5);
        let broken: Vec<String> =
            broken.map(|why| format!("not whole: {}", why.lines().next().unwrap_or_default())).collect();
        page(&title, &self.lines(), &broken, self.seconds)
    }

    pub fn json(&self) -> Value {
        json!({
            "ok": self.ok(),
            "seed": self.seed,
            "planted": self.planted.map(Planted::name),
            "writes": self.writes,
            "syncs": self.syncs,
            "commits_told": self.told,
            "cuts": self.looked.cuts,
            "cuts_at_sync": self.looked.at_sync,
            "integrity_failures": self.looked.unsound.len(),
            "acknowledged_sought": self.looked.sought,
            "acknowledged_lost": self.looked.lost,
            "cuts_with_loss": self.looked.cuts_with_loss,
            "resumed": self.resumed.harvests,
            "resumed_complete": self.resumed.complete,
            "missing": self.resumed.missing,
            "extra": self.resumed.extra,
            "double_commits": self.resumed.double_commits,
            "findings": self.resumed.findings,
            "seconds": self.seconds,
        })
    }
}
