//! The world on a real port, seen by a client that reads bytes and trusts nothing.

use patra_sim::{FaultKind, FaultPlan, Latency, SharedWorld, Source, World, WorldPlan, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::reader::{FROM, TO};

/// Status line and headers, and the body as far as it came.
async fn fetch(address: std::net::SocketAddr, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A reset may show as an error or as an early end; both mean no more bytes.
    let _ = stream.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let Some(end) = end else {
        return (String::new(), Vec::new());
    };
    (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), bytes[end + 4..].to_vec())
}

fn announced(head: &str) -> usize {
    let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_real_client_sees_whole_cut_and_reset_answers() {
    let mut faults = FaultPlan::none();
    faults.script.push((Source::Crossref, 2, FaultKind::CutBody));
    faults.script.push((Source::Crossref, 3, FaultKind::Reset));
    let world = SharedWorld::new(World::new(WorldPlan { faults, ..WorldPlan::new(1, 700, FROM, TO) }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(world.clone(), listener, || TO, Latency::None));
    let get = "GET /crossref/works?rows=20 HTTP/1.1\r\nHost: sim.test\r\nConnection: close\r\n\r\n";

    let (head, body) = fetch(address, get).await;
    assert!(head.starts_with("http/1.1 200"));
    assert_eq!(body.len(), announced(&head));
    assert!(head.contains("x-rate-limit-limit: 5") && head.matches("content-length").count() == 1);

    let (head, body) = fetch(address, get).await;
    assert!(head.starts_with("http/1.1 200"));
    assert!(body.len() < announced(&head), "{} of {}", body.len(), announced(&head));

    let (head, body) = fetch(address, get).await;
    assert_eq!((head.as_str(), body.len()), ("", 0));

    let form = "db=pubmed&id=10000000,10000001,10000002";
    let post = format!(
        "POST /pubmed/entrez/eutils/efetch.fcgi HTTP/1.1\r\nHost: sim.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let (_, body) = fetch(address, &post).await;
    assert!(String::from_utf8_lossy(&body).contains("<PubmedArticleSet>"));
    assert_eq!(world.lock().counters("crossref").requests, 3);
    server.abort();
}
