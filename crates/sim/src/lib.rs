//! Simulated providers with a known, seeded truth and switchable nasty situations.
//!
//! A [`World`] holds one provider per source. A request goes through `World::answer`: the rate limit, the fault plan and the
//! mutation feed act first, the provider answers from its [`Truth`], the log keeps what was served. All times are virtual
//! microseconds handed in by the caller; nothing here reads a clock.

pub mod blocking;
mod content;
mod faults;
mod ids;
pub mod moment;
mod mutation;
mod provider;
pub mod providers;
mod range;
mod rate;
mod request;
mod rng;
mod scenarios;
mod serve;
mod served;
mod source;
mod timeline;
pub mod transport;
mod truth;
mod truth_plan;
pub mod vtime;
mod world;
mod world_plan;

pub use faults::{FaultDice, FaultKind, FaultLevel, FaultPlan};
pub use mutation::{Mutation, MutationFeed};
pub use provider::{Kind, Provider, Rate, Reply};
pub use request::{Cut, SimAnswer, SimRequest};
pub use rng::Rng;
pub use scenarios::{Reaction, SCENARIOS, Scenario};
pub use serve::{Latency, serve};
pub use served::{Counters, LogMode, ServedLog, ServedRow, TruthRow, sha256_hex, truth_rows, write_jsonl};
pub use source::Source;
pub use truth::{Face, Truth, TruthVersion};
pub use truth_plan::TruthPlan;
pub use world::{SharedWorld, World};
pub use world_plan::WorldPlan;
