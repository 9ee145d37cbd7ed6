//! The shared gate in Redis: one atomic script, on the server's time.
//!
//! The token under the epoch key names the epoch and the server's run id. An emptied server has no token, and one that
//! came back with an old snapshot has another run id; both are found out before a slot is given (INV-49).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use patra_core::gate::pace::{BELOW_DECLARED, BELOW_REFUSED, BELOW_SEEN, DECLARED, TAKEN_ALL, WARM_UP_FROM};
use patra_core::gate::{CONTESTED_FOR, Drawn, PERMIT_LIFE, Slot};
use patra_core::hash::Hash32;
use patra_core::outbox::safe_part;
use patra_core::ports::{GateAsk, GateLost, RateKey, SharedGate, Told};
use patra_core::time::{Span, Timestamp};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, Script, ScriptInvocation};

const EPOCH_KEY: &str = "{patra-gate}:epoch";
/// A server that takes longer is as good as gone.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Writes the token of an epoch unless a later one has begun.
const PREPARE: &str = "
local held = redis.call('GET', KEYS[1])
local epoch = held and tonumber(string.match(held, '^(%d+):')) or -1
if epoch < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2]) end
return redis.call('GET', KEYS[1])";

pub struct RedisGate {
    client: redis::Client,
    script: Script,
    prepare: Script,
    link: Mutex<Option<Link>>,
}

/// A connection and the run id of the server at its other end.
#[derive(Clone)]
struct Link {
    connection: MultiplexedConnection,
    run_id: String,
}

impl RedisGate {
    /// Connects when it is first asked.
    pub fn new(url: &str) -> Result<RedisGate, GateLost> {
        let client = redis::Client::open(url).map_err(lost)?;
        let (script, prepare) = (Script::new(include_str!("gate.lua")), Script::new(PREPARE));
        Ok(RedisGate { client, script, prepare, link: Mutex::default() })
    }

    async fn link(&self) -> Result<Link, GateLost> {
        if let Some(link) = &*self.held() {
            return Ok(link.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(lost)?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await.map_err(lost)?;
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned();
        let link = Link { connection, run_id };
        *self.held() = Some(link.clone());
        Ok(link)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that failed once is not used again: what it still answers belongs to earlier questions.
    async fn invoke<T: redis::FromRedisValue>(
        &self,
        mut link: Link,
        call: &ScriptInvocation<'_>,
    ) -> Result<T, GateLost> {
        let answer = call.invoke_async(&mut link.connection).await;
        if answer.is_err() {
            *self.held() = None;
        }
        answer.map_err(lost)
    }
}

/// The address may hold a password and is never part of a text.
fn lost(error: RedisError) -> GateLost {
    GateLost::Unreachable { message: format!("{:?} {}", error.kind(), error.detail().unwrap_or_default()) }
}

/// Names that differ stay different, also where characters had to be replaced.
fn key_part(key: &RateKey) -> String {
    let hash = Hash32::of(key.as_str().as_bytes()).to_string();
    format!("{}-{}", safe_part(key.as_str()), &hash[..16])
}

#[async_trait]
impl SharedGate for RedisGate {
    async fn ask(&self, ask: &GateAsk) -> Result<Drawn, GateLost> {
        let link = self.link().await?;
        let token = format!("{}:{}", ask.mode.epoch, link.run_id);
        let mut call = self.script.prepare_invoke();
        call.key(EPOCH_KEY);
        for part in ["state", "slots", "permits"] {
            call.key(format!("{{patra-gate}}:{}:{}:{part}", ask.mode.epoch, key_part(&ask.key)));
        }
        let (pause, refused) = told(&ask.told);
        let (rate, adapt, tightest) = (&ask.rate, &ask.rate.adapt, ask.rate.tightest());
        call.arg(token).arg(ask.want.most).arg(ask.want.horizon.micros()).arg(u8::from(ask.want.background));
        call.arg(ask.fresh_wait.micros()).arg(ask.late_max.micros()).arg(rate.burst.max(1));
        call.arg(rate.concurrency.max(1)).arg(rate.permits()).arg(PERMIT_LIFE.micros());
        call.arg(pause.micros()).arg(refused).arg(CONTESTED_FOR.micros());
        call.arg(adapt.cool_down.micros().max(1)).arg(adapt.hold).arg(adapt.step_millionths());
        call.arg(adapt.demote_thousandths()).arg(adapt.floor_millionths(tightest)).arg(adapt.warm_up.micros());
        call.arg(adapt.backfill_thousandths()).arg(tightest.requests.max(1)).arg(tightest.per.micros().max(1));
        call.arg(BELOW_REFUSED).arg(BELOW_SEEN).arg(DECLARED).arg(BELOW_DECLARED).arg(TAKEN_ALL);
        call.arg(WARM_UP_FROM).arg(rate.windows.len());
        for window in &rate.windows {
            call.arg(window.requests.max(1)).arg(window.per.micros());
        }
        for permit in &ask.done {
            call.arg(*permit);
        }
        drawn(&self.invoke::<Vec<i64>>(link, &call).await?)
    }

    async fn prepare(&self, epoch: i64) -> Result<(), GateLost> {
        let link = self.link().await?;
        let wanted = format!("{epoch}:{}", link.run_id);
        let mut call = self.prepare.prepare_invoke();
        call.key(EPOCH_KEY).arg(epoch).arg(&link.run_id);
        let held: String = self.invoke(link, &call).await?;
        if held == wanted { Ok(()) } else { Err(GateLost::Emptied) }
    }
}

/// The longest pause of all that was told, and the slot that was refused, or zero.
fn told(all: &[Told]) -> (Span, u64) {
    all.iter().fold((Span::ZERO, 0), |(longest, refused), told| match told {
        Told::Pause { pause } => (longest.max(*pause), refused),
        Told::Throttled { slot, pause } => (longest.max(*pause), *slot),
    })
}

fn drawn(answer: &[i64]) -> Result<Drawn, GateLost> {
    let nonsense = || GateLost::Unreachable { message: "the script gave an answer of the wrong shape".into() };
    match answer {
        [0] => Err(GateLost::Emptied),
        [1, now, again, pace, resumes, slots @ ..] if slots.len() % 2 == 0 => Ok(Drawn {
            now: Timestamp::from_micros(*now),
            again_at: Timestamp::from_micros(*again),
            pace: *pace,
            resumes_at: Timestamp::from_micros(*resumes),
            slots: slots
                .chunks_exact(2)
                .map(|pair| Slot { at: Timestamp::from_micros(pair[0]), permit: pair[1].unsigned_abs() })
                .collect(),
        }),
        _ => Err(nonsense()),
    }
}
