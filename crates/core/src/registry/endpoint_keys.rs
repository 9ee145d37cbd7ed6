//! Keys of one endpoint: request, pages, window, answer, second phase, errors.

use super::grammar::{ANY, Block, Kind, flat, integer, key, paths, required, rows};
use super::source_keys::{HTTP, RATE, RETRY};

pub static ENDPOINT: Block = Block {
    name: "endpoint",
    doc: "One endpoint of the source.",
    keys: &[
        key(
            "role",
            "role_code",
            Kind::Code("endpoint_role"),
            "search enumerates, detail gives records for ids (search).",
        ),
        key("entity", "entity", Kind::Name, "Record identity shared with other endpoints (the endpoint's name)."),
        key(
            "auth",
            "auth_code",
            Kind::Code("auth_need"),
            "Whether a credential is required, optional or never used (optional).",
        ),
        key("credential", "credential_name", Kind::Name, "The credential to use instead of the first that fits."),
        key("priority", "priority", integer(1, 9), "1 is highest; by default 3 harvest, 5 update, 7 backfill."),
        key(
            "namespace",
            "namespace_scope_code",
            Kind::Code("ing_namespace_scope"),
            "Scope of the harvest watermark (expr); `global` endpoints share one, the least of theirs.",
        ),
        key(
            "blackbox",
            "blackbox_code",
            Kind::Code("blackbox"),
            "How much of every page is kept, instead of the source's.",
        ),
        key("timeout", "timeout", Kind::Span, "Longest request of this endpoint, instead of `http.total_timeout`."),
        required(rows("request", Kind::Block(&REQUEST), "How one request is written.")),
        rows("pagination", Kind::Block(&PAGINATION), "How pages follow each other."),
        rows("window", Kind::Block(&WINDOW), "How time is cut."),
        required(rows("response", Kind::Block(&RESPONSE), "Where things are in an answer.")),
        rows("detail", Kind::Block(&DETAIL), "Second phase: records are asked for by the ids found."),
        rows("update", Kind::Block(&UPDATE), "Refresh: records are asked for by known ids (by default as `detail`)."),
        rows("errors", Kind::List(&Kind::Block(&ERROR_RULE)), "First match wins, before the built-in taxonomy."),
        rows(
            "fields",
            Kind::Table(&Kind::Short(&FIELD, "path")),
            "Mapped fields by name; `a.b` and `a[]` make objects and lists.",
        ),
        rows("rate", Kind::Block(&RATE), "Limits of this endpoint."),
        rows("retry", Kind::Block(&RETRY), "How failed requests are repeated here."),
        rows("http", Kind::Block(&HTTP), "Transport manners of this endpoint."),
    ],
};

pub static REQUEST: Block = Block {
    name: "request",
    doc: "How one request is written. Values are templates; one that renders to null is left out.",
    keys: &[
        key("method", "http_method_code", Kind::Code("http_method"), "HTTP method (get)."),
        required(key("path", "path_template", Kind::Template, "Path after the base URL; values are percent-encoded.")),
        rows("query", Kind::Table(&Kind::Template), "Query parameters in order."),
        rows("headers", Kind::Table(&Kind::Template), "Headers."),
        flat("body", &BODY, "Body of a POST request."),
    ],
};

pub static BODY: Block = Block {
    name: "body",
    doc: "Body of a POST request: a form or JSON.",
    keys: &[
        rows("form", Kind::Table(&Kind::Template), "Fields of a form."),
        key("json", "body_json", Kind::Json, "JSON whose texts are templates."),
    ],
};

