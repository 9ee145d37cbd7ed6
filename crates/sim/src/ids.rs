//! Identifiers as each source writes them, some of them nasty: slashes, brackets, hashes, commas, letters outside ASCII, and
//! pairs that differ by case or by a trailing space only, where the source's shape permits it.

use crate::rng::{Rng, hash_text};
use crate::source::Source;

const NASTY_SHARE: f64 = 0.08;

/// The identifier of the n-th record of a source; different numbers never give the same text.
pub fn id_of(source: Source, seed: u64, n: u64) -> String {
    let mut rng = Rng::for_parts(seed, &[0x1D, n]);
    match source {
        Source::Crossref | Source::DataCite => doi(&mut rng, n),
        Source::PubMed => (10_000_000 + n * 3 + rng.below(3)).to_string(),
        Source::OaiPmh => twin(seed, n, &["", "case"], |n| format!("oai:archive.example.org:Collection/{n}-Ab")),
        Source::Doaj => {
            let half = |salt: u64| hash_text(&format!("{seed}/{n}/{salt}"));
            // The number is part of the text, so two records can never meet in a hash collision.
            format!("{:016x}{:08x}{n:08x}", half(1), half(2) as u32)
        }
        Source::OpenFda if rng.chance(NASTY_SHARE) => {
            format!("{}-{}", 4_000_000 + n, rng.below(10))
        }
        Source::OpenFda => format!("{}", 10_003_000 + n),
        Source::TimeFeed => twin(seed, n, &["", "case", "space"], |n| format!("Item/{n}-Kd")),
    }
}

fn doi(rng: &mut Rng, n: u64) -> String {
    let registrant = 1000 + rng.below(8000);
    if !rng.chance(NASTY_SHARE) {
        let stem = rng.pick(&["j.sim", "s41586", "journal.pone", "zenodo", "acs.jmed", "fpsyg"]);
        return format!("10.{registrant}/{stem}.{n}");
    }
    let nasty = [
        format!("10.{registrant}/(sici)1097-4571(199806)49:8<693::aid-asi{n}>3.0.co;2-o"),
        format!("10.{registrant}/a/b//c#{n}"),
        format!("10.{registrant}/x+y;z,{n}"),
        format!("10.{registrant}/élan-ß-文献-{n}"),
        format!("10.{registrant}/100%25&q=\"{n}\""),
    ];
    rng.pick(&nasty).clone()
}

/// Mostly the plain form; now and then the plain form of the neighbour before, changed in one invisible way.
fn twin(seed: u64, n: u64, changes: &[&str], plain: impl Fn(u64) -> String) -> String {
    let mut rng = Rng::for_parts(seed, &[0x7E, n]);
    if n == 0 || !rng.chance(NASTY_SHARE) {
        return plain(n);
    }
    match *rng.pick(changes) {
        "case" => plain(n - 1).replace("Ab", "aB").replace("Kd", "kD"),
        "space" => plain(n - 1) + " ",
        _ => format!("{}é<&>\"{n}'", plain(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_never_repeat_within_a_source() {
        for source in Source::ALL {
            let ids: HashSet<String> = (0..20_000).map(|n| id_of(source, 5, n)).collect();
            assert_eq!(ids.len(), 20_000, "{}", source.name());
        }
    }

    #[test]
    fn some_ids_differ_by_case_or_a_trailing_space_only() {
        let ids: HashSet<String> = (0..2000).map(|n| id_of(Source::TimeFeed, 5, n)).collect();
        assert!(ids.iter().any(|id| id.ends_with(' ') && ids.contains(id.trim_end())));
        assert!(ids.iter().any(|id| id.contains("kD") && ids.contains(&id.replace("kD", "Kd"))));
    }
}
