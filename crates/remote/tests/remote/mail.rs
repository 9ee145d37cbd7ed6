//! A mail server that takes letters, puts them off, and refuses them.

use std::sync::{Arc, Mutex};

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::Publisher;
use patra_core::record::ChangeKind;
use patra_remote::{MailError, MailPublisher, MailSettings};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::with_tls;

fn alarm(state: &str, message: &str) -> Message {
    let body = serde_json::json!({
        "state": state, "kind": "SOURCE_STOPPED", "source": "crossref", "what": "works", "message": message,
        "raised_at": "2026-11-18T03:00:00Z", "alarm": "17",
    });
    Message {
        row: Id(17),
        event_id: Hash32::of(state.as_bytes()),
        message_id: format!("alarm-{state}"),
        provenance: "crossref".into(),
        entity: "alarm".into(),
        change: ChangeKind::Created,
        body: body.to_string().into(),
    }
}

/// Says `verdict` to every letter; the address, and the lines that were said to it.
async fn serve(verdict: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = said.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, verdict, kept.clone()));
        }
    });
    (address, said)
}

async fn converse(stream: TcpStream, verdict: &'static str, said: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    let mut in_letter = false;
    writing.write_all(b"220 here\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let answer = match (in_letter, line.as_str()) {
            (true, ".") => verdict,
            (true, _) => "",
            (false, "DATA") => "354 go on\r\n",
            (false, "QUIT") => "221 bye\r\n",
            (false, _) => "250 well\r\n",
        };
        in_letter = if in_letter { line != "." } else { line == "DATA" };
        said.lock().unwrap().push(line);
        writing.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

fn publisher(server: &str) -> Result<MailPublisher, MailError> {
    let to = vec!["oncall@example.org".into(), "Night Desk <night@example.org>".into()];
    MailPublisher::new(&MailSettings { server: server.to_owned().into(), from: "patra@example.org".into(), to })
}

#[tokio::test]
async fn a_letter_says_what_happened_to_everybody_who_is_named() {
    with_tls();
    let (address, said) = serve("250 taken\r\n").await;
    let mail = publisher(&format!("smtp://{address}")).unwrap();
    let told = mail.publish(&[alarm("RAISED", "the key is refused"), alarm("CLEARED", "the key is refused")]).await;
    assert_eq!(told, [Delivery::Acked, Delivery::Acked]);
    let said = said.lock().unwrap().join("\n");
    for wanted in [
        "MAIL FROM:<patra@example.org>",
        "RCPT TO:<oncall@example.org>",
        "RCPT TO:<night@example.org>",
        "Subject: [patra] SOURCE_STOPPED crossref/works",
        "Subject: [patra] over: SOURCE_STOPPED crossref/works",
        "Message-ID: <alarm-RAISED@patra>",
        "the key is refused",
        "since: 2026-11-18T03:00:00Z",
    ] {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
}

#[tokio::test]
async fn data_in_an_alarm_adds_neither_headers_nor_commands() {
    with_tls();
    let (address, said) = serve("250 taken\r\n").await;
    let mut hostile = alarm("RAISED", "first\r\n.\r\nMAIL FROM:<evil@example.org>");
    let body = String::from_utf8(hostile.body.to_vec()).unwrap();
    hostile.body = body.replace("\"works\"", "\"works\\r\\nBcc: evil@example.org\"").into();
    let told = publisher(&format!("smtp://{address}")).unwrap().publish(&[hostile]).await;
    let said = said.lock().unwrap();
    assert_eq!(said.iter().filter(|line| line.starts_with("MAIL FROM:<patra")).count(), 1, "{told:?} {said:?}");
    assert!(!said.iter().any(|line| line.starts_with("Bcc:")), "{said:?}");
    // A dot alone on a line ends a letter, so the library doubles it.
    assert_eq!(said.iter().filter(|line| *line == ".").count(), 1, "{said:?}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again_and_one_that_never_takes_it_is_not() {
    with_tls();
    for (verdict, refused) in [("451 later\r\n", false), ("550 no mailbox\r\n", false), ("554 no\r\n", true)] {
        let (address, _) = serve(verdict).await;
        let told = publisher(&format!("smtp://{address}")).unwrap().publish(&[alarm("RAISED", "x")]).await;
        let code = &verdict[..3];
        match &told[0] {
            Delivery::Refused { reason } => assert!(refused && reason.contains(code), "{reason}"),
            Delivery::NotNow { reason } => assert!(!refused && reason.contains(code), "{reason}"),
            Delivery::Acked => panic!("{verdict} is no receipt"),
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_said_without_its_password() {
    with_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mail = publisher(&format!("smtps://patra:canary@{address}")).unwrap();
    match &mail.publish(&[alarm("RAISED", "x")]).await[0] {
        Delivery::NotNow { reason } => assert!(!reason.contains("canary"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_settings_are_refused_without_repeating_a_password() {
    let wrong = |server: &str| publisher(server).err().map(|error| error.to_string()).unwrap_or_default();
    for (server, wanted) in [
        ("smtp://patra:canary@mail.example.org", "plain text"),
        ("https://patra:canary@mail.example.org?tls=required", "smtps://"),
        ("patra:canary@mail", "smtps://"),
    ] {
        let said = wrong(server);
        assert!(said.contains(wanted) && !said.contains("canary"), "{server}: {said}");
    }
    assert_eq!(wrong("smtp://patra:canary@mail.example.org?tls=required"), "");
    let settings =
        |to: Vec<String>| MailSettings { server: "smtp://localhost".into(), from: "a@example.org".into(), to };
    assert!(matches!(MailPublisher::new(&settings(vec![])), Err(MailError::Nobody)));
    assert!(matches!(MailPublisher::new(&settings(vec!["nobody".into()])), Err(MailError::Address { .. })));
}
