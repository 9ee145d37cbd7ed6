//! The real transport against a server that cuts, stalls and floods.

use std::io::Write;
use std::sync::Arc;

use patra_core::ports::{HttpRequest, Source, Transport, TransportError};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{HttpSpec, Method, SpecSnapshot};
use patra_source::{HttpTransport, SourceReader};
use serde_json::json;

use crate::server::{Reply, Server, chunked, http};
use crate::testspec::{self, CountingGate, MapSecrets, TestClock};

pub fn local_spec(port: u16, overrides: serde_json::Value) -> SpecSnapshot {
    let mut http = json!({"base_url": format!("http://127.0.0.1:{port}"), "allow_http": true,
        "allow_hosts": [format!("127.0.0.1:{port}")], "read_timeout": "PT0.3S", "total_timeout": "PT5S"});
    if let Some(over) = overrides.get("http") {
        http.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    }
    let mut all = overrides.clone();
    all["http"] = http;
    testspec::spec(all)
}

fn reader() -> SourceReader {
    let transport = Arc::new(HttpTransport::new());
    let secrets = Arc::new(MapSecrets::default());
    SourceReader::new(transport, secrets, Arc::new(CountingGate::default()), Arc::new(TestClock::new()))
}

async fn send(http: &HttpSpec, path: &str) -> Result<patra_core::ports::HttpAnswer, TransportError> {
    let url = format!("{}{path}", http.base_url);
    let request = HttpRequest { method: Method::Get, url, headers: Vec::new(), body: None };
    HttpTransport::new().send(http, request).await
}

