//! `patra relay`: tells changes to the outside, until it is stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use patra_core::ports::{Clock, Publisher};
use patra_core::time::Span;
use patra_engine::relay::{Relay, RelaySettings};
use patra_remote::{LinesPublisher, NatsPublisher, NatsSettings, WebhookPublisher, WebhookSettings};
use patra_source::install_crypto;
use secrecy::SecretString;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;
use crate::working::stop_on_signals;

const SECRET: &str = "PATRA_WEBHOOK_SECRET";
/// How often a relay tries to make its stream on a broker that is away.
const STREAM_RETRY: Span = Span::from_seconds(5);

#[derive(Clone, Debug, Args)]
pub struct RelayArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Tell what waits now, then end
    #[arg(long)]
    pub once: bool,
    /// Life of a shard's lease in seconds
    #[arg(long, hide = true, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub lease: Option<u16>,
}

/// Where changes are told to; exactly one of the three.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Post each change here, signed with the secret in `PATRA_WEBHOOK_SECRET`
    #[arg(long, env = "PATRA_WEBHOOK", hide_env_values = true, value_name = "URL", conflicts_with_all = ["nats", "lines"])]
    pub webhook: Option<String>,
    /// Append each change to this file as a line of JSON; `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with = "nats")]
    pub lines: Option<PathBuf>,
}

/// A stream of NATS JetStream.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// NATS servers, separated by commas
    #[arg(long, env = "PATRA_NATS", hide_env_values = true, value_name = "URL")]
    pub nats: Option<String>,
    /// The stream, which is made when it is not there
    #[arg(long, env = "PATRA_NATS_STREAM", default_value = "PATRA", value_name = "NAME")]
    pub stream: String,
    /// First part of every subject
    #[arg(long, env = "PATRA_NATS_PREFIX", default_value = "patra", value_name = "PART")]
    pub prefix: String,
    /// What the server asks for; a user and password can stand in the address instead
    #[arg(long, env = "PATRA_NATS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub nats_token: Option<SecretString>,
}

impl StreamArgs {
    pub async fn connect(&self) -> Result<NatsPublisher, Failure> {
        let Some(servers) = &self.nats else {
            return Err(Failure::new(Exit::Usage, "no NATS server is named").hint("`--nats nats://HOST:PORT`"));
        };
        let settings = NatsSettings {
            prefix: self.prefix.clone(),
            token: self.nats_token.clone(),
            ..NatsSettings::new(servers, &self.stream)
        };
        NatsPublisher::connect(settings).await.map_err(|error| Failure::new(Exit::Source, error))
    }
}

impl TargetArgs {
    pub fn is_named(&self) -> bool {
        self.stream.nats.is_some() || self.webhook.is_some() || self.lines.is_some()
    }

    async fn publisher(&self, clock: &Arc<dyn Clock>, stop: &CancellationToken) -> Result<Arc<dyn Publisher>, Failure> {
        if let Some(url) = &self.webhook {
            return webhook("--webhook", url, clock.clone());
        }
        if let Some(path) = &self.lines {
            return lines(path);
        }
        if self.stream.nats.is_none() {
            let nowhere = Failure::new(Exit::Usage, "the relay has nowhere to tell changes to");
            return Err(nowhere.hint("`--nats nats://HOST:PORT`, `--webhook URL` or `--lines FILE`"));
        }
        let publisher = Arc::new(self.stream.connect().await?);
        tokio::spawn(make_stream(publisher.clone(), clock.clone(), stop.clone()));
        Ok(publisher)
    }
}

/// Until the stream is there nothing is taken, and nothing is lost either.
async fn make_stream(publisher: Arc<NatsPublisher>, clock: Arc<dyn Clock>, stop: CancellationToken) {
    while let Err(error) = publisher.ensure_stream().await {
        tracing::warn!("{error}");
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(STREAM_RETRY) => {}
        }
    }
}

/// Posts to an address that an option names.
pub fn webhook(option: &str, url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Publisher>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{option}: {error}"));
    let secret = std::env::var(SECRET).map_err(|_| {
        wrong(&"there is no secret to sign with").hint(format!("put it into the environment variable {SECRET}"))
    })?;
    let url = url.parse().map_err(|error| wrong(&format!("not an address: {error}")))?;
    let settings = WebhookSettings::new(url, secret.into());
    Ok(Arc::new(WebhookPublisher::new(settings, clock).map_err(|error| wrong(&error))?))
}

fn lines(path: &Path) -> Result<Arc<dyn Publisher>, Failure> {
    if path == Path::new("-") {
        return Ok(Arc::new(LinesPublisher::stdout()));
    }
    let opened = LinesPublisher::file(path);
    let failed = |error| Failure::new(Exit::Usage, format!("`{}` cannot be written: {error}", path.display()));
    Ok(Arc::new(opened.map_err(failed)?))
}

pub async fn run(global: &Global, args: &RelayArgs) -> Result<(), Failure> {
    install_crypto();
    let desk = Desk::open_to_act(global).await?;
    let stop = stop_on_signals(global.quiet);
    let mut relay = relay(&desk, &args.target, &stop).await?;
    if let Some(seconds) = args.lease {
        relay.settings.shard_ttl = Span::from_seconds(seconds.into());
    }
    let told_all = match args.once {
        true => relay.drain().await?,
        false => {
            relay.run(&stop).await;
            true
        }
    };
    report(global, &relay, args);
    desk.store.close().await;
    match told_all {
        true => Ok(()),
        false => Err(Failure::new(Exit::Source, "the other side did not take every change")
            .hint("the rest waits in the outbox; `-v` says why, `patra outbox list` what")),
    }
}

pub async fn relay(desk: &Desk, target: &TargetArgs, stop: &CancellationToken) -> Result<Relay, Failure> {
    let publisher = target.publisher(&desk.clock, stop).await?;
    let settings = RelaySettings::new(desk.slot_owner.clone());
    Ok(Relay::new(desk.store.clone(), publisher, desk.clock.clone(), settings))
}

/// On stderr: stdout may carry the changes themselves.
fn report(global: &Global, relay: &Relay, args: &RelayArgs) {
    let (sent, parked) = (relay.tally.sent.load(Ordering::Relaxed), relay.tally.parked.load(Ordering::Relaxed));
    let on_stdout = args.target.lines.as_deref() == Some(Path::new("-"));
    match global.json && !on_stdout {
        true => println!("{}", json!({ "sent": sent, "parked": parked })),
        false if global.quiet => {}
        false => eprintln!("{sent} changes told, {parked} parked"),
    }
}
