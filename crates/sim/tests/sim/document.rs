//! The page that lists the situations is that of the table.

use std::fmt::Write;

use patra_sim::SCENARIOS;

const HEAD: &str = "# Nasty situations

What the sources do to their readers, as `patra sim` imitates it, and what Patra does about it. `patra sim scenarios`
prints this list, `patra sim serve --scenario ID` switches a situation on. `crates/testkit/tests/scenarios` meets those
that were seen at PubMed (PM), Crossref (CR), DataCite (DC), DOAJ (DJ), openFDA (FD), PMC (PO) and arXiv (AO) with the real
engine on virtual time: each must have happened, the reaction must be seen, and the checker compares what is stored with
what the source held. Numbers with a letter are parts of one situation. Sizes are small, so that small worlds reach them.

| Id | Source | What happens | What Patra does |
|---|---|---|---|
";

#[test]
fn the_situations_are_those_of_the_document() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    let mut made = HEAD.to_owned();
    for scenario in SCENARIOS {
        let (source, reaction) = (scenario.source.name(), scenario.reaction.text());
        writeln!(made, "| {} | {source} | {} | {reaction} |", scenario.id, scenario.what).unwrap();
    }
    if std::env::var_os("PATRA_WRITE_DOCUMENTS").is_some() {
        std::fs::write(document, &made).unwrap();
    }
    let written = std::fs::read_to_string(document).unwrap_or_default();
    assert_eq!(written, made, "write it anew: `PATRA_WRITE_DOCUMENTS=1 cargo test -p patra-sim document`");
}
