//! Random schedules: many seeds in CI, more as a command (`PATRA_SEEDS=20000`, `PATRA_SEED_FIRST=1`).

use patra_testkit::simulation;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn no_seed_loses_a_record() {
    super::quiet_crashes();
    let (first, count) = (number("PATRA_SEED_FIRST", 1), number("PATRA_SEEDS", 2_000));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let red: Vec<String> = std::thread::scope(|scope| {
        let share = |thread: u64| {
            (first..first + count)
                .filter(move |seed| seed % threads as u64 == thread)
                .filter_map(|seed| match simulation::run(seed) {
                    Ok(report) if report.ok() => None,
                    Ok(report) => Some(format!("seed {seed}: {}", report.complaint())),
                    Err(error) => Some(format!("seed {seed}: {error}")),
                })
                .take(5)
                .collect::<Vec<String>>()
        };
        let running: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    super::quiet_crashes();
    for seed in 1..=number("PATRA_REPEATS", 20) {
        let hashes: Vec<String> = (0..2).map(|_| simulation::run(seed).unwrap().log_hash).collect();
        assert_eq!(hashes[0], hashes[1], "seed {seed}");
    }
}
