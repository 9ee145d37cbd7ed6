//! Keys of the whole source: identity, credentials, transport, manners, defaults, query fields.

use super::endpoint_keys::{ENDPOINT, ERROR_RULE, PAGINATION, WINDOW};
use super::grammar::{ANY, Block, Kind, flat, integer, key, required, rows};

pub static SOURCE: Block = Block {
    name: "source",
    doc: "One provider of records and how it is asked.",
    keys: &[
        required(rows("source", Kind::Name, "Code of the source; part of every key in the ledger, never changed.")),
        required(key("name", "provenance_name", Kind::Text, "Name as people know it.")),
        key("description", "description", Kind::Text, "What the source holds, and its terms of use."),
        required(rows("base_url", Kind::Url, "Scheme, host and base path; no request leaves this origin.")),
        flat("identity", &IDENTITY, "How we introduce ourselves."),
        key(
            "settings",
            "settings",
            Kind::Map,
            "Values a deployment may set, with their defaults; `${settings.NAME}` in `identity`.",
        ),
        rows(
            "credentials",
            Kind::Table(&Kind::Block(&CREDENTIAL)),
            "Credentials by name; the first that fits is used.",
        ),
        rows("http", Kind::Block(&HTTP), "Transport manners."),
        rows("rate", Kind::Block(&RATE), "Limits of the source."),
        rows("retry", Kind::Block(&RETRY), "How failed requests are repeated."),
        key("blackbox", "blackbox_code", Kind::Code("blackbox"), "How much of every page is kept as evidence."),
        flat("quarantine", &QUARANTINE, "When bad records mean that the format has changed."),
        rows("defaults", Kind::Block(&DEFAULTS), "What every endpoint starts from."),
        required(rows("endpoints", Kind::Table(&Kind::Block(&ENDPOINT)), "Endpoints by name.")),
        rows("query_syntax", Kind::Block(&QUERY_SYNTAX), "How a query is put together in the source's own syntax."),
        rows(
            "queries",
            Kind::Table(&Kind::Block(&QUERY)),
            "Fields of the query language and how they are written here.",
        ),
    ],
};

pub static IDENTITY: Block = Block {
    name: "identity",
    doc: "How we introduce ourselves.",
    keys: &[
        key("contact", "contact", Kind::Text, "Mail address for the operator of the source, or `${settings.NAME}`."),
        key("contact_required", "contact_required", Kind::Flag, "The source refuses requests without a contact."),
        key("user_agent", "user_agent", Kind::Text, "Replaces `PatraIngest/x.y (mailto:contact)`."),
    ],
};

pub static CREDENTIAL: Block = Block {
    name: "credential",
    doc: "One way to identify to the source. It names secrets, it never holds them.",
    keys: &[
        required(key("type", "auth_type_code", Kind::Code("auth_type"), "Kind of credential.")),
        key("in", "placement_code", Kind::Code("placement"), "Where the key or signature goes."),
        key("name", "param_name", Kind::Text, "Name of the header, parameter or field."),
        key("prefix", "secret_prefix", Kind::Text, "Written before the secret, e.g. `Bearer `."),
        key("secret", "secret_ref", Kind::Secret, "Reference of the key, token or signing key."),
        key("user", "user_ref", Kind::Secret, "Reference of the user name (basic)."),
        key("password", "password_ref", Kind::Secret, "Reference of the password (basic)."),
        key("token_url", "token_url", Kind::Url, "Where tokens are issued (oauth2)."),
        key("client_id", "client_id_ref", Kind::Secret, "Reference of the client id (oauth2)."),
        key("client_secret", "client_secret_ref", Kind::Secret, "Reference of the client secret (oauth2)."),
        key("scope", "oauth_scope", Kind::Text, "Scope to ask for (oauth2)."),
        key("refresh_before", "refresh_before", Kind::Span, "How long before its end a token is renewed (oauth2)."),
        key("hook", "signing_hook_code", Kind::Code("signing_hook"), "Signing hook (custom)."),
        key("options", "hook_options", Kind::Map, "Options of the signing hook."),
        key("optional", "is_optional", Kind::Flag, "Ask anonymously when the secret is absent."),
        key(
            "pool",
            "is_pooled",
            Kind::Flag,
            "Used with the others that say so: each request takes the one with the most left.",
        ),
        rows("rate", Kind::Block(&RATE), "Limits that hold with this credential instead of the source's."),
    ],
};

