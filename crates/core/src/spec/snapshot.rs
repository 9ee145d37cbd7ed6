//! The Spec Snapshot: one endpoint of one source, compiled from the registry, immutable.
//!
//! A plan stores it whole; its runs, batches and replays read nothing else. Paths and templates are kept as
//! text, already checked by the compiler; the source side turns them into programs once per fingerprint.
//! It holds names of secrets, never their values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calendar::Align;
use crate::spec::errors::ErrorRule;
pub use crate::spec::expression::QuerySpec;
pub use crate::spec::rate::{AdaptSpec, QuotaSpec, RateKeyPart, RateSpec, RateWindow};
use crate::time::{Span, Timestamp};

/// The newest plan format this build knows; a plan with a higher number is not claimed (INV-43).
pub const FORMAT: u32 = 6;
/// The format of specs with one credential that point, fill in or have manners of their own at the gate.
pub const FORMAT_ADAPTED: u32 = 5;
/// The format of specs with a query and the usual manners at the gate.
pub const FORMAT_QUERY: u32 = 4;
/// The format of specs without a query whose mapped fields may be nested.
pub const FORMAT_NESTED: u32 = 3;
/// The format of specs that share a watermark with other endpoints and whose mapped fields are all plain.
pub const FORMAT_SHARED: u32 = 2;
/// The format of specs that name no endpoints to share a watermark with, which the first release reads too.
pub const FORMAT_ALONE: u32 = 1;

/// What to do, with which window arithmetic and manners; the only configuration a run sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecSnapshot {
    pub format: u32,
    pub provenance: String,
    pub endpoint: String,
    /// Record identity shared by endpoints that deliver the same things; by default the endpoint's own name.
    pub entity: String,
    pub operation: Operation,
    /// Version of the registry entry this was compiled from.
    pub registry_version: i64,
    /// Release channel the version was taken from (`stable`, `canary`, ...).
    pub channel: String,
    pub http: HttpSpec,
    pub auth: AuthSpec,
    /// Further credentials that are used together with `auth`, by what each has left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare_auth: Vec<AuthSpec>,
    pub request: RequestSpec,
    pub pagination: PaginationSpec,
    pub window: WindowSpec,
    pub response: ResponseSpec,
    /// Second phase: ids found by `request` are asked for here in groups.
    pub detail: Option<DetailSpec>,
    /// Looked at in order, before the built-in classification; the first match wins.
    pub errors: Vec<ErrorRule>,
    pub retry: RetrySpec,
    pub rate: RateSpec,
    pub expr: ExprSpec,
    pub namespace: NamespaceScope,
    /// GLOBAL: the endpoints whose prefixes the shared watermark is the least of, this one among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<String>,
    pub blackbox: Blackbox,
    pub quarantine: QuarantineSpec,
    pub priority: u8,
    /// UPDATE only fills in what stored records lack.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fill_only: bool,
    /// Degradations accepted by the compiler; copied into the plan's remarks.
    pub warnings: Vec<String>,
}

impl SpecSnapshot {
    /// One spec for each credential: the same requests, signed and counted by that one alone.
    pub fn each_credential(&self) -> Vec<SpecSnapshot> {
        let all = std::iter::once(&self.auth).chain(&self.spare_auth);
        all.map(|auth| SpecSnapshot { auth: auth.clone(), spare_auth: Vec::new(), ..self.clone() }).collect()
    }

    /// The answers of a search and of its second phase.
    pub fn responses(&self) -> impl Iterator<Item = &ResponseSpec> {
        std::iter::once(&self.response).chain(self.detail.iter().map(|detail| &detail.response))
    }

