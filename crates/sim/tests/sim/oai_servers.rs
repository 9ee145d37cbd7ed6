//! The OAI-PMH servers of arXiv, DOAJ and PMC, as far as they differ from a plain one.

use std::collections::HashSet;

use patra_sim::moment::{DAY_US, SECOND_US};
use patra_sim::{Rate, SimRequest, Source, World, WorldPlan};

use crate::reader::{FROM, TO, encode};

const LIST: &str = "/oai-pmh/oai?verb=ListRecords&metadataPrefix=oai_dc";

fn world(situations: &[&str], records: u64) -> World {
    World::new(WorldPlan {
        sources: vec![Source::OaiPmh],
        rate_override: Some(Rate { limit: 1_000_000, per_us: 1, concurrency: 1_000 }),
        scenarios: situations.iter().map(|id| (*id).to_owned()).collect(),
        ..WorldPlan::new(42, records, FROM, TO)
    })
}

fn body(world: &mut World, path: &str, now_us: i64) -> String {
    String::from_utf8(world.answer(&SimRequest::get(path), now_us).body).unwrap()
}

fn token(body: &str) -> Option<String> {
    let text = body.split("</resumptionToken>").next()?.rsplit('>').next()?.to_owned();
    body.contains("</resumptionToken>").then(|| text.replace("&amp;", "&"))
}

/// Stamps of everything that was listed, in the order of the list.
fn walk(world: &mut World, now_us: i64) -> Vec<(String, String)> {
    let mut path = LIST.to_owned();
    let mut found = Vec::new();
    loop {
        let body = body(world, &path, now_us);
        for header in body.split("<identifier>").skip(1) {
            let (id, rest) = header.split_once("</identifier><datestamp>").unwrap();
            found.push((rest.split('<').next().unwrap().to_owned(), id.to_owned()));
        }
        match token(&body) {
            Some(token) => path = format!("/oai-pmh/oai?verb=ListRecords&resumptionToken={}", encode(&token)),
            None => return found,
        }
    }
}

#[test]
fn arxiv_reads_days_and_skips() {
    let mut world = world(&["AO-2"], 300);
    for (arguments, want) in [
        ("&from=2026-01-01T00:00:00Z", "badArgument"),
        ("&until=2099-01-01", "badArgument"),
        ("&from=2001-01-01", "badArgument"),
        ("&set=nothing", "noRecordsMatch"),
    ] {
        let told = body(&mut world, &format!("{LIST}{arguments}"), TO);
        assert!(told.contains(want), "{arguments}: {told}");
    }
    let first = body(&mut world, LIST, TO);
    assert!(first.contains("<resumptionToken expires=") && !first.contains("completeListSize"));
    assert!(token(&first).unwrap().contains("skip=50"));
}

#[test]
fn a_token_of_arxiv_outlives_midnight_in_one_mode_and_not_in_the_other() {
    for (mode, want) in [("AO-1a", "badResumptionToken"), ("AO-1b", "<ListRecords>")] {
        let mut world = world(&[mode], 300);
        let token = token(&body(&mut world, LIST, TO + DAY_US - SECOND_US)).unwrap();
        let next = format!("/oai-pmh/oai?verb=ListRecords&resumptionToken={}", encode(&token));
        assert!(body(&mut world, &next, TO + DAY_US + SECOND_US).contains(want), "{mode}");
        assert_eq!(world.counters("oai-pmh").situations.get(mode), Some(&1));
    }
}

#[test]
fn an_error_of_arxiv_is_kept_until_midnight() {
    let mut world = world(&["AO-5"], 300);
    let told: Vec<bool> = [0, 1, 2, 3]
        .map(|hours| body(&mut world, LIST, TO + hours * 3_600 * SECOND_US).contains("internalServerError"))
        .to_vec();
    assert_eq!(told, [false, true, true, true]);
    assert!(!body(&mut world, LIST, TO + DAY_US).contains("internalServerError"));
}

#[test]
fn doaj_lists_the_newest_first_and_holds_a_month_back() {
    let mut world = world(&["DJ-6"], 450);
    assert!(body(&mut world, &format!("{LIST}&from=2026-01-01"), TO).contains("noRecordsMatch"));
    let listed = walk(&mut world, TO + 31 * DAY_US);
    assert!(listed.windows(2).all(|pair| pair[0].0 >= pair[1].0));
    assert_eq!(listed.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(), listed.len());
    assert!(listed.len() > 400 && world.counters("oai-pmh").situations["DJ-6"] > 0);
}

#[test]
fn pmc_lists_articles_that_cannot_be_had() {
    let mut world = world(&["PO-5"], 100);
    let listed = body(&mut world, "/oai-pmh/oai?verb=ListIdentifiers&metadataPrefix=pmc", TO);
    let ids = listed.split("<identifier>").skip(1).map(|rest| rest.split("</").next().unwrap().to_owned());
    let mut had = 0;
    for id in ids.filter(|id| !id.contains('&')).collect::<Vec<_>>() {
        let one = format!("/oai-pmh/oai?verb=GetRecord&metadataPrefix=pmc&identifier={}", encode(&id));
        had += u32::from(body(&mut world, &one, TO).contains("<GetRecord><record>"));
    }
    assert!(had > 50 && world.counters("oai-pmh").situations["PO-5"] > 0);
}
