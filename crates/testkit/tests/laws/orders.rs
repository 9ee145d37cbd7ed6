//! People and clocks give orders while the fleet works: cancels that race with commits (FM-18), schedules that many
//! planners keep (FM-16).
//!
//! `PATRA_CANCELS=1000` and `PATRA_FIRINGS=500` for a release; `PATRA_LAB_DATABASE=postgres://…` runs them on the empty
//! database of a server.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use patra_core::failpoint::{Crashed, Failpoints};
use patra_core::id::Id;
use patra_core::ports::{
    Inspect, Intervention, Ledger, ListFilter, Noun, Operate, Schedules, Shown, SourceOrder, Target,
};
use patra_core::schedule::{Ask, CatchUp, Overlap, Schedule};
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_engine::settings::Settings;
use patra_engine::timekeeper::Timekeeper;
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};
use patra_sim::{FaultLevel, Rng, Source};
use patra_testkit::lab::{HISTORY_FROM, Lab, LabPlan};
use patra_testkit::simulation::HISTORY;
use patra_testkit::strike::Dice;
use patra_testkit::template;
use serde_json::{Value, json};

use super::seeds::number;

const LEASE: Span = Span::from_seconds(10);

fn act() -> Intervention {
    Intervention { actor: "law".into(), reason: "race".into() }
}

/// A laboratory on a file of its own, or on the server that was named.
fn lab(folder: &tempfile::TempDir, source: Source, dice: Option<Arc<Dice>>, time: VirtualTime) -> Lab {
    lab_of(folder, source, dice, time, ("PT2H", 400))
}

fn lab_of(
    folder: &tempfile::TempDir,
    source: Source,
    dice: Option<Arc<Dice>>,
    time: VirtualTime,
    (slice, records): (&str, u64),
) -> Lab {
    let server = std::env::var("PATRA_LAB_DATABASE").ok().map(PathBuf::from);
    let mut plan = LabPlan::new(5, records, server.clone().unwrap_or_else(|| template::database(folder)));
    plan.sources = vec![source];
    plan.faults = FaultLevel::None;
    plan.history = HISTORY;
    plan.live = Span::DAY.times(40);
    plan.workers = 3;
    plan.settings = Settings { lease_ttl: LEASE, poll: Span::from_seconds(3), ..Settings::default() };
    plan.set = vec![("pagination.size".into(), "3".into()), ("window.slice".into(), slice.into())];
    if server.is_none() {
        template::place(&plan).unwrap();
    }
    let failpoints = dice.map_or_else(Failpoints::none, |dice| Failpoints::with(dice));
    Lab::open_on(plan, time, failpoints, Arc::new(Silent)).unwrap()
}

fn rows(lab: &Lab, noun: Noun, filter: ListFilter) -> Vec<Shown> {
    lab.runtime.block_on(lab.store.list(noun, &ListFilter { limit: 1_000, ..filter })).unwrap()
}

fn id_of(row: &Shown, key: &str) -> Id {
    row[key].as_str().unwrap().parse().unwrap()
}

/// Pages of a task that were committed.
fn pages(lab: &Lab, task: Id) -> usize {
    rows(lab, Noun::Batch, ListFilter { task: Some(task), status: Some("SUCCEEDED".into()), ..ListFilter::default() })
        .len()
}

struct Cancels {
    lab: Lab,
    rng: Rng,
    /// Pages that each cancelled task had when the cancel had returned.
    seen: BTreeMap<Id, usize>,
    orders: u64,
}

