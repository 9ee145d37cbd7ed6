//! What a source could not be asked is asked of every record, and every record is accounted for.

use std::sync::Arc;

use patra_core::ports::Noun;
use patra_core::spec::snapshot::{PagingKind, QuerySpec};
use patra_core::time::Span;

use crate::bench::{Bench, ORIGIN, numbers, spec};

/// Ten records: even ones are titled so, number 5 shows no title, the others are odd.
fn harvested(filter: Option<&str>) -> Bench {
    let bench = Bench::open();
    let query =
        filter.map(|filter| QuerySpec { text: filter.into(), filter: Some(filter.into()), ..QuerySpec::default() });
    let spec = spec(|spec| {
        spec.expr.query = query;
        spec.pagination.kind = PagingKind::Token;
    });
    let shelf = bench.shelf(10, Span::MINUTE).twisted(|_, mut page| {
        for item in &mut page.items {
            item.fields = match item.id.parse::<u32>().unwrap() {
                5 => "{}".into(),
                number if number % 2 == 0 => r#"{"title":"Even numbers"}"#.into(),
                _ => r#"{"title":"Odd numbers"}"#.into(),
            };
        }
        Ok(page)
    });
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(bench.states(), ["SUCCEEDED"]);
    assert_eq!(bench.watermark(&spec), Some(ORIGIN.plus(Span::DAY)));
    bench
}

#[test]
fn records_that_do_not_match_are_counted_and_not_stored_and_the_proof_counts_them_all() {
    let bench = harvested(Some("title:even"));
    assert_eq!(bench.record_ids(), ["10", "2", "4", "5", "6", "8"]);
    let slice = &bench.rows(Noun::Slice)[0];
    let stats: serde_json::Value = match &slice["stats"] {
        serde_json::Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    let count = |key: &str| stats[key].as_u64().unwrap_or_default();
    assert_eq!((count("fetched"), count("inserted"), count("filtered")), (10, 6, 4), "{stats}");
    assert_eq!((count("filteredByQuery"), count("undecidedByQuery")), (4, 1), "{stats}");
}

#[test]
fn without_a_filter_everything_is_stored_and_a_query_has_a_namespace_of_its_own() {
    assert_eq!(harvested(None).record_ids(), numbers(10));
    let with = |filter: Option<&str>| {
        let query = filter.map(|text| QuerySpec { text: text.into(), ..QuerySpec::default() });
        patra_core::plan::build::namespace_of(&spec(|spec| spec.expr.query = query)).key
    };
    assert_ne!(with(None), with(Some("title:even")));
    assert_ne!(with(Some("title:odd")), with(Some("title:even")));
    assert_eq!(with(Some("title:even")), with(Some("title:even")));
}
