//! What each provider does besides listing: caps, cursors that move or expire, links that forget, errors in its own form.

use patra_sim::moment::{HOUR_US, MINUTE_US, SECOND_US, iso_seconds};
use patra_sim::{Mutation, Provider, SimAnswer, SimRequest, Source};

use crate::reader::{FROM, LIVE_TO, TO, elements, encode, field, items, provider};

const NOW: i64 = LIVE_TO;

fn ask(provider: &mut dyn Provider, path: &str, now_us: i64) -> SimAnswer {
    provider.answer(&SimRequest::get(path), now_us)
}

fn text(answer: &SimAnswer) -> String {
    String::from_utf8(answer.body.clone()).unwrap()
}

#[test]
fn a_crossref_cursor_is_one_string_and_asking_twice_moves_on() {
    let mut provider = provider(Source::Crossref, 1, 100);
    let first = ask(provider.as_mut(), "/crossref/works?rows=10&cursor=*", NOW);
    let cursor = field(&first, "/message/next-cursor").unwrap();
    let path = format!("/crossref/works?rows=10&cursor={}", encode(&cursor));
    let (second, third) = (ask(provider.as_mut(), &path, NOW), ask(provider.as_mut(), &path, NOW));
    assert_eq!(field(&third, "/message/next-cursor"), Some(cursor));
    assert_ne!(items(&second, "/message/items"), items(&third, "/message/items"));
    assert_ne!(items(&first, "/message/items"), items(&second, "/message/items"));
    assert_eq!(first.header("x-rate-limit-interval"), Some("1s"));
}

#[test]
fn a_crossref_cursor_dies_after_five_minutes_and_is_wrong_when_not_encoded() {
    let mut provider = provider(Source::Crossref, 1, 100);
    let first = ask(provider.as_mut(), "/crossref/works?rows=10&cursor=*", NOW);
    let cursor = field(&first, "/message/next-cursor").unwrap();
    assert_eq!(ask(provider.as_mut(), &format!("/crossref/works?rows=10&cursor={cursor}"), NOW).status, 404);
    let path = format!("/crossref/works?rows=10&cursor={}", encode(&cursor));
    assert_eq!(ask(provider.as_mut(), &path, NOW + 5 * MINUTE_US).status, 200);
    let late = ask(provider.as_mut(), &path, NOW + 10 * MINUTE_US + 1);
    assert_eq!(late.status, 404);
    assert_eq!(field(&late, "/message/0/type").as_deref(), Some("cursor-invalid"));
}

#[test]
fn crossref_refuses_what_it_does_not_know_and_filters_titles() {
    let mut provider = provider(Source::Crossref, 1, 200);
    for path in [
        "/crossref/works?filter=has-abstract:1",
        "/crossref/works?filter=from-index-date:soon",
        "/crossref/works?rows=1001",
        "/crossref/works?wanted=1",
    ] {
        let answer = ask(provider.as_mut(), path, NOW);
        assert_eq!((answer.status, field(&answer, "/status").as_deref()), (400, Some("failed")), "{path}");
    }
    let count = ask(provider.as_mut(), "/crossref/works?rows=0&query=PROTEIN", NOW);
    let total: usize = field(&count, "/message/total-results").unwrap().parse().unwrap();
    let page = items(&ask(provider.as_mut(), "/crossref/works?rows=1000&query=protein", NOW), "/message/items");
    assert!(total > 0 && total < 200 && page.len() == total);
}

#[test]
fn pubmed_counts_more_than_it_lists_and_splits_by_number() {
    let mut provider = provider(Source::PubMed, 1, 500);
    provider.set_cap(100);
    let base = "/pubmed/entrez/eutils/esearch.fcgi?db=pubmed&retmode=json&retmax=9999";
    let first = ask(provider.as_mut(), base, NOW);
    let total: usize = field(&first, "/esearchresult/count").unwrap().parse().unwrap();
    assert!(total > 400);
    assert_eq!(items(&first, "/esearchresult/idlist").len(), 100);
    let beyond = ask(provider.as_mut(), &format!("{base}&retstart=100"), NOW);
    assert_eq!(beyond.status, 200);
    assert!(field(&beyond, "/esearchresult/ERROR").unwrap().contains("retstart"));
    let mut sum = 0;
    for (low, high) in [(0, 10_000_500), (10_000_501, 99_999_999)] {
        let part = ask(provider.as_mut(), &format!("{base}&term={}", encode(&format!("{low}:{high}[uid]"))), NOW);
        sum += field(&part, "/esearchresult/count").unwrap().parse::<usize>().unwrap();
    }
    assert_eq!(sum, total);
}

