//! Finding server programs, and installing their Debian packages where they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Kind;

/// Where programs are that are not on everyone's path.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/bin"];

/// Installs the packages of all kinds whose program is not found.
pub fn missing(kinds: &[Kind]) -> Result<()> {
    let missing: Vec<Kind> = kinds.iter().copied().filter(|kind| kind.find().is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|kind| kind.package()).collect();
    install(&packages).context("install them by hand, or test with `cargo xtask test --sqlite`")?;
    match missing.iter().find(|kind| kind.find().is_none()) {
        None => Ok(()),
        Some(kind) => bail!("the package {} was installed, but {} is not found", kind.package(), kind.name()),
    }
}

/// A program that a check or a proof needs; its package is installed when it is missing.
pub fn tool(name: &str, package: &str) -> Result<PathBuf> {
    if program(name).is_none() {
        install(&[package])?;
    }
    program(name).with_context(|| format!("the package {package} was installed, but {name} is not found"))
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(", "));
    if !apt_get(&["update"]) || !apt_get(&[&["install", "-y", "--no-install-recommends"], packages].concat()) {
        bail!("{} cannot be installed here", packages.join(", "));
    }
    Ok(())
}

fn apt_get(arguments: &[&str]) -> bool {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "apt-get"]);
        command
    };
    let quiet = command.arg("-q").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

pub fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

/// A program on the path or in one of the usual folders.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The newest `/usr/lib/postgresql/N/bin`, which Debian keeps off the path.
pub fn postgres_folder() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut versions: Vec<u32> =
        versions.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable();
    let newest = versions.last()?;
    let folder = Path::new("/usr/lib/postgresql").join(newest.to_string()).join("bin");
    folder.join("initdb").is_file().then_some(folder)
}
