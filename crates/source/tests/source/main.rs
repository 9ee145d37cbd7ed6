//! Tests of the source side through its public face: specs as JSON, a scripted transport, a real socket.

mod auth;
#[path = "../corpus/mod.rs"]
#[expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod corpus;
mod decode_json;
mod decode_xml;
mod faults;
mod fixtures;
mod reader;
mod requests;
mod security;
mod server;
mod testspec;
