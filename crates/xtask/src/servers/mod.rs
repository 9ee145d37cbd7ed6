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
            println!("{} listens on 127.0.0.1:{}", kind.name(), server.port);
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
fn folder() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = match tempfile::Builder::new().prefix("patra-test-").tempdir_in(memory) {
        Ok(folder) => folder,
        Err(_) => tempfile::Builder::new().prefix("patra-test-").tempdir()?,
    };
    // Servers started by root run as a user of their own and must reach their folder in it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// One server process.
struct Server {
    kind: Kind,
    port: u16,
    child: Child,
}

impl Server {
    fn start(kind: Kind, folder: &Path) -> Result<Server> {
        let home = folder.join(kind.name());
        fs::create_dir(&home)?;
        let user = install::is_root().then(|| kind.user()).flatten();
        if let Some(user) = user {
            run(Command::new("chown").arg(user).arg(&home))?;
        }
        let place = Place { home, port: free_port()?, user };
        kind.prepare(&place)?;
        let log = fs::File::create(folder.join(format!("{}.log", kind.name())))?;
        let mut command = kind.command(&place)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", kind.name()))?;
        let mut server = Server { kind, port: place.port, child };
        server.wait_until_it_answers(folder)?;
        Ok(server)
    }

    fn url(&self) -> String {
        self.kind.url(self.port)
    }

    fn wait_until_it_answers(&mut self, folder: &Path) -> Result<()> {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() || !self.kind.is_ready(self.port) {
            if self.child.try_wait()?.is_some() || started.elapsed() > START_MAX {
                let log = folder.join(format!("{}.log", self.kind.name()));
                bail!("{} did not start:\n{}", self.kind.name(), fs::read_to_string(log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let asked = Command::new("kill").args([self.kind.stop_signal(), &self.child.id().to_string()]).status();
        let started = Instant::now();
        while asked.is_ok() && started.elapsed() < STOP_MAX {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // It does not listen.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Where a server lives, and as whom it runs.
pub(crate) struct Place {
    home: PathBuf,
    port: u16,
    /// Servers that refuse to run as root run as their package's user.
    user: Option<&'static str>,
}

impl Place {
    /// A program to be run by the server's user.
    fn program(&self, program: &Path) -> Command {
        match self.user {
            Some(user) => {
                // It becomes the program itself, so that the process we know is the server.
                let mut command = Command::new("setpriv");
                command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups", "--"]);
                command.arg(program);
                command.current_dir(&self.home);
                command
            }
            None => {
                let mut command = Command::new(program);
                command.current_dir(&self.home);
                command
            }
        }
    }
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
