//! What healers and the watch share: circuits, holds, alarms; and quarantined records that are settled.

use patra_core::healing::{Alarm, AlarmKind, Circuit, CircuitEvent, CircuitState, Site};
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::{Bench, TTL, namespace, record};

fn site() -> Site {
    Site { provenance: "crossref".into(), endpoint: "works".into() }
}

async fn open_for(bench: &Bench, span: Span) -> Circuit {
    let seen = bench.store.circuit(&site()).await.unwrap();
    let next = seen.on(CircuitEvent::Tripped { until: bench.now().plus(span) }).unwrap();
    assert_eq!(bench.store.move_circuit(&site(), seen, next).await, Ok(true));
    next
}

pub(super) async fn an_open_circuit_bars_every_claim_and_then_lets_one_probe(bench: Bench) {
    bench.publish(&[(0, 1), (1, 2), (2, 3)]).await;
    assert_eq!(bench.store.circuit(&site()).await, Ok(Circuit::default()), "closed where nothing was written");
    let open = open_for(&bench, Span::MINUTE).await;
    assert_eq!(bench.acquire(8).await.len(), 0);
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(Some(open.until)), "it is waited for");
    bench.advance(Span::MINUTE);
    let [probing]: [Leased; 1] = bench.acquire(8).await.try_into().unwrap();
    let held = probing.probe.unwrap();
    assert_eq!((held.state, held.epoch), (CircuitState::Probing, open.epoch + 1));
    assert_eq!(bench.acquire(8).await.len(), 0, "one at a time");
    let closed = held.on(CircuitEvent::Answered).unwrap();
    assert_eq!(bench.store.move_circuit(&site(), held, closed).await, Ok(true));
    assert_eq!(bench.store.move_circuit(&site(), held, closed).await, Ok(false), "it is closed already");
    let leased = bench.acquire(8).await;
    assert_eq!(leased.len(), 2);
    assert!(leased.iter().all(|one| one.probe.is_none()));
}

pub(super) async fn a_prober_of_which_nothing_is_heard_is_replaced(bench: Bench) {
    bench.publish(&[(0, 1), (1, 2)]).await;
    open_for(&bench, Span::MINUTE).await;
    bench.advance(Span::MINUTE);
    let [first]: [Leased; 1] = bench.acquire(8).await.try_into().unwrap();
    bench.advance(Circuit::PROBE_LIFE);
    let [second]: [Leased; 1] = bench.acquire(8).await.try_into().unwrap();
    let (first, second) = (first.probe.unwrap(), second.probe.unwrap());
    assert_eq!(second.epoch, first.epoch + 1);
    let late = first.on(CircuitEvent::Answered).unwrap();
    assert_eq!(bench.store.move_circuit(&site(), first, late).await, Ok(false), "it is not his any more");
}

pub(super) async fn of_two_who_open_a_circuit_one_does(bench: Bench) {
    let seen = bench.store.circuit(&site()).await.unwrap();
    let next = |span| seen.on(CircuitEvent::Tripped { until: bench.now().plus(span) }).unwrap();
    let (one, other) = (next(Span::MINUTE), next(Span::HOUR));
    assert_eq!(bench.store.move_circuit(&site(), seen, one).await, Ok(true));
    assert_eq!(bench.store.move_circuit(&site(), seen, other).await, Ok(false));
    assert_eq!(bench.store.circuit(&site()).await, Ok(one));
}

pub(super) async fn a_hold_ends_by_itself_and_a_raised_lag_is_for_one_plan(bench: Bench) {
    let hold = Hold { until: bench.now().plus(Span::MINUTE), reason: "too many errors".into(), lag: Span::HOUR };
    bench.store.hold_planning(&site(), &hold).await.unwrap();
    let view = async || bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
    let held = view().await;
    assert_eq!((held.held, held.lag_raised), (Some((hold.until, hold.reason)), Span::HOUR));
    bench.advance(Span::MINUTE);
    assert_eq!(view().await.held, None);
    bench.publish(&[(0, 1)]).await;
    assert_eq!(view().await.lag_raised, Span::ZERO);
    assert_eq!(bench.acquire(8).await.len(), 1, "what is planned goes on");
}

