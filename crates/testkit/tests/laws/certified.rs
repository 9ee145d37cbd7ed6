//! A certificate says what the ledger holds, whatever a storm has left behind: `PATRA_SEEDS=200` for a release.

use patra_core::id::Id;
use patra_core::plan::build::namespace_of;
use patra_core::ports::{DigestAsk, Prove};
use patra_core::proof::{Basis, Certificate, Subject, Terms, Verdict};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_sim::Source;
use patra_testkit::lab::{Lab, LabResult};
use patra_testkit::simulation::{Options, stormed};

use super::seeds::{each_seed, number};

/// Every third run has slices that can never be read.
pub(super) fn options(seed: u64) -> Options {
    let options = Options::of(seed);
    match seed % 3 {
        0 => Options { sources: vec![Source::OpenFda], caps: 10, records: 60, ..options }.with_overflow(),
        _ => options,
    }
}

pub(super) fn certificate(lab: &Lab, spec: &SpecSnapshot) -> LabResult<Option<Certificate>> {
    let namespace = namespace_of(spec);
    let made = lab.runtime.block_on(async {
        let Some(window) = lab.store.planned_window(&namespace).await? else { return Ok(None) };
        let evidence = lab.store.evidence(&namespace, &spec.entity, window).await?;
        let columns = lab.store.basis_columns().await?;
        let settled: Vec<Id> = evidence.leaves.iter().filter(|leaf| leaf.is_settled()).map(|leaf| leaf.slice).collect();
        let ask = DigestAsk {
            provenance: spec.provenance.clone(),
            entity: spec.entity.clone(),
            slices: settled,
            waivers: evidence.waivers.iter().map(|waiver| waiver.id).collect(),
            columns: columns.clone(),
        };
        let digests = lab.store.digests(&ask).await?;
        let subject = Subject {
            source: spec.provenance.clone(),
            endpoint: spec.endpoint.clone(),
            entity: spec.entity.clone(),
            operation: "HARVEST".into(),
            query: None,
            namespace: namespace.hash(),
            window,
            terms: Terms { settling_lag: spec.window.safety_lag, total_tolerance: spec.response.total_tolerance },
        };
        let made = Certificate::new(subject, evidence, Basis::new(columns, digests), lab.now(), None);
        Ok::<_, patra_core::ports::LedgerError>(Some(made))
    });
    made.map_err(|error| error.to_string())
}

/// Whether the certificate was complete, and what the oracle says against it.
fn judge(seed: u64) -> LabResult<(Option<Verdict>, Option<String>)> {
    let (lab, _folder) = stormed(options(seed))?;
    let source = lab.plan.sources[0];
    let compiled = lab.runtime.block_on(lab.planner().compile(&lab.trigger(source)));
    let spec = compiled.map_err(|error| error.to_string())?.spec;
    let Some(certificate) = certificate(&lab, &spec)? else { return Ok((None, None)) };
    let window = certificate.subject.window;
    let span = (window.from().micros(), window.to().micros());
    let asked = patra_checker::uncovered(lab.database(), source.name(), spec.window.safety_lag.micros(), span);
    let oracle = lab.runtime.block_on(asked).map_err(|error| error.to_string())?;
    let mut holes: Vec<(i64, i64)> = Vec::new();
    for hole in certificate.judgement.coverage.iter().filter(|one| one.is_hole()) {
        let (from, to) = (hole.window.from().micros(), hole.window.to().micros());
        match holes.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => holes.push((from, to)),
        }
    }
    let verdict = certificate.judgement.verdict;
    let agreed = holes == oracle.holes && (verdict == Verdict::Complete) == oracle.is_complete();
    let flaws = certificate.flaws();
    let complaint = (!agreed || !flaws.is_empty())
        .then(|| format!("{:?} {flaws:?}\noracle {oracle:?}\n{:?}", verdict, certificate.judgement.reasons));
    Ok((Some(verdict), complaint))
}

#[test]
fn a_certificate_agrees_with_the_oracle_after_every_storm() {
    super::quiet_crashes();
    let red = each_seed(number("PATRA_SEEDS", 60), |seed| Ok(judge(seed)?.1));
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
}

#[test]
fn storms_leave_complete_and_incomplete_harvests_behind() {
    super::quiet_crashes();
    let verdicts: Vec<Verdict> = (1..=20).filter_map(|seed| judge(seed).unwrap().0).collect();
    assert!(verdicts.contains(&Verdict::Complete) && verdicts.contains(&Verdict::Incomplete), "{verdicts:?}");
}