impl Cancels {
    /// Cancels a task, its slice or its plan; a cancel that fails or dies has not returned.
    fn cancel(&mut self) {
        let status = *self.rng.pick(&["RUNNING", "RUNNING", "QUEUED"]);
        let open = rows(&self.lab, Noun::Task, ListFilter { status: Some(status.into()), ..ListFilter::default() });
        if open.is_empty() {
            return;
        }
        let task = &open[self.rng.below(open.len() as u64) as usize];
        let (id, slice, plan) = (id_of(task, "id"), id_of(task, "slice_id"), id_of(task, "plan_id"));
        let kind = self.rng.below(40);
        let (store, runtime) = (self.lab.store.clone(), self.lab.runtime.clone());
        let ordered = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                match kind {
                    0 => store.cancel_plan(plan, &act()).await.is_ok(),
                    1..=8 => store.cancel_slice(slice, &act()).await.is_ok(),
                    _ => store.cancel_task(id, &act()).await.is_ok(),
                }
            })
        }));
        match ordered {
            Ok(true) => {
                self.orders += 1;
                let gone = ListFilter { status: Some("CANCELLED".into()), ..ListFilter::default() };
                for task in rows(&self.lab, Noun::Task, gone) {
                    let task = id_of(&task, "id");
                    if !self.seen.contains_key(&task) {
                        let pages = pages(&self.lab, task);
                        self.seen.insert(task, pages);
                    }
                }
            }
            Ok(false) => {}
            Err(payload) => assert!(payload.is::<Crashed>()),
        }
    }

    fn work(&mut self) {
        let mut scheduler = Scheduler::new(self.lab.time.clone(), self.rng.bits());
        let start = |lab: &mut Lab, scheduler: &mut Scheduler| {
            let process = lab.process();
            for worker in 0..lab.plan.workers {
                lab.spawn(scheduler, &process, format!("w{worker}"));
            }
        };
        start(&mut self.lab, &mut scheduler);
        loop {
            match scheduler.turn() {
                Turn::Idle => return,
                Turn::Crashed(..) => start(&mut self.lab, &mut scheduler),
                Turn::Ran(_) if self.rng.below(4) == 0 => self.cancel(),
                _ => {}
            }
        }
    }
}

#[test]
fn no_page_commits_after_a_cancel_has_returned() {
    super::quiet_crashes();
    let folder = template::scratch().unwrap();
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let dice = Arc::new(Dice::new(3, 150, time.clone(), LEASE.times(2)));
    let lab = lab(&folder, Source::DataCite, Some(dice.clone()), time);
    let mut cancels = Cancels { lab, rng: Rng::for_parts(3, &[0x18]), seen: BTreeMap::new(), orders: 0 };
    let wanted = number("PATRA_CANCELS", 60);
    for _ in 0..wanted {
        drop(catch_unwind(AssertUnwindSafe(|| drop(cancels.lab.plan_source(Source::DataCite)))));
        cancels.work();
        if cancels.orders >= wanted {
            break;
        }
        cancels.lab.time.jump(Span::HOUR.times(3));
    }
    let late: Vec<String> = cancels
        .seen
        .iter()
        .filter(|(task, seen)| pages(&cancels.lab, **task) != **seen)
        .map(|(task, _)| format!("task {task} committed after its cancel"))
        .collect();
    let struck = dice.fired();
    dice.quiet();
    cancels.lab.time.jump(LEASE.times(3));
    cancels.lab.drain().unwrap();
    for pause in [Span::DAY, Span::DAY] {
        cancels.lab.round().unwrap();
        cancels.lab.time.jump(pause);
    }
    let mut input = cancels.lab.check_input().unwrap();
    input.rules.iter_mut().for_each(|rules| rules.rates.clear());
    let verdict = cancels.lab.judge(&input);
    proof(json!({
        "cancels": cancels.orders,
        "tasks cancelled": cancels.seen.len(),
        "failpoints struck": struck,
        "tasks that committed after their cancel": late.len(),
        "findings": verdict.findings.iter().filter(|found| found.severity == patra_checker::Severity::Error).count(),
    }));
    assert!(cancels.orders >= wanted, "{} of {wanted} cancels", cancels.orders);
    assert!(late.is_empty(), "{late:?}");
    assert!(verdict.ok, "{:#?}", verdict.findings.iter().take(5).collect::<Vec<_>>());
}

/// What a law has counted, for `cargo xtask torture`.
fn proof(counted: Value) {
    println!("patra-proof {counted}");
}

/// Workers of one source that is stopped and let go on, its plan taken sooner and later.
struct Pauses {
    lab: Lab,
    rng: Rng,
    priorities: u64,
}

impl Pauses {
    fn order(&self, paused: bool) -> Timestamp {
        let order =
            SourceOrder { provenance: Source::DataCite.name().into(), endpoint: None, pause: paused, act: act() };
        assert_eq!(self.lab.runtime.block_on(self.lab.store.order_source(&order)), Ok(true));
        self.lab.now()
    }

