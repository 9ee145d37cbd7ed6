//! The checks a spec must pass before a plan may use it (chapters 3.3.3 and 4.17), and its degradations.
//!
//! Each check has its own code, so that a mistake can be looked up, counted and tested by name.

mod answer;
mod degradations;
mod pages;
mod windows;

use crate::registry::definition::Definition;
use crate::registry::diagnostic::{Diagnostic, Severity};
use crate::spec::compile::place_of;
use crate::spec::hashes::operation_code;
use crate::spec::merge::Merged;
use crate::spec::snapshot::*;
use crate::time::Span;

const TIMEOUT_MAX: Span = Span::from_seconds(120);

pub(super) struct Context<'a> {
    pub definition: &'a Definition,
    pub endpoint: &'a str,
    pub merged: &'a Merged,
    pub declared_rate: Vec<RateWindow>,
}

/// All mistakes, then all degradations.
pub(super) fn check(
    spec: &SpecSnapshot,
    context: &Context<'_>,
    passed_over: Option<&str>,
) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let mut checker = Checker { spec, context, found: Vec::new() };
    checker.http();
    checker.pagination();
    checker.stop_rules();
    checker.widths();
    checker.filtering();
    checker.two_phase();
    checker.response();
    checker.paths();
    checker.manners();
    checker.namespace();
    checker.identity(passed_over);
    checker.degradations();
    checker.found.into_iter().partition(|found| found.severity == Severity::Error)
}

struct Checker<'a> {
    spec: &'a SpecSnapshot,
    context: &'a Context<'a>,
    found: Vec<Diagnostic>,
}

/// What can be said of a host before it is looked up; the transport judges every address it dials.
fn is_private(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unspecified(),
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn host_and_port(url: &url::Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

impl Checker<'_> {
    fn error(&mut self, code: &'static str, path: &str, message: impl Into<String>, hint: &str) {
        let Context { definition, endpoint, merged, .. } = self.context;
        let (file, at) = place_of(definition, endpoint, merged, path);
        self.found.push(Diagnostic::error(code, &file, at, message).hint(hint));
    }

    fn warn(&mut self, code: &'static str, path: &str, message: impl Into<String>) {
        let Context { definition, endpoint, merged, .. } = self.context;
        let (file, at) = place_of(definition, endpoint, merged, path);
        self.found.push(Diagnostic::warning(code, &file, at, message));
    }

    fn has(&self, path: &str) -> bool {
        self.context.merged.get(path).is_some()
    }

    fn http(&mut self) {
        let http = &self.spec.http;
        match url::Url::parse(&http.base_url) {
            Ok(url) if is_private(&url) && !http.allow_hosts.contains(&host_and_port(&url)) => {
                let message = format!("`{}` is in this machine or a private network", http.base_url);
                let hint = format!("if that is meant, allow it: `--allow-host {}`", host_and_port(&url));
                self.error("private_host", "http.base_url", message, &hint);
            }
            Ok(url) if url.scheme() == "https" => {}
            Ok(url) if url.scheme() == "http" && http.allow_http => {}
            Ok(url) if url.scheme() == "http" => self.error(
                "https_only",
                "http.base_url",
                format!("`{}` is not encrypted", http.base_url),
                "use https, or say `http: { allow_http: true }`",
            ),
            _ => {
                let message = format!("`{}` is not an http or https URL", http.base_url);
                self.error("bad_url", "http.base_url", message, "write a URL such as https://api.example.org");
            }
        }
        for (path, timeout) in [
            ("http.connect_timeout", http.connect_timeout),
            ("http.read_timeout", http.read_timeout),
            ("http.total_timeout", http.total_timeout),
        ] {
            if timeout > TIMEOUT_MAX || timeout <= Span::ZERO {
                self.error("timeout", path, format!("a time-out of {timeout} is out of bounds"), "use at most PT2M");
            }
        }
        let details = self.spec.detail.as_ref().map(|detail| &detail.request);
        for request in std::iter::once(&self.spec.request).chain(details) {
            if request.method == Method::Get && request.body.is_some() {
                let message = "a GET request has no body";
                self.error("get_with_body", "request.body.json", message, "use `method: post`, or parameters");
            }
        }
    }

    fn manners(&mut self) {
        let (rate, retry) = (&self.spec.rate, &self.spec.retry);
        let shortest = rate.windows.iter().min_by_key(|window| window.per);
        if let Some(window) = shortest.filter(|window| rate.burst > window.requests) {
            let message = format!("a burst of {} exceeds {} requests in {}", rate.burst, window.requests, window.per);
            self.error("burst", "rate.burst", message, "the burst lies inside the limit");
        }
        let over = rate.windows.iter().find(|window| {
            let same = self.context.declared_rate.iter().find(|declared| declared.per == window.per);
            same.is_some_and(|declared| window.requests > declared.requests)
        });
        if let Some(over) = over {
            let message = format!("{} requests in {} are more than the source allows", over.requests, over.per);
            self.error(
                "rate_over_declared",
                "rate.windows",
                message,
                "a trigger can slow a source down, not speed it up",
            );
        }
        if let Some(quota) = rate.quota.as_ref().filter(|quota| quota.reset_time().is_none()) {
            let message = format!("`{}` is no time of day", quota.reset);
            self.error("quota_reset", "rate.quota.reset", message, "write it as `HH:MM`, e.g. `00:00`");
        }
        if retry.first > retry.longest {
            let message = format!("the first delay {} is longer than the longest {}", retry.first, retry.longest);
            self.error("retry_delays", "retry.first", message, "keep first <= longest");
        }
    }

    fn namespace(&mut self) {
        let custom = self.spec.namespace == NamespaceScope::Custom;
        if (self.spec.operation == Operation::Harvest) == custom {
            let message = format!("{} does not go with this namespace", operation_code(self.spec.operation));
            let hint = "HARVEST moves the watermark of `expr` or `global`; BACKFILL and UPDATE keep to `custom`";
            self.error("namespace", "namespace", message, hint);
        }
        let (definition, key) = (self.context.definition, &self.spec.window.key);
        for name in &self.spec.shares {
            let Some(endpoint) = definition.endpoint(name) else { continue };
            let theirs = Merged::of(definition, name, endpoint, None).text("window.key").map(str::to_owned);
            if theirs.as_ref().is_some_and(|theirs| theirs != key) {
                let message = format!("endpoint `{name}` shares the watermark and cuts another time than `{key}`");
                let hint = "give both the same `window.key`, or one of them `namespace: expr`";
                self.error("shared_key", "namespace", message, hint);
            }
        }
    }

    fn identity(&mut self, passed_over: Option<&str>) {
        let identity = self.context.definition.root().map("identity");
        let places = self.context.definition.places();
        let at = places.value("identity.contact");
        if self.spec.expr.contact.is_none()
            && let Some(identity) = identity.filter(|identity| identity.get("contact").is_some())
        {
            let message = "no contact address is set; polite requests carry one";
            let found = if identity.flag("contact_required") {
                Diagnostic::error("contact_missing", &places.file, at, "the source wants a contact address")
                    .hint("set `contact_email` in the settings, or pass `--contact`")
            } else {
                Diagnostic::warning("no_contact", &places.file, at, message)
            };
            self.found.push(found);
        }
        if let Some(name) = passed_over {
            let at = places.value(&format!("credentials.{name}"));
            let message = format!("asked anonymously: the secret of credential `{name}` is not here");
            self.found.push(Diagnostic::warning("anonymous", &places.file, at, message));
        }
    }
}
