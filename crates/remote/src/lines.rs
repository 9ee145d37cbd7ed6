//! Events as lines of JSON, in a file or on a stream such as stdout.
//!
//! A batch is on the disk before it counts as told. A crash may leave half a line at the end of a file; it is cut off
//! when the file is opened again, and its event is told again. One relay writes a file at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::Publisher;

pub struct LinesPublisher {
    out: Arc<Mutex<Out>>,
}

enum Out {
    File(File),
    Stream(Box<dyn Write + Send>),
}

impl LinesPublisher {
    /// Appends to a file, which is made when it is not there.
    pub fn file(path: &Path) -> io::Result<LinesPublisher> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        file.try_lock().map_err(|_| io::Error::other("another relay writes this file"))?;
        cut_torn_line(&mut file)?;
        Ok(LinesPublisher { out: Arc::new(Mutex::new(Out::File(file))) })
    }

    pub fn stdout() -> LinesPublisher {
        LinesPublisher::stream(Box::new(io::stdout()))
    }

    pub fn stream(stream: Box<dyn Write + Send>) -> LinesPublisher {
        LinesPublisher { out: Arc::new(Mutex::new(Out::Stream(stream))) }
    }
}

#[async_trait]
impl Publisher for LinesPublisher {
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery> {
        let mut text = Vec::with_capacity(messages.iter().map(|message| message.body.len() + 1).sum());
        for message in messages {
            text.extend_from_slice(&message.body);
            text.push(b'\n');
        }
        let out = self.out.clone();
        let written =
            tokio::task::spawn_blocking(move || out.lock().unwrap_or_else(PoisonError::into_inner).write(&text));
        let verdict = match written.await {
            Ok(Ok(())) => Delivery::Acked,
            Ok(Err(error)) => Delivery::NotNow { reason: format!("the lines were not written: {error}") },
            Err(error) => Delivery::NotNow { reason: error.to_string() },
        };
        vec![verdict; messages.len()]
    }
}

impl Out {
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Out::Stream(stream) => stream.write_all(text).and_then(|()| stream.flush()),
            Out::File(file) => {
                let before = file.metadata()?.len();
                let written = file.write_all(text).and_then(|()| file.sync_data());
                if written.is_err() {
                    // The disk is full: what was begun would run into the next line.
                    file.set_len(before)?;
                }
                written
            }
        }
    }
}

fn cut_torn_line(file: &mut File) -> io::Result<()> {
    const STEP: u64 = 64 * 1024;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let from = end.saturating_sub(STEP);
        let mut part = vec![0; usize::try_from(end - from).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return file.set_len(from + at as u64 + 1);
        }
        end = from;
    }
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use patra_core::hash::Hash32;
    use patra_core::id::Id;
    use patra_core::record::ChangeKind;

    fn message(body: &str) -> Message {
        Message {
            row: Id(1),
            event_id: Hash32::of(body.as_bytes()),
            message_id: "m".into(),
            provenance: "crossref".into(),
            entity: "works".into(),
            change: ChangeKind::Created,
            body: body.to_owned().into(),
        }
    }

    #[tokio::test]
    async fn half_a_line_left_by_a_crash_is_cut_off_and_told_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"b\"").unwrap();
        let lines = LinesPublisher::file(&path).unwrap();
        assert_eq!(
            lines.publish(&[message("{\"b\":2}"), message("{\"c\":3}")]).await,
            [Delivery::Acked, Delivery::Acked]
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
        assert!(LinesPublisher::file(&path).is_err(), "a second relay would write between our lines");
        drop(lines);
        assert!(LinesPublisher::file(&path).is_ok());
    }

    #[tokio::test]
    async fn a_stream_that_is_gone_keeps_the_events() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = LinesPublisher::stream(Box::new(Gone));
        assert!(matches!(lines.publish(&[message("{}")]).await[..], [Delivery::NotNow { .. }]));
    }
}
