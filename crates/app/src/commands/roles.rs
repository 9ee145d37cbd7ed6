//! `patra planner`, `patra executor`, `patra serve`: processes that run until they are stopped.
//!
//! They share nothing but the database, so any number of each may run, be stopped and be started at any time.

use std::sync::Arc;

use futures::FutureExt;
use patra_engine::planner::{PlanError, Planned};
use patra_engine::settings::Settings;
use patra_engine::slot::SlotKeeper;
use patra_source::install_crypto;
use tokio_util::sync::CancellationToken;

use crate::cli::{ExecutorArgs, Global, PlannerArgs, ServeAllArgs};
use crate::commands::relay::{TargetArgs, relay};
use crate::failure::{Exit, Failure};
use crate::gate;
use crate::progress::Progress;
use crate::wiring::Desk;
use crate::working::{default_workers, executor, run_workers, settings, stop_on_signals};

pub async fn run_executor(global: &Global, args: &ExecutorArgs) -> Result<(), Failure> {
    let role = Role::start(global, args.workers).await?;
    role.work(args).await?;
    role.end().await
}

pub async fn run_planner(global: &Global, args: &PlannerArgs) -> Result<(), Failure> {
    let role = Role::start(global, None).await?;
    tokio::try_join!(role.plan(args), role.keep_slot())?;
    role.end().await
}

/// Every role in one process.
pub async fn run_all(global: &Global, args: &ServeAllArgs) -> Result<(), Failure> {
    let role = Role::start(global, args.executor.workers).await?;
    tokio::try_join!(role.plan(&args.planner), role.work(&args.executor), role.relay(&args.target))?;
    role.end().await
}

/// What every role has.
struct Role {
    desk: Desk,
    progress: Arc<Progress>,
    stop: CancellationToken,
}

impl Role {
    async fn start(global: &Global, workers: Option<u16>) -> Result<Role, Failure> {
        install_crypto();
        let desk = Desk::open_role(global.database(), workers.unwrap_or_else(default_workers)).await?;
        let progress = Arc::new(Progress::new(global.quiet || global.json, desk.clock.clone()));
        Ok(Role { desk, progress, stop: stop_on_signals(global.quiet) })
    }

    /// Works on whatever is queued. A worker that cannot go on ends the others too.
    async fn work(&self, args: &ExecutorArgs) -> Result<(), Failure> {
        let workers = args.workers.unwrap_or_else(default_workers);
        let settings = settings(args.lease, self.partition_max(args, workers).await?);
        let gate = gate::shared(&self.desk, args.redis.as_ref())?;
        let executor = executor(&self.desk, self.progress.clone(), settings, args.only.clone(), &self.stop, gate);
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
    async fn partition_max(&self, args: &ExecutorArgs, workers: u16) -> Result<u32, Failure> {
        if let Some(given) = args.partition_max {
            return Ok(given.min(workers).into());
        }
        let sources = match args.only {
            Some(_) => 1,
            None => self.desk.sources_at_work().await?,
        };
        Ok(Settings::default().partition_share(workers, sources))
    }

    /// Asks for a plan of each source again and again.
    async fn plan(&self, args: &PlannerArgs) -> Result<(), Failure> {
        if args.sources.is_empty() {
            return Err(Failure::new(Exit::Usage, "no source to plan for").hint("name them: `--source crossref`"));
        }
        self.progress.say(&format!("planning {} every {}", args.sources.join(", "), args.every));
        while !self.stop.is_cancelled() {
            for source in &args.sources {
                self.plan_one(source, args).await?;
            }
            let next = self.desk.clock.now().plus(args.every);
            futures::select_biased! {
                () = self.stop.cancelled().fuse() => {}
                () = self.desk.clock.sleep_until(next).fuse() => {}
            }
        }
        Ok(())
    }

    /// A database that is away or a source that is paused is waited for; a wrong definition ends the planner at once.
    async fn plan_one(&self, source: &str, args: &PlannerArgs) -> Result<(), Failure> {
        let trigger = match self.desk.trigger(source, &args.trigger).await {
            Ok(trigger) => trigger,
            Err(away) if away.exit == Exit::Database => {
                tracing::warn!("{source} was not planned, trying again later: {}", away.message);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        match self.desk.planner().plan(&trigger).await {
            Ok(Planned::Created { window, slices, .. }) => {
                self.progress.say(&format!("{source}: {slices} slices over {window}"));
                Ok(())
            }
            Ok(Planned::Live { .. } | Planned::NothingOwed) => Ok(()),
            Err(error @ (PlanError::Ledger(_) | PlanError::Paused { .. })) => {
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
