//! The wire: one request, one whole answer.
//!
//! Clients are kept by profile (timeouts, proxy, guarded or not), because those are settings of a client, not of a
//! request. Redirects, environment proxies, automatic retries and the library's own decompression are off: the
//! reader follows redirects past the gate, and only we know whether a compressed body was whole.

mod guard;
mod inflate;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use patra_core::ports::{HttpAnswer, HttpRequest, Transport, TransportError};
use patra_core::spec::snapshot::{HttpSpec, Method};
use reqwest::{Certificate, Client};
use url::Url;

pub use guard::{Refused, is_forbidden};
pub use inflate::{Coding, Limits, inflate};

/// Most headers of an answer.
const HEADERS_MAX: usize = 100;
/// Bytes of all headers of an answer.
const HEADER_BYTES_MAX: u32 = 256 * 1024;
/// Longest silence of a source, whatever the spec says.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Above this size a body is decompressed on a thread of its own.
const BLOCKING_BYTES: usize = 64 * 1024;
/// Memory taken on a source's word that its body is so long.
const RESERVED_BYTES_MAX: u64 = 16 << 20;

/// Makes `ring` the process's crypto provider; call it first in `main` and in tests. A second call does nothing.
pub fn install_crypto() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The real transport.
#[derive(Default)]
pub struct HttpTransport {
    clients: Mutex<HashMap<Profile, Client>>,
    /// Authorities believed beside those of the machine.
    roots: Vec<Certificate>,
}

/// What a client is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Profile {
    connect: Duration,
    read: Duration,
    proxy: Option<String>,
    /// Addresses are checked after resolution; off only for a listed `host:port`.
    guarded: bool,
}

impl HttpTransport {
    pub fn new() -> HttpTransport {
        install_crypto();
        HttpTransport::default()
    }

    /// Believes these authorities too (DER). Only the program can say so, no definition.
    pub fn trusting(roots: &[Vec<u8>]) -> Result<HttpTransport, TransportError> {
        let wrong = |error: reqwest::Error| TransportError::Connect(chain(&error));
        let roots = roots.iter().map(|der| Certificate::from_der(der)).collect::<Result<_, _>>().map_err(wrong)?;
        Ok(HttpTransport { roots, ..HttpTransport::new() })
    }

    fn client(&self, profile: Profile) -> Result<Client, TransportError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&profile) {
            return Ok(client.clone());
        }
        let client = build(&profile, &self.roots).map_err(|error| TransportError::Connect(chain(&error)))?;
        clients.insert(profile, client.clone());
        Ok(client)
    }
}

/// An idle connection to a source is kept for the next request so long.
pub const KEEP_ALIVE: Duration = Duration::from_secs(60);

fn build(profile: &Profile, roots: &[Certificate]) -> Result<Client, reqwest::Error> {
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(profile.connect)
        .read_timeout(profile.read)
        .pool_idle_timeout(KEEP_ALIVE)
        .http1_max_headers(HEADERS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .tls_version_min(reqwest::tls::Version::TLS_1_2)
        .dns_resolver(guard::GuardedResolver { guarded: profile.guarded });
    if !roots.is_empty() {
        builder = builder.tls_certs_merge(roots.iter().cloned());
    }
    builder = match &profile.proxy {
        Some(proxy) => builder.proxy(reqwest::Proxy::all(proxy)?),
        None => builder.no_proxy(),
    };
    builder.build()
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, http: &HttpSpec, request: HttpRequest) -> Result<HttpAnswer, TransportError> {
        let url = Url::parse(&request.url).map_err(|_| TransportError::Foreign("a URL that cannot be read".into()))?;
        let listed = guard::check_url(&url, http).map_err(TransportError::Foreign)?;
        if let Some(proxy) = &http.proxy {
            let proxy =
                Url::parse(proxy).map_err(|_| TransportError::Foreign("a proxy URL that cannot be read".into()))?;
            guard::check_host(&proxy, http).map_err(|message| TransportError::Foreign(format!("proxy: {message}")))?;
        }
        let client = self.client(Profile {
            connect: http.connect_timeout.to_std(),
            read: http.read_timeout.to_std().min(IDLE_MAX),
            proxy: http.proxy.clone(),
            guarded: !listed,
        })?;
        let limits = Limits { bytes: http.body_bytes_max, ratio: http.ratio_max };
        match tokio::time::timeout(http.total_timeout.to_std(), exchange(&client, url, request, limits)).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::Lost("the answer took longer than the total time-out".into())),
        }
    }
}

async fn exchange(
    client: &Client,
    url: Url,
    request: HttpRequest,
    limits: Limits,
) -> Result<HttpAnswer, TransportError> {
    let method = match request.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
    };
    let mut builder = client.request(method, url);
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    if let Some(body) = request.body {
        builder = builder.body(body);
    }
    let response = builder.send().await.map_err(sending)?;
    let status = response.status().as_u16();
    let headers = headers_of(&response)?;
    let codings = inflate::codings(&headers).map_err(TransportError::TooLarge)?;
    let packed = collect(response, limits).await?;
    let body = if packed.len() > BLOCKING_BYTES && codings != Coding::Identity {
        let work = tokio::task::spawn_blocking(move || inflate(packed, codings, limits));
        work.await.map_err(|_| TransportError::Lost("decompression failed".into()))?
    } else {
        inflate(packed, codings, limits)
    }?;
    Ok(HttpAnswer { status, headers, body })
}

fn headers_of(response: &reqwest::Response) -> Result<Vec<(String, String)>, TransportError> {
    if response.headers().len() > HEADERS_MAX {
        return Err(TransportError::TooLarge(format!("more than {HEADERS_MAX} headers")));
    }
    let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
}

/// The body as sent. A body that ends before its announced length is an error of the library.
async fn collect(mut response: reqwest::Response, limits: Limits) -> Result<Bytes, TransportError> {
    let too_large = || TransportError::TooLarge(format!("the body has more than {} bytes", limits.bytes));
    if response.content_length().is_some_and(|length| length > limits.bytes) {
        return Err(too_large());
    }
    // Grown by doubling, a body would hold up to twice its size until its records are committed.
    let announced = response.content_length().map_or(0, |length| length.min(RESERVED_BYTES_MAX));
    let mut body = BytesMut::with_capacity(usize::try_from(announced).unwrap_or(0));
    while let Some(chunk) = response.chunk().await.map_err(|error| TransportError::Lost(chain(&error)))? {
        if (body.len() + chunk.len()) as u64 > limits.bytes {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Tells a request that surely did not arrive from one that may have.
fn sending(error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    if let Some(refused) = guard::refused_in(&error) {
        return TransportError::Foreign(refused);
    }
    let message = chain(&error);
    if error.is_builder() {
        return TransportError::Foreign(message);
    }
    if error.is_connect() { TransportError::Connect(message) } else { TransportError::Lost(message) }
}

/// The error and its causes; the URL is not among them.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