    fn prioritise(&mut self) {
        let open = rows(&self.lab, Noun::Task, ListFilter { status: Some("QUEUED".into()), ..ListFilter::default() });
        let Some(task) = open.first() else { return };
        let (target, to) = (Target::Plan(id_of(task, "plan_id")), 1 + self.rng.below(9) as u8);
        let changed = self.lab.runtime.block_on(self.lab.store.set_priority(target, to, &act())).unwrap();
        self.priorities += u64::from(changed > 0);
    }

    /// Works until the source is stopped or nothing is left, then for as long as anybody goes on.
    fn work(&mut self) -> Option<Timestamp> {
        let mut scheduler = Scheduler::new(self.lab.time.clone(), self.rng.bits());
        let process = self.lab.process();
        for worker in 0..self.lab.plan.workers {
            self.lab.spawn(&mut scheduler, &process, format!("w{worker}"));
        }
        let mut paused = None;
        loop {
            match scheduler.turn() {
                Turn::Idle => return paused,
                Turn::Ran(_) if self.rng.below(50) == 0 => self.prioritise(),
                Turn::Ran(_) if paused.is_none() && self.rng.below(150) == 0 => paused = Some(self.order(true)),
                _ => {}
            }
        }
    }
}

#[test]
fn a_paused_source_is_not_asked_after_one_lease() {
    super::quiet_crashes();
    let folder = template::scratch().unwrap();
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let wanted = number("PATRA_PAUSES", 12);
    // Slices that take longer than a lease, and work for every pause: whoever is at it must notice.
    let lab = lab_of(&folder, Source::DataCite, None, time, ("P1D", 60 * wanted));
    let mut pauses = Pauses { lab, rng: Rng::for_parts(9, &[0x19]), priorities: 0 };
    let mut stopped: Vec<(i64, i64)> = Vec::new();
    for _ in 0..wanted * 40 {
        if stopped.len() as u64 >= wanted {
            break;
        }
        drop(pauses.lab.plan_source(Source::DataCite));
        match pauses.work() {
            Some(paused) => {
                pauses.lab.time.jump(LEASE.times(3));
                stopped.push((paused.plus(LEASE).micros(), pauses.order(false).micros()));
            }
            None => pauses.lab.time.jump(Span::HOUR.times(6)),
        }
    }
    pauses.lab.drain().unwrap();
    let served = pauses.lab.check_input().unwrap().served;
    let late = |at: i64| stopped.iter().any(|(from, to)| *from < at && at < *to);
    let asked = served.iter().filter(|row| late(row.at_us)).count();
    let busy = rows(&pauses.lab, Noun::Run, ListFilter { status: Some("PARTIAL".into()), ..ListFilter::default() });
    let given_back = busy.iter().filter(|run| run["reason"] == "STOPPED").count();
    proof(json!({
        "pauses": stopped.len(),
        "changes of priority": pauses.priorities,
        "tasks given back": given_back,
        "requests more than a lease after a pause": asked,
    }));
    assert!(stopped.len() as u64 >= wanted, "{} of {wanted} pauses", stopped.len());
    assert!(given_back > 0, "nobody was at work");
    assert_eq!(asked, 0);
}

/// Planners at the same time.
const PLANNERS: usize = 8;

fn hourly(lab: &Lab) -> Schedule {
    let mut schedule = Schedule {
        id: lab.store.ids().next(),
        name: "hourly".into(),
        cron: "0 * * * *".into(),
        zone: "Europe/Berlin".into(),
        jitter: Span::MINUTE.times(5),
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        provenance: Source::DataCite.name().into(),
        endpoint: None,
        operation: Operation::Harvest,
        channel: "stable".into(),
        ask: Ask::default(),
        paused: false,
        next_due: Timestamp::MIN,
        version: 1,
    };
    schedule.next_due = schedule.due_after(lab.now()).unwrap();
    assert_eq!(lab.runtime.block_on(lab.store.add_schedule(schedule.clone(), &act())), Ok(true));
    schedule
}