#[test]
fn pubmed_detail_leaves_out_what_is_gone_and_refuses_malformed_ids() {
    let mut provider = provider(Source::PubMed, 1, 3000);
    provider.set_cap(100_000);
    let search = ask(provider.as_mut(), "/pubmed/entrez/eutils/esearch.fcgi?db=pubmed&retmode=json&retmax=100000", NOW);
    let ids: Vec<String> =
        items(&search, "/esearchresult/idlist").iter().map(|id| id.trim_matches('"').to_owned()).collect();
    let form = format!("db=pubmed&id={},1", ids.join(","));
    let request = SimRequest::from_url("POST", "/pubmed/entrez/eutils/efetch.fcgi", vec![], form.into_bytes());
    let body = text(&provider.answer(&request, NOW));
    let (articles, books) = (elements(&body, "PubmedArticle>").len(), elements(&body, "PubmedBookArticle>").len());
    assert!(articles + books < ids.len() && articles + books > ids.len() * 9 / 10);
    assert!(
        books > 0
            && body.contains("&#x3b2;")
            && body.contains("<sup>2+</sup>")
            && body.contains("<!DOCTYPE PubmedArticleSet")
    );
    let bad = ask(provider.as_mut(), "/pubmed/entrez/eutils/efetch.fcgi?db=pubmed&id=12x", NOW);
    assert_eq!(bad.status, 400);
    assert!(text(&bad).contains("ID list is empty!"));
}

#[test]
fn oai_says_its_errors_under_200_and_tokens_expire() {
    let mut provider = provider(Source::OaiPmh, 1, 300);
    let base = "/oai-pmh/oai?verb=ListRecords";
    for (path, code) in [
        (format!("{base}&metadataPrefix=oai_dc&from=2001-01-01&until=2001-01-02"), "noRecordsMatch"),
        (format!("{base}&metadataPrefix=oai_dc&from=2026-01-02&until=2026-01-01"), "badArgument"),
        (format!("{base}&metadataPrefix=oai_dc&from=2026-01-02&until=2026-01-03T00:00:00Z"), "badArgument"),
        (format!("{base}&metadataPrefix=marc"), "cannotDisseminateFormat"),
        (format!("{base}&resumptionToken=x"), "badResumptionToken"),
        ("/oai-pmh/oai?verb=Nothing".to_owned(), "badVerb"),
    ] {
        let answer = ask(provider.as_mut(), &path, NOW);
        assert!(answer.status == 200 && text(&answer).contains(&format!("code=\"{code}\"")), "{path}");
    }
    let moved = ask(provider.as_mut(), "/oai-pmh/oai2?verb=Identify", NOW);
    assert_eq!(
        (moved.status, moved.header("location")),
        (301, Some("http://provider.invalid/oai-pmh/oai?verb=Identify"))
    );
    provider.set_cursor_life(MINUTE_US);
    let body = text(&ask(provider.as_mut(), &format!("{base}&metadataPrefix=oai_dc"), NOW));
    assert!(body.contains("completeListSize"));
    let token = body.split("</resumptionToken>").next().and_then(|rest| rest.rsplit('>').next()).unwrap().to_owned();
    let path = format!("{base}&resumptionToken={}", encode(&token));
    assert!(text(&ask(provider.as_mut(), &path, NOW + MINUTE_US)).contains("<record>"));
    assert!(text(&ask(provider.as_mut(), &format!("{path}&metadataPrefix=oai_dc"), NOW)).contains("badArgument"));
    assert!(text(&ask(provider.as_mut(), &path, NOW + MINUTE_US + 1)).contains("badResumptionToken"));
}

#[test]
fn doaj_ends_at_its_cap_although_the_next_link_goes_on() {
    let mut provider = provider(Source::Doaj, 1, 500);
    provider.set_cap(200);
    let query = encode(&format!("last_updated:[{} TO {}}}", iso_seconds(FROM), iso_seconds(TO))).replace('+', "%20");
    let base = format!("/doaj/api/search/articles/{query}?sort=last_updated:asc&pageSize=1000");
    let second = ask(provider.as_mut(), &format!("{base}&page=2"), NOW);
    assert_eq!(field(&second, "/pageSize").as_deref(), Some("100"));
    let next = field(&second, "/next").unwrap();
    let third = ask(provider.as_mut(), next.trim_start_matches("http://provider.invalid"), NOW);
    assert_eq!(third.status, 400);
    assert!(text(&third).contains("cannot access results beyond 200"));
    let open = ask(provider.as_mut(), "/doaj/api/search/articles/last_updated:[2026-01-01%20TO%20*]", NOW);
    assert!(open.status == 400 && text(&open).contains("disallowed Lucene features"));
}

