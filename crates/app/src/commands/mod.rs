//! One file per command.

pub mod demo;
pub mod demo_fleet;
pub mod doctor;
pub mod gate;
pub mod harvest;
pub mod init;
pub mod migrate;
pub mod nouns;
pub mod operator;
pub mod outbox;
pub mod registry;
pub mod relay;
pub mod roles;
pub mod shell;
pub mod sim;
pub mod source;
pub mod spec;
pub mod status;
