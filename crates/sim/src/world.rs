//! All providers behind one door. The path names the source; around its honest answer the world enforces the rate, injects
//! faults, moves the truth and writes the log. Same plan and same requests give the same answers.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::faults::{FaultDice, FaultKind};
use crate::moment::{MILLISECOND_US, SECOND_US, http_date};
use crate::mutation::MutationFeed;
use crate::provider::{Kind, Provider, Rate, Reply};
use crate::providers::provider_for;
use crate::rate::RateMeter;
use crate::request::{Cut, SimAnswer, SimRequest};
use crate::rng::{Rng, hash_text};
use crate::served::{Counters, LogMode, ServedLog, ServedRow, TruthRow, sha256_hex, truth_rows, write_jsonl};
use crate::source::Source;
use crate::truth::Truth;
use crate::world_plan::WorldPlan;

/// Every provider of a plan.
pub struct World {
    pub(crate) lanes: BTreeMap<Source, Lane>,
    enforce_rate: bool,
    enforce_concurrency: bool,
    rate_override: Option<Rate>,
    limit_steps: Vec<(i64, u32)>,
    first_at: Option<i64>,
    /// When the harvest may start: the end of the history.
    pub(crate) start_us: i64,
}

/// One provider and everything that acts around it.
pub(crate) struct Lane {
    pub provider: Box<dyn Provider>,
    pub faults: FaultDice,
    pub feed: MutationFeed,
    /// The situation that the feed runs for.
    pub feed_situation: Option<&'static str>,
    /// Until then every request is refused, with the answer a scenario chose.
    pub outage: Option<Outage>,
    /// How far the source's own clock, as its headers tell it, is ahead.
    pub date_ahead_us: i64,
    meter: RateMeter,
    latency: Rng,
    log: ServedLog,
}

/// A span in which a provider refuses everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub situation: &'static str,
    pub span_us: i64,
    pub until_us: Option<i64>,
    pub throttles: bool,
}

impl World {
    /// Draws the truth of every source and opens the doors.
    pub fn new(plan: WorldPlan) -> Self {
        let lanes = plan.sources.iter().map(|source| (*source, Lane::new(&plan, *source))).collect();
        let mut world = Self {
            lanes,
            enforce_rate: plan.enforce_rate,
            enforce_concurrency: plan.enforce_concurrency,
            rate_override: plan.rate_override,
            limit_steps: plan.limit_steps.clone(),
            first_at: None,
            start_us: plan.to,
        };
        for (source, cap) in &plan.caps {
            world.set_cap(source.name(), *cap);
        }
        for scenario in &plan.scenarios {
            world.enable(scenario);
        }
        world
    }

    /// Answers one request at a virtual time.
    pub fn answer(&mut self, request: &SimRequest, now_us: i64) -> SimAnswer {
        let source = Source::of_path(&request.path);
        let rate_override = self.rate_now(now_us);
        let Some(lane) = source.and_then(|source| self.lanes.get_mut(&source)) else {
            return finish(SimAnswer::new(404, "text/plain", "no such source"), now_us);
        };
        let kind = lane.provider.kind(request);
        let rate = rate_override.unwrap_or_else(|| lane.provider.rate(request));
        lane.log.counters.requests += 1;
        lane.provider.truth_mut().advance(now_us);
        let crowded = !lane.meter.has_room(rate, now_us);
        if crowded {
            lane.log.counters.concurrency_violations += 1;
        }
        let over = !lane.meter.admit(rate, now_us);
        if over {
            lane.log.counters.rate_violations += 1;
        }
        if (over && self.enforce_rate) || (crowded && self.enforce_concurrency) {
            let reply = Reply::bare(lane.provider.throttled(request, None, now_us));
            return lane.close(request, kind, reply, Some("over-limit"), now_us);
        }
        if let Some(refusal) = lane.refusal(request, now_us) {
            return lane.close(request, kind, Reply::bare(refusal), Some("outage"), now_us);
        }
        let fault = lane.faults.decide(kind);
        let moved = lane.feed.tick(lane.provider.truth_mut(), now_us);
        let (mut reply, fault) = lane.serve(request, fault, now_us);
        if moved > 0 {
            lane.log.counters.mutations += moved;
            reply.answer.fired.extend(lane.feed_situation);
        }
        // A forgotten cursor is met by whoever asks with it; the provider counts that.
        if fault.is_some_and(|fault| fault != FaultKind::ExpireCursor) {
            reply.answer.fired.extend(lane.faults.situation());
        }
        lane.close(request, kind, reply, fault.map(FaultKind::name), now_us)
    }

    /// The limit in place of the providers' own, which may change with time.
    fn rate_now(&mut self, now_us: i64) -> Option<Rate> {
        let age = now_us - *self.first_at.get_or_insert(now_us);
        let step = self.limit_steps.iter().rfind(|(after_us, _)| *after_us <= age);
        self.rate_override.map(|rate| Rate { limit: step.map_or(rate.limit, |(_, limit)| *limit), ..rate })
    }