pub static PAGINATION: Block = Block {
    name: "pagination",
    doc: "How pages follow each other.",
    keys: &[
        key("type", "pagination_type_code", Kind::Code("pagination_type"), "What the next request carries."),
        key("size", "page_size", integer(1, 1_000_000), "Items asked for (70 % of size_max, else 100)."),
        key("size_max", "page_size_max", integer(1, 1_000_000), "Most items the source gives."),
        key(
            "max_page",
            "page_max",
            integer(1, ANY),
            "Most pages served for one query; windows that need more are cut.",
        ),
        key("base", "page_base", integer(0, 1), "Number of the first page (page)."),
        key("initial", "initial_token", Kind::Text, "First token as the source wants it, e.g. `*` (token, url)."),
        key("next", "next_path", Kind::Path, "Path of the next token or URL; `link_header` for `Link: rel=next`."),
        key("replayable", "is_replayable", Kind::Flag, "false: the same token asked twice gives another page (true)."),
        key("ttl", "token_ttl", Kind::Span, "Life-time of a token."),
        key("stop", "stop_codes", Kind::List(&Kind::Code("stop_rule")), "Any of these ends the pages."),
        key("result_cap", "result_cap", integer(1, ANY), "Most results served for one query, whatever the total says."),
        key(
            "max_per_slice",
            "slice_records_max",
            integer(1, ANY),
            "Cut the window above this total (90 % of result_cap).",
        ),
        key(
            "overlap",
            "overlap_items",
            integer(0, 1_000_000),
            "Items asked for again (offset; 5 % of a page, at least 1).",
        ),
        key("backward", "is_backward", Kind::Flag, "Read from the last page to the first (page)."),
        key(
            "tail_probe",
            "tail_probe",
            Kind::Flag,
            "Ask once more before the end is believed: past the count (offset, page), or the last page (token, url).",
        ),
    ],
};

pub static WINDOW: Block = Block {
    name: "window",
    doc: "How time is cut and how the source understands it.",
    keys: &[
        key("updated_since", "updated_since", Kind::Flag, "The source itself filters by the watermark key (false)."),
        key("key", "watermark_key", Kind::Name, "Name of the time that windows cut, e.g. `indexed_at`."),
        key("origin", "origin_at", Kind::Time, "Nothing is older than this."),
        flat("boundary", &BOUNDARY, "How the source understands the ends of a window."),
        key("align", "align_code", Kind::Code("align"), "Civil unit of slice edges (from the grain)."),
        key("min", "window_min", Kind::Span, "Narrowest slice (the grain)."),
        key("max", "window_max", Kind::Span, "Widest slice (the larger of `slice` and P1D)."),
        key("slice", "slice_width", Kind::Span, "Width of a slice of a new plan (P1D)."),
        key("safety_lag", "safety_lag", Kind::Span, "How long a window settles before it is read (PT10M)."),
        key("lookback", "lookback", Kind::Span, "How much later a record may still appear (PT1H, at least the grain)."),
        key(
            "out_of_range",
            "out_of_range_code",
            Kind::Code("out_of_range"),
            "What `--since` before `origin` or `--until` in the unsettled present do: clip or fail (clip).",
        ),
        key("ordered", "order_code", Kind::Code("sort_order"), "The source sorts by the watermark key."),
        key("client_filter", "client_filter", Kind::Flag, "Drop records whose time lies outside the slice."),
        key("as_of", "as_of", Kind::Flag, "The source can answer as of a fixed time."),
        flat("second_key", &SECOND_KEY, "How a window at its grain is cut further."),
    ],
};

pub static BOUNDARY: Block = Block {
    name: "boundary",
    doc: "How the source understands the ends of a window.",
    keys: &[
        key("kind", "boundary_kind_code", Kind::Code("boundary_kind"), "Class of the boundary (half_open)."),
        key("grain", "boundary_grain", Kind::Span, "Smallest step the source can name (P1D for day, else PT1S)."),
        key("zone", "boundary_zone", Kind::Zone, "Zone of its days and times (UTC)."),
        key("fractional", "boundary_fractional", Kind::Flag, "Times in records are finer than the grain."),
    ],
};

pub static SECOND_KEY: Block = Block {
    name: "second_key",
    doc: "How a window at its grain is cut further.",
    keys: &[
        key("type", "second_key_type_code", Kind::Code("second_key_type"), "Ranges of ids or buckets of a hash."),
        key("from", "second_key_from", integer(0, ANY), "Least id (id_range)."),
        key("to", "second_key_to", integer(0, ANY), "Greatest id (id_range)."),
        key("buckets", "second_key_buckets", integer(2, 65_536), "Number of buckets (128)."),
    ],
};

