//! The laws of the ledger, on the real engine and virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod budgets;
mod certified;
mod clocks;
mod flipped;
mod lives;
mod mass;
mod moving;
mod orders;
mod outage;
mod registry;
mod reslice;
mod seeds;
mod simulation;
mod splits;
mod sweep;
mod together;

/// A crash that a failpoint stands for is no news; every other panic is.
fn quiet_crashes() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<patra_core::failpoint::Crashed>().is_none() {
            usual(info);
        }
    }));
}
