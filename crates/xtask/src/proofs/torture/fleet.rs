//! The processes of a torture: each is started, killed, stopped and started again; whatever ends by itself is noted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::proofs::judge::now_us;
use crate::proofs::rig::patra;
use crate::servers::bound;

/// A process that ended by itself is started again after this, as a supervisor would.
const RESTART_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    Executor,
    Planner,
    Relay,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Executor => "executor",
            Role::Planner => "planner",
            Role::Relay => "relay",
        }
    }
}

/// What was done to a process, on the clock of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Strike {
    pub role: Role,
    pub process: u32,
    pub at_us: i64,
    /// For how long it stood still; `None` for a kill.
    pub stopped_us: Option<i64>,
}

/// A process that ended without being told to.
#[derive(Clone, Debug)]
pub struct Fallen {
    pub role: Role,
    pub status: String,
    /// It had begun its work: it did not merely find the database away when it was started.
    pub at_work: bool,
    pub last_words: String,
}

enum State {
    Running(Child),
    Standing { child: Child, until: Instant },
    Down { again_at: Instant },
    Retired,
}

struct Member {
    role: Role,
    binary: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    /// Where the words of the present process begin in its log.
    log_from: u64,
    state: State,
}

/// The builds of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Binaries {
    /// Every second process of a role is of this build.
    pub previous: Option<PathBuf>,
}

impl Binaries {
    fn of(&self, number: usize) -> Result<PathBuf> {
        match &self.previous {
            Some(previous) if number % 2 == 1 => Ok(previous.clone()),
            _ => patra(),
        }
    }
}

#[derive(Default)]
pub struct Fleet {
    binaries: Binaries,
    members: Vec<Member>,
    pub strikes: Vec<Strike>,
    pub fallen: Vec<Fallen>,
    pub starts: u64,
}

impl Fleet {
    pub fn of(binaries: Binaries) -> Fleet {
        let mut fleet = Fleet::default();
        fleet.binaries = binaries;
        fleet
    }

    /// One more process, started at once.
    pub fn enlist(&mut self, role: Role, args: Vec<String>, logs: &Path) -> Result<()> {
        let number = self.members.iter().filter(|member| member.role == role).count();
        let log = logs.join(format!("{}-{number:02}.log", role.name()));
        let binary = self.binaries.of(number)?;
        let child = start(&binary, &args, &log)?;
        self.starts += 1;
        self.members.push(Member { role, binary, args, log, log_from: 0, state: State::Running(child) });
        Ok(())
    }

    /// Wakes who has stood still long enough, starts again who is down, notes who fell.
    pub fn tend(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.state = match std::mem::replace(&mut member.state, State::Retired) {
                State::Running(mut child) => match child.try_wait()? {
                    None => State::Running(child),
                    Some(status) => {
                        self.fallen.push(fallen(member.role, status, &member.log, member.log_from));
                        State::Down { again_at: Instant::now() + RESTART_AFTER }
                    }
                },
                State::Standing { child, until } if Instant::now() >= until => {
                    signal(&child, "-CONT")?;
                    State::Running(child)
                }
                State::Down { again_at } if Instant::now() >= again_at => {
                    self.starts += 1;
                    member.log_from = std::fs::metadata(&member.log)?.len();
                    State::Running(start(&member.binary, &member.args, &member.log)?)
                }
                other => other,
            };
        }
        Ok(())
    }

    /// Kills the `choice`th running process of a role, counted round; false when none runs.
    pub fn kill(&mut self, role: Role, choice: u64, again_after: Duration) -> Result<bool> {
        let Some((member, mut child)) = self.running(role, choice) else { return Ok(false) };
        child.kill()?;
        let strike = Strike { role, process: child.id(), at_us: now_us(), stopped_us: None };
        child.wait()?;
        self.members[member].state = State::Down { again_at: Instant::now() + again_after };
        self.strikes.push(strike);
        Ok(true)
    }

    /// Lets one stand still, and go on later as if nothing had happened.
    pub fn stop(&mut self, role: Role, choice: u64, span: Duration) -> Result<bool> {
        let Some((member, child)) = self.running(role, choice) else { return Ok(false) };
        signal(&child, "-STOP")?;
        let stopped_us = Some(i64::try_from(span.as_micros())?);
        self.strikes.push(Strike { role, process: child.id(), at_us: now_us(), stopped_us });
        self.members[member].state = State::Standing { child, until: Instant::now() + span };
        Ok(true)
    }

    fn running(&mut self, role: Role, choice: u64) -> Option<(usize, Child)> {
        let is_running = |member: &Member| member.role == role && matches!(member.state, State::Running(_));
        let all: Vec<usize> = (0..self.members.len()).filter(|at| is_running(&self.members[*at])).collect();
        let member = *all.get(choice as usize % all.len().max(1))?;
        match std::mem::replace(&mut self.members[member].state, State::Retired) {
            State::Running(child) => Some((member, child)),
            _ => None,
        }
    }

    /// Nobody stands still any more.
    pub fn wake_all(&mut self) -> Result<()> {
        for member in &mut self.members {
            if let State::Standing { until, .. } = &mut member.state {
                *until = Instant::now();
            }
        }
        self.tend()
    }

    /// Asks all of a role to end; how long the slowest took, `None` when one had to be killed.
    pub fn retire(&mut self, role: Role, patience: Duration) -> Result<Option<Duration>> {
        let begun = Instant::now();
        let mut leaving = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.role == role) {
            let before = std::mem::replace(&mut member.state, State::Retired);
            if let State::Running(child) | State::Standing { child, .. } = before {
                signal(&child, "-TERM")?;
                signal(&child, "-CONT")?;
                leaving.push((child, member.log.clone(), member.log_from));
            }
        }
        let mut in_time = true;
        for (mut child, log, log_from) in leaving {
            while child.try_wait()?.is_none() && begun.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(20));
            }
            if child.try_wait()?.is_none() {
                in_time = false;
                child.kill()?;
            }
            let status = child.wait()?;
            if !status.success() {
                self.fallen.push(fallen(role, status, &log, log_from));
            }
        }
        Ok(in_time.then(|| begun.elapsed()))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let State::Running(child) | State::Standing { child, .. } = &mut member.state {
                // SIGKILL ends also who stands still.
                child.kill().ok();
                child.wait().ok();
            }
        }
    }
}

fn start(binary: &Path, args: &[String], log: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = bound(binary, None);
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().context("patra cannot be started")
}

fn signal(child: &Child, signal: &str) -> Result<()> {
    // One that has just ended by itself is noted by whoever looks next.
    Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status()?;
    Ok(())
}

fn fallen(role: Role, status: ExitStatus, log: &Path, from: u64) -> Fallen {
    let all = std::fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(all.get(from as usize..).unwrap_or_default()).into_owned();
    let at_work = said.lines().any(|line| line.starts_with("executing with") || line.starts_with("planning "));
    let last_words: Vec<&str> = said.lines().rev().take(2).collect();
    let last_words = last_words.into_iter().rev().collect::<Vec<_>>().join(" | ");
    Fallen { role, status: status.to_string(), at_work, last_words }
}
