//! Schedules fire once; what people change about open work.

use patra_core::id::Id;
use patra_core::ports::{
    FiringEnd, Hole, Intervention, Ledger, NewWaiver, Operate, ScheduleOrder, Schedules, SliceOutcome, Split, Target,
};
use patra_core::schedule::{Ask, CatchUp, Overlap, Schedule};
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;
use serde_json::json;

use super::bench::{Bench, at, namespace, walk_of};

const TTL: Span = Span::MINUTE;

fn act() -> Intervention {
    Intervention { actor: "ann".into(), reason: "drill".into() }
}

async fn every_minute(bench: &Bench, name: &str) -> Schedule {
    let mut schedule = Schedule {
        id: bench.id(),
        name: name.into(),
        cron: "* * * * *".into(),
        zone: "UTC".into(),
        jitter: Span::ZERO,
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        provenance: "crossref".into(),
        endpoint: None,
        operation: Operation::Harvest,
        channel: "stable".into(),
        ask: Ask::default(),
        paused: false,
        next_due: Timestamp::MIN,
        version: 1,
    };
    schedule.next_due = schedule.due_after(bench.now()).unwrap();
    assert_eq!(bench.store.add_schedule(schedule.clone(), &act()).await, Ok(true));
    schedule
}

fn done() -> FiringEnd {
    FiringEnd::Done { status: "PLANNED", plan: Some(Id(1)), remarks: json!({}) }
}

pub(super) async fn a_due_time_fires_once_whoever_looks(bench: Bench) {
    let schedule = every_minute(&bench, "a").await;
    let again = Schedule { id: bench.id(), ..schedule.clone() };
    assert_eq!(bench.store.add_schedule(again, &act()).await, Ok(false), "the name is taken");
    bench.advance(Span::MINUTE);
    let turn = schedule.turn(bench.now()).unwrap().unwrap();
    assert_eq!(bench.store.fire(&schedule, &turn).await, Ok(true));
    assert_eq!(bench.store.fire(&schedule, &turn).await, Ok(false), "another planner saw the same");
    assert_eq!(bench.store.schedules().await.unwrap()[0].next_due, turn.next_due);
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_schedule_firing").await, "1");
    let taken = bench.store.take_firings("one", TTL, 9).await.unwrap();
    assert_eq!((taken.len(), taken[0].due), (1, turn.fire.unwrap()));
    assert_eq!(taken[0].schedule, schedule);
    assert_eq!(bench.store.take_firings("two", TTL, 9).await, Ok(Vec::new()));
}

pub(super) async fn a_firing_is_left_to_the_next_when_its_planner_dies(bench: Bench) {
    let schedule = every_minute(&bench, "a").await;
    bench.advance(Span::MINUTE);
    let turn = schedule.turn(bench.now()).unwrap().unwrap();
    bench.store.fire(&schedule, &turn).await.unwrap();
    let first = bench.store.take_firings("one", TTL, 9).await.unwrap().remove(0);
    bench.advance(TTL);
    let second = bench.store.take_firings("two", TTL, 9).await.unwrap().remove(0);
    assert_eq!(first, second);
    assert_eq!(bench.store.end_firing(first.id, "one", done()).await, Ok(false), "it is not its any more");
    assert_eq!(bench.store.end_firing(first.id, "two", done()).await, Ok(true));
    assert_eq!(bench.store.end_firing(first.id, "two", done()).await, Ok(false), "it has ended");
    assert_eq!(bench.store.firings(schedule.id, 9).await.unwrap()[0]["status_code"], "PLANNED");
}

pub(super) async fn the_oldest_firing_of_a_schedule_goes_first(bench: Bench) {
    let (first, other) = (every_minute(&bench, "a").await, every_minute(&bench, "b").await);
    let now = bench.now();
    let early = bench.store.fire_now(&first, now, &act()).await.unwrap();
    let late = bench.store.fire_now(&first, now.plus(Span::SECOND), &act()).await.unwrap();
    let beside = bench.store.fire_now(&other, now, &act()).await.unwrap();
    let taken = bench.store.take_firings("one", TTL, 9).await.unwrap();
    assert_eq!(taken.iter().map(|firing| firing.id).collect::<Vec<_>>(), [early, beside]);
    let wait = FiringEnd::Later { until: bench.now().plus(Span::HOUR), remarks: json!({}) };
    assert_eq!(bench.store.end_firing(early, "one", wait).await, Ok(true));
    assert_eq!(bench.store.take_firings("one", TTL, 9).await, Ok(Vec::new()), "the later one waits behind it");
    bench.advance(Span::HOUR);
    assert_eq!(bench.store.take_firings("one", TTL, 9).await.unwrap()[0].id, early);
    bench.store.end_firing(early, "one", done()).await.unwrap();
    assert_eq!(bench.store.take_firings("one", TTL, 9).await.unwrap()[0].id, late);
}

pub(super) async fn a_schedule_whose_firings_pile_up_leaves_room_to_others(bench: Bench) {
    let (crowded, other) = (every_minute(&bench, "a").await, every_minute(&bench, "b").await);
    for second in 0..520 {
        bench.store.fire_now(&crowded, bench.now().plus(Span::from_seconds(second)), &act()).await.unwrap();
    }
    let beside = bench.store.fire_now(&other, bench.now(), &act()).await.unwrap();
    let taken = bench.store.take_firings("one", TTL, 9).await.unwrap();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[1].id, beside);
}

