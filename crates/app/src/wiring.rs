//! From the command line to a running engine: database, registry, clock, transport.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::hash::Hash32;
use patra_core::healing::Thresholds;
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Clock, Inspect, ListFilter, Noun, Random, Registry, Secrets, StoredVersion};
use patra_core::registry::catalogue::Entry;
use patra_core::registry::{Definition, catalogue, decode, dictionary_rows, new_version};
use patra_core::spec::overrides::TriggerOverrides;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;
use patra_engine::planner::{Planner, Trigger, definition_of};
use patra_source::EnvFileSecrets;
use patra_store::Store;

use crate::cli::TriggerArgs;
use crate::commands::query::parsed;
use crate::commands::source::checked;
use crate::failure::{Exit, Failure, mistaken};

/// Newest plans that tell which sources are worked for.
const PLANS_LOOKED_AT: u32 = 100;

/// Written as actor of the versions that come with the program.
pub const BUILT_IN: &str = "built-in";

/// An open database with everything around it; `opening.rs` has the ways to open one.
#[derive(Clone)]
pub struct Desk {
    pub store: Arc<Store>,
    /// The store, or what remembers its answers for a while.
    pub registry: Arc<dyn Registry>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Name under which the store has leased the slot of its ids.
    pub slot_owner: String,
    pub failpoints: Failpoints,
}

impl Desk {
    /// Publishes the built-in sources that are new or have changed; their names.
    pub async fn apply_catalogue(&self) -> Result<Vec<&'static str>, Failure> {
        self.store.seed_dictionary(&dictionary_rows()).await?;
        let outdated = outdated(&self.store.versions(None).await?);
        for entry in &outdated {
            let definition = decode(entry.file, entry.text).map_err(|mistakes| mistaken(&mistakes))?;
            let apply = Apply { channel: "stable", from: None, actor: BUILT_IN, remark: "built-in catalogue" };
            self.apply(&definition, entry.text, apply).await?;
        }
        Ok(outdated.iter().map(|entry| entry.source).collect())
    }

    /// Publishes a definition and returns its version.
    pub async fn apply(&self, definition: &Definition, text: &str, apply: Apply<'_>) -> Result<i64, Failure> {
        let from = apply.from.unwrap_or_else(|| self.clock.now());
        let version = new_version(definition, text, apply.channel, from, apply.actor, apply.remark);
        self.store.publish_version(version).await.map_err(|error| {
            let denied = error.to_string().contains("denied");
            let failure = Failure::from(error);
            match denied {
                true => failure.hint("this role may not write the registry: publish as the owner of the database"),
                false => failure,
            }
        })
    }

    pub fn planner(&self) -> Planner {
        Planner {
            ledger: self.store.clone(),
            registry: self.registry.clone(),
            ids: self.store.ids(),
            failpoints: self.failpoints.clone(),
            gate: None,
            stock_max: Thresholds::default().stock_max,
        }
    }

    /// How many sources the newest plans are of.
    pub async fn sources_at_work(&self) -> Result<usize, Failure> {
        let filter = ListFilter { limit: PLANS_LOOKED_AT, ..ListFilter::default() };
        let plans = self.store.list(Noun::Plan, &filter).await?;
        let sources: BTreeSet<&str> = plans.iter().filter_map(|plan| plan["provenance_code"].as_str()).collect();
        Ok(sources.len())
    }

    /// A source by its name, or a definition file that is applied first. Returns the source's name.
    pub async fn source_of(&self, source_or_file: &str, channel: &str) -> Result<String, Failure> {
        if !looks_like_a_file(source_or_file) {
            return Ok(source_or_file.to_owned());
        }
        let (definition, text) = checked(Path::new(source_or_file))?;
        let apply = Apply { channel, from: None, actor: &actor(), remark: source_or_file };
        self.apply(&definition, &text, apply).await?;
        Ok(definition.source().to_owned())
    }
}

