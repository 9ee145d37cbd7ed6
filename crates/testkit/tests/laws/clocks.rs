//! Clocks that lie (FM-12): `PATRA_SEEDS=5000` for a release.

use super::seeds::{each_of, each_seed, number};
use patra_testkit::clocks::Lies;
use patra_testkit::simulation::{Options, run_with};

/// Seeds unless told otherwise.
const SEEDS: u64 = 100;
/// Seeds that were red once: a clock set back in the middle of a pass (912, 1163), a version dated after the clock that
/// fetched it and gone since (791), a process that waited at the gate while its clock was set back (68).
const RED_ONCE: [u64; 4] = [68, 791, 912, 1163];

#[test]
fn an_executors_clock_changes_no_lease_decision() {
    super::quiet_crashes();
    let red = each_seed(number("PATRA_SEEDS", SEEDS), |seed| {
        let honest = run_with(Options::of(seed).with_lies(Lies::Nobody), None)?;
        let lying = run_with(Options::of(seed).with_lies(Lies::Executors), None)?;
        Ok(match (honest.leases == lying.leases, honest.log_hash == lying.log_hash) {
            (true, true) => None,
            (false, _) => Some(format!("other leases: {:?}", lying.options)),
            (true, false) => Some(format!("other requests: {:?}", lying.options)),
        })
    });
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}

#[test]
fn jumps_of_any_clock_cost_time_and_never_data() {
    super::quiet_crashes();
    let judge = |seed| {
        let report = run_with(Options::of(seed).with_lies(Lies::Everyone), None)?;
        Ok((!report.ok()).then(|| report.complaint()))
    };
    let mut red = each_of(RED_ONCE.into_iter(), judge);
    red.extend(each_seed(number("PATRA_SEEDS", SEEDS), judge));
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}
