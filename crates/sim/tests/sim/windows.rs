//! Every window of every provider, over all its pages, holds exactly the current records: no one less, no one more.

use patra_sim::moment::{DAY_US, HOUR_US, SECOND_US, floor};
use patra_sim::{Rng, Source, Truth};

use crate::reader::{FROM, LIVE_TO, TO, expected, plan, provider, walk};

/// Random windows on the source's own grain, wide and narrow, at a rising time.
fn check(source: Source, records: u64, rounds: u32) {
    let mut rng = Rng::new(source as u64 + 77);
    let mut provider = provider(source, 11, records);
    provider.set_cap(1_000_000);
    let (grain, shift) = match source {
        Source::Crossref => (HOUR_US, 0),
        Source::PubMed => (DAY_US, 5 * HOUR_US),
        Source::OpenFda => (DAY_US, 0),
        _ => (SECOND_US, 0),
    };
    let mut now = TO;
    let mut found = 0;
    for round in 0..rounds {
        now += rng.between(0, 3 * HOUR_US);
        let widths = [grain, 4 * grain, DAY_US.max(grain), 13 * DAY_US];
        let from = floor(rng.between(FROM - DAY_US, LIVE_TO), grain) + shift;
        let to = from + floor(*rng.pick(&widths), grain);
        let size = *rng.pick(&[7, 50, 100]);
        let got = walk(provider.as_mut(), source, now, from, to, size);
        let want = expected(provider.truth(), now, from, to);
        assert_eq!(got.len(), want.len(), "{} round {round}", source.name());
        assert_eq!(got, want, "{} round {round}", source.name());
        found += got.len();
    }
    assert!(found > records as usize, "{} windows were nearly all empty", source.name());
}

#[test]
fn crossref_windows_hold_exactly_the_current_records() {
    check(Source::Crossref, 400, 60);
}

#[test]
fn pubmed_windows_hold_exactly_the_current_records() {
    check(Source::PubMed, 400, 60);
}

#[test]
fn oai_windows_hold_exactly_the_current_records() {
    check(Source::OaiPmh, 400, 60);
}

#[test]
fn doaj_windows_hold_exactly_the_current_records() {
    check(Source::Doaj, 400, 60);
}

#[test]
fn datacite_windows_hold_exactly_the_current_records() {
    check(Source::DataCite, 400, 60);
}

#[test]
fn openfda_windows_hold_exactly_the_current_records() {
    check(Source::OpenFda, 400, 60);
}

#[test]
fn timefeed_windows_hold_exactly_the_current_records() {
    check(Source::TimeFeed, 400, 60);
}

#[test]
fn nothing_is_visible_later_than_allowed_and_versions_follow_each_other() {
    for source in Source::ALL {
        let plan = plan(source, 5, 3000);
        let truth: Truth = plan.draw();
        let mut before: std::collections::HashMap<String, (u32, i64, i64)> = std::collections::HashMap::new();
        for version in truth.versions() {
            if version.updated_at >= FROM && version.updated_at < LIVE_TO {
                let late = version.visible_at - version.updated_at;
                assert!((0..=plan.late_us_max()).contains(&late), "{late}");
                assert!(version.updated_at >= TO || version.visible_at <= TO);
            }
            let last = before.insert(version.id.clone(), (version.version, version.updated_at, version.visible_at));
            let last = last.unwrap_or((0, i64::MIN, i64::MIN));
            assert_eq!(version.version, last.0 + 1);
            assert!(version.updated_at >= last.1 && version.visible_at >= last.2);
        }
    }
}

#[test]
fn edges_ties_late_arrivals_and_wrong_dates_all_occur() {
    let truth = plan(Source::Doaj, 5, 3000).draw();
    let all: Vec<_> = truth.versions().collect();
    let on_edge = all.iter().filter(|version| version.updated_at % HOUR_US == 0).count();
    let stamps: std::collections::HashSet<i64> = all.iter().map(|version| version.updated_at).collect();
    assert!(on_edge > 100, "{on_edge}");
    assert!(stamps.len() + 200 < all.len());
    assert!(all.iter().any(|version| version.updated_at > LIVE_TO + 1000 * DAY_US));
    assert!(all.iter().any(|version| version.updated_at < FROM));
    assert!(all.iter().any(|version| version.deleted));
    assert!(all.iter().any(|version| version.same_content_as.is_some()));
    assert!(all.iter().any(|version| version.visible_at - version.updated_at > 2 * HOUR_US));
}