pub static HTTP: Block = Block {
    name: "http",
    doc: "Transport manners.",
    keys: &[
        key("allow_http", "allow_http", Kind::Flag, "Allow requests without encryption."),
        key(
            "allow_hosts",
            "allow_hosts",
            Kind::List(&Kind::Text),
            "`host:port` exceptions to the refusal of private addresses.",
        ),
        key("connect_timeout", "connect_timeout", Kind::Span, "Longest wait for a connection (PT10S)."),
        key("read_timeout", "read_timeout", Kind::Span, "Longest silence while reading (PT30S)."),
        key("total_timeout", "total_timeout", Kind::Span, "Longest request, at most PT2M (PT2M)."),
        key("redirects", "redirects_max", integer(0, 3), "Redirects followed, same origin, GET and HEAD only (0)."),
        key("proxy", "proxy_url", Kind::Url, "Proxy of this source."),
        key("body_bytes_max", "body_bytes_max", integer(1, ANY), "Largest decompressed body (67108864)."),
        key("ratio_max", "ratio_max", integer(1, 100_000), "Largest ratio of decompressed to compressed size (200)."),
    ],
};

pub static RATE: Block = Block {
    name: "rate",
    doc: "Limits of the source; all windows hold at once and the burst lies inside them.",
    keys: &[
        key("per_second", "requests_per_second", integer(1, 10_000), "Requests in any second."),
        key("per_minute", "requests_per_minute", integer(1, 600_000), "Requests in any minute."),
        key("per_hour", "requests_per_hour", integer(1, ANY), "Requests in any hour."),
        key("per_day", "requests_per_day", integer(1, ANY), "Requests in any day."),
        key("windows", "rate_windows", Kind::List(&Kind::Block(&RATE_WINDOW)), "Other windows, e.g. 500 in PT5M."),
        key("burst", "burst", integer(1, 10_000), "Requests that may start at once (1)."),
        key("concurrency", "concurrency", integer(1, 1_000), "Requests under way at once, in the whole fleet (1)."),
        key(
            "key",
            "key_parts",
            Kind::List(&Kind::Code("rate_key_part")),
            "What shares the limit ([source, credential]).",
        ),
        key("respect_headers", "respect_headers", Kind::Flag, "Follow the source's limit headers (true)."),
        key("cost", "permit_cost", integer(1, 1_000), "Permits one request takes (1)."),
        key(
            "shared",
            "shared_name",
            Kind::Name,
            "Name of a limit that several sources or endpoints share; goes before `key`.",
        ),
        flat("quota", &QUOTA, "Budgets of a day or an hour, for the whole fleet."),
        flat("adapt", &ADAPT, "How the limit is approached, and left when the source says that it is too much."),
    ],
};

pub static QUOTA: Block = Block {
    name: "quota",
    doc: "What the source grants in a day or an hour. An empty budget parks the source until its reset.",
    keys: &[
        key("per_hour", "quota_per_hour", integer(1, ANY), "Permits in an hour of the clock."),
        key("per_day", "quota_per_day", integer(1, ANY), "Permits in a day, from one reset to the next."),
        key("reserve", "quota_reserve", Kind::Share, "Never spent (10%)."),
        key("soft", "quota_soft", Kind::Share, "Of the rest, what BACKFILL leaves to UPDATE and HARVEST (20%)."),
        key("reset", "quota_reset", Kind::Text, "When a day begins, as `HH:MM` (00:00)."),
        key("zone", "quota_zone", Kind::Zone, "Zone of the reset (UTC)."),
    ],
};

pub static ADAPT: Block = Block {
    name: "adapt",
    doc: "A refusal divides the pace. It comes back to just below what was answered before, stays there, then tries more.",
    keys: &[
        key(
            "step",
            "adapt_step",
            Kind::Share,
            "First step of the way back, of the whole rate; each is twice the last (1%).",
        ),
        key("cool_down", "adapt_cool_down", Kind::Span, "Time between two steps (PT1S)."),
        key("hold", "adapt_hold", integer(0, 100_000), "Cool-downs without a refusal before more is tried (12)."),
        key("demote", "adapt_demote", Kind::Factor, "What a refusal divides the pace by (2)."),
        key("slowest", "adapt_slowest", Kind::Span, "Longest time between two requests while it refuses (PT10S)."),
        key("warm_up", "adapt_warm_up", Kind::Span, "How long a fresh gate takes to reach the whole rate (PT0S)."),
        key(
            "backfill_share",
            "backfill_share",
            Kind::Share,
            "Of the rate, for BACKFILL while HARVEST or UPDATE waits (30%).",
        ),
    ],
};

pub static RATE_WINDOW: Block = Block {
    name: "rate_window",
    doc: "So many requests in so much time.",
    keys: &[
        required(key("requests", "requests", integer(1, ANY), "Requests in the window.")),
        required(key("per", "per", Kind::Span, "Length of the window.")),
    ],
};

