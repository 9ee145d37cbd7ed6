//! `patra planner`, `patra executor`, `patra serve`: processes that run until they are stopped.
//!
//! They share nothing but the database, so any number of each may run, be stopped and be started at any time.

use std::sync::Arc;

use futures::FutureExt;
use patra_core::healing::Thresholds;
use patra_core::ports::{Clock, LedgerError, Only, Publisher, Schedules};
use patra_core::time::Span;
use patra_engine::dispatcher::Dispatcher;
use patra_engine::notice::Both;
use patra_engine::planner::{PlanError, Planned, Planner};
use patra_engine::settings::Settings;
use patra_engine::slot::SlotKeeper;
use patra_engine::timekeeper::Timekeeper;
use patra_engine::watch::Watch;
use patra_remote::{MailPublisher, MailSettings};
use patra_source::install_crypto;
use tokio_util::sync::CancellationToken;

use crate::cli::Global;
use crate::commands::relay::{TargetArgs, relay, webhook};
use crate::commands::schedule::trigger_of;
use crate::failure::{Exit, Failure};
use crate::gate;
use crate::metrics::{self, Metrics};
use crate::progress::Progress;
use crate::role_args::{ExecutorArgs, HealingArgs, MetricsArgs, PlanArgs, PlannerArgs, ServeAllArgs, WorkArgs};
use crate::wiring::Desk;
use crate::working::{default_workers, executor, run_workers, settings, stop_on_signals};

pub async fn run_executor(global: &Global, args: &ExecutorArgs) -> Result<(), Failure> {
    let thresholds = thresholds(&args.thresholds)?;
    let role = Role::start(global, args.work.workers).await?;
    tokio::try_join!(role.work(&args.work, thresholds), role.figures(&args.metrics))?;
    role.end().await
}

pub async fn run_planner(global: &Global, args: &PlannerArgs) -> Result<(), Failure> {
    let watch = WatchArgs::of(&args.healing, &args.plan)?;
    let role = Role::start(global, None).await?;
    tokio::try_join!(
        role.plan(&args.plan, &watch.thresholds),
        role.keep_slot(),
        role.watch(&watch),
        role.figures(&args.metrics)
    )?;
    role.end().await
}

/// Every role in one process.
pub async fn run_all(global: &Global, args: &ServeAllArgs) -> Result<(), Failure> {
    let watch = WatchArgs::of(&args.healing, &args.planner)?;
    let role = Role::start(global, args.executor.workers).await?;
    tokio::try_join!(
        role.plan(&args.planner, &watch.thresholds),
        role.work(&args.executor, watch.thresholds),
        role.relay(&args.target),
        role.watch(&watch),
        role.figures(&args.metrics)
    )?;
    role.end().await
}

/// How often schedules and plans that wait are looked at.
const TICK: Span = Span::from_seconds(2);

/// What the watch needs to know.
struct WatchArgs {
    thresholds: Thresholds,
    healing: HealingArgs,
}

impl WatchArgs {
    /// A watermark cannot move more often than plans are made.
    fn of(healing: &HealingArgs, plan: &PlanArgs) -> Result<WatchArgs, Failure> {
        let mut thresholds = thresholds(&healing.thresholds)?;
        thresholds.stall_after = thresholds.stall_after.max(plan.every.times(3));
        Ok(WatchArgs { thresholds, healing: healing.clone() })
    }
}

/// Where alarms are told beside the log.
fn alarm_publisher(healing: &HealingArgs, clock: &Arc<dyn Clock>) -> Result<Option<Arc<dyn Publisher>>, Failure> {
    if let Some(url) = &healing.alarm_webhook {
        return webhook("--alarm-webhook", url, clock.clone()).map(Some);
    }
    let Some(server) = healing.alarm_mail.clone() else { return Ok(None) };
    let to = healing.alarm_mail_to.clone();
    let from = healing.alarm_mail_from.clone().or_else(|| to.first().cloned()).unwrap_or_default();
    let mail = MailPublisher::new(&MailSettings { server, from, to });
    Ok(Some(Arc::new(mail.map_err(|error| Failure::new(Exit::Usage, format!("--alarm-mail: {error}")))?)))
}

