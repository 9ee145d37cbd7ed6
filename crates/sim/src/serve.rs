//! A world on a real port. Cut bodies announce their full length and end early; a reset closes the connection before any
//! answer; how long an answer takes is chosen.
//!
//! Every accepted connection carries a switch that the handler can throw: from then on reading and writing fail, and the
//! server drops the connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::http::Response;
use axum::response::IntoResponse;
use axum::serve::{IncomingStream, Listener};
use bytes::Bytes;
use futures::stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::request::{Cut, SimAnswer, SimRequest};
use crate::world::SharedWorld;

const BODY_BYTES_MAX: usize = 8 << 20;
/// Long enough for the first part of a cut body to leave before the connection closes.
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// How long an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// No time at all.
    None,
    /// What the world says, faults included.
    World,
    /// Always the same.
    Fixed(Duration),
}

impl Latency {
    fn of(self, answer: &SimAnswer) -> Duration {
        match self {
            Latency::None => Duration::ZERO,
            Latency::World => Duration::from_micros(u64::try_from(answer.delay_us).unwrap_or(0)),
            Latency::Fixed(span) => span,
        }
    }
}

/// Serves a world until the future is dropped. `now` gives the virtual time of each request.
pub async fn serve(
    world: SharedWorld,
    listener: TcpListener,
    now: impl Fn() -> i64 + Send + Sync + Clone + 'static,
    latency: Latency,
) -> io::Result<()> {
    let door = Door { world, now, latency };
    let router = Router::new().fallback(enter).with_state(door);
    axum::serve(Switched(listener), router.into_make_service_with_connect_info::<Switch>()).await
}

#[derive(Clone)]
struct Door<N> {
    world: SharedWorld,
    now: N,
    latency: Latency,
}

async fn enter<N>(
    State(door): State<Door<N>>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    request: Request,
) -> Response<Body>
where
    N: Fn() -> i64 + Send + Sync + Clone + 'static,
{
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return Response::builder().status(413).body(Body::empty()).unwrap_or_default();
    };
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let asked = SimRequest::from_url(parts.method.as_str(), path, headers, body.to_vec());
    let answer = door.world.answer(&asked, (door.now)());
    let latency = door.latency.of(&answer);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    if answer.cut == Some(Cut::Reset) {
        switch.0.store(true, Ordering::Release);
    }
    spoken(answer)
}

fn spoken(answer: SimAnswer) -> Response<Body> {
    // A reset has no status of its own; the connection ends before this one is sent.
    let status = if answer.status < 200 { 500 } else { answer.status };
    let mut response = Response::builder().status(status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let body = match answer.cut {
        Some(Cut::AfterBytes(count)) => cut_body(answer.body, count),
        _ => Body::from(answer.body),
    };
    response.body(body).unwrap_or_else(|_| Body::empty().into_response())
}

/// The first bytes, a pause in which they are sent, then a failure that makes the server close the connection.
fn cut_body(mut body: Vec<u8>, count: usize) -> Body {
    body.truncate(count);
    let first = Ok(Bytes::from(body));
    let rest = async {
        tokio::time::sleep(CUT_PAUSE).await;
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut"))
    };
    Body::from_stream(futures::StreamExt::chain(stream::iter([first]), stream::once(rest)))
}

/// Thrown by a handler to end its connection without an answer.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicBool>);

impl Connected<IncomingStream<'_, Switched>> for Switch {
    fn connect_info(stream: IncomingStream<'_, Switched>) -> Self {
        stream.io().switch.clone()
    }
}

/// A listener whose connections carry a switch.
struct Switched(TcpListener);

impl Listener for Switched {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Line { stream, switch: Switch::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// One connection.
struct Line {
    stream: TcpStream,
    switch: Switch,
}

impl Line {
    fn alive(&self) -> io::Result<()> {
        if self.switch.0.load(Ordering::Acquire) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
