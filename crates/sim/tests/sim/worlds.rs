//! The world around the providers: rates, faults, mutations, logs, and that all of it repeats exactly.

use patra_sim::moment::{DAY_US, MINUTE_US, SECOND_US};
use patra_sim::{
    Cut, FaultKind, FaultLevel, FaultPlan, LogMode, Rate, SCENARIOS, SimAnswer, SimRequest, Source, World, WorldPlan,
    sha256_hex,
};

use crate::reader::{FROM, LIVE_TO, TO, encode, field, items};

const PATHS: [&str; 8] = [
    "/crossref/works?rows=20&cursor=*",
    "/pubmed/entrez/eutils/esearch.fcgi?db=pubmed&retmode=json&retmax=50",
    "/pubmed/entrez/eutils/efetch.fcgi?db=pubmed&id=10000000,10000001,10000002,10000003",
    "/oai-pmh/oai?verb=ListRecords&metadataPrefix=oai_dc",
    "/doaj/api/search/articles/x?sort=last_updated:asc&pageSize=20",
    "/datacite/dois?page[size]=20&page[cursor]=1",
    "/openfda/drug/event.json?limit=20&skip=0",
    "/timefeed/changes?limit=20",
];

fn plan(records: u64) -> WorldPlan {
    WorldPlan { live_to: LIVE_TO, ..WorldPlan::new(42, records, FROM, TO) }
}

fn free() -> Option<Rate> {
    Some(Rate { limit: 1_000_000, per_us: 1, concurrency: 1_000 })
}

fn run(world: &mut World, requests: usize) -> Vec<SimAnswer> {
    let path = |n: usize| SimRequest::get(PATHS[n % PATHS.len()]);
    (0..requests).map(|n| world.answer(&path(n), TO + n as i64 * 400_000)).collect()
}

#[test]
fn the_same_plan_and_requests_give_the_same_answers() {
    let stormy = || WorldPlan { faults: FaultPlan::new(FaultLevel::Storm, 3), mutate_every: 2, ..plan(700) };
    let (mut one, mut two) = (World::new(stormy()), World::new(stormy()));
    assert_eq!(run(&mut one, 600), run(&mut two, 600));
    for source in one.sources() {
        assert_eq!(one.served(source), two.served(source));
        assert_eq!(one.truth_rows(source), two.truth_rows(source));
    }
    let mut other = World::new(WorldPlan { seed: 43, ..stormy() });
    assert_ne!(run(&mut other, 600), run(&mut two, 600));
}

