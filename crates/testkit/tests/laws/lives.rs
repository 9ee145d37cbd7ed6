//! What `patra why` says of an id is what the log of the source and the rows say: `PATRA_LIVES=500` ids of every run.

use std::collections::BTreeMap;

use patra_checker::Standing;
use patra_testkit::lives::{judge, options};

use super::seeds::number;

#[test]
fn the_life_of_any_id_is_told_as_it_was() {
    super::quiet_crashes();
    let (runs, each) = (number("PATRA_SEEDS", 12), number("PATRA_LIVES", 60) as usize);
    let (mut standings, mut red) = (BTreeMap::<Standing, u64>::new(), Vec::new());
    for seed in 1..=runs {
        let judged = judge(options(seed), each).unwrap();
        judged.standings.iter().for_each(|(standing, count)| *standings.entry(*standing).or_default() += count);
        red.extend(judged.complaint.map(|complaint| format!("seed {seed}: {complaint}")));
    }
    println!("{standings:?}");
    assert!(red.is_empty(), "{} red\n{}", red.len(), red.join("\n"));
    for wanted in [Standing::Unknown, Standing::Present, Standing::Superseded, Standing::Quarantined] {
        assert!(standings.contains_key(&wanted), "no id was {wanted:?}: {standings:?}");
    }
}
