//! Runs one seed of the simulation and keeps what is needed to look into it:
//! `cargo run -p patra-testkit --example seed -- 217 FOLDER [clocks]`

use patra_testkit::clocks::Lies;
use patra_testkit::simulation::{self, Options};

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: seed NUMBER [FOLDER] [clocks]";
    let seed: u64 = arguments.next().and_then(|text| text.parse().ok()).ok_or(usage)?;
    let folder = arguments.next().map(Into::into);
    let options = match arguments.next().as_deref() {
        None => Options::of(seed),
        Some("clocks") => Options::of(seed).with_lies(Lies::Everyone),
        Some(_) => return Err(usage.into()),
    };
    let report = simulation::run_with(options, folder)?;
    println!("{}", report.complaint());
    println!(
        "kills {}, crashes {}, failpoints struck {}, log {}",
        report.kills, report.crashes, report.strikes, report.log_hash
    );
    println!("{}", if report.ok() { "ok" } else { "RED" });
    Ok(())
}
