//! The HTTP side of the ports: one page asked for, one whole answer decoded.
//!
//! ```text
//! PageAsk -> program (compiled once) -> request (templates) -> auth -> Transport -> answer (rules, status)
//!         -> decode (JSON, XML) -> next (same origin, no credentials) -> Page
//! ```
//! [`SourceReader`] walks this line for each page. [`HttpTransport`] is the only place that opens a socket; it
//! checks every address before it dials and returns only whole bodies. Nothing that leaves this crate holds a
//! secret: bodies, tokens, URLs, digests and error texts pass the [`redact::Redactor`] first.

pub mod answer;
pub mod auth;
pub mod decode;
pub mod encode;
pub mod next;
pub mod program;
pub mod rate;
pub mod reader;
pub mod redact;
pub mod request;
pub mod review;
pub mod secrets;
pub mod transport;

pub use reader::SourceReader;
pub use redact::SafeUrl;
pub use review::{Mistake, review};
pub use secrets::EnvFileSecrets;
pub use transport::{HttpTransport, KEEP_ALIVE, install_crypto};