    /// Every version of a source, with hashes; planned versions that are not yet visible are included.
    pub fn truth_rows(&self, source: &str) -> Vec<TruthRow> {
        self.truth(source).map(|truth| truth_rows(truth).collect()).unwrap_or_default()
    }

    /// Streams every version of a source as JSON lines; gives their number.
    pub fn write_truth(&self, source: &str, out: &mut impl Write) -> io::Result<u64> {
        self.truth(source).map_or(Ok(0), |truth| write_jsonl(truth_rows(truth), out))
    }

    /// Streams every served row of a source as JSON lines; gives their number.
    pub fn write_served(&self, source: &str, out: &mut impl Write) -> io::Result<u64> {
        write_jsonl(self.served(source), out)
    }

    /// The truth of a source.
    pub fn truth(&self, source: &str) -> Option<&Truth> {
        self.lane(source).map(|lane| lane.provider.truth())
    }

    /// The truth of a source, to change records by hand.
    pub fn truth_mut(&mut self, source: &str) -> Option<&mut Truth> {
        self.lane_mut(source).map(|lane| lane.provider.truth_mut())
    }

    /// Every request that a source got; empty when only counters are kept.
    pub fn served(&self, source: &str) -> &[ServedRow] {
        self.lane(source).map_or(&[], |lane| &lane.log.rows)
    }

    /// Totals of a source.
    pub fn counters(&self, source: &str) -> Counters {
        self.lane(source).map(|lane| lane.log.counters.clone()).unwrap_or_default()
    }

    /// The sources of this world.
    pub fn sources(&self) -> Vec<&'static str> {
        self.lanes.keys().map(|source| source.name()).collect()
    }

    /// Sets how many results one query of a source may reach; false when it has no such cap.
    pub fn set_cap(&mut self, source: &str, cap: usize) -> bool {
        self.lane_mut(source).is_some_and(|lane| lane.provider.set_cap(cap))
    }

    /// Sets how long an unused cursor or token of a source lives; false when its cursors do not expire.
    pub fn set_cursor_life(&mut self, source: &str, life_us: i64) -> bool {
        self.lane_mut(source).is_some_and(|lane| lane.provider.set_cursor_life(life_us))
    }

    /// Sets how far the clocks in the headers of all sources are ahead; the stamps of records stay true.
    pub fn set_date_ahead(&mut self, ahead_us: i64) {
        self.lanes.values_mut().for_each(|lane| lane.date_ahead_us = ahead_us);
    }

    /// From here on every request of every source meets one of these faults in turn, until [`World::silence`].
    pub fn fail_all(&mut self, faults: &[FaultKind]) {
        for lane in self.lanes.values_mut() {
            lane.faults.pace("SIM-ALL", 1, Kind::Search, faults);
            lane.faults.pace("SIM-ALL", 1, Kind::Detail, faults);
        }
    }

    /// Ends all faults and mutations: from here on providers only answer.
    pub fn silence(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.faults.silence();
            lane.feed.set_every(0);
            lane.outage = None;
            lane.date_ahead_us = 0;
        }
    }

    fn lane(&self, source: &str) -> Option<&Lane> {
        self.lanes.get(&Source::by_name(source)?)
    }

    fn lane_mut(&mut self, source: &str) -> Option<&mut Lane> {
        self.lanes.get_mut(&Source::by_name(source)?)
    }
}

impl Lane {
    fn new(plan: &WorldPlan, source: Source) -> Self {
        let truth_plan = plan.truth_plan(source);
        let seed = truth_plan.seed;
        Self {
            provider: provider_for(truth_plan.draw()),
            faults: FaultDice::new(plan.faults.clone(), source),
            feed: MutationFeed::new(seed, plan.mutate_every, plan.mutate_burst, plan.mutations_max),
            feed_situation: None,
            outage: None,
            date_ahead_us: 0,
            meter: RateMeter::default(),
            latency: Rng::for_parts(seed, &[0x1A]),
            log: ServedLog::new(plan.log),
        }
    }

    fn refusal(&mut self, request: &SimRequest, now_us: i64) -> Option<SimAnswer> {
        let outage = self.outage.as_mut()?;
        let until = *outage.until_us.get_or_insert(now_us + outage.span_us);
        if now_us >= until {
            self.outage = None;
            return None;
        }
        let Outage { situation, throttles, .. } = *outage;
        let refusal = match throttles {
            true => self.provider.throttled(request, None, now_us),
            false => SimAnswer::new(
                404,
                "application/json",
                "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"No matches found!\"}}",
            ),
        };
        Some(refusal.fires(situation))
    }

