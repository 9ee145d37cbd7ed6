//! Alarms by mail: one letter each, handed to one mail server.
//!
//! A letter counts as told when the server has taken it. Every other answer means later, because an alarm must not be lost to
//! a mailbox that is mended tomorrow; only a letter that the server will never take is given up.

use std::time::Duration;

use async_trait::async_trait;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::Error as SmtpError;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message as Letter, Tokio1Executor};
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::Publisher;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

/// Longest wait for one answer of the server.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The letter itself is too large, or not wanted: asking again changes nothing.
const NEVER: [u16; 2] = [552, 554];

#[derive(Clone, Debug)]
pub struct MailSettings {
    /// `smtps://user:password@host:port`, or `smtp://host:port?tls=required`.
    pub server: SecretString,
    pub from: String,
    pub to: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("not the address of a mail server, which begins with smtps:// or smtp://")]
    Server,
    #[error("a password would go over the network as plain text; use smtps:// or add ?tls=required")]
    PlainPassword,
    #[error("`{address}` is not an address of mail: {message}")]
    Address { address: String, message: String },
    #[error("nobody is named whom the mail goes to")]
    Nobody,
}

pub struct MailPublisher {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl MailPublisher {
    pub fn new(settings: &MailSettings) -> Result<MailPublisher, MailError> {
        let server = settings.server.expose_secret();
        refuse_plain_password(server)?;
        // What the library says of a wrong address may repeat it, with the password.
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(server).map_err(|_| MailError::Server)?;
        let to = settings.to.iter().map(|address| mailbox(address)).collect::<Result<Vec<Mailbox>, MailError>>()?;
        if to.is_empty() {
            return Err(MailError::Nobody);
        }
        Ok(MailPublisher { transport: transport.timeout(Some(TIMEOUT)).build(), from: mailbox(&settings.from)?, to })
    }

    async fn send(&self, message: &Message) -> Delivery {
        let letter = match self.letter(message) {
            Ok(letter) => letter,
            Err(error) => return Delivery::Refused { reason: format!("no letter can be made of it: {error}") },
        };
        match self.transport.send(letter).await {
            Ok(_) => Delivery::Acked,
            Err(error) => refused(&error),
        }
    }

    fn letter(&self, message: &Message) -> Result<Letter, lettre::error::Error> {
        let told: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let to = |letter: MessageBuilder, mailbox: &Mailbox| letter.to(mailbox.clone());
        let letter = Letter::builder()
            .from(self.from.clone())
            .subject(subject(&told))
            // The same alarm has the same id when it has to be sent twice.
            .message_id(Some(format!("<{}@patra>", message.message_id)))
            .header(ContentType::TEXT_PLAIN);
        self.to.iter().fold(letter, to).body(text(&told))
    }
}

fn refuse_plain_password(server: &str) -> Result<(), MailError> {
    let url: Url = server.parse().map_err(|_| MailError::Server)?;
    let secured = url.scheme() == "smtps" || url.query_pairs().any(|pair| pair == ("tls".into(), "required".into()));
    match url.password() {
        Some(_) if !secured => Err(MailError::PlainPassword),
        _ => Ok(()),
    }
}

fn mailbox(address: &str) -> Result<Mailbox, MailError> {
    let wrong = |message: String| MailError::Address { address: address.to_owned(), message };
    address.parse().map_err(|error: lettre::address::AddressError| wrong(error.to_string()))
}

fn refused(error: &SmtpError) -> Delivery {
    let code = error.status().map(u16::from);
    let reason = match code {
        Some(code) => format!("the mail server answered {code}"),
        None => format!("the mail server cannot be asked: {error}"),
    };
    match code {
        Some(code) if NEVER.contains(&code) => Delivery::Refused { reason },
        _ => Delivery::NotNow { reason },
    }
}

/// Reads alone on a telephone: what, where, and whether it is over.
fn subject(told: &Value) -> String {
    let over = if told["state"] == "CLEARED" { "over: " } else { "" };
    let part = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    format!("[patra] {over}{} {}/{}", part("kind"), part("source"), part("what"))
}

fn text(told: &Value) -> String {
    let line = |(name, key): (&str, &str)| Some(format!("{name}: {}\n", told[key].as_str()?));
    let lines = [("source", "source"), ("since", "raised_at"), ("over since", "cleared_at"), ("alarm", "alarm")];
    let facts: String = lines.into_iter().filter_map(line).collect();
    format!(
        "{}\n\n{facts}\n`patra status` shows the alarms that are on.\n",
        told["message"].as_str().unwrap_or_default()
    )
}

#[async_trait]
impl Publisher for MailPublisher {
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(messages.len());
        for message in messages {
            deliveries.push(self.send(message).await);
        }
        deliveries
    }
}
