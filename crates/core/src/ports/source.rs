//! The source side: pages for the engine, raw HTTP below it.

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;

use crate::page::{Page, PageAsk};
use crate::spec::errors::FetchError;
use crate::spec::snapshot::{HttpSpec, Method};

#[async_trait]
pub trait Source: Send + Sync {
    /// Makes the one request for a page and decodes the whole answer. The caller holds a permit of the gate.
    async fn fetch(&self, ask: &PageAsk) -> Result<Page, FetchError>;
}

/// A request ready to send. The URL and headers may hold secrets: never print it.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Bytes>,
}

/// A complete answer: the body is whole and decompressed.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// Why there is no complete answer. Messages hold no URL query and no header value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The request did not reach the source.
    #[error("{0}")]
    Connect(String),
    /// The request may have been answered.
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Foreign(String),
}

#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one request, follows nothing, and returns only a whole body.
    async fn send(&self, http: &HttpSpec, request: HttpRequest) -> Result<HttpAnswer, TransportError>;
}

/// Resolves secret references (`env:NAME`, `file:PATH`) at each request, so a rotated value counts at once.
pub trait Secrets: Send + Sync {
    fn resolve(&self, reference: &str) -> Result<SecretString, String>;
}