/// One look of one planner, which may die between any two steps; true when it died.
fn look(lab: &Lab, keeper: &Timekeeper, mut dies: impl FnMut() -> bool) -> bool {
    lab.runtime.block_on(async {
        keeper.fire_due().await.unwrap();
        if dies() {
            return true;
        }
        for firing in keeper.take().await.unwrap() {
            if dies() {
                return true;
            }
            let trigger = lab.trigger(Source::DataCite);
            if dies() {
                // Planned, and nobody told.
                drop(keeper.planner.plan_as(firing.id, &trigger).await);
                return true;
            }
            drop(keeper.plan(firing, &trigger).await.unwrap().outcome);
        }
        false
    })
}

#[test]
fn eight_planners_fire_every_due_time_once() {
    super::quiet_crashes();
    let folder = template::scratch().unwrap();
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let mut lab = lab(&folder, Source::DataCite, None, time);
    let schedule = hourly(&lab);
    let wanted = number("PATRA_FIRINGS", 40) as usize;
    let mut rng = Rng::for_parts(16, &[0x16]);
    let (mut due, mut deaths, mut live_max) = (schedule.next_due, 0u64, 0);
    for _ in 0..wanted {
        let moment = due.plus(schedule.jitter);
        let wait = moment.since(lab.now());
        lab.time.jump(wait.max(Span::ZERO));
        // All of them look again and again; whoever dies comes back under another name.
        for turn in 0..PLANNERS * 3 {
            let who = format!("planner-{}-{deaths}", turn % PLANNERS);
            let keeper =
                Timekeeper { schedules: lab.store.clone(), operate: lab.store.clone(), planner: lab.planner(), who };
            deaths += u64::from(look(&lab, &keeper, || rng.below(6) == 0));
            if turn % PLANNERS == PLANNERS - 1 {
                lab.time.jump(Span::from_seconds(61));
            }
        }
        let live = rows(&lab, Noun::Plan, ListFilter { status: Some("READY".into()), ..ListFilter::default() });
        live_max = live_max.max(live.len());
        lab.drain().unwrap();
        due = schedule.due_after(due).unwrap();
    }
    for _ in 0..10 {
        lab.time.jump(Span::from_seconds(61));
        let keeper = Timekeeper {
            schedules: lab.store.clone(),
            operate: lab.store.clone(),
            planner: lab.planner(),
            who: "last".into(),
        };
        look(&lab, &keeper, || false);
        lab.drain().unwrap();
    }
    let firings = lab.runtime.block_on(lab.store.firings(schedule.id, 10_000)).unwrap();
    let mut expected = Vec::new();
    let mut at = schedule.next_due;
    while expected.len() < firings.len() {
        expected.push(at.to_string());
        at = schedule.due_after(at).unwrap();
    }
    expected.reverse();
    let fired: Vec<&str> = firings.iter().map(|firing| firing["due_at"].as_str().unwrap()).collect();
    let missed = expected.iter().filter(|due| !fired.contains(&due.as_str())).count();
    proof(json!({
        "firings": firings.len(),
        "planners that died": deaths,
        "plans": all_plans(&lab),
        "due times missed": missed,
        "due times fired twice": fired.len() - (expected.len() - missed),
        "most plans live at once": live_max,
    }));
    assert_eq!(fired, expected, "every due time, once");
    assert!(firings.len() >= wanted, "{} of {wanted}", firings.len());
    let open = firings.iter().filter(|firing| firing["status_code"] == "PENDING").count();
    assert_eq!(open, 0);
    let planned: Vec<String> =
        firings.iter().filter_map(|firing| firing["plan_id"].as_str().map(str::to_owned)).collect();
    let plans: usize = all_plans(&lab);
    assert_eq!(planned.len(), plans, "one plan for each firing that was planned");
    let different: std::collections::BTreeSet<&String> = planned.iter().collect();
    assert_eq!(different.len(), planned.len());
    assert!(live_max <= 1, "{live_max} plans were live at once");
    assert!(deaths as usize > wanted / 4);
}

fn all_plans(lab: &Lab) -> usize {
    let mut found = 0;
    let mut before = None;
    loop {
        let page = rows(lab, Noun::Plan, ListFilter { before_id: before, ..ListFilter::default() });
        let Some(last) = page.last() else { return found };
        found += page.len();
        before = Some(id_of(last, "id"));
    }
}
