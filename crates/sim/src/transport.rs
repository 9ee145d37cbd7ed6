//! The simulated world as a transport: the engine's requests without a socket, faults and delays on the given clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::ports::{Clock, HttpAnswer, HttpRequest, Random, Transport, TransportError};
use patra_core::spec::snapshot::{HttpSpec, Method};
use patra_core::time::Span;

use crate::request::{Cut, SimRequest};
use crate::world::SharedWorld;

/// Host that in-process requests name; nothing listens there.
pub const HOST: &str = "sim.invalid";

pub struct SimTransport {
    world: SharedWorld,
    clock: Arc<dyn Clock>,
}

impl SimTransport {
    pub fn new(world: SharedWorld, clock: Arc<dyn Clock>) -> SimTransport {
        SimTransport { world, clock }
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn send(&self, _http: &HttpSpec, request: HttpRequest) -> Result<HttpAnswer, TransportError> {
        let url = url::Url::parse(&request.url).map_err(|error| TransportError::Connect(error.to_string()))?;
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let method = match request.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let mut headers: Vec<(String, String)> =
            request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        headers.push(("host".into(), HOST.into()));
        let body = request.body.map(|body| body.to_vec()).unwrap_or_default();
        let asked = SimRequest::from_url(method, &target, headers, body);
        let answer = self.world.answer(&asked, self.clock.now().micros());
        self.clock.sleep(Span::from_micros(answer.delay_us)).await;
        match answer.cut {
            Some(Cut::Reset) => Err(TransportError::Lost("the connection was closed before an answer".into())),
            Some(Cut::AfterBytes(bytes)) if bytes < answer.body.len() => {
                Err(TransportError::Lost(format!("the body ended after {bytes} of {} bytes", answer.body.len())))
            }
            _ => {
                let headers =
                    answer.headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
                Ok(HttpAnswer { status: answer.status, headers, body: Bytes::from(answer.body) })
            }
        }
    }
}

/// Chance from a seed, for the engine in a simulation.
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let mut mixed = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