pub static RETRY: Block = Block {
    name: "retry",
    doc: "How failed requests are repeated.",
    keys: &[
        key("first", "backoff_first", Kind::Span, "First delay (PT0.1S)."),
        key("factor", "backoff_factor", Kind::Factor, "Each delay over the one before (2)."),
        key("longest", "backoff_longest", Kind::Span, "Longest delay (PT30S)."),
        key("jitter", "jitter_share", Kind::Share, "Share of the delay that is random (20%)."),
        key("attempts", "attempts_max", integer(1, 20), "Requests for one page before the run fails (5)."),
        key(
            "statuses",
            "retry_statuses",
            Kind::List(&integer(400, 599)),
            "Extra statuses to retry beside 408, 429 and 5xx.",
        ),
    ],
};

pub static QUARANTINE: Block = Block {
    name: "quarantine",
    doc: "When bad records mean that the format has changed.",
    keys: &[
        key("share_max", "quarantine_share_max", Kind::Share, "Largest share of bad records on a page (20%)."),
        key("records_max", "quarantine_records_max", integer(1, ANY), "Largest number of bad records on a page (100)."),
    ],
};

pub static DEFAULTS: Block = Block {
    name: "defaults",
    doc: "What every endpoint starts from.",
    keys: &[
        rows("request", Kind::Block(&DEFAULT_REQUEST), "Parameters and headers of every request."),
        rows("pagination", Kind::Block(&PAGINATION), "How pages follow each other."),
        rows("window", Kind::Block(&WINDOW), "How time is cut."),
        rows("errors", Kind::List(&Kind::Block(&ERROR_RULE)), "Error rules looked at after the endpoint's own."),
    ],
};

pub static DEFAULT_REQUEST: Block = Block {
    name: "default_request",
    doc: "Parameters and headers of every request.",
    keys: &[
        rows("query", Kind::Table(&Kind::Template), "Query parameters; an endpoint's parameter of the same name wins."),
        rows("headers", Kind::Table(&Kind::Template), "Headers; an endpoint's header of the same name wins."),
    ],
};

pub static QUERY: Block = Block {
    name: "query_field",
    doc: "How one field of the neutral query language is written in the source's own syntax.",
    keys: &[
        key("param", "param_name", Kind::Text, "Parameter that takes the condition (style params)."),
        key(
            "template",
            "render_template",
            Kind::Text,
            "How a term is written, e.g. `{value}[tiab]`; days as `{from}`, `{last}` (included), `{to}` (not included), with a form as in `{from:%Y/%m/%d}` ({value}).",
        ),
        key(
            "operators",
            "operator_codes",
            Kind::List(&Kind::Code("query_operator")),
            "What the field supports: and (in several conditions), or, not, phrase, exact, prefix, range; wider: finds more than asked, so records are filtered by us.",
        ),
        key("unsupported", "is_unsupported", Kind::Flag, "The source cannot search this field."),
        key("note", "note", Kind::Text, "Shown in the report on what a source cannot express."),
    ],
};

pub static QUERY_SYNTAX: Block = Block {
    name: "query_syntax",
    doc: "How a query is put together in the source's own syntax. `{value}` is replaced.",
    keys: &[
        key(
            "style",
            "style",
            Kind::Code("query_style"),
            "text: one text, `expr.q`; params: conditions as parameters (text).",
        ),
        key("word", "word", Kind::Text, "One word ({value})."),
        key("phrase", "phrase", Kind::Text, "Several words, identifiers and whatever needs quotes (\"{value}\")."),
        key("name", "name", Kind::Text, "A name of several words (as phrase)."),
        key(
            "prefix",
            "prefix",
            Kind::Text,
            "The beginning of a word, e.g. `{value}*`; without it there is no such search.",
        ),
        key("prefix_min", "prefix_min", integer(1, 20), "Fewest letters of a beginning that the source takes (1)."),
        key("and", "and", Kind::Text, "Between conditions (` AND `; params: `,`)."),
        key("or", "or", Kind::Text, "Between alternatives (` OR `; params: none, each value repeats the template)."),
        key("not", "not", Kind::Text, "Before what is excluded (` NOT `; params: none, before the value)."),
        key("all", "all", Kind::Text, "A condition that every record meets, for queries that only exclude."),
        key(
            "forbids",
            "forbids",
            Kind::Text,
            "Signs that identifiers and codes cannot hold here (`\"\\`; params: also `,|`).",
        ),
        key("types", "types", Kind::Map, "The source's words for types: article, review, trial, preprint, ..."),
        key("languages", "languages", Kind::Map, "The source's words for languages, by their two letters."),
        key(
            "known_only",
            "known_only",
            Kind::List(&Kind::Name),
            "Fields (type, language) of which the source knows only the words given here: others are refused.",
        ),
        key(
            "refused",
            "refused",
            Kind::List(&Kind::Name),
            "Fields that are neither searched here nor left to us: a query that needs them is refused.",
        ),
    ],
};
