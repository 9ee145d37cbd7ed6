//! Operations side by side (INV-10): `PATRA_SEEDS=1000` for a release.

use super::seeds::{each_seed, number};
use patra_core::spec::snapshot::Operation;
use patra_sim::Source;
use patra_testkit::together;

const COMPANY: [Operation; 2] = [Operation::Backfill, Operation::Update];

#[test]
fn a_harvest_in_company_moves_its_watermark_as_if_alone() {
    super::quiet_crashes();
    let red = each_seed(number("PATRA_SEEDS", 60), |seed| together::judge(seed, &COMPANY));
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}

#[test]
fn a_refresh_asks_for_every_known_id_and_moves_its_own_cursor() {
    let seed = (1..200).find(|seed| together::options(*seed, true).sources == [Source::PubMed]).unwrap();
    let outcome = together::run(&together::options(seed, true), &[Operation::Harvest, Operation::Update]).unwrap();
    assert_eq!(outcome.complaint, None);
    assert!(outcome.plans.iter().filter(|plan| plan.contains("UPDATE")).count() >= 1, "{:?}", outcome.plans);
}

#[test]
fn the_company_is_there_and_is_disturbed() {
    let options = together::options(1, true);
    let outcome = together::run(&options, &[Operation::Harvest, Operation::Backfill]).unwrap();
    assert!(outcome.plans.contains(&"\"BACKFILL\"".to_owned()), "{outcome:?}");
    let kills: u64 =
        (1..=5).map(|seed| together::run(&together::options(seed, true), &[Operation::Backfill]).unwrap().kills).sum();
    assert!(kills > 0);
}
