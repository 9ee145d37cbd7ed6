//! What is generated: exit codes, completions, man pages.

use crate::support::Desk;

#[test]
fn the_exit_codes_are_those_of_the_document() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exit-codes.md");
    let written = std::fs::read_to_string(document).unwrap();
    let made = Desk::new().patra(&["doctor", "--exit-codes"]).ended(0).out;
    assert_eq!(written, made, "write it anew: `patra doctor --exit-codes > docs/exit-codes.md`");
}

#[test]
fn the_keys_of_definitions_are_those_of_the_document() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/definition-keys.md");
    let written = std::fs::read_to_string(document).unwrap();
    let made = Desk::new().patra(&["source", "keys"]).ended(0).out;
    assert_eq!(written, made, "write it anew: `patra source keys > docs/definition-keys.md`");
}

#[test]
fn situations_are_listed_with_what_is_expected_of_a_reader() {
    let desk = Desk::new();
    let told = desk.patra(&["sim", "scenarios"]).ended(0).out;
    assert!(told.contains("always on") && told.contains("expected"), "{told}");
    let rows = desk.json(&["sim", "scenarios"]);
    let rows = rows.as_array().unwrap();
    for row in rows {
        for key in ["id", "source", "what", "reaction", "expected"] {
            assert!(row[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {row}");
        }
        assert!(told.contains(row["id"].as_str().unwrap()) && row["always_on"].is_boolean(), "{row}");
    }
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    assert!(["PM-7", "CR-8", "DC-8", "DJ-4", "FD-5", "PO-5", "AO-10"].iter().all(|id| ids.contains(id)), "{ids:?}");
}

#[test]
fn completions_and_man_pages_are_made() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(desk.patra(&["completions", shell]).ended(0).out.contains("patra"), "{shell}");
    }
    desk.patra(&["man", "pages"]).ended(0);
    let pages = std::fs::read_dir(desk.path("pages")).unwrap().count();
    assert!(pages > 20, "{pages} pages");
    assert!(desk.path("pages/patra-harvest.1").exists());
}

#[test]
fn every_command_has_help_of_its_own() {
    let desk = Desk::new();
    for args in [&["--help"][..], &["harvest", "--help"], &["task", "list", "--help"], &["sim", "serve", "--help"]] {
        let said = desk.patra(args).ended(0);
        assert!(said.out.contains("Usage: patra") && said.err.is_empty());
    }
    assert!(desk.patra(&["--version"]).ended(0).out.starts_with("patra "));
}
