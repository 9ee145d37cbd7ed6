//! Embeds every file of `migrations/*` in name order, so that the lists cannot drift from the folders.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 3] = ["sqlite", "postgres", "mysql"];

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the manifest folder"));
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets the output folder"));
    for name in FOLDERS {
        let list = list_of(&root.join("../../migrations").join(name));
        std::fs::write(out.join(format!("{name}_migrations.rs")), list).expect("the output folder can be written");
    }
}

fn list_of(folder: &Path) -> String {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the migrations folder is part of the source tree")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let (version, name) = parts(file);
        writeln!(list, "    ({version}, {name:?}, include_str!({:?})),", file.display()).expect("a string takes text");
    }
    list.push_str("]\n");
    list
}

/// `0002_ledger.sql` is version 2, named `ledger`.
fn parts(file: &Path) -> (i64, String) {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a migration has a plain name");
    let (number, name) = stem.split_once('_').expect("a migration is named NNNN_name.sql");
    (number.parse().expect("a migration begins with its number"), name.to_owned())
}
