//! The next URL of an answer: same origin, merged with our own parameters, stored without credentials.
//!
//! Sources drop parameters from their next links; following such a link harvests another result set. So what the
//! link does not name is added from the request that was sent, except what places a page.

use url::Url;

use crate::encode::pairs;
use crate::redact::Redactor;
use crate::request::Draft;

/// The target of `Link: <...>; rel="next"`.
pub fn link_next(headers: &[(String, String)]) -> Option<String> {
    let links = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    for (_, value) in links {
        let mut rest = value.as_str();
        while let Some(open) = rest.find('<') {
            let close = open + rest[open..].find('>')?;
            let target = &rest[open + 1..close];
            let tail = &rest[close + 1..];
            let end = unquoted(tail, &['<']);
            let mut parameters = &tail[..end];
            while !parameters.is_empty() {
                let cut = unquoted(parameters, &[';', ',']);
                if is_next(&parameters[..cut]) {
                    return Some(target.to_owned());
                }
                parameters = parameters.get(cut + 1..).unwrap_or_default();
            }
            rest = &tail[end..];
        }
    }
    None
}

/// Where the first of `letters` stands outside quotes; the end where none does.
fn unquoted(text: &str, letters: &[char]) -> usize {
    let mut quoted = false;
    for (at, letter) in text.char_indices() {
        quoted ^= letter == '"';
        if !quoted && letters.contains(&letter) {
            return at;
        }
    }
    text.len()
}

fn is_next(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    let names = value.trim().trim_matches('"');
    name.trim().eq_ignore_ascii_case("rel") && names.split_whitespace().any(|name| name.eq_ignore_ascii_case("next"))
}

/// Resolves a next URL against the request and returns its path and query as they may be stored.
/// `Err` is the origin it would have led to.
pub fn merge(
    found: &str,
    draft: &Draft,
    base: &Url,
    credentials: &[String],
    redactor: &Redactor,
) -> Result<String, String> {
    let url = draft.full_url().join(found.trim()).map_err(|_| "a next URL that cannot be read".to_owned())?;
    same_origin(&url, base)?;
    let keep = |name: &String, value: &str| {
        let secret = redactor.is_match(name) || redactor.is_match(value);
        !credentials.contains(name) && !draft.personal.contains(name) && !secret
    };
    if lossy(&url) {
        return Err("a URL whose query holds bytes that are no text".to_owned());
    }
    let own: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(name, value)| keep(name, value)).collect();
    let mut query = own.clone();
    for (name, value) in &draft.query {
        if !draft.paging.contains(name) && keep(name, value) && !own.iter().any(|(known, _)| known == name) {
            query.push((name.clone(), value.clone()));
        }
    }
    let path = redactor.text(url.path());
    // Two slashes at the start would be read as a host; the dot is dropped again when the URL is followed.
    let path = if path.starts_with("//") { format!("/.{path}") } else { path };
    Ok(if query.is_empty() { path } else { format!("{path}?{}", pairs(&query)) })
}

/// Whether the query would not be the same after reading it as text: a changed cursor leads to another page.
fn lossy(url: &Url) -> bool {
    const REPLACEMENT: char = '\u{fffd}';
    let written = url.query().unwrap_or_default().to_ascii_uppercase().matches("%EF%BF%BD").count();
    let holds = |text: &str| text.matches(REPLACEMENT).count();
    url.query_pairs().map(|(name, value)| holds(&name) + holds(&value)).sum::<usize>() != written
}

/// Scheme, host and port of the registry's base URL, and no user in front of the host.
pub fn same_origin(url: &Url, base: &Url) -> Result<(), String> {
    // The origin of `blob:https://host/` is that of the URL inside it.
    if url.origin() != base.origin() || !url.origin().is_tuple() || url.scheme() != base.scheme() {
        return Err(format!("{} from {}", url.origin().ascii_serialization(), base.origin().ascii_serialization()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL with a user name".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use patra_core::spec::snapshot::Method;

    use super::*;

    fn draft() -> Draft {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Draft {
            method: Method::Get,
            url: Url::parse("https://api.example.org/v1/dois").unwrap(),
            query: vec![
                pair("query", "a b"),
                pair("sort", "created"),
                pair("page[cursor]", "1"),
                pair("mailto", "m@example.org"),
                pair("api_key", "secret-value"),
            ],
            headers: Vec::new(),
            body: None,
            paging: vec!["page[cursor]".into()],
            personal: vec!["mailto".into()],
        }
    }

    fn merged(found: &str) -> Result<String, String> {
        let base = Url::parse("https://api.example.org/v1").unwrap();
        merge(found, &draft(), &base, &["api_key".into()], &Redactor::new(["secret-value"]))
    }

    #[test]
    fn dropped_parameters_come_back_and_credentials_do_not() {
        let next = merged("https://api.example.org/v1/dois?page%5Bcursor%5D=xyz&query=a+b&echo=secret-value").unwrap();
        assert_eq!(next, "/v1/dois?page%5Bcursor%5D=xyz&query=a%20b&sort=created");
        assert_eq!(merged("?page[cursor]=q").unwrap(), "/v1/dois?page%5Bcursor%5D=q&query=a%20b&sort=created");
        assert_eq!(merged("/other?api_key=secret-value&sort=x").unwrap(), "/other?sort=x&query=a%20b");
        assert_eq!(merged("/other?a-secret-value-b&sort=x").unwrap(), "/other?sort=x&query=a%20b");
    }

    #[test]
    fn another_origin_is_refused_s1() {
        for found in [
            "http://api.example.org/v1/dois",
            "https://api.example.org:8443/v1/dois",
            "https://evil.example.org/v1/dois",
            "https://api.example.org.evil.net/",
            "//evil.example.org/x",
            "https://user:pass@api.example.org/v1/dois",
            "https://api.example.org@evil.net/",
            "\\\\evil.example.org\\x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/plain,x",
            "blob:https://api.example.org/v1/dois",
        ] {
            assert!(merged(found).is_err(), "{found}");
        }
    }

    #[test]
    fn the_link_header_names_the_next_page() {
        let header = |value: &str| vec![("link".to_owned(), value.to_owned())];
        for (value, want) in [
            (r#"<https://a/1>; rel="prev", <https://a/2?x=1,2>; rel="next""#, Some("https://a/2?x=1,2")),
            ("</p?n=2>; title=\"x\"; rel=next", Some("/p?n=2")),
            (r#"<https://a/1>; rel="first next""#, Some("https://a/1")),
            (r#"<https://a/1>; rel="prev""#, None),
            ("<broken", None),
        ] {
            assert_eq!(link_next(&header(value)).as_deref(), want, "{value}");
        }
    }
}
