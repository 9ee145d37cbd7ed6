//! The address guard: no request reaches a loopback, private or otherwise inner address unless it is listed.
//!
//! Names are checked in the resolver of the client, so the address that was checked is the one that is dialled.
//! Literals never reach a resolver and are checked before. The URL parser has already turned odd spellings of IPv4
//! (`0x7f.1`, `2130706433`, `017700000001`) into plain addresses.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use patra_core::spec::snapshot::HttpSpec;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// A name that leads only to forbidden addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of {host} is not allowed")]
pub struct Refused {
    pub host: String,
}

/// Resolves names and drops forbidden addresses.
pub struct GuardedResolver {
    pub guarded: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guarded = self.guarded;
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| !guarded || !is_forbidden(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Refused { host }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The refusal among the causes of an error.
pub fn refused_in(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused.to_string());
        }
        cause = error.source();
    }
    None
}

/// Scheme, user and literal address. `Ok(true)` when `host:port` is listed as an exception.
pub fn check_url(url: &Url, http: &HttpSpec) -> Result<bool, String> {
    match url.scheme() {
        "https" => {}
        "http" if http.allow_http => {}
        "http" => return Err("http without `allow_http`".to_owned()),
        _ => return Err("a scheme that is not http or https".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL with a user name".to_owned());
    }
    check_host(url, http)
}

pub fn check_host(url: &Url, http: &HttpSpec) -> Result<bool, String> {
    let host = url.host().ok_or("a URL without a host")?;
    let port = url.port_or_known_default().unwrap_or(0);
    let name = host.to_string();
    let listed = http.allow_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&format!("{name}:{port}")));
    if listed {
        return Ok(true);
    }
    let address = match host {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(name) => match name.trim_end_matches('.').parse::<IpAddr>() {
            Ok(address) => address,
            Err(_) => return Ok(false),
        },
    };
    if is_forbidden(address) {
        return Err(Refused { host: name }.to_string());
    }
    Ok(false)
}

/// Addresses that no public source has.
pub fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_forbidden_v4(address),
        IpAddr::V6(address) => is_forbidden_v6(address),
    }
}

fn is_forbidden_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_unspecified()
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        // Carrier-grade NAT, benchmarks, protocol assignments.
        || (first == 100 && (64..128).contains(&second))
        || (first == 198 && (second == 18 || second == 19))
        || (first == 192 && second == 0 && third == 0)
        || (first == 192 && second == 88 && third == 99)
}

fn is_forbidden_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    // Every form that carries an IPv4 address is judged by that address as well.
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_forbidden_v4(Ipv4Addr::new(a, b, c, d))
    };
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return true;
    }
    match parts {
        // Mapped ::ffff:a.b.c.d, compatible ::a.b.c.d, translated ::ffff:0:a.b.c.d.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => inner(high, low),
        [0, 0, 0, 0, 0, 0, _, _] => true,
        // NAT64, well known and local.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        // 6to4 carries its IPv4 address in front, Teredo hides one.
        [0x2002, high, low, ..] => inner(high, low),
        [0x2001, 0, ..] => true,
        // Documentation, discard.
        [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => true,
        // Unique local fc00::/7, link local fe80::/10, site local fec0::/10.
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_addresses_are_forbidden_in_every_form_s4() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "2001::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "fd00:ec2::254",
        ] {
            assert!(is_forbidden(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "130.14.29.110",
            "100.63.0.1",
            "172.32.0.1",
            "2607:f220:41e:4290::110",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(!is_forbidden(text.parse().unwrap()), "{text}");
        }
    }

    fn http(allow_http: bool, allow: &[&str]) -> HttpSpec {
        serde_json::from_value(serde_json::json!({
            "base_url": "https://api.example.org", "allow_http": allow_http, "allow_hosts": allow,
            "connect_timeout": "PT1S", "read_timeout": "PT1S", "total_timeout": "PT1S", "redirects": 0, "proxy": null,
            "user_agent": "t", "body_bytes_max": 1, "ratio_max": 1
        }))
        .unwrap()
    }

    #[test]
    fn literals_and_odd_spellings_are_refused_unless_listed_s4_s6() {
        for text in [
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://017700000001/",
            "https://127.1/",
            "https://0x7f000001/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://127.0.0.1./",
            "https://0/",
            "https://169.254.169.254/latest",
            "https://user:pass@api.example.org/",
            "ftp://api.example.org/",
            "file:///etc/passwd",
            "http://api.example.org/",
        ] {
            assert!(check_url(&Url::parse(text).unwrap(), &http(false, &[])).is_err(), "{text}");
        }
        let listed = http(true, &["127.0.0.1:8080", "[::1]:443"]);
        assert_eq!(check_url(&Url::parse("http://127.0.0.1:8080/x").unwrap(), &listed), Ok(true));
        assert_eq!(check_url(&Url::parse("http://2130706433:8080/x").unwrap(), &listed), Ok(true));
        assert_eq!(check_url(&Url::parse("https://[::1]/x").unwrap(), &listed), Ok(true));
        assert!(check_url(&Url::parse("http://127.0.0.1:8081/x").unwrap(), &listed).is_err(), "another port");
        assert_eq!(check_url(&Url::parse("https://api.example.org/").unwrap(), &listed), Ok(false));
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_when_it_is_resolved_s5() {
        let name = || "localhost".parse::<Name>().unwrap();
        let refused = GuardedResolver { guarded: true }.resolve(name()).await;
        let error = refused.err().expect("localhost is not allowed");
        assert_eq!(error.downcast_ref::<Refused>(), Some(&Refused { host: "localhost".into() }));
        let open = GuardedResolver { guarded: false }.resolve(name()).await.unwrap();
        assert!(open.count() > 0, "without the guard the name gets through");
    }
}
