//! Options of the processes that run until they are stopped.

use clap::Args;
use patra_core::time::Span;
use secrecy::SecretString;

use crate::cli::{TriggerArgs, key_value};

#[derive(Clone, Debug, Args)]
pub struct PlannerArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub healing: HealingArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// A source to plan for; repeatable
    #[arg(long = "source", value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// How often each is looked at (`PT10M`)
    #[arg(long, default_value = "PT10M", value_name = "SPAN")]
    pub every: Span,
    #[command(flatten)]
    pub trigger: TriggerArgs,
}

#[derive(Clone, Debug, Args)]
pub struct ExecutorArgs {
    #[command(flatten)]
    pub work: WorkArgs,
    /// A threshold of self-healing (`circuit_failures=5`), see docs/operations.md; repeatable
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_parser = key_value)]
    pub thresholds: Vec<(String, String)>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

#[derive(Clone, Debug, Args)]
pub struct WorkArgs {
    /// Tasks worked on at once; twice the cores by default
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Of these at most so many of one source, endpoint and operation [default: at most 4, an equal share]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub partition_max: Option<u16>,
    /// Only tasks of this source
    #[arg(long, value_name = "SOURCE")]
    pub only: Option<String>,
    /// Redis that keeps the rate limits of all processes; rows of the database by default
    #[arg(long, env = "PATRA_REDIS", hide_env_values = true, value_name = "URL")]
    pub redis: Option<SecretString>,
    /// Life of a lease in seconds
    #[arg(long, hide = true, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub lease: Option<u16>,
}

#[derive(Clone, Debug, Args)]
pub struct ServeAllArgs {
    #[command(flatten)]
    pub planner: PlanArgs,
    #[command(flatten)]
    pub executor: WorkArgs,
    #[command(flatten)]
    pub healing: HealingArgs,
    #[command(flatten)]
    pub target: crate::commands::relay::TargetArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

#[derive(Clone, Debug, Args)]
pub struct MetricsArgs {
    /// Serve `/metrics` for Prometheus and `/healthz` here, on this machine alone (`127.0.0.1:9464`)
    #[arg(long, env = "PATRA_METRICS", value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
}

/// When healers act and alarms are raised, and where these are told.
#[derive(Clone, Debug, Args)]
pub struct HealingArgs {
    /// A threshold of self-healing or alarms (`circuit_failures=5`), see docs/operations.md; repeatable
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_parser = key_value)]
    pub thresholds: Vec<(String, String)>,
    /// Post each alarm here when it is raised and when it is over, signed with the secret in `PATRA_WEBHOOK_SECRET`
    #[arg(
        long,
        env = "PATRA_ALARM_WEBHOOK",
        hide_env_values = true,
        value_name = "URL",
        conflicts_with = "alarm_mail"
    )]
    pub alarm_webhook: Option<String>,
    /// Mail each alarm through this server when it is raised and when it is over (`smtps://USER:PASSWORD@HOST`)
    #[arg(long, env = "PATRA_ALARM_MAIL", hide_env_values = true, value_name = "URL", requires = "alarm_mail_to")]
    pub alarm_mail: Option<SecretString>,
    /// Whom alarms are mailed to; repeatable
    #[arg(long, value_name = "ADDRESS", requires = "alarm_mail")]
    pub alarm_mail_to: Vec<String>,
    /// Who they are from [default: the first they are mailed to]
    #[arg(long, value_name = "ADDRESS", requires = "alarm_mail")]
    pub alarm_mail_from: Option<String>,
}