pub(super) async fn orders_are_audited_and_a_paused_schedule_does_not_fire(bench: Bench) {
    let schedule = every_minute(&bench, "a").await;
    assert_eq!(bench.store.order_schedule(schedule.id, ScheduleOrder::Pause, &act()).await, Ok(true));
    assert_eq!(bench.store.order_schedule(schedule.id, ScheduleOrder::Pause, &act()).await, Ok(false));
    bench.advance(Span::MINUTE);
    let turn = schedule.turn(bench.now()).unwrap().unwrap();
    assert_eq!(bench.store.fire(&schedule, &turn).await, Ok(false), "it was paused after it was looked at");
    let resume = ScheduleOrder::Resume { next_due: schedule.due_after(bench.now()).unwrap() };
    assert_eq!(bench.store.order_schedule(schedule.id, resume, &act()).await, Ok(true));
    assert_eq!(bench.store.order_schedule(schedule.id, ScheduleOrder::Remove, &act()).await, Ok(true));
    assert_eq!(bench.store.schedules().await, Ok(Vec::new()));
    let actions = bench.column("SELECT action_code FROM ing_audit ORDER BY id").await;
    assert_eq!(actions, ["SCHEDULE_ADD", "SCHEDULE_PAUSE", "SCHEDULE_RESUME", "SCHEDULE_REMOVE"]);
}

pub(super) async fn a_slice_is_cancelled_with_everything_below_it(bench: Bench) {
    bench.publish(&[(0, 100), (100, 200)]).await;
    let leased = bench.acquire_one().await;
    let children = vec![bench.slice(0, 50, None), bench.slice(50, 100, None)];
    let split = Split { reason: "OVER_CAP".into(), proven: None, children };
    bench.store.split_slice(&leased.lease, split).await.unwrap();
    let rest = bench.acquire(3).await;
    let child = rest.iter().find(|one| one.task.window.from() == at(0)).unwrap();
    assert_eq!(bench.store.cancel_slice(leased.lease.slice, &act()).await, Ok(2));
    assert!(bench.store.finish_slice(&child.lease, bench.succeeded()).await.is_err());
    assert_eq!(bench.store.cancel_slice(leased.lease.slice, &act()).await, Ok(0));
    assert!(bench.store.cancel_slice(bench.id(), &act()).await.is_err());
    let states = bench.column("SELECT status_code FROM ing_plan_slice ORDER BY status_code").await;
    assert_eq!(states, ["CANCELLED", "CANCELLED", "EXECUTING", "SPLIT"]);
    assert_eq!(bench.column("SELECT action_code FROM ing_audit").await, ["SLICE_CANCEL"]);
}

pub(super) async fn a_priority_is_changed_for_what_is_open(bench: Bench) {
    let plan = bench.publish(&[(0, 10), (10, 20), (20, 30)]).await;
    let leased = bench.acquire_one().await;
    bench.succeed(&leased).await;
    assert_eq!(bench.store.set_priority(Target::Plan(plan), 9, &act()).await, Ok(2));
    assert_eq!(bench.column("SELECT priority FROM ing_task ORDER BY priority").await, ["3", "9", "9"]);
    assert_eq!(bench.store.set_priority(Target::Task(leased.lease.task), 1, &act()).await, Ok(0), "it has ended");
    let last = bench.one("SELECT MAX(id) FROM ing_task").await.parse::<i64>().unwrap();
    assert_eq!(bench.store.set_priority(Target::Task(Id(last)), 1, &act()).await, Ok(1));
    bench.advance(Span::from_seconds(2));
    assert_eq!(bench.acquire_one().await.lease.task, Id(last), "taken before the older one");
    assert!(bench.store.set_priority(Target::Plan(bench.id()), 1, &act()).await.is_err());
}

pub(super) async fn holes_are_what_was_waived_or_failed_and_not_read_since(bench: Bench) {
    let plan = bench.publish(&[(0, 20), (20, 40), (40, 60)]).await;
    let leased = bench.acquire(3).await;
    bench.succeed(&leased[0]).await;
    let failed = SliceOutcome::Failed { class: "X".into(), reason: "no".into(), prefix: None, stops_source: false };
    bench.store.finish_slice(&leased[1].lease, failed.clone()).await.unwrap();
    bench.store.finish_slice(&leased[2].lease, failed).await.unwrap();
    assert_eq!(bench.store.unproven(plan).await, Ok(vec![Window::new(at(20), at(60)).unwrap()]));
    let own = namespace(Operation::Harvest);
    let window = Window::new(at(40), at(60)).unwrap();
    let waiver = NewWaiver { id: bench.id(), walk: walk_of(&own), window, act: act() };
    bench.store.waive(waiver).await.unwrap();
    let told = |holes: Vec<Hole>| -> Vec<(String, i64)> {
        holes.into_iter().map(|hole| (hole.cause, hole.window.from().micros() / 1_000_000)).collect()
    };
    let first = at(0).micros() / 1_000_000;
    let holes = told(bench.store.holes(&own, Span::ZERO).await.unwrap());
    assert_eq!(holes, [("FAILED".to_owned(), first + 20), ("WAIVED".to_owned(), first + 40)]);
    bench.publish(&[(20, 40)]).await;
    let again = bench.acquire_one().await;
    bench.succeed(&again).await;
    assert_eq!(told(bench.store.holes(&own, Span::ZERO).await.unwrap()), [("WAIVED".to_owned(), first + 40)]);
}
