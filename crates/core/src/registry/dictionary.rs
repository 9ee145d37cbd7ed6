//! The closed sets of codes: what may stand in a `*_code` column, and what people may write for it.
//!
//! The table seeds `sys_dict_type`, `sys_dict_item` and `sys_dict_item_alias`; the decoder resolves through the
//! same table, without regard to case, so a definition never holds a code that the database does not know.

use crate::ports::DictionaryRows;

/// (code, name, aliases)
type Item = (&'static str, &'static str, &'static [&'static str]);

pub struct Dictionary {
    pub code: &'static str,
    pub name: &'static str,
    pub items: &'static [Item],
}

impl Dictionary {
    /// The code that a written word stands for.
    pub fn resolve(&self, written: &str) -> Option<&'static str> {
        let same = |word: &str| word.eq_ignore_ascii_case(written);
        self.items.iter().find(|(code, _, aliases)| same(code) || aliases.iter().any(|alias| same(alias))).map(|i| i.0)
    }

    /// Codes as people write them, in lower case.
    pub fn words(&self) -> Vec<String> {
        self.items.iter().map(|(code, ..)| code.to_ascii_lowercase()).collect()
    }

    /// Everything that resolves.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> {
        self.items.iter().flat_map(|(code, _, aliases)| std::iter::once(*code).chain(aliases.iter().copied()))
    }
}

/// The dictionary of a type code.
pub fn dictionary(code: &str) -> Option<&'static Dictionary> {
    DICTIONARIES.iter().find(|dictionary| dictionary.code == code)
}

/// All dictionaries as rows.
pub fn dictionary_rows() -> DictionaryRows {
    let mut rows = DictionaryRows::default();
    for dictionary in DICTIONARIES {
        rows.types.push((dictionary.code.to_owned(), dictionary.name.to_owned()));
        for (order, (code, name, aliases)) in (1..).zip(dictionary.items) {
            rows.items.push((dictionary.code.to_owned(), (*code).to_owned(), (*name).to_owned(), order));
            for alias in *aliases {
                rows.aliases.push((dictionary.code.to_owned(), (*code).to_owned(), (*alias).to_owned()));
            }
        }
    }
    rows
}

const fn set(code: &'static str, name: &'static str, items: &'static [Item]) -> Dictionary {
    Dictionary { code, name, items }
}