pub(super) async fn a_released_run_says_that_the_circuit_was_open(bench: Bench) {
    let leased = bench.leased().await;
    let due_at = bench.now().plus(Span::MINUTE);
    let release = Release { due_at, reason: "CIRCUIT_OPEN: refused".into(), failed: false, circuit_open: true };
    bench.store.release(&leased.lease, release).await.unwrap();
    let run = bench.one("SELECT status_code, reason, stats FROM ing_task_run").await;
    assert_eq!(run, r#"PARTIALCIRCUIT_OPEN: refused{"circuit_open":true}"#);
    assert_eq!(bench.one("SELECT failure_count FROM ing_task").await, "0");
}

fn alarm(what: &str) -> Alarm {
    let (kind, provenance) = (AlarmKind::SourceStopped, "crossref".into());
    Alarm { kind, provenance, what: what.into(), message: "401".into() }
}

pub(super) async fn an_alarm_is_raised_once_told_once_and_cleared(bench: Bench) {
    let settle = async |wanted: &[Alarm]| bench.store.settle_alarms(wanted.to_vec()).await.unwrap();
    let untold = async || bench.store.take_untold(TTL).await.unwrap();
    let (one, other) = (alarm("works"), alarm("members"));
    assert_eq!(settle(std::slice::from_ref(&one)).await.raised, std::slice::from_ref(&one));
    assert_eq!(settle(&[one.clone(), other.clone()]).await.raised, std::slice::from_ref(&other));
    assert_eq!(settle(&[one.clone(), other.clone()]).await, Settled::default());
    let told = untold().await;
    assert_eq!(told.iter().map(|kept| &kept.alarm).collect::<Vec<_>>(), [&one, &other]);
    assert_eq!(untold().await, [], "somebody tells them");
    bench.store.mark_told(&told[0]).await.unwrap();
    bench.advance(TTL.plus(Span::SECOND));
    assert_eq!(untold().await.len(), 1, "the other was not told");
    assert_eq!(settle(&[]).await.cleared, [one.clone(), other]);
    bench.advance(TTL.plus(Span::SECOND));
    let [over]: [KeptAlarm; 1] = untold().await.try_into().unwrap();
    assert_eq!((&over.alarm, over.cleared_at.is_some()), (&one, true), "of what was never told the end is not told");
    bench.store.mark_told(&over).await.unwrap();
    assert_eq!(settle(std::slice::from_ref(&one)).await.raised, [one], "it may come again");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_alarm").await, "3");
}

pub(super) async fn facts_show_what_stands_and_what_waits(bench: Bench) {
    bench.publish(&[(0, 1), (1, 2), (2, 3)]).await;
    let circuit = open_for(&bench, Span::MINUTE).await;
    let facts = bench.store.alarm_facts(1).await.unwrap();
    assert_eq!(facts.circuits, [(site(), circuit)]);
    assert_eq!((facts.stock.len(), facts.stock[0].queued), (1, 2), "counted up to one more than asked for");
    assert!(facts.stock[0].due_at.is_some());
    let [harvest] = facts.harvests.as_slice() else { panic!("{facts:?}") };
    assert_eq!((&harvest.site, harvest.live, harvest.watermark), (&site(), true, None));
    assert_eq!((facts.blown, facts.held, facts.empty_budgets), (vec![], vec![], vec![]));
}

async fn quarantined(bench: &Bench) -> Quarantined {
    let leased = bench.leased().await;
    let mut page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
    page.bad = vec![super::batch::bad("b")];
    page.item_count = 2;
    bench.commit(&leased.lease, page).await;
    let id = bench.one("SELECT id FROM ing_quarantine").await.parse().unwrap();
    bench.store.quarantined(id).await.unwrap()
}

fn act() -> Intervention {
    Intervention { actor: "ann".into(), reason: "the path is mended".into() }
}

pub(super) async fn a_mended_record_is_stored_told_and_audited_once(bench: Bench) {
    let one = quarantined(&bench).await;
    assert_eq!((one.endpoint.as_str(), one.phase, one.open), ("works", Phase::Search, true));
    let mended = Mended { id: one.id, record: record("b", 1, "two"), mapping_hash: Default::default(), act: act() };
    assert_eq!(bench.store.mend(mended.clone()).await, Ok(true));
    assert_eq!(bench.store.mend(mended).await, Ok(false), "it was settled before");
    assert_eq!(bench.store.discard(one.id, &act()).await, Ok(false));
    assert_eq!(bench.column("SELECT provider_id FROM ing_record ORDER BY provider_id").await, ["a", "b"]);
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox WHERE provider_id = 'b'").await, "1");
    assert_eq!(bench.column("SELECT action_code FROM ing_audit").await, ["QUARANTINE_RETRY"]);
    assert!(!bench.store.quarantined(one.id).await.unwrap().open);
}

pub(super) async fn a_discarded_record_is_given_up_with_a_reason(bench: Bench) {
    let one = quarantined(&bench).await;
    assert_eq!(bench.store.discard(one.id, &act()).await, Ok(true));
    let audit = bench.one("SELECT actor, action_code, target, detail FROM ing_audit").await;
    let want = format!(r#"annQUARANTINE_DISCARDquarantine:{}{{"reason":"the path is mended"}}"#, one.id);
    assert_eq!(audit, want);
    assert_eq!(bench.one("SELECT status_code FROM ing_quarantine").await, "CLOSED");
    assert!(matches!(bench.store.discard(bench.id(), &act()).await, Err(LedgerError::Missing { .. })));
}
