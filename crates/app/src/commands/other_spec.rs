//! The other mapping of `patra replay --spec` and `patra remap`: a version, a definition file, or the one in force.

use patra_core::ports::{Phase, Registry};
use patra_core::registry::{Definition, decode};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_source::decode::Decoded;
use patra_source::program::Program;

use crate::failure::{Exit, Failure, mistaken};
use crate::wiring::{Apply, Desk, looks_like_a_file, plain, read_definition};

/// A kept answer as a program reads it.
pub fn decoded_with(program: &Program, phase: Phase, body: bytes::Bytes) -> Result<Decoded, String> {
    let response = match (phase, &program.detail) {
        (Phase::Search, _) => &program.search.response,
        (Phase::Detail, Some(detail)) => &detail.response,
        (Phase::Detail, None) => return Err("the definition has no detail request".into()),
    };
    response.decode(body, None).map_err(|error| error.to_string())
}

/// The other spec for the same endpoint: of a version or a file, which is published nowhere, or the one in force.
pub async fn spec_of(desk: &Desk, spec: &SpecSnapshot, other: &str) -> Result<SpecSnapshot, Failure> {
    let mut trigger = plain(&spec.provenance, "stable");
    trigger.endpoint = Some(spec.endpoint.clone());
    if other == "current" {
        return Ok(desk.planner().compile(&trigger).await?.spec);
    }
    let (definition, text) = definition_named(desk, &spec.provenance, other).await?;
    let aside = Desk::open(":memory:").await?;
    let apply = Apply { channel: "stable", from: None, actor: "replay", remark: other };
    aside.apply(&definition, &text, apply).await?;
    trigger.provenance = definition.source().to_owned();
    let compiled = aside.planner().compile(&trigger).await;
    aside.store.close().await;
    Ok(compiled?.spec)
}

/// A definition by the number of its version, or by its file.
async fn definition_named(desk: &Desk, source: &str, other: &str) -> Result<(Definition, String), Failure> {
    if looks_like_a_file(other) {
        return read_definition(std::path::Path::new(other));
    }
    let Ok(number) = other.parse::<i64>() else {
        let message = format!("`{other}` is neither a version, nor a definition file, nor `current`");
        return Err(Failure::new(Exit::Usage, message));
    };
    let missing = || {
        Failure::new(Exit::NotFound, format!("`{source}` has no version {number}"))
            .hint(format!("`patra registry history {source}` lists them"))
    };
    let text = desk.store.version(source, number).await?.ok_or_else(missing)?.definition;
    let definition = decode(&format!("{source} version {number}"), &text).map_err(|mistakes| mistaken(&mistakes))?;
    Ok((definition, text))
}
