//! The checks a spec must pass before a plan may use it (chapters 3.3.3 and 4.17), and its degradations.
//!
//! Each check has its own code, so that a mistake can be looked up, counted and tested by name.

use crate::calendar::zone_of;
use crate::path;
use crate::registry::definition::{Definition, Value};
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

    fn pagination(&mut self) {
        let pagination = &self.spec.pagination;
        let by_answer = matches!(pagination.kind, PagingKind::Token | PagingKind::Url);
        if by_answer && pagination.next_token.is_none() && pagination.next_url.is_none() {
            let (kind, what) = if pagination.kind == PagingKind::Token { ("token", "token") } else { ("url", "URL") };
            let message = format!("paging by {kind} needs `next`, the path of the next {what}");
            self.error("next_missing", "pagination.type", message, "add `pagination.next`");
        }
        let only_by_answer = ["next_token", "next_url", "initial", "ttl"];
        let only_by_count = ["base", "overlap", "backward"];
        let foreign: &[&str] = match pagination.kind {
            PagingKind::Token | PagingKind::Url => &only_by_count,
            PagingKind::Offset => &["next_token", "next_url", "initial", "ttl", "base", "backward"],
            PagingKind::Page => &["next_token", "next_url", "initial", "ttl", "overlap"],
            PagingKind::Time => &["next_token", "next_url", "initial", "ttl", "base", "overlap", "backward"],
        };
        for key in foreign {
            let path = format!("pagination.{key}");
            let set = self.context.merged.leaves.get(&path).is_some_and(|leaf| !leaf.path.is_empty());
            if set {
                let key = if only_by_answer[..2].contains(key) { "next" } else { key };
                let kind = format!("{:?}", pagination.kind).to_lowercase();
                let message = format!("`{key}` does not go with paging by {kind}");
                self.error("paging_exclusive", &path, message, "keep either the type or the key");
            }
        }
        let declared = self.context.merged.leaves.get("pagination.base").is_some_and(|leaf| !leaf.path.is_empty());
        if pagination.kind == PagingKind::Page && !declared {
            let message = "paging by page needs `base`, the number of the first page";
            self.error("page_base_missing", "pagination.type", message, "add `base: 0` or `base: 1`");
        }
        self.page_sizes();
    }

    fn page_sizes(&mut self) {
        let pagination = &self.spec.pagination;
        if let Some(cap) = pagination.size_max.filter(|cap| pagination.size > *cap) {
            let message = format!("a page of {} is more than the {cap} the source gives", pagination.size);
            self.error("size_over_max", "pagination.size", message, "lower `size`");
        }
        if pagination.overlap >= pagination.size {
            let message =
                format!("an overlap of {} leaves nothing of a page of {}", pagination.overlap, pagination.size);
            self.error("overlap", "pagination.overlap", message, "lower `overlap`");
        }
        if let (Some(cap), Some(most)) = (pagination.result_cap, pagination.max_per_slice)
            && most > cap
        {
            let message = format!("slices of up to {most} records exceed the {cap} the source serves");
            self.error("slice_over_cap", "pagination.max_per_slice", message, "lower `max_per_slice`");
        }
    }

    fn stop_rules(&mut self) {
        let pagination = &self.spec.pagination;
        for rule in &pagination.stop {
            let (fits, needs) = match rule {
                StopRule::HasMore => (self.spec.response.has_more.is_some(), "`response.has_more`"),
                StopRule::NoToken | StopRule::EchoedToken => (pagination.kind == PagingKind::Token, "paging by token"),
                StopRule::NoUrl => (pagination.kind == PagingKind::Url, "paging by url"),
                StopRule::CountReached => (self.spec.response.total.is_some(), "`response.total`"),
                StopRule::EmptyPage | StopRule::ShortPage => (true, ""),
            };
            if !fits {
                let message = format!("`{}` cannot end the pages without {needs}", stop_name(*rule));
                self.error("stop_rule", "pagination.stop", message, "remove the rule or add what it needs");
            }
        }
    }

    fn widths(&mut self) {
        let window = &self.spec.window;
        let (align, grain) = (window.align.span(), window.boundary.grain);
        if zone_of(&window.boundary.zone).is_err() {
            let message = format!("`{}` is not a time zone", window.boundary.zone);
            self.error("bad_zone", "window.boundary.zone", message, "write an IANA name such as UTC");
        }
        if grain <= Span::ZERO {
            self.error("grain", "window.boundary.grain", "the grain is zero", "write the smallest step, e.g. PT1S");
            return;
        }
        let days = grain.micros() % Span::DAY.micros() == 0;
        if window.boundary.kind == BoundaryKind::DayIncl && !days {
            let message = format!("a boundary of days cannot have a grain of {grain}");
            self.error("grain", "window.boundary.grain", message, "write P1D");
        }
        if align.micros() % grain.micros() != 0 {
            let message = format!("edges aligned to {align} do not fall on steps of {grain}");
            self.error("align_grain", "window.align", message, "align to a multiple of the grain");
        }
        for (path, width) in [("window.min", window.min), ("window.slice", window.slice), ("window.max", window.max)] {
            if width <= Span::ZERO || width.micros() % grain.micros() != 0 {
                let message = format!("a width of {width} is no multiple of the grain {grain}");
                self.error("width_grain", path, message, "use a multiple of `boundary.grain`");
            } else if width.micros() % align.micros() != 0 {
                let message = format!("a width of {width} does not fit edges aligned to {align}");
                self.error("width_align", path, message, "use a finer `align` or a wider window");
            }
        }
        if window.max < window.min || window.slice < window.min || window.slice > window.max {
            let message = format!("min {}, slice {} and max {} are out of order", window.min, window.slice, window.max);
            self.error("width_order", "window.slice", message, "keep min <= slice <= max");
        }
    }

    /// Without a filter of the source, our own needs a declared order and a time in every record.
    fn filtering(&mut self) {
        let (window, by_windows) = (&self.spec.window, self.spec.operation != Operation::Update);
        let filtered = window.client_filter && window.ordered.is_some();
        if by_windows && !window.updated_since && !filtered {
            let message = "the source does not filter by time, and nothing says that we can";
            let hint =
                "only UPDATE is possible; or declare `updated_since: true`, or `client_filter: true` and `ordered`";
            self.error("harvest_unfiltered", "window.updated_since", message, hint);
        }
        let half = matches!(window.boundary.kind, BoundaryKind::FromOnly | BoundaryKind::None);
        if by_windows && half && !window.client_filter {
            let message = "the source has no upper bound, so records after the window must be dropped by us";
            self.error("client_filter_needed", "window.client_filter", message, "write `client_filter: true`");
        }
        if self.spec.pagination.kind == PagingKind::Time && !window.updated_since && window.ordered.is_none() {
            let message = "paging by time needs a filter or an order by time";
            let hint = "declare `window.updated_since` or `window.ordered`";
            self.error("time_paging", "pagination.type", message, hint);
        }
    }

    fn two_phase(&mut self) {
        match &self.spec.detail {
            None if self.spec.operation == Operation::Update => {
                let message = format!("endpoint `{}` cannot be refreshed by id", self.spec.endpoint);
                let hint = "add `update: { endpoint: .., id_batch_size: .. }` with an endpoint of role detail";
                self.error("update_needs_detail", "update", message, hint);
            }
            None => {}
            Some(detail) => {
                let uses_ids = |text: &str| text.contains("ids");
                let request = &detail.request;
                let body = request.body.as_ref().map(|body| serde_json::json!(body).to_string()).unwrap_or_default();
                let named = uses_ids(&request.path) || uses_ids(&body);
                if !named && !request.query.iter().any(|(_, template)| uses_ids(template)) {
                    let path = format!("endpoints.{}.request", detail.endpoint);
                    let places = self.context.definition.places();
                    let message = format!("endpoint `{}` is asked for ids but its request names none", detail.endpoint);
                    let mistake = Diagnostic::error("detail_without_ids", &places.file, places.key(&path), message);
                    self.found.push(mistake.hint("use `${ids | join(',')}` in a parameter, the path or the body"));
                }
            }
        }
    }

    /// Items, id and time: without them a record has no identity and no version.
    fn response(&mut self) {
        let merged = self.context.merged;
        let said = merged.get("response.updated_at").is_some();
        let detail = self.spec.detail.as_ref();
        let has_time = match detail {
            Some(detail) => detail.response.updated_at.is_some() || self.spec.response.updated_at.is_some(),
            None => self.spec.response.updated_at.is_some(),
        };
        let detail_said = detail.is_some_and(|detail| {
            let response = self.context.definition.endpoint(&detail.endpoint).and_then(|e| e.map("response"));
            response.is_some_and(|response| response.get("updated_at").is_some())
        });
        if !has_time && !said && !detail_said {
            let message = "the response has no `updated_at`, so versions of a record cannot be told apart";
            let hint = "add `response.updated_at`, or write `updated_at: none` where the source gives no time";
            self.error("updated_at_missing", "response.updated_at", message, hint);
        } else if !has_time {
            let window = &self.spec.window;
            if window.client_filter || window.boundary.fractional || self.spec.pagination.kind == PagingKind::Time {
                let message = "records are filtered by time, but the response has none";
                let hint = "add `response.updated_at`, or let the source filter";
                self.error("filter_without_time", "response.updated_at", message, hint);
            } else {
                let message = "records carry no time; a changed content counts as the newer version";
                self.warn("no_updated_at", "response.updated_at", message);
            }
        }
    }

    fn paths(&mut self) {
        let spec = self.spec;
        let base = format!("endpoints.{}", spec.endpoint);
        self.paths_of(&spec.response, &base);
        if let Some(detail) = &spec.detail {
            self.paths_of(&detail.response, &format!("endpoints.{}", detail.endpoint));
        }
        let next = spec.pagination.next_token.as_deref().or(spec.pagination.next_url.as_deref());
        if let Some(next) = next.filter(|next| *next != "link_header") {
            self.path(&format!("{base}.pagination.next"), next, spec.response.format);
        }
        let own = match self.context.definition.endpoint(&spec.endpoint).and_then(|map| map.get("errors")) {
            Some(Value::List(rules)) => rules.len(),
            _ => 0,
        };
        for (at, rule) in spec.errors.iter().enumerate() {
            let path = match at.checked_sub(own) {
                None => format!("{base}.errors.{at}.when.path"),
                Some(at) => format!("defaults.errors.{at}.when.path"),
            };
            if let Some(text) = &rule.when.path {
                self.path(&path, text, spec.response.format);
            }
        }
    }

    fn paths_of(&mut self, response: &ResponseSpec, base: &str) {
        let format = response.format;
        for (name, list) in [("items", &response.items), ("id", &response.id), ("hash_exclude", &response.hash_exclude)]
        {
            for (at, text) in list.iter().enumerate() {
                self.path(&format!("{base}.response.{name}.{at}"), text, format);
            }
        }
        for (name, text) in [
            ("updated_at", &response.updated_at),
            ("version", &response.version),
            ("deleted", &response.deleted),
            ("total", &response.total),
            ("has_more", &response.has_more),
        ] {
            if let Some(text) = text {
                self.path(&format!("{base}.response.{name}"), text, format);
            }
        }
        for field in &response.fields {
            self.path(&format!("{base}.fields.{}.path", field.name), &field.path, format);
        }
    }

    fn path(&mut self, definition_path: &str, text: &str, format: Format) {
        if let Err(error) = path::check(text, format) {
            let places = self.context.definition.places();
            let at = places.inside(definition_path, text, error.at.start);
            self.found.push(Diagnostic::error("bad_path", &places.file, at, error.message).found(text));
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

    fn degradations(&mut self) {
        let (response, window, pagination) = (&self.spec.response, &self.spec.window, &self.spec.pagination);
        let counted = matches!(pagination.kind, PagingKind::Offset | PagingKind::Page);
        if response.total.is_none() {
            self.warn(
                "no_total",
                "response.total",
                "the source gives no total; completeness rests on the end of pages",
            );
        } else if response.total_tolerance > 0.0 {
            let percent = response.total_tolerance * 100.0;
            let message = format!("totals are approximate: up to {percent} % may be missing");
            self.warn("approximate_total", "response.total_tolerance", message);
        }
        if counted && response.has_more.is_none() && response.total.is_none() {
            let message = "nothing says whether there are more pages; a full page is followed by one more request";
            self.warn("no_has_more", "response.has_more", message);
        }
        if !window.updated_since && window.client_filter {
            let message = "the source does not filter by time; every pass reads on until the order ends the window";
            self.warn("client_filtered", "window.client_filter", message);
        }
        if counted && window.ordered.is_none() && !self.one_page_per_slice() {
            let message = "no stable order is declared; pages may shift while they are read";
            self.warn("unordered_pages", "window.ordered", message);
        }
        if !pagination.replayable {
            let message = "a page cannot be asked for twice; a lost answer starts the pass anew";
            self.warn("not_replayable", "pagination.replayable", message);
        }
        if pagination.max_page.is_some() && !self.has("pagination.max_per_slice") {
            let message = "pages are limited; windows that need more are cut when their last page is reached";
            self.warn("page_limit", "pagination.max_page", message);
        }
    }

    fn one_page_per_slice(&self) -> bool {
        let pagination = &self.spec.pagination;
        pagination.max_per_slice.is_some_and(|most| most <= u64::from(pagination.size))
    }
}

fn stop_name(rule: StopRule) -> String {
    serde_json::json!(rule).as_str().unwrap_or_default().to_owned()
}