pub fn thresholds(set: &[(String, String)]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for (name, value) in set {
        thresholds.set(name, value).map_err(|error| Failure::new(Exit::Usage, format!("--threshold: {error}")))?;
    }
    Ok(thresholds)
}

/// What every role has.
struct Role {
    desk: Desk,
    progress: Arc<Progress>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl Role {
    async fn start(global: &Global, workers: Option<u16>) -> Result<Role, Failure> {
        install_crypto();
        let desk = Desk::open_role(global.database(), workers.unwrap_or_else(default_workers)).await?;
        let progress = Arc::new(Progress::new(global.quiet || global.json, desk.clock.clone()));
        let metrics = Arc::new(Metrics::new(desk.clock.clone()));
        Ok(Role { desk, progress, metrics, stop: stop_on_signals(global.quiet) })
    }

    /// Works on whatever is queued. A worker that cannot go on ends the others too.
    async fn work(&self, args: &WorkArgs, thresholds: Thresholds) -> Result<(), Failure> {
        let workers = args.workers.unwrap_or_else(default_workers);
        let usual = settings(args.lease, self.partition_max(args, workers).await?);
        let settings = Settings { thresholds, dispatch_every: None, ..usual };
        let gate = gate::shared(&self.desk, args.redis.as_ref())?;
        let only = Only { provenance: args.only.clone(), operation: None };
        let notices = Arc::new(Both(self.progress.clone(), self.metrics.clone()));
        let executor = executor(&self.desk, notices, settings, only, &self.stop, gate);
        self.progress.say(&format!("executing with {workers} workers"));
        run_workers(workers, |name| {
            let (executor, stop) = (executor.clone(), self.stop.clone());
            async move {
                let ended = executor.serve(&name).await;
                stop.cancel();
                ended
            }
        })
        .await
    }

    /// `C_max`; unless it is given, the workers are shared by the sources that were planned lately.
    async fn partition_max(&self, args: &WorkArgs, workers: u16) -> Result<u32, Failure> {
        if let Some(given) = args.partition_max {
            return Ok(given.min(workers).into());
        }
        let sources = match args.only {
            Some(_) => 1,
            None => self.desk.sources_at_work().await?,
        };
        Ok(Settings::default().partition_share(workers, sources))
    }

    /// Asks for a plan of each source again and again, and lets schedules fire.
    async fn plan(&self, args: &PlanArgs, thresholds: &Thresholds) -> Result<(), Failure> {
        if args.sources.is_empty() && self.desk.store.schedules().await?.is_empty() {
            return Err(Failure::new(Exit::Usage, "no source to plan for, and no schedule")
                .hint("name them: `--source crossref`, or add a schedule: `patra schedule add --help`"));
        }
        let stock_max = thresholds.stock_max;
        tokio::try_join!(self.plan_sources(args, stock_max), self.keep_time(stock_max), self.dispatch(stock_max))?;
        Ok(())
    }

    /// Goes on with plans that have slices without a task, also with those of others.
    async fn dispatch(&self, stock_max: u32) -> Result<(), Failure> {
        let dispatcher = Dispatcher { ledger: self.desk.store.clone(), stock_max };
        while !self.stop.is_cancelled() {
            if let Err(away) = dispatcher.go_on(&Only::default()).await {
                tracing::warn!("plans are gone on with later: {away}");
            }
            self.pause(TICK).await;
        }
        Ok(())
    }

    fn planner(&self, stock_max: u32) -> Planner {
        Planner { stock_max, ..self.desk.planner() }
    }

    async fn plan_sources(&self, args: &PlanArgs, stock_max: u32) -> Result<(), Failure> {
        if args.sources.is_empty() {
            return Ok(());
        }
        self.progress.say(&format!("planning {} every {}", args.sources.join(", "), args.every));
        while !self.stop.is_cancelled() {
            for source in &args.sources {
                self.plan_one(source, args, stock_max).await?;
            }
            self.pause(args.every).await;
        }
        Ok(())
    }

    async fn pause(&self, span: Span) {
        let next = self.desk.clock.now().plus(span);
        futures::select_biased! {
            () = self.stop.cancelled().fuse() => {}
            () = self.desk.clock.sleep_until(next).fuse() => {}
        }
    }

    /// Fires and plans what schedules ask for. What goes wrong with one is written on its firing and stops nobody.
    async fn keep_time(&self, stock_max: u32) -> Result<(), Failure> {
        let keeper = Timekeeper {
            schedules: self.desk.store.clone(),
            operate: self.desk.store.clone(),
            planner: self.planner(stock_max),
            who: self.desk.slot_owner.clone(),
        };
        while !self.stop.is_cancelled() {
            if let Err(away) = self.tick(&keeper).await {
                tracing::warn!("schedules are looked at again later: {away}");
            }
            self.pause(TICK).await;
        }
        Ok(())
    }

    async fn tick(&self, keeper: &Timekeeper) -> Result<(), LedgerError> {
        keeper.fire_due().await?;
        for firing in keeper.take().await? {
            let name = firing.schedule.name.clone();
            match trigger_of(&self.desk, &firing).await {
                Ok(trigger) => match keeper.plan(firing, &trigger).await?.outcome {
                    Ok(Planned::Created { window, slices, .. }) => {
                        self.progress.say(&format!("{name}: {slices} slices over {window}"));
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!("schedule `{name}` made no plan: {error}"),
                },
                Err(away) if away.exit == Exit::Database => tracing::warn!("schedule `{name}` waits: {}", away.message),
                Err(refused) => {
                    tracing::warn!("schedule `{name}` made no plan: {}", refused.message);
                    keeper.refuse(&firing, &refused.message).await?;
                }
            }
        }
        Ok(())
    }

    /// A database that is away or a source that is paused is waited for; a wrong definition ends the planner at once.
    async fn plan_one(&self, source: &str, args: &PlanArgs, stock_max: u32) -> Result<(), Failure> {
        let trigger = match self.desk.trigger(source, &args.trigger).await {
            Ok(trigger) => trigger,
            Err(away) if away.exit == Exit::Database => {
                tracing::warn!("{source} was not planned, trying again later: {}", away.message);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        match self.planner(stock_max).plan(&trigger).await {
            Ok(Planned::Created { window, slices, .. }) => {
                self.progress.say(&format!("{source}: {slices} slices over {window}"));
                Ok(())
            }
            Ok(Planned::Live { .. } | Planned::Before { .. } | Planned::NothingOwed) => Ok(()),
            Err(error @ (PlanError::Ledger(_) | PlanError::Paused { .. } | PlanError::Held { .. })) => {
                tracing::warn!("{source} was not planned, trying again later: {error}");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Where there are workers they do it.
    async fn keep_slot(&self) -> Result<(), Failure> {
        let keeper = SlotKeeper {
            ledger: self.desk.store.clone(),
            clock: self.desk.clock.clone(),
            ids: self.desk.store.ids(),
            owner: self.desk.slot_owner.clone(),
            ttl: Settings::default().slot_ttl,
            stop: self.stop.clone(),
        };
        Ok(keeper.run().await?)
    }

    /// Looks for alarms.
    async fn watch(&self, args: &WatchArgs) -> Result<(), Failure> {
        let tell = alarm_publisher(&args.healing, &self.desk.clock)?;
        let (alarms, clock) = (self.desk.store.clone(), self.desk.clock.clone());
        Watch { alarms, clock, thresholds: args.thresholds, tell }.run(&self.stop).await;
        Ok(())
    }

    /// Serves metrics if it was said where.
    async fn figures(&self, args: &MetricsArgs) -> Result<(), Failure> {
        let Some(address) = args.metrics else { return Ok(()) };
        let say = |line: &str| self.progress.say(line);
        metrics::serve(address, self.desk.clone(), self.metrics.clone(), self.stop.clone(), say).await
    }

    /// Tells changes if it was said where to.
    async fn relay(&self, target: &TargetArgs) -> Result<(), Failure> {
        if target.is_named() {
            relay(&self.desk, target, &self.stop).await?.run(&self.stop).await;
        }
        Ok(())
    }

    async fn end(self) -> Result<(), Failure> {
        self.progress.finish();
        self.desk.store.close().await;
        Ok(())
    }
}
