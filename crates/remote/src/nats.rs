//! Events to NATS JetStream, and what its stream holds.
//!
//! A plain publish is fire and forget, so each message waits for its acknowledgement, and the acknowledgement must come
//! from the configured stream (INV-45). Many are on the way at once: a round holds at most one version of a record.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode, stream};
use async_nats::{ConnectOptions, ServerAddr, header};
use async_trait::async_trait;
use futures::StreamExt;
use patra_core::outbox::{Delivery, Held, Message, event_of_message_id, safe_part};
use patra_core::ports::{Publisher, Stream, StreamError, StreamView};
use patra_core::time::Span;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};

/// Acknowledgements waited for at once.
const IN_FLIGHT: usize = 256;
/// The server counts headers as part of a message.
const HEADERS_MAX: usize = 512;
/// No message for this long while a stream is read: it was cut off.
const READ_IDLE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct NatsSettings {
    /// `nats://[user:password@]host:port`, several separated by commas.
    pub servers: SecretString,
    pub token: Option<SecretString>,
    pub stream: String,
    /// First part of every subject.
    pub prefix: String,
    pub ack_timeout: Span,
}

impl NatsSettings {
    pub fn new(servers: impl Into<String>, stream: impl Into<String>) -> NatsSettings {
        NatsSettings {
            servers: servers.into().into(),
            token: None,
            stream: stream.into(),
            prefix: "patra".into(),
            ack_timeout: Span::from_seconds(10),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("the addresses of the NATS servers cannot be read: {message}")]
    Address { message: String },
    #[error("NATS cannot be reached: {message}")]
    Connect { message: String },
    #[error("stream {stream} cannot be made: {message}")]
    Stream { stream: String, message: String },
}

pub struct NatsPublisher {
    client: async_nats::Client,
    context: jetstream::Context,
    settings: NatsSettings,
}

impl NatsPublisher {
    /// Connects, also when the server comes up later: until then nothing is taken.
    pub async fn connect(settings: NatsSettings) -> Result<NatsPublisher, NatsError> {
        let servers: Result<Vec<ServerAddr>, _> = settings.servers.expose_secret().split(',').map(str::parse).collect();
        let servers = servers.map_err(|error: std::io::Error| NatsError::Address { message: error.to_string() })?;
        let mut options = ConnectOptions::new().name("patra relay").retry_on_initial_connect();
        if let Some((user, password)) = servers.iter().find_map(login) {
            options = options.user_and_password(user, password);
        }
        if let Some(token) = &settings.token {
            options = options.token(token.expose_secret().to_owned());
        }
        let client = options.connect(servers).await;
        let client = client.map_err(|error| NatsError::Connect { message: error.to_string() })?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(settings.ack_timeout.to_std());
        Ok(NatsPublisher { client, context, settings })
    }

    /// Makes the stream when it is not there; one that is there is left as it is.
    pub async fn ensure_stream(&self) -> Result<(), NatsError> {
        let wanted = stream::Config {
            name: self.settings.stream.clone(),
            subjects: vec![format!("{}.>", safe_part(&self.settings.prefix))],
            ..stream::Config::default()
        };
        let wrong = |message: String| NatsError::Stream { stream: self.settings.stream.clone(), message };
        self.context.get_or_create_stream(wanted).await.map(drop).map_err(|error| wrong(error.to_string()))
    }

    fn subject(&self, message: &Message) -> String {
        let change = message.change.code().to_ascii_lowercase();
        let parts = [&self.settings.prefix, &message.provenance, &message.entity, &change];
        parts.map(|part| safe_part(part)).join(".")
    }

    async fn tell(&self, message: &Message) -> Delivery {
        let most = self.client.server_info().max_payload;
        if most > 0 && message.body.len() + HEADERS_MAX > most {
            return too_big(message, &format!("the broker takes {most} bytes"));
        }
        let publish = PublishMessage::build()
            .payload(message.body.clone())
            .message_id(&message.message_id)
            .expected_stream(&self.settings.stream);
        let acked = match self.context.send_publish(self.subject(message), publish).await {
            Ok(ack) => ack.await,
            Err(error) => Err(error),
        };
        match acked {
            // A repetition counts: the stream has it.
            Ok(ack) if ack.stream == self.settings.stream => Delivery::Acked,
            Ok(ack) => Delivery::NotNow { reason: format!("stream {} took the event", ack.stream) },
            Err(error) => refusal(message, &error),
        }
    }
}

/// The user and password of an address; the client reads only its host.
fn login(server: &ServerAddr) -> Option<(String, String)> {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((plain(server.username()?), plain(server.password().unwrap_or_default())))
}

fn too_big(message: &Message, why: &str) -> Delivery {
    Delivery::Refused { reason: format!("the event has {} bytes: {why}", message.body.len()) }
}

/// Only the size of a message is its own fault; everything else is waited out.
fn refusal(message: &Message, error: &PublishError) -> Delivery {
    let refused = std::error::Error::source(error).and_then(|source| source.downcast_ref::<jetstream::Error>());
    let code = refused.map(jetstream::Error::error_code);
    let for_good = [ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM];
    if error.kind() == PublishErrorKind::MaxPayloadExceeded || code.is_some_and(|code| for_good.contains(&code)) {
        return too_big(message, &error.to_string());
    }
    Delivery::NotNow { reason: format!("no acknowledgement: {error}") }
}

#[async_trait]
impl Publisher for NatsPublisher {
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery> {
        let told: Vec<_> = messages.iter().map(|message| self.tell(message)).collect();
        futures::stream::iter(told).buffered(IN_FLIGHT).collect().await
    }
}

#[async_trait]
impl Stream for NatsPublisher {
    async fn view(&self) -> Result<StreamView, StreamError> {
        let wrong = |message: String| StreamError { message };
        let stream = self.context.get_stream(&self.settings.stream).await.map_err(|error| wrong(error.to_string()))?;
        let info = stream.get_info().await.map_err(|error| wrong(error.to_string()))?;
        let keeps = Span::from_micros(i64::try_from(info.config.max_age.as_micros()).unwrap_or(i64::MAX));
        let mut view = StreamView { held: Held::default(), keeps: (keeps > Span::ZERO).then_some(keeps) };
        if info.state.messages > 0 {
            self.read(&stream, info.state.last_sequence, &mut view.held).await.map_err(wrong)?;
        }
        view.held.sort();
        Ok(view)
    }
}

impl NatsPublisher {
    /// Reads the headers of all messages up to the one that was last when the reading began.
    async fn read(&self, stream: &stream::Stream, last: u64, held: &mut Held) -> Result<(), String> {
        let config = pull::OrderedConfig {
            headers_only: true,
            deliver_policy: DeliverPolicy::All,
            ..pull::OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(|error| error.to_string())?;
        let mut messages = consumer.messages().await.map_err(|error| error.to_string())?;
        loop {
            let next = tokio::time::timeout(READ_IDLE, messages.next()).await;
            let message = match next.map_err(|_| "the stream stopped in the middle".to_owned())? {
                Some(message) => message.map_err(|error| error.to_string())?,
                None => return Err("the stream ended early".into()),
            };
            let id = message.headers.as_ref().and_then(|headers| headers.get(header::NATS_MESSAGE_ID));
            if let Some(event) = id.and_then(|id| event_of_message_id(id.as_str())) {
                held.add(event);
            }
            let info = message.info().map_err(|error| error.to_string())?;
            if info.stream_sequence >= last || info.pending == 0 {
                return Ok(());
            }
        }
    }
}
