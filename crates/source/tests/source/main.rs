//! Tests of the source side through its public face: specs as JSON, a scripted transport, a real socket.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod auth;
#[path = "../corpus/mod.rs"]
#[expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod corpus;
mod decode_json;
mod decode_xml;
mod faults;
mod fields;
mod fixtures;
mod reader;
mod recorded;
mod requests;
mod security;
mod server;
mod testspec;
mod tls;
