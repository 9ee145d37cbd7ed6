//! Runs one seed of the simulation and keeps what is needed to look into it:
//! `cargo run -p patra-testkit --example seed -- 217 FOLDER`

use patra_testkit::simulation::{self, Options};

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let seed: u64 = arguments.next().and_then(|text| text.parse().ok()).ok_or("usage: seed NUMBER [FOLDER]")?;
    let report = simulation::run_with(Options::of(seed), arguments.next().map(Into::into))?;
    println!("{}", report.complaint());
    println!(
        "kills {}, crashes {}, failpoints struck {}, log {}",
        report.kills, report.crashes, report.strikes, report.log_hash
    );
    println!("{}", if report.ok() { "ok" } else { "RED" });
    Ok(())
}
