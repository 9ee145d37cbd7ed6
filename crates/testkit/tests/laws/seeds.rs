//! Running many seeds on all cores.

use patra_testkit::lab::LabResult;

/// Complaints shown of each core; more of them say nothing new.
const RED_MAX: usize = 5;

pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The complaints about `count` seeds from `PATRA_SEED_FIRST` on.
pub fn each_seed(count: u64, judge: impl Fn(u64) -> LabResult<Option<String>> + Sync) -> Vec<String> {
    let first = number("PATRA_SEED_FIRST", 1);
    each_of(first..first + count, judge)
}

/// The complaints about these seeds.
pub fn each_of(
    seeds: impl Iterator<Item = u64> + Clone + Sync,
    judge: impl Fn(u64) -> LabResult<Option<String>> + Sync,
) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |thread: u64| {
        let mine = seeds.clone().filter(|seed| seed % threads == thread);
        let red = mine.filter_map(|seed| match judge(seed) {
            Ok(complaint) => complaint.map(|complaint| format!("seed {seed}: {complaint}")),
            Err(error) => Some(format!("seed {seed}: {error}")),
        });
        red.take(RED_MAX).collect::<Vec<String>>()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
