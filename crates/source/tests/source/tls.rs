//! Encryption (S-8): who is believed, who is not, and that no definition can change it.

use std::sync::Arc;

use patra_core::ports::{HttpAnswer, HttpRequest, Transport, TransportError};
use patra_core::registry::decode;
use patra_core::spec::snapshot::{HttpSpec, Method};
use patra_source::HttpTransport;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::server::http;
use crate::testspec;

/// A certificate with its key, and the certificate of whoever vouches for it.
struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
    root: Vec<u8>,
}

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// Signed by an authority of its own.
fn signed(params: &CertificateParams) -> Identity {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap().der().to_vec();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    Identity { certificate: certificate.der().clone(), key, root }
}

fn self_signed() -> Identity {
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["localhost"]).self_signed(&key).unwrap();
    Identity { certificate: certificate.der().clone(), root: certificate.der().to_vec(), key }
}

/// Answers every request on a loopback port over TLS.
async fn serve(identity: &Identity, versions: &[&'static SupportedProtocolVersion]) -> u16 {
    patra_source::install_crypto();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
    let config = ServerConfig::builder_with_protocol_versions(versions)
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listen(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut head = [0; 4096];
            if stream.read(&mut head).await.is_ok_and(|count| count > 0) {
                let _ = stream.write_all(&http("200 OK", &[], b"{}")).await;
                let _ = stream.shutdown().await;
            }
        }
    })
    .await
}

async fn listen<F: Future<Output = ()> + Send + 'static>(talk: impl Fn(TcpStream) -> F + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream));
        }
    });
    port
}

/// A server from before 2008: it answers the greeting with TLS 1.1 and knows nothing newer.
async fn serve_tls_1_1() -> u16 {
    listen(|mut stream| async move {
        let mut hello = [0; 4096];
        if stream.read(&mut hello).await.is_err() {
            return;
        }
        let mut body = vec![3, 2];
        body.extend([7; 32]);
        // No session, TLS_RSA_WITH_AES_128_CBC_SHA, no compression.
        body.extend([0, 0x00, 0x2f, 0]);
        let length = u8::try_from(body.len()).unwrap();
        let mut record = vec![22, 3, 2, 0, length + 4, 2, 0, 0, length];
        record.extend(body);
        let _ = stream.write_all(&record).await;
        let _ = stream.read(&mut hello).await;
    })
    .await
}

fn spec_of(port: u16) -> HttpSpec {
    let http = json!({"base_url": format!("https://localhost:{port}"), "allow_hosts": [format!("localhost:{port}")]});
    testspec::spec(json!({ "http": http })).http
}

async fn ask(transport: &HttpTransport, port: u16) -> Result<HttpAnswer, TransportError> {
    let http = spec_of(port);
    let url = format!("{}/x", http.base_url);
    transport.send(&http, HttpRequest { method: Method::Get, url, headers: Vec::new(), body: None }).await
}

const BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

#[tokio::test]
async fn a_certificate_is_believed_only_by_who_trusts_its_authority_s8() {
    for identity in [signed(&params(&["localhost"])), self_signed()] {
        let port = serve(&identity, &BOTH).await;
        let refused = ask(&HttpTransport::new(), port).await;
        assert!(
            matches!(&refused, Err(TransportError::Connect(message)) if message.contains("certificate")),
            "{refused:?}"
        );
        let trusting = HttpTransport::trusting(&[identity.root]).unwrap();
        assert_eq!(ask(&trusting, port).await.unwrap().status, 200, "the positive control");
    }
}

#[tokio::test]
async fn a_trusted_certificate_must_be_for_this_host_and_still_hold_s8() {
    let mut expired = params(&["localhost"]);
    expired.not_before = rcgen::date_time_ymd(2019, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    for identity in [signed(&params(&["api.example.org"])), signed(&expired)] {
        let port = serve(&identity, &BOTH).await;
        let refused = ask(&HttpTransport::trusting(&[identity.root]).unwrap(), port).await;
        assert!(matches!(refused, Err(TransportError::Connect(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn nothing_older_than_tls_1_2_is_spoken_s8() {
    for version in BOTH {
        let identity = signed(&params(&["localhost"]));
        let port = serve(&identity, &[version]).await;
        let trusting = HttpTransport::trusting(&[identity.root]).unwrap();
        assert_eq!(ask(&trusting, port).await.unwrap().status, 200, "{version:?}");
    }
    let refused = ask(&HttpTransport::new(), serve_tls_1_1().await).await;
    assert!(matches!(refused, Err(TransportError::Connect(_))), "{refused:?}");
}

#[test]
fn no_definition_can_switch_verification_off_s8() {
    let text = |http: &str| {
        format!(
            "source: s\nname: S\nbase_url: https://s.org\nhttp: {{ connect_timeout: PT5S{http} }}\nendpoints:\n  e:\n    \
             request: {{ path: /x }}\n    response: {{ items: $.i, id: $.d, updated_at: $.u }}\n    \
             pagination: {{ type: page, base: 1 }}\n    window: {{ updated_since: true, key: k, origin: 2000-01-01 }}\n"
        )
    };
    assert!(decode("s.yaml", &text("")).is_ok(), "the positive control");
    for key in ["verify", "tls_verify", "insecure", "danger_accept_invalid_certs", "tls_min", "roots"] {
        let mistakes = decode("s.yaml", &text(&format!(", {key}: false"))).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.to_string().contains(key)), "{key}");
    }
}
