//! The checker's own test (FM-26): every planted defect is found. One test, because a defect is planted for the whole
//! process.

use patra_core::planted::{Defect, plant};
use patra_sim::{FaultLevel, Source};
use patra_testkit::simulation::{Options, run_with};

/// Most seeds tried for one defect.
const SEEDS: u64 = 200;

/// Healthy processes and no cap, so that what is found is the defect's own doing.
fn calm(seed: u64, source: Source) -> Options {
    Options {
        sources: vec![source],
        records: 60,
        faults: FaultLevel::None,
        processes: 1,
        kill_one_in: 0,
        freeze_one_in: 0,
        strike_one_in: 0,
        rounds: 3,
        page_size: 7,
        caps: 1_000,
        mutate_every: 3,
        ..Options::of(seed)
    }
}

/// Two processes that stop and come back, so that leases are lost.
fn restless(seed: u64, source: Source) -> Options {
    Options { processes: 2, workers: 2, freeze_one_in: 15, page_size: 2, ..calm(seed, source) }
}

/// The situation in which a defect does harm.
fn situation(defect: Defect, seed: u64) -> Options {
    use Defect as D;
    match defect {
        D::NoFencing | D::TakeoverKeepsEpoch => restless(seed, Source::OaiPmh),
        // Something must fail, and not be read again by the healthy rounds before anyone looks.
        D::WatermarkMaxEnd | D::FailedCounts => {
            Options { caps: 10, records: 90, ..calm(seed, Source::OpenFda) }.with_overflow()
        }
        D::EdgeOffByGrain => calm(seed, Source::OaiPmh),
        D::ShortPageIsLast => Options { page_size: 25, ..calm(seed, Source::OaiPmh) },
        D::MovedUnnoticed | D::Unreconciled => Options { page_size: 3, mutate_every: 1, ..calm(seed, Source::OpenFda) },
        D::CapIgnored => Options { caps: 10, ..calm(seed, Source::Doaj) },
        D::SplitLeavesGap => Options { caps: 10, ..calm(seed, Source::DataCite) },
        D::MissingForgotten | D::DetailStepTooWide => calm(seed, Source::PubMed).with_refusals(),
        D::OlderOverwrites | D::EventLost => Options { records: 40, ..calm(seed, Source::DataCite) },
        _ => calm(seed, Source::DataCite),
    }
}

#[test]
fn every_planted_defect_is_found() {
    let mut unfound = Vec::new();
    for defect in Defect::ALL {
        plant(Some(*defect));
        let found = (1..=SEEDS).find(|seed| !run_with(situation(*defect, *seed), None).is_ok_and(|report| report.ok()));
        plant(None);
        match found {
            Some(seed) => println!("{defect:?} found by seed {seed}"),
            None => unfound.push(defect),
        }
    }
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}

#[test]
fn the_same_situations_without_a_defect_are_clean() {
    for defect in Defect::ALL {
        let report = run_with(situation(*defect, 1), None).unwrap();
        assert!(report.verdict.ok, "{defect:?}: {}", report.complaint());
    }
}
