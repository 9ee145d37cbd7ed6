//! What is told of ids, compared with what the checker knows of them: ids that are stored, stored again, set aside, listed and
//! not delivered, dropped, and some that nobody ever saw.

use std::collections::{BTreeMap, BTreeSet};

use patra_checker::{KnownLife, Standing};
use patra_core::ports::{LifeAsk, Prove};
use patra_core::proof::Life;
use patra_sim::{FaultLevel, Rng, Source};

use crate::lab::{Lab, LabResult};
use crate::simulation::{Options, stormed_after};

/// Pages of a run that are searched: all of them.
const SEARCH_MAX: u64 = 1_000_000;

const REFUSED: &str = "CREATE TRIGGER refused BEFORE INSERT ON ing_record WHEN NEW.provider_id LIKE '%7'
    BEGIN SELECT RAISE(ABORT, 'refused'); END";

/// How many ids of each standing were asked about, and what was told wrongly.
#[derive(Default)]
pub struct Judged {
    pub standings: BTreeMap<Standing, u64>,
    pub complaint: Option<String>,
}

/// Sources that drop, set aside, list without delivering, and change what they have shown.
pub fn options(seed: u64) -> Options {
    let options = Options { faults: FaultLevel::None, ..Options::of(seed) };
    match seed % 4 {
        0 => Options { sources: vec![Source::DataCite], scenario: Some("DC-7"), mutate_every: 3, ..options },
        1 => Options { sources: vec![Source::PubMed], mutate_every: 3, ..options },
        2 => Options { sources: vec![Source::Doaj], mutate_every: 3, ..options },
        _ => Options { sources: vec![Source::OaiPmh], mutate_every: 3, ..options },
    }
}

/// Asks about `count` ids of a run, drawn by its seed.
pub fn judge(options: Options, count: usize) -> LabResult<Judged> {
    let seed = options.seed;
    let (lab, _folder) = stormed_after(options, refuse_some)?;
    let source = lab.plan.sources[0];
    let input = lab.check_input()?;
    let known = lab.runtime.block_on(patra_checker::lives(&input, source.name())).map_err(|error| error.to_string())?;
    let held = input.truth.iter().map(|row| row.id.clone());
    let ids: Vec<String> = held.chain(known.keys().cloned()).collect::<BTreeSet<String>>().into_iter().collect();
    let mut judged = Judged::default();
    let mut rng = Rng::for_parts(seed, &[0x71]);
    for drawn in 0..count {
        let id = match drawn % 10 == 9 || ids.is_empty() {
            true => format!("10.1/never-{drawn}"),
            false => ids[rng.below(ids.len() as u64) as usize].clone(),
        };
        let ask = LifeAsk { provenance: source.name().into(), id, dated: None, search_max: SEARCH_MAX };
        let life = lab.runtime.block_on(lab.store.life(&ask)).map_err(|error| error.to_string())?;
        let want = known.get(&ask.id).cloned().unwrap_or_default();
        *judged.standings.entry(want.standing).or_default() += 1;
        if let Some(wrong) = wrong(&life, &want) {
            judged.complaint = Some(format!("`{}` of {}: {wrong}\n{want:?}", ask.id, source.name()));
            break;
        }
    }
    Ok(judged)
}

/// The database takes no new record whose id ends with a seven: it is set aside.
fn refuse_some(lab: &Lab) -> LabResult<()> {
    use sqlx::{ConnectOptions, Connection, Executor};
    let refused = lab.runtime.block_on(async {
        let file = sqlx::sqlite::SqliteConnectOptions::new().filename(lab.database());
        let mut connection = file.connect().await?;
        connection.execute(REFUSED).await?;
        connection.close().await
    });
    refused.map_err(|error: sqlx::Error| error.to_string())
}

/// What is told otherwise than it was.
fn wrong(life: &Life, want: &KnownLife) -> Option<String> {
    let told: BTreeSet<i64> = life.sightings.iter().map(|one| one.batch.0).collect();
    let by = |words: &str| -> BTreeSet<i64> {
        life.sightings.iter().filter(|one| one.decision.starts_with(words)).map(|one| one.batch.0).collect()
    };
    if life.is_unknown() != (want.standing == Standing::Unknown) {
        return Some(format!("told as {}", if life.is_unknown() { "unknown" } else { "known" }));
    }
    if let Some(page) = want.pages.iter().find(|page| !told.contains(page)) {
        return Some(format!("page {page} showed it and is not told"));
    }
    let stored: BTreeSet<i64> = want.stored_by.intersection(&told).copied().collect();
    if by("stored as") != stored || !want.stored_by.is_subset(&told) {
        return Some(format!("stored by {:?}, told as stored by {:?}", want.stored_by, by("stored as")));
    }
    // A page that set one version aside may have stored another one of the same id.
    let aside: BTreeSet<i64> = want.set_aside_by.difference(&want.stored_by).copied().collect();
    if by("quarantined") != aside {
        return Some(format!("set aside by {aside:?}, told as set aside by {:?}", by("quarantined")));
    }
    let decided = |one: &str| life.sightings.iter().any(|sighting| sighting.decision.starts_with(one));
    match want.standing {
        Standing::Superseded if life.events.len() < 2 => Some("its versions are not told".into()),
        Standing::Undelivered if !decided("asked for and not returned") => {
            Some("that it was asked for is not told".into())
        }
        Standing::Filtered if !decided("not kept") && !decided("listed") => {
            Some("that it was dropped is not told".into())
        }
        _ => None,
    }
}