pub static RESPONSE: Block = Block {
    name: "response",
    doc: "Where things are in an answer.",
    keys: &[
        key("format", "format_code", Kind::Code("response_format"), "Format of the answer (json)."),
        key("namespaces", "xml_namespaces", Kind::Map, "XML namespaces by the prefix the paths use."),
        required(paths("items", Kind::List(&Kind::Path), "Every match is one item.")),
        required(paths("id", Kind::List(&Kind::Path), "Parts of the record's id, joined with `:`.")),
        paths("updated_at", Kind::Path, "Time of the watermark key; `none` where the source gives none."),
        flat("time", &TIME, "How times in records are written."),
        paths("version", Kind::Path, "Version of the record."),
        paths("deleted", Kind::Path, "A match marks the record as deleted."),
        paths("total", Kind::Path, "Number of results."),
        key(
            "total_tolerance",
            "total_tolerance",
            Kind::Share,
            "Share that may be missing where the total is approximate (0).",
        ),
        paths("has_more", Kind::Path, "Whether there are more pages."),
        paths("hash_exclude", Kind::List(&Kind::Path), "Noise left out of the content hash."),
        paths("merged_into", Kind::Text, "Mapped field that names the record which stands in place of this one."),
        paths(
            "signals",
            Kind::Text,
            "Mapped field that names the records which this one is a notice about; they are asked for again.",
        ),
        paths("shape", Kind::Code("record_shape"), "Shape that the names of `fields` are held against."),
        paths(
            "evidence",
            Kind::Code("evidence"),
            "What the paths were tried on: recorded answers, or a sample made by hand (unverified).",
        ),
    ],
};

pub static TIME: Block = Block {
    name: "time",
    doc: "How times in records are written.",
    keys: &[
        key("kind", "time_kind_code", Kind::Code("time_kind"), "Notation (iso)."),
        key("zone", "time_zone", Kind::Zone, "Zone of times that carry none (UTC)."),
    ],
};

pub static DETAIL: Block = Block {
    name: "detail",
    doc: "Records are asked for by id, in groups.",
    keys: &[
        required(key("endpoint", "detail_endpoint", Kind::Name, "The endpoint with role detail.")),
        required(key("id_batch_size", "id_batch_size", integer(1, 10_000), "Ids in one request.")),
    ],
};

pub static UPDATE: Block = Block {
    name: "update",
    doc: "Known records are asked for again by id, in groups.",
    keys: &[
        required(key("endpoint", "detail_endpoint", Kind::Name, "The endpoint with role detail.")),
        required(key("id_batch_size", "id_batch_size", integer(1, 10_000), "Ids in one request.")),
        key("fill_only", "is_fill_only", Kind::Flag, "Only fill in what stored records lack, never overwrite (false)."),
    ],
};

pub static ERROR_RULE: Block = Block {
    name: "error_rule",
    doc: "What a failed request means here.",
    keys: &[
        required(key("when", "when", Kind::Block(&ERROR_MATCH), "All conditions given must hold.")),
        required(key("then", "then", Kind::Code("error_action"), "What it means.")),
    ],
};

pub static ERROR_MATCH: Block = Block {
    name: "error_match",
    doc: "All conditions given must hold.",
    keys: &[
        key("status", "status", Kind::List(&integer(100, 599)), "Any of these statuses."),
        key("content_type", "content_type", Kind::Text, "Beginning of the media type."),
        key("header", "header", Kind::Text, "`Name` (present) or `Name: text` (contains)."),
        key("path", "path", Kind::Path, "A path that gives a value in the body."),
        key("body", "body", Kind::Pattern, "Regular expression over the body."),
    ],
};

pub static FIELD: Block = Block {
    name: "field",
    doc: "One mapped field.",
    keys: &[
        required(key("path", "path", Kind::Path, "Where the value is; may end in pipes.")),
        key("required", "is_required", Kind::Flag, "A record without it goes to quarantine."),
    ],
};