#[test]
fn datacite_links_forget_the_sort_and_a_broken_cursor_starts_again() {
    let mut provider = provider(Source::DataCite, 1, 100);
    let base = "/datacite/dois?page[size]=10&sort=updated&mailto=a@example.org";
    let first = ask(provider.as_mut(), &format!("{base}&page[cursor]=1"), NOW);
    let next = field(&first, "/links/next").unwrap();
    assert!(!next.contains("sort") && !next.contains("mailto") && next.contains("page%5Bsize%5D=10"));
    let broken = ask(provider.as_mut(), &format!("{base}&page[cursor]=zz"), NOW);
    assert_eq!(items(&broken, "/data"), items(&first, "/data"));
    let whole = ask(provider.as_mut(), "/datacite/dois?page[size]=5000&page[cursor]=1", NOW);
    assert_eq!(field(&whole, "/links/next"), None);
    let created: Vec<String> = items(&whole, "/data")
        .iter()
        .map(|item| serde_json::from_str::<serde_json::Value>(item).unwrap()["attributes"]["created"].to_string())
        .collect();
    assert!(created.is_sorted());
    let bad = ask(provider.as_mut(), "/datacite/dois?query=updated:[x", NOW);
    assert_eq!((bad.status, field(&bad, "/errors/0/status").as_deref()), (400, Some("400")));
}

#[test]
fn datacite_lowers_a_page_number_that_is_too_high() {
    let mut provider = provider(Source::DataCite, 1, 100);
    provider.set_cap(30);
    let page = |provider: &mut dyn Provider, number: u32| {
        items(&ask(provider, &format!("/datacite/dois?page[size]=10&page[number]={number}"), NOW), "/data")
    };
    assert_eq!(page(provider.as_mut(), 3), page(provider.as_mut(), 4));
    assert_ne!(page(provider.as_mut(), 2), page(provider.as_mut(), 3));
}

#[test]
fn openfda_says_404_for_nothing_and_400_beyond_its_reach() {
    let mut provider = provider(Source::OpenFda, 1, 100);
    provider.set_cap(50);
    let empty = ask(provider.as_mut(), "/openfda/drug/event.json?search=receiptdate:[19000101+TO+19000102]", NOW);
    assert_eq!((empty.status, field(&empty, "/error/code").as_deref()), (404, Some("NOT_FOUND")));
    assert_eq!(ask(provider.as_mut(), "/openfda/drug/event.json?skip=50&limit=1", NOW).status, 200);
    assert_eq!(ask(provider.as_mut(), "/openfda/drug/event.json?skip=51&limit=1", NOW).status, 400);
    assert_eq!(ask(provider.as_mut(), "/openfda/drug/event.json?limit=1001", NOW).status, 400);
    let total = field(&ask(provider.as_mut(), "/openfda/drug/event.json?skip=0", NOW), "/meta/results/total").unwrap();
    let full = ask(provider.as_mut(), &format!("/openfda/drug/event.json?limit={total}"), NOW);
    let link = full.header("link").unwrap().split(['<', '>']).nth(1).unwrap().to_owned();
    assert_eq!(ask(provider.as_mut(), link.trim_start_matches("http://provider.invalid"), NOW).status, 404);
}

#[test]
fn timefeed_gives_all_ties_of_the_last_stamp() {
    let mut provider = provider(Source::TimeFeed, 1, 200);
    let changed = provider.truth_mut().restamp_many(150, NOW);
    let answer = ask(provider.as_mut(), &format!("/timefeed/changes?since={}&limit=10", iso_seconds(NOW)), NOW);
    assert!(changed > 100);
    assert_eq!(items(&answer, "/changes").len(), changed);
    assert_eq!(ask(provider.as_mut(), "/timefeed/changes?since=never", NOW).status, 400);
}

#[test]
fn a_changed_record_leaves_its_old_window_and_a_restamp_keeps_its_content() {
    let mut provider = provider(Source::Doaj, 1, 50);
    provider.truth_mut().advance(NOW);
    let all: Vec<_> = provider.truth().versions().collect();
    let single = |id: &str| all.iter().filter(|have| have.id == id).count() == 1;
    let version = all.iter().find(|have| (FROM..TO).contains(&have.updated_at) && single(&have.id)).unwrap();
    let window = (version.updated_at, version.updated_at + SECOND_US);
    let before = text_of(provider.as_ref(), &version.id, 1);
    let count = provider.truth().count(window.0, window.1);
    let at = NOW + HOUR_US;
    assert!(provider.truth_mut().change_now(&version.id, Mutation::Restamp, at));
    assert_eq!(provider.truth().count(window.0, window.1), count - 1);
    assert_eq!(provider.truth().count(at, at + SECOND_US), 1);
    let last = provider.truth().versions().last().unwrap();
    assert_eq!((last.version, last.same_content_as, last.visible_at), (2, Some(1), at));
    let stamp = |at: i64| format!("\"last_updated\":\"{}\"", iso_seconds(at));
    let after = text_of(provider.as_ref(), &version.id, 2);
    assert_eq!(before.replace(&stamp(version.updated_at), ""), after.replace(&stamp(at), ""));
    assert!(provider.truth_mut().change_now(&version.id, Mutation::Delete, at + SECOND_US));
    assert_eq!(provider.truth().count(at, at + HOUR_US), 0);
    assert!(!provider.truth_mut().change_now(&version.id, Mutation::Update, at + SECOND_US));
}

fn text_of(provider: &dyn Provider, id: &str, version: u32) -> String {
    String::from_utf8(provider.truth().payload(id, version).unwrap()).unwrap()
}
