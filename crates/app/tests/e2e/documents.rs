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
    assert!(desk.patra(&["sim", "scenarios"]).ended(0).out.contains("always on"));
    assert!(!desk.json(&["sim", "scenarios"]).as_array().unwrap().is_empty());
}
