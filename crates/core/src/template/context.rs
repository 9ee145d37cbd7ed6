//! What the expressions of one request can see, built from the page that is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};

use crate::calendar::{Stepper, UnknownZone, zone_of};
use crate::page::{PageAsk, PageStep, Part, Position};
use crate::planted::{Defect, planted};
use crate::spec::snapshot::{BoundaryKind, WindowSpec};
use crate::time::{Span, Timestamp};
use crate::window::Window;

pub type ContextError = UnknownZone;

/// The variables of one request.
#[derive(Clone, Debug)]
pub struct Context {
    value: Value,
    sample: bool,
}

/// An instant that remembers the zone its source writes times in.
#[derive(Clone, Debug)]
pub(super) struct Instant {
    pub at: Timestamp,
    pub zone: TimeZone,
}

impl Instant {
    pub fn format(&self, format: &str) -> Result<String, String> {
        let zoned = self.at.to_jiff().to_zoned(self.zone.clone());
        jiff::fmt::strtime::format(format, &zoned).map_err(|error| format!("`{format}` is not a date format: {error}"))
    }

    /// RFC 3339 in UTC, with a fraction only where there is one.
    pub fn iso(&self) -> String {
        self.at.to_jiff().to_string()
    }
}

impl Object for Instant {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.iso())
    }
}

impl Context {
    /// The variables for one page, as in the table of [`super::names`].
    pub fn new(ask: &PageAsk) -> Result<Context, ContextError> {
        let spec = &ask.spec;
        let zone = zone_of(&spec.window.boundary.zone)?;
        let instant = |at: Timestamp| Value::from_object(Instant { at, zone: zone.clone() });
        let window = map([
            ("from", instant(ask.window.from())),
            ("to", instant(ask.window.to())),
            ("last", instant(asked_last(&ask.window, &spec.window)?)),
        ]);
        let (page, ids) = match &ask.step {
            PageStep::Search { position, size } => (page_of(ask, position, *size, &instant), null()),
            PageStep::Detail { ids } => (map([("size", Value::from(ids.len()))]), Value::from(ids.clone())),
        };
        let params = Value::from(spec.expr.params.clone());
        let terms = Value::from(spec.expr.query.as_ref().map(|query| query.terms.clone()).unwrap_or_default());
        let value = map([
            ("window", window),
            ("page", page),
            ("part", part_of(ask.part.as_ref())),
            ("expr", map([("q", Value::from(spec.expr.q.clone())), ("params", params.clone()), ("terms", terms)])),
            ("params", params),
            ("identity", map([("contact", Value::from(spec.expr.contact.clone()))])),
            ("ids", ids),
            ("as_of", instant(ask.as_of)),
            (
                "source",
                map([
                    ("code", Value::from(spec.provenance.clone())),
                    ("endpoint", Value::from(spec.endpoint.clone())),
                    ("version", Value::from(spec.registry_version)),
                    ("channel", Value::from(spec.channel.clone())),
                ]),
            ),
        ]);
        Ok(Context { value, sample: false })
    }

    /// Made-up values for the trial run of [`super::check`].
    pub(super) fn sample() -> Context {
        let instant = || Value::from_object(Instant { at: Timestamp::from_seconds(0), zone: TimeZone::UTC });
        let text = || Value::from("x");
        let page = map([
            ("size", Value::from(1)),
            ("offset", Value::from(0)),
            ("number", Value::from(1)),
            ("token", text()),
            ("url", text()),
            ("since", instant()),
        ]);
        let part = map([("from", 0), ("to", 1), ("bucket", 0), ("buckets", 1)].map(|(name, n)| (name, Value::from(n))));
        let source = map([("code", text()), ("endpoint", text()), ("version", Value::from(1)), ("channel", text())]);
        let value = map([
            ("window", map([("from", instant()), ("to", instant()), ("last", instant())])),
            ("page", page),
            ("part", part),
            ("expr", map([("q", text()), ("params", map([])), ("terms", map([]))])),
            ("params", map([])),
            ("identity", map([("contact", text())])),
            ("ids", Value::from(vec!["x"])),
            ("as_of", instant()),
            ("source", source),
        ]);
        Context { value, sample: true }
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn is_sample(&self) -> bool {
        self.sample
    }
}

fn asked_last(window: &Window, spec: &WindowSpec) -> Result<Timestamp, UnknownZone> {
    let last = last_of(window, spec)?;
    let early = if planted(Defect::EdgeOffByGrain) { spec.boundary.grain } else { Span::ZERO };
    Ok(last.minus(early))
}

/// The last grain inside the window, for sources whose upper end is inclusive. Where records carry times finer
/// than the grain the end itself is asked for, and the surplus is dropped later.
fn last_of(window: &Window, spec: &WindowSpec) -> Result<Timestamp, UnknownZone> {
    if spec.boundary.fractional && spec.boundary.kind == BoundaryKind::PrecIncl {
        return Ok(window.to());
    }
    let stepper = Stepper::new(spec.boundary.grain, &spec.boundary.zone)?;
    Ok(stepper.previous(window.to()))
}

fn page_of(ask: &PageAsk, position: &Position, size: u32, instant: &dyn Fn(Timestamp) -> Value) -> Value {
    let initial = ask.spec.pagination.initial.as_deref();
    let mut page = BTreeMap::from([("size", Value::from(size))]);
    for name in ["offset", "number", "token", "url", "since"] {
        page.insert(name, null());
    }
    match position {
        Position::Offset(offset) => page.insert("offset", Value::from(*offset)),
        Position::Page(number) => page.insert("number", Value::from(*number)),
        Position::Token(token) => {
            // Result sets that are kept under a name are read on by the name and a place in them.
            page.insert("offset", Value::from(ask.received));
            page.insert("token", Value::from(token.clone()))
        }
        // The first request of URL paging may need a first token (`page[cursor]=1`).
        Position::Url(None) => page.insert("token", Value::from(initial.map(str::to_owned))),
        Position::Url(Some(url)) => page.insert("url", Value::from(url.clone())),
        Position::Since(at) => page.insert("since", instant(*at)),
    };
    Value::from(page)
}

fn part_of(part: Option<&Part>) -> Value {
    let numbers: [Option<u64>; 4] = match part {
        None => [None; 4],
        Some(Part::IdRange { from, to }) => [Some(*from), Some(*to), None, None],
        Some(Part::HashBucket { bucket, buckets }) => [None, None, Some(u64::from(*bucket)), Some(u64::from(*buckets))],
    };
    let [from, to, bucket, buckets] = numbers.map(Value::from);
    map([("from", from), ("to", to), ("bucket", bucket), ("buckets", buckets)])
}

fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::from(BTreeMap::from(entries))
}

fn null() -> Value {
    Value::from(())
}
