//! The rows: one for each situation.

use patra_core::time::Span;

use super::bench::{Act, Row};
use super::definitions::{self as d, Definition as D};
use super::expect::Expect::{
    Again, Asked, AskedOnce, Complete, Failed, Held, Missing, NewPass, NothingFailed, OnePass, RequestsAbovePages,
    SamePage, SameRequest, Split,
};

/// Several pages in a slice.
const PAGES_OF_20: &[(&str, &str)] = &[("pagination.size", "20"), ("window.slice", "PT12H")];
const SMALL_DETAILS: &[(&str, &str)] = &[("detail.id_batch_size", "10")];

pub const ROWS: &[Row] = &[
    Row { set: PAGES_OF_20, ..Row::new("CR-1", &[NewPass("cursor"), NothingFailed, Complete]) },
    Row { set: PAGES_OF_20, ..Row::new("CR-2", &[OnePass, Complete]) },
    Row { set: PAGES_OF_20, ..Row::new("CR-3", &[OnePass, NothingFailed, Complete]) },
    Row {
        set: PAGES_OF_20,
        live: Span::DAY,
        act: Act::Silenced,
        ..Row::new("CR-4", &[NewPass("distinct ids"), NothingFailed, Complete])
    },
    Row { set: &[("window.slice", "PT12H")], ..Row::new("CR-5", &[Again, Asked("rows=62"), NothingFailed, Complete]) },
    Row { set: PAGES_OF_20, ..Row::new("CR-6", &[SameRequest, Complete]) },
    Row { set: PAGES_OF_20, ..Row::new("CR-7", &[OnePass, Complete]) },
    Row {
        records: 600,
        set: &[("window.slice", "P1D"), ("pagination.max_per_slice", "100")],
        ..Row::new("CR-8", &[Split("results"), NothingFailed, Complete])
    },
    Row { set: PAGES_OF_20, ..Row::new("CR-9", &[Again, NothingFailed, Complete]) },
    Row::new("PM-1", &[SameRequest, Complete]),
    Row {
        records: 900,
        set: &[("window.slice", "P7D"), ("pagination.result_cap", "300"), ("pagination.max_per_slice", "300")],
        // Days enough for the first plan: later ones know better than to ask for too many.
        act: Act::OverMidnight,
        ..Row::new("PM-2", &[Split("results"), NothingFailed, Complete])
    },
    Row::new("PM-3", &[SameRequest, Complete]),
    Row { set: SMALL_DETAILS, ..Row::new("PM-4a", &[SameRequest, Complete]) },
    Row {
        set: SMALL_DETAILS,
        definition: D::Changed(&[d::PUBMED_BROKEN]),
        ..Row::new("PM-4b", &[Failed("REQUEST_ERRORS", "ID list is empty"), Held])
    },
    Row { records: 900, ..Row::new("PM-5", &[Missing, NothingFailed, Complete]) },
    Row { set: SMALL_DETAILS, ..Row::new("PM-6", &[SameRequest, Complete]) },
    Row {
        definition: D::Changed(&[d::PUBMED_HISTORY]),
        ..Row::new("PM-7", &[NewPass("expired"), NothingFailed, Complete])
    },
    Row {
        records: 900,
        cap: Some(300),
        ..Row::new("PM-8", &[Split("results"), Asked("%5Buid%5D"), NothingFailed, Complete])
    },
    Row {
        live: Span::DAY.times(2),
        adjust: Some(|truth| {
            truth.lookback_us = Span::HOUR.times(40).micros();
            truth.late_share = 0.5;
            truth.live_share = 0.4;
        }),
        act: Act::Silenced,
        ..Row::new("PM-9", &[NothingFailed, Complete])
    },
    Row { definition: D::Changed(&[d::PUBMED_PUBLISHED]), ..Row::new("PM-10", &[NothingFailed, Complete]) },
    Row { records: 100, beside: &["PO-4"], ..Row::new("PO-1", &[NewPass("expired"), NothingFailed, Complete]) },
    Row { records: 20, set: &[("window.slice", "PT1H")], ..Row::new("PO-2", &[OnePass, NothingFailed, Complete]) },
    Row { set: &[("params.path", "oai2")], ..Row::new("PO-3", &[OnePass, NothingFailed, Complete]) },
    Row {
        set: &[("window.slice", "P31D"), ("window.lookback", "PT2H")],
        act: Act::Crash,
        ..Row::new("PO-4", &[RequestsAbovePages(6), OnePass, NothingFailed, Complete])
    },
    Row { definition: D::Changed(&[d::PMC_TWO_PHASE]), ..Row::new("PO-5", &[Missing, NothingFailed, Complete]) },
    Row { beside: &["PO-4"], ..Row::new("PO-9", &[SamePage, NothingFailed, Complete]) },
    Row { beside: &["PO-4"], ..Row::new("PO-10a", &[SameRequest, Complete]) },
    Row { beside: &["PO-4"], ..Row::new("PO-10b", &[Failed("LOOP", "already read"), Held]) },
    Row {
        records: 800,
        definition: D::Changed(&[d::ARXIV]),
        act: Act::BeforeMidnight,
        ..Row::new("AO-1a", &[NewPass("expired"), NothingFailed, Complete])
    },
    Row {
        records: 800,
        definition: D::Changed(&[d::ARXIV]),
        act: Act::BeforeMidnight,
        ..Row::new("AO-1b", &[OnePass, NothingFailed, Complete])
    },
    Row {
        records: 800,
        live: Span::DAY,
        definition: D::Changed(&[d::ARXIV]),
        act: Act::Silenced,
        ..Row::new("AO-2", &[NothingFailed, Complete])
    },
    Row {
        records: 500,
        definition: D::Changed(&[d::ARXIV, d::ARXIV_SETS]),
        ..Row::new("AO-3", &[Split("pages"), Asked("set=cs"), NothingFailed, Complete])
    },
    Row { definition: D::Changed(&[d::ARXIV]), act: Act::OverMidnight, ..Row::new("AO-5", &[Again, Complete]) },
    Row {
        definition: D::Changed(&[d::ARXIV, d::ARXIV_FUTURE]),
        ..Row::new("AO-6", &[Failed("DENIED", "badArgument"), AskedOnce, Held])
    },
    Row {
        records: 800,
        definition: D::Changed(&[d::ARXIV, d::ARXIV_EXTRA]),
        ..Row::new("AO-7", &[Failed("DENIED", "badArgument"), AskedOnce, Held])
    },
    Row {
        definition: D::Changed(&[d::ARXIV]),
        set: &[("params.path", "oai2")],
        ..Row::new("AO-8", &[OnePass, NothingFailed, Complete])
    },
    Row {
        records: 500,
        beside: &["AO-3"],
        definition: D::Changed(&[d::ARXIV, d::ARXIV_SETS]),
        ..Row::new("AO-10", &[Split("pages"), NothingFailed, Complete])
    },
    Row {
        records: 500,
        set: &[("window.slice", "P1D")],
        definition: D::Changed(&[d::DOAJ_UNCAPPED]),
        ..Row::new("DJ-1", &[Split("beyond"), NothingFailed, Complete])
    },
    Row {
        definition: D::Changed(&[d::DOAJ_OPEN]),
        ..Row::new("DJ-2", &[Failed("DENIED", "disallowed Lucene"), AskedOnce, Held])
    },
    Row {
        records: 500,
        set: &[("window.slice", "P1D")],
        definition: D::Changed(&[d::DOAJ_LINKS]),
        ..Row::new("DJ-3", &[Split("beyond"), NothingFailed, Complete])
    },
    Row {
        definition: D::Changed(&[d::DOAJ_OAI]),
        act: Act::Month { silenced: false },
        ..Row::new("DJ-4", &[NothingFailed, Complete])
    },
    Row {
        live: Span::DAY,
        definition: D::Changed(&[d::DOAJ_OAI]),
        act: Act::Month { silenced: true },
        ..Row::new("DJ-5", &[NothingFailed, Complete])
    },
    Row {
        records: 450,
        definition: D::Changed(&[d::DOAJ_OAI]),
        act: Act::Month { silenced: false },
        ..Row::new("DJ-6", &[NothingFailed, Complete])
    },
    Row {
        definition: D::Changed(&[d::DOAJ_BROKEN]),
        ..Row::new("DJ-10a", &[Failed("DENIED", "Unable to parse"), AskedOnce, Held])
    },
    Row::new("DJ-10b", &[SameRequest, Complete]),
    Row {
        definition: D::Changed(&[d::DATACITE_PAGES]),
        ..Row::new("DC-1", &[Failed("LOOP", "same page twice"), Held])
    },
    Row { set: &[("pagination.size", "20")], ..Row::new("DC-2", &[Failed("LOOP", "same page twice"), Held]) },
    Row {
        set: &[("pagination.size", "20")],
        live: Span::DAY,
        act: Act::Silenced,
        ..Row::new("DC-3", &[NothingFailed, Complete])
    },
    Row::new("DC-4", &[SameRequest, Complete]),
    Row {
        definition: D::Changed(&[d::DATACITE_BROKEN]),
        ..Row::new("DC-5", &[Failed("DENIED", "Failed to parse"), AskedOnce, Held])
    },
    Row { set: &[("pagination.size", "2")], ..Row::new("DC-6", &[OnePass, NothingFailed, Complete]) },
    Row { set: &[("pagination.size", "20")], ..Row::new("DC-7", &[SameRequest, Complete]) },
    Row { definition: D::Changed(&[d::DATACITE_TWO_PHASE]), ..Row::new("DC-8", &[Missing, NothingFailed, Complete]) },
    Row { records: 40, ..Row::new("FD-1", &[OnePass, NothingFailed, Complete]) },
    Row {
        records: 500,
        set: &[("window.slice", "P7D"), ("pagination.size", "100")],
        definition: D::Changed(&[d::OPENFDA_UNCAPPED]),
        ..Row::new("FD-2", &[Split("Skip value"), NothingFailed, Complete])
    },
    Row { set: &[("pagination.size", "50")], ..Row::new("FD-3", &[SameRequest, Complete]) },
    Row {
        records: 60,
        definition: D::Changed(&[d::OPENFDA_LINKS]),
        ..Row::new("FD-5", &[OnePass, NothingFailed, Complete])
    },
    Row {
        definition: D::Changed(&[d::OPENFDA_BROKEN]),
        ..Row::new("FD-6", &[Failed("DENIED", "Search not supported"), AskedOnce, Held])
    },
];