    /// The provider's reply, or the fault in its place; says which fault really fired.
    fn serve(&mut self, request: &SimRequest, fault: Option<FaultKind>, now_us: i64) -> (Reply, Option<FaultKind>) {
        let Some(kind) = fault else {
            return (self.provider.reply(request, now_us), None);
        };
        if !kind.acts_after() {
            return (Reply::bare(self.refused(kind, request, now_us)), fault);
        }
        if kind == FaultKind::ExpireCursor {
            let fired = self.provider.expire_cursors(now_us);
            return (self.provider.reply(request, now_us), fault.filter(|_| fired));
        }
        let mut reply = self.provider.reply(request, now_us);
        match kind {
            FaultKind::CutBody => {
                let keep = self.faults.detail(reply.answer.body.len().max(1) as u64) as usize;
                reply.answer.cut = Some(Cut::AfterBytes(keep));
            }
            FaultKind::ResetAfter => reply.answer.cut = Some(Cut::Reset),
            _ => reply.answer.delay_us += self.faults.slowness_us(),
        }
        (reply, fault)
    }

    /// The answer of a provider that does not do what was asked.
    fn refused(&mut self, kind: FaultKind, request: &SimRequest, now_us: i64) -> SimAnswer {
        let seconds = 1 + self.faults.detail(5) as i64;
        let provider = &self.provider;
        match kind {
            FaultKind::ThrottleSeconds => provider.throttled(request, Some(seconds.to_string()), now_us),
            FaultKind::ThrottleDate => {
                let until = now_us + self.date_ahead_us + seconds * SECOND_US;
                provider.throttled(request, Some(http_date(until)), now_us)
            }
            FaultKind::ThrottleBare => provider.throttled(request, None, now_us),
            FaultKind::Error502 => gateway_page(502, "Bad Gateway"),
            FaultKind::Error503 => {
                gateway_page(503, "Service Temporarily Unavailable").with("retry-after", seconds.to_string())
            }
            FaultKind::Reset => SimAnswer { cut: Some(Cut::Reset), ..SimAnswer::default() },
            FaultKind::ErrorBody => provider.error_body(request, now_us),
            FaultKind::HtmlPage => SimAnswer::new(
                200,
                "text/html; charset=utf-8",
                "<!DOCTYPE html>\n<html><head><title>Scheduled maintenance</title></head><body><p>We will be back soon.</p></body></html>\n",
            ),
            _ => gateway_page(500, "Internal Server Error"),
        }
    }

    /// Completes the answer, counts and logs it.
    fn close(&mut self, request: &SimRequest, kind: Kind, reply: Reply, fault: Option<&str>, now_us: i64) -> SimAnswer {
        let Reply { mut answer, items, token } = reply;
        answer.delay_us += 20 * MILLISECOND_US + self.latency.below(80) as i64 * MILLISECOND_US;
        self.meter.opened(now_us + answer.delay_us);
        let counters = &mut self.log.counters;
        counters.items += items.len() as u64;
        if answer.status == 429 {
            counters.throttled += 1;
        }
        for situation in &answer.fired {
            *counters.situations.entry((*situation).to_owned()).or_default() += 1;
        }
        if let Some(name) = fault {
            *counters.faults.entry(name.to_owned()).or_default() += 1;
        }
        let path_query = request.path_query();
        // Crossref keeps one cursor string for the whole walk, so a repeat says nothing there.
        if token.is_some() && self.provider.source() != "crossref" {
            self.log.note_token(&path_query, answer.status == 200 && answer.cut.is_none());
        }
        if answer.status == 200 && answer.cut.is_none() {
            self.provider.truth_mut().delivered(&items);
        }
        if self.log.mode == LogMode::Rows {
            let truth = self.provider.truth();
            let items = items.iter().map(|(index, version)| (truth.id(*index).to_owned(), *version)).collect();
            self.log.rows.push(ServedRow {
                source: self.provider.source().to_owned(),
                at_us: now_us,
                method: request.method.clone(),
                path_query,
                status: answer.status,
                fault: fault.map(str::to_owned),
                response_sha256: sha256_hex(&answer.body),
                items,
                kind,
                token,
                fired: answer.fired.clone(),
                body_hash: hash_text(&String::from_utf8_lossy(&request.body)),
            });
        }
        finish(answer, now_us + self.date_ahead_us)
    }
}

/// A world that several callers share.
#[derive(Clone)]
pub struct SharedWorld(Arc<Mutex<World>>);

impl SharedWorld {
    /// Shares a world.
    pub fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// Answers one request.
    pub fn answer(&self, request: &SimRequest, now_us: i64) -> SimAnswer {
        self.lock().answer(request, now_us)
    }

    /// The world itself, for reading rows and switching scenarios.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        // A panic in another caller leaves at worst one request unlogged; the world stays usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn finish(mut answer: SimAnswer, now_us: i64) -> SimAnswer {
    let length = answer.body.len().to_string();
    answer.headers.push(("content-length".to_owned(), length));
    answer.headers.push(("date".to_owned(), http_date(now_us)));
    answer
}

fn gateway_page(status: u16, reason: &str) -> SimAnswer {
    let page = format!(
        "<html>\r\n<head><title>{status} {reason}</title></head>\r\n<body>\r\n<center><h1>{status} {reason}</h1></center>\r\n</body>\r\n</html>\r\n"
    );
    SimAnswer::new(status, "text/html", page)
}
