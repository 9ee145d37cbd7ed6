//! The checker's own test (FM-26): every planted defect is found. The tests take turns, because a defect is planted for
//! the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use patra_core::hash::Hash32;
use patra_core::planted::{Defect, plant};
use patra_core::record::{Merge, NewRecord, StoredRecord, VersionKey, merge};
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;
use patra_sim::{FaultLevel, Source};
use patra_testkit::simulation::{Options, run_with};
use patra_testkit::{lives, moving, together};

/// Most seeds tried for one defect.
const SEEDS: u64 = 200;
/// Something enters and something leaves between every two requests.
const HASTE: Option<moving::Pace> = Some(moving::Pace { every: 1, burst: 4 });

/// Whose turn it is; nextest gives every test a process, `cargo test` does not.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        scenario: None,
        stock_max: 10_000,
        set: Vec::new(),
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
        // Ten records a page where a hundred are asked for.
        D::ShortPageIsLast => Options { scenario: Some("PO-4"), page_size: 100, ..calm(seed, Source::OaiPmh) },
        // One item that moved lies in the overlap of two pages; three do not.
        D::MovedUnnoticed => Options { page_size: 3, mutate_every: 1, mutate_burst: 3, ..calm(seed, Source::OpenFda) },
        // Reading backward would not miss what moves; the total alone has to notice.
        D::Unreconciled => {
            let set = vec![("pagination.backward", "false")];
            Options { page_size: 3, mutate_every: 1, set, ..calm(seed, Source::Doaj) }
        }
        // One leaves, another enters, the one between is skipped, and the total stands still.
        D::StillTotalBelieved => {
            let set = vec![("pagination.backward", "false")];
            Options { page_size: 3, mutate_every: 1, mutate_burst: 4, set, ..calm(seed, Source::Doaj) }
        }
        D::CapIgnored => Options { caps: 10, ..calm(seed, Source::PubMed) },
        D::SplitLeavesGap => Options { caps: 10, ..calm(seed, Source::DataCite) },
        D::MissingForgotten => calm(seed, Source::PubMed),
        D::DetailStepTooWide => calm(seed, Source::PubMed).with_refusals(true),
        // Something must be left for later.
        D::RestForgotten => Options { stock_max: 1, ..calm(seed, Source::DataCite) },
        D::EventLost => Options { records: 40, ..calm(seed, Source::DataCite) },
        _ => calm(seed, Source::DataCite),
    }
}

/// The checker complains, or the copy is not complete although nothing stood in the way.
fn is_found(options: Options) -> bool {
    let hindered = options.overflow;
    run_with(options, None).map_or(true, |report| !report.verdict.ok || (!hindered && !report.ok()))
}

/// Every order of three versions of a record ends with the same one.
fn merge_is_a_total_order() -> bool {
    let version = |at: i64| NewRecord {
        provider_id: "a".into(),
        key: VersionKey::new(
            Some(Timestamp::from_seconds(at)),
            None,
            Timestamp::from_seconds(9),
            Hash32::of(&[at as u8]),
            1,
        ),
        updated_at: Some(Timestamp::from_seconds(at)),
        deleted: false,
        merged_into: None,
        notices: Vec::new(),
        fields: "{}".into(),
        payload: Default::default(),
    };
    let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    orders.into_iter().all(|order| {
        let mut kept: Option<StoredRecord> = None;
        for incoming in order.map(version) {
            if matches!(merge(kept.as_ref(), &incoming), Merge::Insert | Merge::Update) {
                kept = Some(StoredRecord { key: incoming.key, deleted: false, gone_at: None });
            }
        }
        kept.is_some_and(|kept| kept.key.content_hash == Hash32::of(&[3]))
    })
}

#[test]
fn every_planted_defect_is_found() {
    let _turn = turn();
    let mut unfound = Vec::new();
    for defect in Defect::ALL {
        plant(Some(*defect));
        let found = match defect {
            // One reader never brings an older version after a newer one; the law itself is asked.
            Defect::OlderOverwrites => (!merge_is_a_total_order()).then_some(0),
            // It needs company.
            Defect::BackfillMovesHarvest => (1..=SEEDS).find(|seed| {
                let wrong = together::judge(*seed, &[Operation::Backfill]);
                wrong.map_or(true, |complaint| complaint.is_some())
            }),
            // A second reading would mend it: looked for before there is one.
            Defect::ShiftBelieved => (1..=SEEDS)
                .find(|seed| moving::judge(moving::FORWARD, *seed, HASTE).map_or(true, |(told, _)| told.is_some())),
            // What is told, not what is stored.
            Defect::LifeForgetsVersions => (1..=SEEDS)
                .find(|seed| lives::judge(lives::options(*seed), 60).map_or(true, |told| told.complaint.is_some())),
            _ => (1..=SEEDS).find(|seed| is_found(situation(*defect, *seed))),
        };
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
    let _turn = turn();
    for defect in Defect::ALL {
        let report = run_with(situation(*defect, 1), None).unwrap();
        assert!(report.verdict.ok, "{defect:?}: {}", report.complaint());
    }
}