/// Built-in sources that are new or have changed. A person's version is never replaced by ours.
pub fn outdated(known: &[StoredVersion]) -> Vec<&'static Entry> {
    let outdated = |entry: &&Entry| {
        let mut versions = known.iter();
        let current = versions.find(|version| version.provenance == entry.source && version.channel == "stable");
        let changed = |version: &StoredVersion| version.definition_hash != Hash32::of(entry.text.as_bytes());
        current.is_none_or(|version| version.actor == BUILT_IN && changed(version))
    };
    catalogue::ALL.iter().filter(outdated).collect()
}

/// How a definition is published.
pub struct Apply<'a> {
    pub channel: &'a str,
    pub from: Option<Timestamp>,
    pub actor: &'a str,
    pub remark: &'a str,
}

/// Who acts, for the audit.
pub fn actor() -> String {
    std::env::var("USER").unwrap_or_else(|_| "cli".into())
}

pub fn looks_like_a_file(text: &str) -> bool {
    text.ends_with(".yaml") || text.ends_with(".yml") || text.contains(std::path::MAIN_SEPARATOR)
}

/// Reads and checks a definition file.
pub fn read_definition(path: &Path) -> Result<(Definition, String), Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::NotFound, format!("cannot read `{shown}`: {error}")))?;
    let definition = decode(&shown, &text).map_err(|mistakes| mistaken(&mistakes))?;
    Ok((definition, text))
}

impl Desk {
    /// What the command line asks of a source, with the optional credentials whose secrets are here.
    pub async fn trigger(&self, source: &str, args: &TriggerArgs) -> Result<Trigger, Failure> {
        let overrides = TriggerOverrides {
            base_url: args.base_url.clone(),
            allow_hosts: args.allow_host.clone(),
            q: args.native_query.clone(),
            params: args.set.iter().cloned().collect(),
            contact: args.contact.clone(),
            priority: args.priority,
            credentials: Some(self.credentials(source, &args.channel).await?),
            ..TriggerOverrides::default()
        };
        let (endpoint, query) = (args.endpoint.clone(), args.query.clone());
        if let Some(query) = &query {
            parsed(query)?;
        }
        Ok(Trigger { endpoint, query, since: args.since, until: args.until, overrides, ..plain(source, &args.channel) })
    }

    /// Names of the credentials that can be used on this machine.
    async fn credentials(&self, source: &str, channel: &str) -> Result<BTreeSet<String>, Failure> {
        let Some(version) = self.registry.version_at(source, channel, self.clock.now()).await? else {
            return Ok(BTreeSet::new());
        };
        let definition = definition_of(&version).map_err(|mistakes| mistaken(&mistakes))?;
        let usable = |map: &patra_core::registry::Map| {
            definition_secrets(map).iter().all(|reference| EnvFileSecrets.resolve(reference).is_ok())
        };
        let names = definition.credentials().filter(|(_, map)| usable(map)).map(|(name, _)| name.to_owned());
        Ok(names.collect())
    }
}

/// References to secrets in one credential of a definition.
fn definition_secrets(credential: &patra_core::registry::Map) -> Vec<String> {
    let keys = ["secret", "user", "password", "client_id", "client_secret"];
    let texts = keys.iter().filter_map(|key| credential.text(key));
    texts.filter(|text| text.starts_with("env:") || text.starts_with("file:")).map(str::to_owned).collect()
}

/// A harvest of everything, asked for by hand.
pub fn plain(source: &str, channel: &str) -> Trigger {
    Trigger {
        provenance: source.to_owned(),
        endpoint: None,
        operation: Operation::Harvest,
        channel: channel.to_owned(),
        since: None,
        until: None,
        query: None,
        campaign: Campaign::default(),
        overrides: TriggerOverrides::default(),
        scheduler: "CLI".into(),
        job_id: String::new(),
        log_id: String::new(),
        trigger_type: "MANUAL".into(),
    }
}