    /// The answers that records come in.
    pub fn record_response(&self) -> &ResponseSpec {
        self.detail.as_ref().map_or(&self.response, |detail| &detail.response)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Operation {
    Harvest,
    Backfill,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NamespaceScope {
    Global,
    Expr,
    Custom,
}

impl Operation {
    pub const fn code(self) -> &'static str {
        match self {
            Operation::Harvest => "HARVEST",
            Operation::Backfill => "BACKFILL",
            Operation::Update => "UPDATE",
        }
    }
}

impl NamespaceScope {
    pub const fn code(self) -> &'static str {
        match self {
            NamespaceScope::Global => "GLOBAL",
            NamespaceScope::Expr => "EXPR",
            NamespaceScope::Custom => "CUSTOM",
        }
    }
}

/// Transport manners of the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// Scheme, host, port and base path; every request and next URL stays on this origin.
    pub base_url: String,
    pub allow_http: bool,
    /// `host:port` exceptions to the refusal of loopback and private addresses.
    pub allow_hosts: Vec<String>,
    pub connect_timeout: Span,
    pub read_timeout: Span,
    pub total_timeout: Span,
    /// 0 = redirects are errors; else at most 3, GET and HEAD only, same origin.
    pub redirects: u8,
    pub proxy: Option<String>,
    pub user_agent: String,
    pub body_bytes_max: u64,
    /// Decompressed size over compressed size, looked at above 1 MiB.
    pub ratio_max: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum AuthSpec {
    None,
    ApiKey {
        credential: String,
        secret: String,
        place: Place,
        name: String,
        prefix: String,
    },
    Bearer {
        credential: String,
        secret: String,
    },
    Basic {
        credential: String,
        user: String,
        password: String,
    },
    /// Client credentials grant; `client_id` and `client_secret` are secret references.
    Oauth2 {
        credential: String,
        token_url: String,
        client_id: String,
        client_secret: String,
        scope: Option<String>,
        refresh_before: Span,
    },
    /// A named signing hook (`hmac_sha256` is shipped) with its key and where the signature goes.
    Custom {
        credential: String,
        hook: String,
        secret: String,
        place: Place,
        name: String,
        options: BTreeMap<String, String>,
    },
}

impl AuthSpec {
    /// Name of the credential in use, part of the rate key.
    pub fn credential(&self) -> Option<&str> {
        match self {
            AuthSpec::None => None,
            AuthSpec::ApiKey { credential, .. }
            | AuthSpec::Bearer { credential, .. }
            | AuthSpec::Basic { credential, .. }
            | AuthSpec::Oauth2 { credential, .. }
            | AuthSpec::Custom { credential, .. } => Some(credential),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Place {
    Header,
    Query,
    Body,
}

/// How one request is written. Values are templates; one that renders to null is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    pub method: Method,
    /// Relative to the base URL; rendered values are percent-encoded per part.
    pub path: String,
    /// In the order of the definition.
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Option<BodySpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Post,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum BodySpec {
    Form { fields: Vec<(String, String)> },
    Json { template: serde_json::Value },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaginationSpec {
    #[serde(rename = "type")]
    pub kind: PagingKind,
    pub size: u32,
    pub size_max: Option<u32>,
    pub max_page: Option<u64>,
    /// First page number of PAGE (0 or 1).
    pub base: u64,
    /// First token of TOKEN and URL paging, as the source wants it (`*`).
    pub initial: Option<String>,
    pub next_token: Option<String>,
    /// Path of the next URL, or `link_header` for `Link: <..>; rel="next"`.
    pub next_url: Option<String>,
    /// False: the same position asked twice gives another page (server-side cursor).
    pub replayable: bool,
    /// Life-time of a token; a pass older than this between two pages is started anew.
    pub ttl: Option<Span>,
    /// Any of these ends the pages.
    pub stop: Vec<StopRule>,
    /// Most results the source serves for one query, whatever the total says.
    pub result_cap: Option<u64>,
    /// Split the window when the first page's total exceeds this.
    pub max_per_slice: Option<u64>,
    /// OFFSET only: how many items of the previous page are asked for again.
    pub overlap: u32,
    /// PAGE only: read from the last page to the first, so that items that move left are met, not missed.
    pub backward: bool,
    pub tail_probe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PagingKind {
    Offset,
    Page,
    Token,
    Url,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// The `has_more` path says no.
    HasMore,
    /// No next token, or an empty one.
    NoToken,
    /// No next URL.
    NoUrl,
    /// The token sent comes back unchanged.
    EchoedToken,
    EmptyPage,
    /// A page with fewer items than asked for, where the count reconciles.
    ShortPage,
    /// As many items as the total says.
    CountReached,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpec {
    /// The source itself filters by the watermark key.
    pub updated_since: bool,
    /// Watermark key, the name of the time that windows cut (`indexed_at`).
    pub key: String,
    pub origin: Timestamp,
    pub boundary: Boundary,
    pub align: Align,
    pub min: Span,
    pub max: Span,
    /// Width of a slice of a new plan.
    pub slice: Span,
    pub safety_lag: Span,
    pub lookback: Span,
    pub out_of_range: OutOfRange,
    /// The source sorts by the watermark key, and is seen to do so on every page.
    pub ordered: Option<Order>,
    /// Drop records whose time lies outside the slice (boundary classes FROM_ONLY and NONE).
    pub client_filter: bool,
    /// The source can answer as of a fixed time: `${as_of}` is the plan's end.
    pub as_of: bool,
    /// How a window at its grain is cut further.
    pub second_key: Option<SecondKey>,
}

/// How the source understands the ends of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    pub kind: BoundaryKind,
    /// Smallest step the source can name; every edge is a multiple of it, in `zone`.
    pub grain: Span,
    /// IANA name of the zone the source writes its days and times in.
    pub zone: String,
    /// PREC_INCL: times in records are finer than the grain, so ask up to `to` and drop what is outside.
    pub fractional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BoundaryKind {
    DayIncl,
    PrecIncl,
    HalfOpen,
    FromOnly,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutOfRange {
    Clip,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Asc,
    Desc,
}

/// The cut below the grain of time. Bounds of the part reach the request as `${part.from}`, `${part.to}` (inclusive)
/// or `${part.bucket}`, `${part.buckets}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SecondKey {
    IdRange { from: u64, to: u64 },
    HashBucket { buckets: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseSpec {
    pub format: Format,
    /// XML namespaces by the prefix the paths use.
    pub namespaces: BTreeMap<String, String>,
    /// Every match of every path is one item. In a two-phase search an item is an id.
    pub items: Vec<String>,
    /// Parts of the record's id, joined with `:`; for each part the first path that gives a value counts.
    pub id: Vec<String>,
    pub updated_at: Option<String>,
    pub time: TimeForm,
    /// Declared version field, the second part of the merge order.
    pub version: Option<String>,
    /// A match marks the record as deleted by the source.
    pub deleted: Option<String>,
    pub total: Option<String>,
    /// Share of the total that may be missing where the source declares it approximate (0.005 = 0.5 %).
    pub total_tolerance: f64,
    pub has_more: Option<String>,
    /// Paths left out of the content hash.
    pub hash_exclude: Vec<String>,
    pub fields: Vec<FieldSpec>,
    /// The mapped field that names the record which stands in place of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
    /// The mapped field that names the records which this one is a notice about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Format {
    Json,
    Xml,
}

/// How times in records are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeForm {
    pub kind: TimeKind,
    /// Zone of times that carry none.
    pub zone: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// ISO-8601 instant, local time or day, also `20260131`.
    Iso,
    EpochSeconds,
    EpochMillis,
    /// Year, year-month or year-month-day: text, `[2026,1,31]`, or an element with Year, Month, Day.
    Partial,
}

/// One mapped field: `path` may end in pipes (`$.issued['date-parts'][0] | partial_date`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSpec {
    pub name: String,
    pub path: String,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailSpec {
    pub endpoint: String,
    pub request: RequestSpec,
    pub response: ResponseSpec,
    pub id_batch_size: u32,
    pub errors: Vec<ErrorRule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    pub first: Span,
    pub factor: f64,
    pub longest: Span,
    /// Share of the delay that is random (0.2).
    pub jitter: f64,
    pub attempts: u32,
    /// Extra statuses to retry beside 408, 429 and 5xx.
    pub statuses: Vec<u16>,
}

/// What the request templates may name beside window and page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExprSpec {
    /// The query in the source's own words; null when everything is wanted.
    pub q: Option<String>,
    /// Other selecting parameters (`--set key=value`).
    pub params: BTreeMap<String, String>,
    pub contact: Option<String>,
    /// What was asked in the query language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<QuerySpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blackbox {
    Full,
    Sample,
    Off,
}

/// When a page has more bad records than this, the format has changed and the slice fails (INV-18).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuarantineSpec {
    pub share_max: f64,
    pub records_max: u32,
}

impl QuarantineSpec {
    /// Fewer bad records than this never count as a changed format, whatever their share.
    const LEAST: usize = 5;

    /// So many bad records of a page are no accident of single records any more.
    pub fn is_exceeded(&self, bad: usize, all: usize) -> bool {
        let share = bad as f64 / all.max(1) as f64;
        bad > self.records_max as usize || (bad >= Self::LEAST && share > self.share_max)
    }
}
