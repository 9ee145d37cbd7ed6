//! Orders that race with the work (FM-16, FM-18): the laws of the laboratory at their full volume, on any database.
//!
//! A law prints what it has counted as one line of JSON; here that becomes a table, and the last line for machines.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Backend, OrdersArgs};
use crate::servers::{Kind, Servers};
use crate::shell::{Stream, cargo, watched};

/// What a line of counts begins with.
const COUNTED: &str = "patra-proof ";

/// A law of the laboratory, and the variable that sets its volume.
struct Law {
    name: &'static str,
    volume: &'static str,
    count: usize,
}

pub fn cancel(args: &OrdersArgs) -> Result<bool> {
    let count = args.count.unwrap_or(1_000);
    let laws = [
        Law { name: "orders::no_page_commits_after_a_cancel_has_returned", volume: "PATRA_CANCELS", count },
        Law {
            name: "orders::a_paused_source_is_not_asked_after_one_lease",
            volume: "PATRA_PAUSES",
            count: count.div_ceil(20),
        },
    ];
    all("cancels, pauses and priorities", args.backend, &laws)
}

pub fn schedule(args: &OrdersArgs) -> Result<bool> {
    let count = args.count.unwrap_or(500);
    let law = Law { name: "orders::eight_planners_fire_every_due_time_once", volume: "PATRA_FIRINGS", count };
    all("eight planners, one schedule", args.backend, &[law])
}

fn all(title: &str, backend: Backend, laws: &[Law]) -> Result<bool> {
    let begun = Instant::now();
    let (mut ok, mut counted) = (true, Map::new());
    for law in laws {
        ok &= one(backend, law, &mut counted)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("\n{title} on {backend:?}, {seconds:.0} s");
    for (what, count) in &counted {
        println!("  {what:<44} {count:>8}");
    }
    println!("  {:<44} {:>8}", "held", if ok { "ok" } else { "BROKEN" });
    let backend = format!("{backend:?}").to_lowercase();
    println!("{}", json!({ "proof": title, "backend": backend, "ok": ok, "seconds": seconds, "counted": counted }));
    Ok(ok)
}

/// Each law has an empty database of its own.
fn one(backend: Backend, law: &Law, counted: &mut Map<String, Value>) -> Result<bool> {
    let kind = match backend {
        Backend::Sqlite => None,
        Backend::Postgres => Some(Kind::Postgres),
        Backend::Mariadb => Some(Kind::Mysql),
    };
    let servers = kind.map(|kind| Servers::start(&[kind])).transpose()?;
    let mut test = cargo();
    // The features of the check: what it has built is not built again.
    test.args(["test", "--workspace", "--features", "xtask/proofs", "--test", "laws", law.name]);
    test.args(["--", "--exact", "--nocapture"]);
    test.env(law.volume, law.count.to_string());
    if let Some((_, url)) = servers.as_ref().and_then(|servers| servers.environment().pop()) {
        test.env("PATRA_LAB_DATABASE", url);
    }
    let mut told = false;
    let passed = watched(&mut test, Stream::Out, |line| {
        let found =
            line.split_once(COUNTED).and_then(|(_, counts)| serde_json::from_str::<Map<String, Value>>(counts).ok());
        told |= found.is_some();
        counted.extend(found.into_iter().flatten());
    })?;
    Ok(passed && told)
}