#[test]
fn a_caller_above_the_limit_is_refused_and_counted() {
    let mut world = World::new(plan(70));
    let request = SimRequest::get(PATHS[0]);
    let statuses: Vec<u16> = (0..7).map(|n| world.answer(&request, TO + n).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
    assert_eq!(world.answer(&request, TO + SECOND_US).status, 200);
    let counters = world.counters("crossref");
    assert_eq!((counters.requests, counters.rate_violations, counters.throttled), (8, 2, 2));
    assert!(counters.concurrency_violations > 0);
    let polite = SimRequest::get("/crossref/works?rows=1&mailto=a@example.org");
    assert!((0..5).all(|n| world.answer(&polite, TO + SECOND_US + 1 + n).status == 200));
}

#[test]
fn a_refused_crossref_page_has_not_moved_on_but_a_cut_one_has() {
    for (fault, moved) in [
        (FaultKind::ThrottleBare, false),
        (FaultKind::Error503, false),
        (FaultKind::Reset, false),
        (FaultKind::CutBody, true),
        (FaultKind::ResetAfter, true),
    ] {
        let mut faults = FaultPlan::none();
        faults.script.push((Source::Crossref, 2, fault));
        let mut calm = World::new(plan(700));
        let mut world = World::new(WorldPlan { faults, ..plan(700) });
        let first = world.answer(&SimRequest::get(PATHS[0]), TO);
        assert_eq!(first, calm.answer(&SimRequest::get(PATHS[0]), TO));
        let cursor = encode(&field(&first, "/message/next-cursor").unwrap());
        let next = SimRequest::get(&format!("/crossref/works?rows=20&cursor={cursor}"));
        world.answer(&next, TO + 1);
        let (second, third) = (calm.answer(&next, TO + 1), calm.answer(&next, TO + 2));
        let got = items(&world.answer(&next, TO + 3), "/message/items");
        assert_eq!(got, items(if moved { &third } else { &second }, "/message/items"), "{}", fault.name());
    }
}

#[test]
fn every_fault_fires_in_a_storm_and_shows_its_own_face() {
    let faults = FaultPlan { walk_loss_apart: 0, ..FaultPlan::new(FaultLevel::Storm, 8) };
    let mut world = World::new(WorldPlan { faults, rate_override: free(), ..plan(700) });
    let answers = run(&mut world, 4000);
    for source in world.sources() {
        assert!(world.counters(source).faults.values().sum::<u64>() > 50, "{source}");
    }
    let crossref = world.counters("crossref").faults;
    for kind in FaultKind::ALL {
        assert!(crossref.contains_key(kind.name()), "{}", kind.name());
    }
    assert!(answers.iter().any(|answer| { answer.header("retry-after").is_some_and(|value| value.ends_with("GMT")) }));
    assert!(answers.iter().any(|answer| matches!(answer.cut, Some(Cut::AfterBytes(n)) if n < answer.body.len())));
    assert!(answers.iter().any(|answer| answer.delay_us > SECOND_US && answer.status == 200));
}

#[test]
fn the_mutation_feed_moves_pages_and_the_truth_records_it() {
    let page = SimRequest::get("/doaj/api/search/articles/x?sort=last_updated:asc&pageSize=100&page=2");
    let quiet_plan = || WorldPlan { sources: vec![Source::Doaj], rate_override: free(), live_to: TO, ..plan(400) };
    let mut world = World::new(WorldPlan { mutate_every: 1, ..quiet_plan() });
    let mut quiet = World::new(quiet_plan());
    let versions = world.truth_rows("doaj").len();
    let at = |n: i64| TO + DAY_US + n * SECOND_US;
    let pages: Vec<Vec<String>> = (0..60).map(|n| items(&world.answer(&page, at(n)), "/results")).collect();
    let still: Vec<Vec<String>> = (0..60).map(|n| items(&quiet.answer(&page, at(n)), "/results")).collect();
    assert!(pages.windows(2).filter(|pair| pair[0] != pair[1]).count() > 5);
    assert!(still.windows(2).all(|pair| pair[0] == pair[1]));
    let rows = world.truth_rows("doaj");
    assert_eq!(rows.len() as u64, versions as u64 + world.counters("doaj").mutations);
    let late_max = 2 * 3600 * SECOND_US + 10 * MINUTE_US;
    for row in &rows[versions..] {
        assert!((0..=late_max).contains(&(row.visible_at - row.updated_at)), "{row:?}");
    }
    assert!(rows[versions..].iter().any(|row| row.deleted));
    assert!(rows[versions..].iter().any(|row| row.version == 1));
    assert!(rows[versions..].iter().any(|row| row.same_content_as.is_some()));
}

#[test]
fn the_log_hashes_what_was_served_and_the_truth_hashes_each_record() {
    let mut world = World::new(WorldPlan { rate_override: free(), ..plan(700) });
    for path in PATHS {
        let answer = world.answer(&SimRequest::get(path), TO);
        let source = path.split('/').nth(1).unwrap();
        let row = world.served(source).last().unwrap().clone();
        assert_eq!(row.response_sha256, sha256_hex(&answer.body));
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
        let truth = world.truth_rows(source);
        assert!(!row.items.is_empty(), "{path}");
        for (id, version) in &row.items {
            let known = truth.iter().find(|have| have.id == *id && have.version == *version).unwrap();
            let payload = world.truth(source).unwrap().payload(id, *version).unwrap();
            assert_eq!(known.payload_sha256, sha256_hex(&payload));
            assert!((600..6000).contains(&payload.len()) || known.deleted, "{}", payload.len());
            let inside = answer.body.windows(payload.len()).any(|part| part == payload);
            assert!(inside || path.contains("esearch"));
        }
    }
    let mut out = Vec::new();
    let count = world.write_truth("crossref", &mut out).unwrap() + world.write_served("crossref", &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count() as u64, count);
}

#[test]
fn a_repeated_token_is_counted_and_counters_alone_keep_no_rows() {
    let mut world = World::new(WorldPlan { log: LogMode::Counters, ..plan(700) });
    let page = SimRequest::get("/doaj/api/search/articles/x?page=2");
    for n in 0..3 {
        assert_eq!(world.answer(&page, TO + n * SECOND_US).status, 200);
    }
    assert_eq!(world.counters("doaj").repeated_cursors, 2);
    assert!(world.served("doaj").is_empty());
    assert_eq!(world.answer(&SimRequest::get("/elsewhere"), TO).status, 404);
}

#[test]
fn every_scenario_can_be_switched_on_and_the_paced_ones_fire() {
    let mut world = World::new(WorldPlan { rate_override: free(), ..plan(7000) });
    for scenario in SCENARIOS {
        assert!(world.enable(scenario.id), "{}", scenario.id);
    }
    assert!(!world.enable("XX-1"));
    let answers = run(&mut world, 400);
    assert!(answers.iter().any(|answer| answer.status == 400));
    for (source, fault) in
        [("crossref", "error-body"), ("pubmed", "throttle-bare"), ("oai-pmh", "expire-cursor"), ("datacite", "outage")]
    {
        assert!(world.counters(source).faults.contains_key(fault), "{source} {fault}");
    }
    world.silence();
    let after: Vec<u16> = run(&mut world, 8).iter().map(|answer| answer.status).collect();
    assert_eq!(after.iter().filter(|status| **status == 429).count(), 0);
}

/// Answers to one path asked again and again under one scenario, without limits.
fn under(scenario: &str, path: &str, count: i64) -> Vec<SimAnswer> {
    let mut world = World::new(WorldPlan { rate_override: free(), scenarios: vec![scenario.to_owned()], ..plan(2100) });
    let request = SimRequest::get(path);
    (0..count).map(|n| world.answer(&request, TO + n * SECOND_US)).collect()
}

#[test]
fn provider_switches_change_what_is_served() {
    let holds = |answer: &SimAnswer, text: &str| String::from_utf8_lossy(&answer.body).contains(text);
    for (scenario, path, status, text) in [
        ("CR-5", "/crossref/works?rows=1000", 504, "504 Gateway Time-out"),
        ("CR-9", PATHS[0], 200, "\"message-type\":\"exception\""),
        ("PM-1", PATHS[1], 200, "\"ERROR\""),
        ("PM-4a", PATHS[2], 400, "proxy_stream"),
        ("PO-9", PATHS[3], 200, "\u{1}"),
        ("AO-9", PATHS[3], 503, "503"),
        ("DJ-10b", PATHS[4], 400, "(ref: "),
        ("FD-8", PATHS[6], 404, "NOT_FOUND"),
    ] {
        let answers = under(scenario, path, 8);
        assert!(answers.iter().any(|answer| answer.status == status && holds(answer, text)), "{scenario}");
    }
    assert!(under("PM-6", PATHS[2], 5).iter().any(|answer| !holds(answer, "<PubmedArticleSet>")));
    assert!(under("PO-4", PATHS[3], 1)[0].body.len() < under("PO-2", PATHS[3], 1)[0].body.len());
    assert!(!holds(&under("SIM-OAI-SIZE", PATHS[3], 1)[0], "completeListSize"));
    let limits: Vec<_> = under("CR-6", PATHS[0], 3)
        .iter()
        .map(|answer| answer.header("x-rate-limit-limit").map(str::to_owned))
        .collect();
    assert!(limits[0] != limits[1]);
}

#[test]
fn a_forgotten_crossref_cursor_fails_once_and_a_fresh_one_lives() {
    let mut world = World::new(WorldPlan { rate_override: free(), scenarios: vec!["CR-1".to_owned()], ..plan(700) });
    let mut second_page = |at: i64| {
        let first = world.answer(&SimRequest::get(PATHS[0]), at);
        let cursor = encode(&field(&first, "/message/next-cursor").unwrap());
        world.answer(&SimRequest::get(&format!("/crossref/works?rows=20&cursor={cursor}")), at + 1).status
    };
    assert_eq!(
        [second_page(TO), second_page(TO + 10), second_page(TO + 20), second_page(TO + 30)],
        [404, 200, 200, 404]
    );
}

#[test]
fn an_oai_server_repeats_its_token_now_and_then() {
    let mut world = World::new(WorldPlan {
        rate_override: free(),
        scenarios: vec!["PO-4".to_owned(), "PO-10b".to_owned()],
        ..plan(2100)
    });
    let mut path = PATHS[3].to_owned();
    let mut repeats = 0;
    for n in 0..12 {
        let body = String::from_utf8(world.answer(&SimRequest::get(&path), TO + n).body).unwrap();
        let token =
            body.split("</resumptionToken>").next().and_then(|rest| rest.rsplit('>').next()).unwrap().to_owned();
        let next = format!("/oai-pmh/oai?verb=ListRecords&resumptionToken={}", encode(&token));
        repeats += u32::from(next == path);
        path = next;
    }
    assert_eq!(repeats, 2);
    assert_eq!(world.counters("oai-pmh").repeated_cursors, 2);
}

#[test]
fn an_outage_ends_by_itself() {
    let mut world = World::new(plan(700));
    world.enable("DC-4");
    let request = SimRequest::get(PATHS[5]);
    assert_eq!(world.answer(&request, TO).status, 429);
    assert_eq!(world.answer(&request, TO + 4 * MINUTE_US).status, 429);
    assert_eq!(world.answer(&request, TO + 5 * MINUTE_US).status, 200);
}

#[test]
fn a_storm_leaves_quiet_stretches_for_long_walks() {
    let mut world = World::new(WorldPlan {
        faults: FaultPlan::new(FaultLevel::Storm, 2),
        sources: vec![Source::Crossref],
        rate_override: free(),
        ..plan(100)
    });
    for n in 0..2000 {
        world.answer(&SimRequest::get(PATHS[0]), TO + n * SECOND_US);
    }
    let losing = ["cut-body", "reset-after", "expire-cursor"];
    let lost = world.served("crossref").iter().enumerate();
    let lost: Vec<usize> = lost
        .filter(|(_, row)| row.fault.as_deref().is_some_and(|name| losing.contains(&name)))
        .map(|(at, _)| at)
        .collect();
    assert!(lost.len() >= 3 && lost.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{lost:?}");
}
