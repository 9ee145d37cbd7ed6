//! `/metrics` and `/healthz` of a process, on this machine alone.
//!
//! Whoever may look at them is whoever may log in here: the address must be loopback, and a page in a browser that has
//! rebound its name to loopback is refused by the Host header.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Metrics;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

struct Shown {
    desk: Desk,
    metrics: Arc<Metrics>,
}

/// Binds, says where, and serves until stopped.
pub async fn serve(
    address: SocketAddr,
    desk: Desk,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    say: impl Fn(&str),
) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        return Err(Failure::new(Exit::Usage, format!("--metrics: {address} is not an address of this machine alone"))
            .hint("use 127.0.0.1:PORT, and let a proxy or an agent on this machine carry them further"));
    }
    let refused = |error| Failure::new(Exit::Usage, format!("--metrics: {address} cannot be listened on: {error}"));
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    say(&format!("metrics at http://{}/metrics", listener.local_addr().map_err(refused)?));
    let routes = Router::new()
        .route("/metrics", get(shown))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(from_fn(from_this_machine))
        .with_state(Arc::new(Shown { desk, metrics }));
    let stopped = async move { stop.cancelled().await };
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await.map_err(refused)
}

async fn shown(State(shown): State<Arc<Shown>>) -> Response {
    shown.metrics.ledger.look(&shown.desk).await;
    match shown.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn from_this_machine(request: Request, next: Next) -> Response {
    match names_this_machine(request.headers()) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "only for this machine\n").into_response(),
    }
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for (host, wanted) in [
            ("localhost:9464", true),
            ("127.0.0.1", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("evil.example:9464", false),
            ("127.0.0.1.evil.example", false),
            ("localhost:evil", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            assert_eq!(names_this_machine(&headers), wanted, "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new()));
    }
}
