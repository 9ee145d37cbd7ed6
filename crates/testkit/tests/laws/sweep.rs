//! The crash sweep: every named failpoint in every mode, each seen to fire.

use patra_core::failpoint;
use patra_testkit::strike::Mode;
use patra_testkit::sweep::{Cell, sweep};

#[test]
fn every_failpoint_in_every_mode_leaves_a_complete_copy() {
    super::quiet_crashes();
    // One failpoint alone, while looking into it.
    let only = std::env::var("PATRA_FAILPOINT").ok();
    let cells: Vec<Cell> = failpoint::ALL
        .iter()
        .filter(|name| only.as_ref().is_none_or(|only| only == *name))
        .flat_map(|name| Mode::ALL.map(|mode| [1, 2].map(|hit| Cell { failpoint: name, mode, hit })))
        .flatten()
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = |thread: usize| {
        let mine = cells.iter().skip(thread).step_by(threads);
        mine.filter_map(|cell| match sweep(*cell) {
            Ok(swept) if !swept.fired => Some(format!("{cell:?} never fired")),
            Ok(swept) if !swept.complaint.is_empty() => Some(format!("{cell:?}: {}", swept.complaint)),
            Ok(_) => None,
            Err(error) => Some(format!("{cell:?}: {error}")),
        })
        .collect::<Vec<String>>()
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let shown: Vec<String> = wrong.iter().take(10).map(|text| text.chars().take(600).collect()).collect();
    assert!(wrong.is_empty(), "{} of {} cells\n{}", wrong.len(), cells.len(), shown.join("\n"));
}
