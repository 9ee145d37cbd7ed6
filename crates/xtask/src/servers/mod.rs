//! Real servers for the tests: installed when they are missing, started on free ports of the loopback in a folder of
//! their own, and stopped again.

mod install;
mod kinds;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

pub use install::tool;
#[cfg(feature = "proofs")]
pub use install::{missing as install_missing, program as installed};
pub use kinds::Kind;

/// A server on a slow, busy machine is given this long to answer.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(20);

/// Running servers; they stop when this is dropped.
pub struct Servers {
    running: Vec<Server>,
    _folder: TempDir,
}

impl Servers {
    /// Starts one of each kind.
    pub fn start(kinds: &[Kind]) -> Result<Servers> {
        install::missing(kinds)?;
        let folder = folder()?;
        let mut running = Vec::new();
        for kind in kinds {
            let server = Server::start(*kind, folder.path())?;
            println!("{} listens on 127.0.0.1:{}", kind.name(), server.place.port);
            running.push(server);
        }
        Ok(Servers { running, _folder: folder })
    }

    /// What tells the tests where the servers are.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        self.running.iter().map(|server| (server.kind.variable(), server.url())).collect()
    }
}

/// Keeps servers for tests that are run one by one.
pub fn keep() -> Result<bool> {
    let servers = Servers::start(&Kind::ALL)?;
    for (name, url) in servers.environment() {
        println!("export {name}={url}");
    }
    eprintln!("press Enter to stop them");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(true)
}

/// In memory where the system offers it: these databases need not outlive the tests.
pub fn folder() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = match tempfile::Builder::new().prefix("patra-test-").tempdir_in(memory) {
        Ok(folder) => folder,
        Err(_) => tempfile::Builder::new().prefix("patra-test-").tempdir()?,
    };
    // Servers started by root run as a user of their own and must reach their folder in it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// One server process. It can be ended in any way and started again at the same place.
pub struct Server {
    kind: Kind,
    place: Place,
    log: PathBuf,
    child: Child,
}

impl Server {
    pub fn start(kind: Kind, folder: &Path) -> Result<Server> {
        Server::start_with(kind, folder, &[])
    }

    /// With more options on its command line.
    pub fn start_with(kind: Kind, folder: &Path, more: &'static [&'static str]) -> Result<Server> {
        let home = folder.join(kind.name());
        fs::create_dir(&home)?;
        let user = install::is_root().then(|| kind.user()).flatten();
        if let Some(user) = user {
            run(Command::new("chown").arg(user).arg(&home))?;
        }
        let place = Place { home, port: free_port()?, user, more };
        kind.prepare(&place)?;
        let log = folder.join(format!("{}.log", kind.name()));
        let child = spawned(kind, &place, &log)?;
        let mut server = Server { kind, place, log, child };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    pub fn url(&self) -> String {
        self.kind.url(self.place.port)
    }

    #[cfg(feature = "proofs")]
    pub fn port(&self) -> u16 {
        self.place.port
    }

    #[cfg(feature = "proofs")]
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends a signal by its name: `-KILL`, `-STOP`.
    #[cfg(feature = "proofs")]
    pub fn signal(&self, signal: &str) -> Result<()> {
        run(Command::new("kill").args([signal, &self.child.id().to_string()]))
    }

    /// Waits until the process is gone after a signal; what does not listen is killed.
    pub fn wait_until_gone(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < STOP_MAX {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts a server that is gone again, with what it has on its disk.
    #[cfg(feature = "proofs")]
    pub fn start_again(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            self.child = spawned(self.kind, &self.place, &self.log)?;
            match self.wait_until_it_answers() {
                Ok(()) => return Ok(()),
                // Children of one that was killed may hold its memory and its port for a moment.
                Err(error) if started.elapsed() > START_MAX => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let started = Instant::now();
        let port = self.place.port;
        while TcpStream::connect(("127.0.0.1", port)).is_err() || !self.kind.is_ready(port) {
            if self.child.try_wait()?.is_some() || started.elapsed() > START_MAX {
                bail!("{} did not start:\n{}", self.kind.name(), fs::read_to_string(&self.log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn spawned(kind: Kind, place: &Place, log: &Path) -> Result<Child> {
    let log = fs::File::options().create(true).append(true).open(log)?;
    let mut command = kind.command(place)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", kind.name()))
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // One that stands still hears no other signal.
        for signal in ["-CONT", self.kind.stop_signal()] {
            run(Command::new("kill").args([signal, &self.child.id().to_string()])).ok();
        }
        self.wait_until_gone().ok();
    }
}

/// Where a server lives, and as whom it runs.
pub(crate) struct Place {
    home: PathBuf,
    port: u16,
    /// Servers that refuse to run as root run as their package's user.
    user: Option<&'static str>,
    more: &'static [&'static str],
}

impl Place {
    /// A program to be run by the server's user.
    fn program(&self, program: &Path) -> Command {
        let mut command = bound(program, self.user);
        command.current_dir(&self.home);
        command
    }
}

/// A program that does not outlive this one, even if we are killed. `setpriv` becomes the program itself, so that the
/// process we know is the server.
pub fn bound(program: &Path, user: Option<&str>) -> Command {
    let Some(setpriv) = install::program("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    if let Some(user) = user {
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups"]);
    }
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Runs to the end without a word; its output is the error.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