#[rustfmt::skip]
pub static DICTIONARIES: &[Dictionary] = &[
    set("http_method", "HTTP method", &[("GET", "read", &["get"]), ("POST", "read with a body", &["post"])]),
    set("auth_type", "Kind of credential", &[
        ("NONE", "no credential", &["anonymous"]),
        ("API_KEY", "key in a header, parameter or body field", &["apikey", "key", "api-key"]),
        ("BEARER", "bearer token", &["token"]),
        ("BASIC", "user and password", &["basic_auth"]),
        ("OAUTH2", "client credentials grant", &["oauth", "client_credentials"]),
        ("CUSTOM", "signing hook", &["signed", "signature"]),
    ]),
    set("auth_need", "What an endpoint wants of a credential", &[
        ("REQUIRED", "never asked without one", &["always"]),
        ("OPTIONAL", "used when there is one", &["if_present"]),
        ("NONE", "never used", &["never", "anonymous"]),
    ]),
    set("placement", "Part of a request", &[
        ("HEADER", "header", &["headers"]), ("QUERY", "query parameter", &["param", "parameter"]), ("BODY", "field of the body", &["form"]),
    ]),
    set("signing_hook", "Signing hook", &[("HMAC_SHA256", "HMAC with SHA-256", &["hmac-sha256", "hmac"])]),
    set("endpoint_role", "Use of an endpoint", &[
        ("SEARCH", "enumerates records or ids", &["list", "enumerate"]),
        ("DETAIL", "gives records for ids", &["fetch", "lookup"]),
        ("METRICS", "gives figures about records", &["stats"]),
    ]),
    set("batch_purpose", "What ids are asked for", &[
        ("DETAIL", "second phase of a search", &[]), ("UPDATE", "refresh of known records", &["refresh"]),
    ]),
    set("pagination_type", "How pages follow each other", &[
        ("OFFSET", "number of items to skip", &["skip", "start"]),
        ("PAGE", "page number", &["page_number"]),
        ("TOKEN", "token of the last answer", &["cursor", "resumption_token"]),
        ("URL", "URL given by the last answer", &["next_url", "link"]),
        ("TIME", "time of the last item", &["since"]),
    ]),
    set("stop_rule", "What ends the pages", &[
        ("HAS_MORE", "the answer says so", &[]),
        ("NO_TOKEN", "no next token", &[]),
        ("NO_URL", "no next URL", &[]),
        ("ECHOED_TOKEN", "the token comes back unchanged", &["same_token"]),
        ("EMPTY_PAGE", "no items", &["empty"]),
        ("SHORT_PAGE", "fewer items than asked for", &["short"]),
        ("COUNT_REACHED", "as many items as the total", &["total_reached"]),
    ]),
    set("boundary_kind", "How the ends of a window are understood", &[
        ("DAY_INCL", "days, both ends inclusive", &["day", "day_inclusive"]),
        ("PREC_INCL", "inclusive at the written precision", &["inclusive", "precision_inclusive"]),
        ("HALF_OPEN", "end exclusive", &["exclusive"]),
        ("FROM_ONLY", "lower bound only", &["since"]),
        ("NONE", "no bound", &["no_bound"]),
    ]),
    set("align", "Civil unit of window edges", &[("MINUTE", "minute", &["min"]), ("HOUR", "hour", &[]), ("DAY", "day", &[])]),
    set("out_of_range", "Window beyond what the source has", &[("CLIP", "cut to the range", &[]), ("FAIL", "refuse", &["refuse"])]),
    set("sort_order", "Order of items", &[("ASC", "oldest first", &["ascending"]), ("DESC", "newest first", &["descending"])]),
    set("second_key_type", "Cut below the grain of time", &[
        ("ID_RANGE", "ranges of numeric ids", &["id"]), ("HASH_BUCKET", "buckets of a hash", &["bucket", "hash"]),
    ]),
    set("response_format", "Format of an answer", &[("JSON", "JSON", &[]), ("XML", "XML", &[])]),
    set("time_kind", "How times are written in records", &[
        ("ISO", "ISO-8601", &["iso8601", "iso-8601"]),
        ("EPOCH_SECONDS", "seconds since 1970", &["epoch", "unix"]),
        ("EPOCH_MILLIS", "milliseconds since 1970", &["epoch_ms"]),
        ("PARTIAL", "year, month or day", &["partial_date"]),
    ]),
    set("record_shape", "Shape of mapped records", &[("BIBLIOGRAPHIC", "one shape for works of all sources", &[])]),
    set("evidence", "What a definition was tried on", &[
        ("RECORDED", "recorded answers of the service", &[]), ("SAMPLE", "a sample made by hand", &["unverified"]),
    ]),
    set("field_kind", "Use of a field", &[
        ("QUERY_FIELD", "can be searched for", &[]), ("RESPONSE_PATH", "part of an answer", &[]), ("RECORD_FIELD", "mapped field of a record", &[]),
    ]),
    set("error_action", "Meaning of a matched error", &[
        ("RETRY", "ask again", &["transient"]), ("EMPTY", "zero hits", &["no_hits"]), ("PERMANENT", "the slice fails", &["fail", "denied"]),
        ("QUOTA", "park the source", &[]), ("AUTH", "a person must act", &["unauthorised", "unauthorized"]),
        ("CURSOR_EXPIRED", "start a new pass", &["token_expired"]), ("SPLIT", "cut the window", &[]), ("SKIP", "leave the page out", &[]),
    ]),
    set("rate_key_part", "What shares one limit", &[
        ("SOURCE", "the whole source", &["provenance"]), ("ENDPOINT", "one endpoint", &[]), ("CREDENTIAL", "one credential", &["key"]),
    ]),
    set("blackbox", "How much of a page is kept", &[("FULL", "whole body", &["all"]), ("SAMPLE", "first 1 KB", &[]), ("OFF", "nothing", &["none"])]),
    set("query_operator", "What a query field supports", &[
        ("AND", "both", &[]), ("OR", "either", &[]), ("NOT", "exclusion", &[]), ("PHRASE", "words in order", &[]),
        ("RANGE", "interval", &[]), ("PREFIX", "beginning of a word", &["wildcard"]), ("EXACT", "whole value", &["equals"]),
        ("WIDER", "finds more than asked", &["loose"]),
    ]),
    set("query_style", "How conditions are sent", &[("TEXT", "one text", &["boolean"]), ("PARAMS", "parameters", &["filters"])]),
    set("channel", "Release channel", &[("STABLE", "for everyone", &["default"]), ("CANARY", "tried first", &["beta"])]),
    set("ing_operation", "Operation", &[
        ("HARVEST", "increments", &["incremental"]), ("BACKFILL", "history", &[]), ("UPDATE", "refresh of known records", &["refresh"]),
        ("METRICS", "figures about records", &[]),
    ]),
    set("ing_scheduler", "Who triggered", &[
        ("CRON", "own schedule", &["schedule"]), ("CLI", "command line", &["manual"]), ("API", "HTTP API", &[]), ("SYSTEM", "the program itself", &["internal"]),
    ]),
    set("ing_trigger_type", "Kind of trigger", &[
        ("SCHEDULE", "by time", &["timer"]), ("MANUAL", "by a person", &[]), ("EVENT", "by a signal", &["signal"]), ("RETRY", "failed windows again", &[]),
    ]),
    set("ing_slice_strategy", "How a plan is cut", &[
        ("TIME", "by time", &["window"]), ("PAGE", "by pages", &[]), ("ID", "by ids", &["id_range"]), ("CURSOR", "by token", &["token"]), ("BUDGET", "by budget", &[]),
    ]),
    set("ing_cursor_type", "Kind of cursor", &[("TIME", "instant", &[]), ("ID", "number", &[]), ("TOKEN", "token", &[])]),
    set("ing_cursor_direction", "Direction of a cursor", &[("FORWARD", "new records", &[]), ("BACKFILL", "old records", &["backward"])]),
    set("ing_namespace_scope", "Scope of a watermark", &[
        ("GLOBAL", "shared by endpoints", &[]), ("EXPR", "per expression", &["expression"]), ("CUSTOM", "per campaign", &["campaign"]),
    ]),
    set("ing_plan_status", "State of a plan", &[
        ("DRAFT", "being made", &[]), ("SLICING", "being cut", &[]), ("READY", "all tasks exist", &[]), ("PARTIAL", "some slices have no task yet", &[]),
        ("FAILED", "could not be made", &[]), ("COMPLETED", "every slice ended", &["done"]),
    ]),
    set("ing_slice_status", "State of a slice", &[
        ("PENDING", "no task yet", &[]), ("DISPATCHED", "task queued", &[]), ("EXECUTING", "task running", &[]), ("SUCCEEDED", "covered", &[]),
        ("PARTIAL", "read in part", &[]), ("FAILED", "not read", &[]), ("CANCELLED", "given up", &["canceled"]), ("SPLIT", "replaced by its children", &[]),
    ]),
    set("ing_task_status", "State of a task", &[
        ("QUEUED", "waits", &[]), ("RUNNING", "leased", &[]), ("SUCCEEDED", "done", &[]), ("PARTIAL", "ended in part", &[]),
        ("FAILED", "gave up", &[]), ("CANCELLED", "called off", &["canceled"]),
    ]),
    set("ing_task_run_status", "State of a run", &[
        ("PLANNED", "not begun", &[]), ("RUNNING", "at work", &[]), ("SUCCEEDED", "done", &[]), ("PARTIAL", "released or lost", &[]),
        ("FAILED", "ended by an error", &[]), ("CANCELLED", "called off", &["canceled"]),
    ]),
    set("ing_batch_status", "State of a batch", &[
        ("RUNNING", "at work", &[]), ("SUCCEEDED", "committed", &[]), ("FAILED", "ended by an error", &[]), ("SKIPPED", "left out by a rule", &[]),
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_aliases_resolve_without_regard_to_case() {
        for (kind, written, want) in [
            ("http_method", "get", Some("GET")),
            ("pagination_type", "Cursor", Some("TOKEN")),
            ("pagination_type", "next_url", Some("URL")),
            ("auth_type", "apikey", Some("API_KEY")),
            ("boundary_kind", "inclusive", Some("PREC_INCL")),
            ("ing_namespace_scope", "tenant", None),
        ] {
            assert_eq!(dictionary(kind).unwrap().resolve(written), want, "{kind}/{written}");
        }
    }

    #[test]
    fn a_spelling_means_one_thing_in_its_dictionary() {
        for dictionary in DICTIONARIES {
            for (code, _, aliases) in dictionary.items {
                for spelling in std::iter::once(code).chain(aliases.iter()) {
                    assert_eq!(dictionary.resolve(spelling), Some(*code), "{}/{spelling}", dictionary.code);
                }
            }
        }
    }

    #[test]
    fn every_dictionary_type_of_the_specification_is_seeded() {
        for code in [
            "ing_scheduler",
            "ing_trigger_type",
            "ing_operation",
            "ing_slice_strategy",
            "ing_task_status",
            "ing_task_run_status",
            "ing_batch_status",
            "ing_namespace_scope",
            "ing_cursor_type",
            "ing_cursor_direction",
            "ing_plan_status",
            "ing_slice_status",
            "http_method",
        ] {
            assert!(dictionary_rows().types.iter().any(|(kind, _)| kind == code), "{code}");
        }
    }
}
