//! A TCP server that answers with exactly the bytes it is given, and can cut, stall or flood.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What is written to one connection.
#[derive(Clone)]
pub enum Reply {
    /// These bytes, then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes, then silence with the connection open.
    Stall(Vec<u8>),
    /// The head, then the chunk without end.
    Endless(Vec<u8>, Vec<u8>),
}

pub struct Server {
    pub port: u16,
    pub requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers every request on 127.0.0.1 with what `reply` gives for its head.
    pub async fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (seen, reply) = (requests.clone(), Arc::new(reply));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, reply) = (seen.clone(), reply.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    let mut chunk = [0; 4096];
                    while !head.windows(4).any(|part| part == b"\r\n\r\n") {
                        match stream.read(&mut chunk).await {
                            Ok(0) | Err(_) => return,
                            Ok(count) => head.extend_from_slice(&chunk[..count]),
                        }
                    }
                    seen.fetch_add(1, Ordering::SeqCst);
                    match reply(&String::from_utf8_lossy(&head)) {
                        Reply::Bytes(bytes) => {
                            let _ = stream.write_all(&bytes).await;
                            let _ = stream.shutdown().await;
                        }
                        Reply::Stall(bytes) => {
                            let _ = stream.write_all(&bytes).await;
                            tokio::time::sleep(Duration::from_secs(60)).await;
                        }
                        Reply::Endless(start, chunk) => {
                            let _ = stream.write_all(&start).await;
                            while stream.write_all(&chunk).await.is_ok() {}
                        }
                    }
                });
            }
        });
        Server { port, requests, task }
    }

    pub fn seen(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A whole answer with its length.
pub fn http(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The same in chunks.
pub fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n".to_vec();
    for part in body.chunks(100) {
        bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