fn page_body() -> Vec<u8> {
    let items: Vec<String> = (0..60).map(|n| format!(r#"{{"id":"{n}","title":"title {n}"}}"#)).collect();
    format!(r#"{{"total":60,"items":[{}],"next":"n"}}"#, items.join(",")).into_bytes()
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn answers_cut_at_fifty_points_are_never_accepted() {
    let body = page_body();
    let close = [&b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"[..], &body].concat();
    let gzip = http("200 OK", &[("Content-Encoding", "gzip")], &gzipped(&body));
    let gzip_close = [&b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n"[..], &gzipped(&body)].concat();
    let answers = [http("200 OK", &[], &body), chunked(&body), close, gzip, gzip_close];
    for whole in answers {
        let cuts: Vec<usize> = (1..=50).map(|cut| (whole.len() - 1) * cut / 50).collect();
        let (bytes, points) = (whole.clone(), cuts.clone());
        let server = Server::start(move |head| {
            let number: usize =
                head.split("n=").nth(1).and_then(|rest| rest.split([' ', '&']).next()?.parse().ok()).unwrap();
            Reply::Bytes(bytes[..points.get(number).copied().unwrap_or(bytes.len())].to_vec())
        })
        .await;
        let reader = reader();
        for cut in 0..=cuts.len() {
            let query = json!({"query": [["n", format!("{cut}")]]});
            let ask = testspec::first(local_spec(server.port, json!({ "request": query })));
            let result = reader.fetch(&ask).await;
            if cut == cuts.len() {
                assert_eq!(result.unwrap().items.len(), 60, "the positive control: the whole answer");
                continue;
            }
            match result {
                Err(FetchError::Lost { .. } | FetchError::Body { .. }) => {}
                other => panic!("cut at {} of {}: {other:?}", cuts[cut], whole.len()),
            }
        }
        assert_eq!(server.seen(), 51);
    }
}

#[tokio::test]
async fn silence_and_endless_bodies_end_at_their_limits_s13() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec();
    let server = Server::start(move |_| Reply::Stall(head.clone())).await;
    let stalled = send(&local_spec(server.port, json!({})).http, "/").await;
    assert!(matches!(stalled, Err(TransportError::Lost(_))), "{stalled:?}");
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [&b"ffff\r\n"[..], &[b'x'; 0xffff], b"\r\n"].concat();
    let server = Server::start(move |_| Reply::Endless(head.clone(), chunk.clone())).await;
    let endless = send(&local_spec(server.port, json!({"http": {"body_bytes_max": 1_000_000}})).http, "/").await;
    assert!(matches!(endless, Err(TransportError::TooLarge(_))), "{endless:?}");
    let server = Server::start(|_| {
        let flood: String = (0..5000).map(|n| format!("X-{n}: y\r\n")).collect();
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{flood}Content-Length: 0\r\n\r\n").into_bytes())
    })
    .await;
    assert!(send(&local_spec(server.port, json!({})).http, "/").await.is_err(), "a flood of headers");
}

#[tokio::test]
async fn a_refused_connection_is_told_from_a_lost_answer_and_no_text_holds_the_query_s32() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let secret_path = "/x?api_key=hunter2hunter2";
    let refused = send(&local_spec(port, json!({})).http, secret_path).await.unwrap_err();
    assert!(matches!(refused, TransportError::Connect(_)), "{refused:?}");
    let server = Server::start(|_| Reply::Bytes(Vec::new())).await;
    let lost = send(&local_spec(server.port, json!({})).http, secret_path).await.unwrap_err();
    assert!(matches!(lost, TransportError::Lost(_)), "{lost:?}");
    let mut unknown = local_spec(port, json!({})).http;
    unknown.base_url = "http://no-such-host.invalid".into();
    let dns = send(&unknown, secret_path).await.unwrap_err();
    assert!(matches!(dns, TransportError::Connect(_)), "{dns:?}");
    for error in [refused, lost, dns] {
        assert!(!error.to_string().contains("hunter2") && !error.to_string().contains("api_key"), "{error}");
    }
}

#[tokio::test]
async fn inner_addresses_are_not_dialled_unless_listed_s4_s5() {
    let server = Server::start(|_| Reply::Bytes(http("200 OK", &[], b"{}"))).await;
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "127.0.0.1.", "LOCALHOST"] {
        let mut http = local_spec(server.port, json!({})).http;
        http.allow_hosts.clear();
        http.base_url = format!("http://{host}:{}", server.port);
        let refused = send(&http, "/").await.unwrap_err();
        assert!(matches!(refused, TransportError::Foreign(_)), "{host}: {refused:?}");
    }
    assert_eq!(server.seen(), 0);
    let mut listed = local_spec(server.port, json!({})).http;
    listed.base_url = format!("http://localhost:{}", server.port);
    listed.allow_hosts.push(format!("localhost:{}", server.port));
    assert_eq!(send(&listed, "/").await.unwrap().status, 200, "the positive control: listed, it gets through");
}

#[tokio::test]
async fn redirects_are_not_followed_by_the_transport() {
    let server = Server::start(|head| {
        let target = if head.starts_with("GET /a") { "/b" } else { "/c" };
        Reply::Bytes(http("302 Found", &[("Location", target)], b""))
    })
    .await;
    let answer = send(&local_spec(server.port, json!({})).http, "/a").await.unwrap();
    assert_eq!((answer.status, server.seen()), (302, 1));
}

#[tokio::test]
async fn a_proxy_is_used_where_the_source_names_one() {
    let proxy = Server::start(|head| {
        assert!(head.starts_with("GET http://source.example/"), "{head}");
        Reply::Bytes(http("200 OK", &[], b"{}"))
    })
    .await;
    let mut http = local_spec(proxy.port, json!({})).http;
    http.base_url = "http://source.example".into();
    http.proxy = Some(format!("http://127.0.0.1:{}", proxy.port));
    assert_eq!(send(&http, "/").await.unwrap().status, 200);
    http.allow_hosts.clear();
    let refused = send(&http, "/").await.unwrap_err();
    assert!(matches!(refused, TransportError::Foreign(_)), "an unlisted inner proxy: {refused:?}");
    assert_eq!(proxy.seen(), 1);
}

#[test]
fn proxies_of_the_environment_are_ignored_s7() {
    for test in ["redirects_are_not_followed_by_the_transport", "an_ordinary_client_follows_the_environment_s7_control"]
    {
        // A process of its own, since the environment belongs to all tests.
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &format!("faults::{test}")]).env(LED_ASTRAY, "1");
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            child.env(name, "http://127.0.0.1:9");
        }
        let output = child.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}

/// Set in processes whose environment names a proxy where nobody listens.
const LED_ASTRAY: &str = "PATRA_TEST_LED_ASTRAY";

#[tokio::test]
async fn an_ordinary_client_follows_the_environment_s7_control() {
    if std::env::var_os(LED_ASTRAY).is_none() {
        return;
    }
    patra_source::install_crypto();
    let server = Server::start(|_| Reply::Bytes(http("200 OK", &[], b"{}"))).await;
    let client = reqwest::Client::builder().build().unwrap();
    let url = format!("http://127.0.0.1:{}/", server.port);
    assert!(client.get(url).send().await.is_err(), "the environment's proxy is asked, and it is not there");
    assert_eq!(server.seen(), 0);
}

#[tokio::test]
async fn bombs_end_at_the_limit_on_the_wire_s12() {
    let zeros = vec![b' '; 32 * 1024 * 1024];
    let bomb = gzipped(&zeros);
    let server = Server::start(move |head| {
        let nested = head.starts_with("GET /nested");
        let coding = if nested { "gzip, gzip" } else { "gzip" };
        Reply::Bytes(http("200 OK", &[("Content-Encoding", coding)], &bomb))
    })
    .await;
    for path in ["/", "/nested"] {
        let refused = send(&local_spec(server.port, json!({})).http, path).await.unwrap_err();
        assert!(matches!(refused, TransportError::TooLarge(_)), "{path}: {refused:?}");
    }
    let open = json!({"http": {"body_bytes_max": 100_000_000, "ratio_max": 1_000_000}});
    let whole = send(&local_spec(server.port, open).http, "/").await.unwrap();
    assert_eq!(whole.body.len(), zeros.len(), "the positive control: without the limit it gets through");
}
