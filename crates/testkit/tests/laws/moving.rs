//! Moving result sets (FM-14): more seeds of each kind of paging as a command (`PATRA_MOVING_SEEDS=2000`), also of one of
//! them alone (`PATRA_MOVING_KIND="page, forward"`).

use std::sync::Mutex;

use patra_testkit::moving::{KINDS, Tally, judge};

use super::seeds::{each_seed, number};

#[test]
fn no_slice_that_succeeds_has_missed_what_stayed() {
    let seeds = number("PATRA_MOVING_SEEDS", 12);
    let mut red = Vec::new();
    let only = std::env::var("PATRA_MOVING_KIND").unwrap_or_default();
    for kind in KINDS.iter().filter(|kind| kind.name.contains(&only)) {
        let all: Mutex<Tally> = Mutex::default();
        let of_kind = each_seed(seeds, |seed| {
            let (told, tally) = judge(kind, seed, None)?;
            all.lock().unwrap().add(&tally);
            Ok(told)
        });
        let Tally { succeeded, split, ended, .. } = all.into_inner().unwrap();
        let count = of_kind.len();
        println!(
            "{}: {seeds} seeds, {count} red; slices by passes {succeeded:?}, {split} cut, {ended} not proven",
            kind.name
        );
        red.extend(of_kind);
    }
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}
