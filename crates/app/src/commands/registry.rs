//! `patra registry`: versions of definitions, released gradually and taken back.

use std::path::Path;

use patra_core::ports::{Registry, StoredVersion};
use patra_core::registry::decode;
use patra_core::time::Timestamp;
use serde_json::{Value, json};

use crate::cli::{Global, RegistryCommand};
use crate::commands::source::{checked, unknown};
use crate::failure::{Exit, Failure, mistaken};
use crate::table;
use crate::wiring::{Apply, Desk, actor};

pub async fn run(global: &Global, command: &RegistryCommand) -> Result<(), Failure> {
    let writes = matches!(command, RegistryCommand::Apply { .. } | RegistryCommand::Rollback { .. });
    let desk = match writes {
        true => Desk::open(global.database()).await?,
        false => Desk::open_to_look(global).await?,
    };
    match command {
        RegistryCommand::Apply { files, effective_from, channel, remark } => {
            let mut rows = Vec::new();
            for file in files {
                rows.push(apply(&desk, file, *effective_from, channel, remark).await?);
            }
            print(global, rows, &["source", "version", "channel", "effective_from", "changed"])
        }
        RegistryCommand::Diff { file, channel } => diff(global, &desk, file, channel).await,
        RegistryCommand::History { source } => history(global, &desk, source).await,
        RegistryCommand::Rollback { source, to, channel } => {
            let row = rollback(&desk, source, *to, channel).await?;
            print(global, vec![row], &["source", "version", "channel", "content_of"])
        }
        RegistryCommand::Export { source, version } => export(global, &desk, source, *version).await,
    }
}

fn print(global: &Global, rows: Vec<Value>, columns: &[&str]) -> Result<(), Failure> {
    if global.json {
        println!("{}", Value::Array(rows));
    } else {
        println!("{}", table::of_rows(&rows, columns));
    }
    Ok(())
}

async fn apply(
    desk: &Desk,
    file: &Path,
    from: Option<Timestamp>,
    channel: &str,
    remark: &str,
) -> Result<Value, Failure> {
    let (definition, text) = checked(file)?;
    let source = definition.source().to_owned();
    let newest = newest(desk, &source).await?;
    let apply = Apply { channel, from, actor: &actor(), remark };
    let version = desk.apply(&definition, &text, apply).await?;
    Ok(json!({
        "source": source,
        "version": version,
        "channel": channel,
        "effective_from": from.unwrap_or_else(|| desk.clock.now()),
        "changed": newest != Some(version),
    }))
}

async fn newest(desk: &Desk, source: &str) -> Result<Option<i64>, Failure> {
    Ok(desk.store.versions(Some(source)).await?.iter().map(|version| version.version).max())
}

async fn current(desk: &Desk, source: &str, channel: &str) -> Result<StoredVersion, Failure> {
    let version = desk.store.version_at(source, channel, desk.clock.now()).await?.ok_or_else(|| unknown(source))?;
    if version.channel != channel {
        desk.planner().known_channel(channel).await?;
    }
    Ok(version)
}

async fn diff(global: &Global, desk: &Desk, file: &Path, channel: &str) -> Result<(), Failure> {
    let (definition, text) = checked(file)?;
    let old = current(desk, definition.source(), channel).await?;
    let lines = line_diff(&old.definition, &text);
    if global.json {
        println!(
            "{}",
            json!({ "source": definition.source(), "version": old.version, "changed": !lines.is_empty(), "lines": lines })
        );
    } else if lines.is_empty() {
        println!("{} equals version {}", file.display(), old.version);
    } else {
        println!("--- {} version {}\n+++ {}", definition.source(), old.version, file.display());
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

/// Lines taken away and added, by the longest common subsequence.
fn line_diff(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            common[left][right] = if old[left] == new[right] {
                common[left + 1][right + 1] + 1
            } else {
                common[left + 1][right].max(common[left][right + 1])
            };
        }
    }
    let (mut left, mut right, mut lines) = (0, 0, Vec::new());
    while left < old.len() || right < new.len() {
        if left < old.len() && right < new.len() && old[left] == new[right] {
            (left, right) = (left + 1, right + 1);
        } else if right < new.len() && (left == old.len() || common[left][right + 1] >= common[left + 1][right]) {
            lines.push(format!("+{}:{}", right + 1, new[right]));
            right += 1;
        } else {
            lines.push(format!("-{}:{}", left + 1, old[left]));
            left += 1;
        }
    }
    lines
}

async fn history(global: &Global, desk: &Desk, source: &str) -> Result<(), Failure> {
    let versions = desk.store.versions(Some(source)).await?;
    if versions.is_empty() {
        return Err(unknown(source));
    }
    let rows = versions
        .iter()
        .map(|version| {
            json!({
                "version": version.version,
                "channel": version.channel,
                "effective_from": version.effective_from,
                "effective_to": version.effective_to,
                "by": version.actor,
                "remark": version.remark,
                "hash": version.definition_hash.to_string()[..12],
            })
        })
        .collect();
    print(global, rows, &["version", "channel", "effective_from", "effective_to", "by", "remark", "hash"])
}

/// History is only ever added to: going back publishes the old content as a new version.
async fn rollback(desk: &Desk, source: &str, to: Option<i64>, channel: &str) -> Result<Value, Failure> {
    let now = current(desk, source, channel).await?;
    let target = match to {
        Some(version) => version,
        None => previous(desk, &now).await?,
    };
    let old = desk.store.version(source, target).await?.ok_or_else(|| no_version(source, target))?;
    let definition = decode(&format!("{source} version {target}"), &old.definition).map_err(|m| mistaken(&m))?;
    let (who, remark) = (actor(), format!("rollback to version {target}"));
    let apply = Apply { channel, from: None, actor: &who, remark: &remark };
    let version = desk.apply(&definition, &old.definition, apply).await?;
    Ok(json!({ "source": source, "version": version, "channel": channel, "content_of": target }))
}

fn no_version(source: &str, version: i64) -> Failure {
    Failure::new(Exit::NotFound, format!("`{source}` has no version {version}"))
        .hint(format!("`patra registry history {source}` lists them"))
}

async fn previous(desk: &Desk, now: &StoredVersion) -> Result<i64, Failure> {
    let versions = desk.store.versions(Some(&now.provenance)).await?;
    let before = versions.iter().filter(|version| {
        version.channel == now.channel
            && version.version < now.version
            && version.definition_hash != now.definition_hash
    });
    before.map(|version| version.version).max().ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("`{}` has no earlier version on channel {}", now.provenance, now.channel))
    })
}

async fn export(global: &Global, desk: &Desk, source: &str, version: Option<i64>) -> Result<(), Failure> {
    let stored = match version {
        Some(number) => desk.store.version(source, number).await?.ok_or_else(|| no_version(source, number))?,
        None => current(desk, source, "stable").await?,
    };
    if global.json {
        println!("{}", serde_json::to_string(&stored)?);
    } else {
        print!("{}", stored.definition);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_names_only_what_changed() {
        assert_eq!(line_diff("a\nb\nc\n", "a\nc\nd\n"), ["-2:b", "+3:d"]);
        assert!(line_diff("a\n", "a\n").is_empty());
    }
}
