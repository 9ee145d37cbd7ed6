//! A TCP proxy between the fleet and its database that breaks connections where it hurts.
//!
//! ```text
//! client --- COMMIT --->|          cut before: the server never gets it
//!                       |--- COMMIT ---> server      cut after: whether it happens is a race
//!                       |<--- done ---- server       cut at the answer: it has happened, and nobody is told
//! ```
//! Everything else that a bad network does is done to other requests: reset, a black hole, single bytes, delays. What is
//! done follows from the seed and the number of the connection; in calm weather every byte passes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::faults::{AtCommit, Dice, Elsewhere, Odds, Speech};

const CHUNK_BYTES: usize = 64 * 1024;
pub const BLACK_HOLE: Duration = Duration::from_secs(5);
const DELAY: Duration = Duration::from_millis(200);
/// Longer requests go on in one piece after so many single bytes.
const SINGLE_BYTES_MAX: usize = 512;
/// A server that does not answer a COMMIT within this is not waited for.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What was done so far.
#[derive(Debug, Default)]
pub struct Tally {
    pub connections: AtomicU64,
    pub commits: AtomicU64,
    pub cut_before: AtomicU64,
    pub cut_after: AtomicU64,
    pub cut_at_answer: AtomicU64,
    pub resets: AtomicU64,
    pub black_holes: AtomicU64,
    pub single_bytes: AtomicU64,
    pub delays: AtomicU64,
}

impl Tally {
    /// Clients that cannot know whether their COMMIT happened.
    pub fn unknown(&self) -> u64 {
        [&self.cut_before, &self.cut_after, &self.cut_at_answer].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// A running proxy; it ends with everything it carries when it is dropped.
pub struct Proxy {
    pub port: u16,
    pub tally: Arc<Tally>,
    storm: Arc<AtomicBool>,
    _runtime: Runtime,
}

/// What every connection knows.
#[derive(Clone)]
struct House {
    upstream: SocketAddr,
    speech: Speech,
    odds: Odds,
    seed: u64,
    tally: Arc<Tally>,
    storm: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a free port of the loopback, in calm weather.
    pub fn start(upstream_port: u16, speech: Speech, odds: Odds, seed: u64) -> Result<Proxy> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener =
            runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).context("the proxy has no port")?;
        let port = listener.local_addr()?.port();
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream_port));
        let (tally, storm) = (Arc::<Tally>::default(), Arc::<AtomicBool>::default());
        let house = House { upstream, speech, odds, seed, tally: tally.clone(), storm: storm.clone() };
        runtime.spawn(accept(listener, house));
        Ok(Proxy { port, tally, storm, _runtime: runtime })
    }

    pub fn set_storm(&self, storm: bool) {
        self.storm.store(storm, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, house: House) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let number = house.tally.connections.fetch_add(1, Ordering::Relaxed);
        let dice = Dice::new(house.seed, number, house.odds);
        let house = house.clone();
        tokio::spawn(async move {
            // A server that is away refuses; so do we, by closing.
            if let Ok(server) = TcpStream::connect(house.upstream).await {
                // A connection that breaks is the business of this program.
                Line::new(client, server, house, dice).carry().await.ok();
            }
        });
    }
}

/// Whether a connection goes on.
enum After {
    GoesOn,
    Ends,
}

/// One connection through the proxy.
struct Line {
    from_client: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    from_server: OwnedReadHalf,
    to_server: OwnedWriteHalf,
    house: House,
    dice: Dice,
    /// The last bytes the client sent, because a COMMIT may come in two pieces.
    tail: Vec<u8>,
}

impl Line {
    fn new(client: TcpStream, server: TcpStream, house: House, dice: Dice) -> Line {
        // Without it single bytes would be gathered again.
        client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        Line { from_client, to_client, from_server, to_server, house, dice, tail: Vec::new() }
    }

    async fn carry(mut self) -> std::io::Result<()> {
        let (mut asked, mut answered) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        loop {
            tokio::select! {
                count = self.from_client.read(&mut asked) => match count? {
                    0 => return Ok(()),
                    count => if let After::Ends = self.forward(&asked[..count]).await? { return Ok(()) },
                },
                count = self.from_server.read(&mut answered) => match count? {
                    0 => return Ok(()),
                    count => self.to_client.write_all(&answered[..count]).await?,
                },
            }
        }
    }

    async fn forward(&mut self, chunk: &[u8]) -> std::io::Result<After> {
        let commits = self.house.speech.commits(&mut self.tail, chunk);
        if commits {
            one_more(&self.house.tally.commits);
        }
        if !self.house.storm.load(Ordering::Relaxed) {
            self.to_server.write_all(chunk).await?;
            return Ok(After::GoesOn);
        }
        match commits {
            true => self.at_commit(chunk).await,
            false => self.elsewhere(chunk).await,
        }
    }

    async fn at_commit(&mut self, chunk: &[u8]) -> std::io::Result<After> {
        match self.dice.at_commit() {
            AtCommit::Pass => {
                self.to_server.write_all(chunk).await?;
                return Ok(After::GoesOn);
            }
            AtCommit::CutBefore => one_more(&self.house.tally.cut_before),
            AtCommit::CutAfter => {
                self.to_server.write_all(chunk).await?;
                one_more(&self.house.tally.cut_after);
            }
            AtCommit::CutAtAnswer => {
                self.to_server.write_all(chunk).await?;
                let mut answer = [0; 1024];
                // What it says is the client's business, which never learns it.
                tokio::time::timeout(ANSWER_MAX, self.from_server.read(&mut answer)).await.ok();
                one_more(&self.house.tally.cut_at_answer);
            }
        }
        Ok(After::Ends)
    }

    async fn elsewhere(&mut self, chunk: &[u8]) -> std::io::Result<After> {
        match self.dice.elsewhere() {
            Elsewhere::Pass => {}
            Elsewhere::Reset => {
                one_more(&self.house.tally.resets);
                return Ok(After::Ends);
            }
            Elsewhere::BlackHole => {
                one_more(&self.house.tally.black_holes);
                tokio::time::sleep(BLACK_HOLE).await;
            }
            Elsewhere::SingleBytes => {
                one_more(&self.house.tally.single_bytes);
                return self.byte_by_byte(chunk).await;
            }
            Elsewhere::Delay => {
                one_more(&self.house.tally.delays);
                tokio::time::sleep(DELAY).await;
            }
        }
        self.to_server.write_all(chunk).await?;
        Ok(After::GoesOn)
    }

    async fn byte_by_byte(&mut self, chunk: &[u8]) -> std::io::Result<After> {
        let (single, rest) = chunk.split_at(chunk.len().min(SINGLE_BYTES_MAX));
        for byte in single {
            self.to_server.write_all(std::slice::from_ref(byte)).await?;
            tokio::task::yield_now().await;
        }
        self.to_server.write_all(rest).await?;
        Ok(After::GoesOn)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;

    use super::*;
    use crate::proofs::torture::faults::NEVER;

    const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

    /// Echoes what it gets and keeps it too.
    fn echo() -> (u16, std::sync::mpsc::Receiver<Vec<u8>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut all, mut buffer) = (Vec::new(), [0; 256]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                all.extend_from_slice(&buffer[..count]);
                if stream.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            tell.send(all).unwrap();
        });
        (port, told)
    }

    /// Sends `asked` through a proxy with these odds: what came back, what the server got, and the proxy.
    fn sent(odds: Odds, asked: &[u8]) -> (Vec<u8>, Vec<u8>, Proxy) {
        let (port, told) = echo();
        let proxy = Proxy::start(port, Speech::Postgres, odds, 1).unwrap();
        proxy.set_storm(true);
        let mut client = Client::connect(("127.0.0.1", proxy.port)).unwrap();
        client.write_all(asked).unwrap();
        let mut back = vec![0; asked.len()];
        let mut count = 0;
        while count < asked.len() {
            match client.read(&mut back[count..]) {
                Ok(more @ 1..) => count += more,
                _ => break,
            }
        }
        back.truncate(count);
        drop(client);
        (back, told.recv().unwrap(), proxy)
    }

    #[test]
    fn in_calm_weather_and_by_luck_bytes_pass_both_ways() {
        let (back, got, proxy) = sent(NEVER, b"hello");
        assert_eq!((back.as_slice(), got.as_slice()), (&b"hello"[..], &b"hello"[..]));
        assert_eq!((proxy.tally.unknown(), proxy.tally.connections.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_commit_is_cut_before_after_or_at_its_answer() {
        let (back, got, proxy) = sent(Odds { cut_before: 1_000_000, ..NEVER }, COMMIT);
        assert!(back.is_empty() && got.is_empty() && proxy.tally.cut_before.load(Ordering::Relaxed) == 1);
        let (back, got, proxy) = sent(Odds { cut_after: 1_000_000, ..NEVER }, COMMIT);
        assert!(back.is_empty() && got == COMMIT && proxy.tally.cut_after.load(Ordering::Relaxed) == 1);
        let (back, got, proxy) = sent(Odds { cut_at_answer: 1_000_000, ..NEVER }, COMMIT);
        assert!(back.is_empty() && got == COMMIT && proxy.tally.cut_at_answer.load(Ordering::Relaxed) == 1);
        assert_eq!(proxy.tally.unknown(), 1);
    }

    #[test]
    fn other_requests_are_reset_late_or_in_single_bytes() {
        let (back, got, proxy) = sent(Odds { reset: 1_000_000, ..NEVER }, b"hello");
        assert!(back.is_empty() && got.is_empty() && proxy.tally.resets.load(Ordering::Relaxed) == 1);
        for (odds, what) in [(Odds { single_bytes: 1_000_000, ..NEVER }, 1), (Odds { delay: 1_000_000, ..NEVER }, 0)] {
            let (back, got, proxy) = sent(odds, b"hello");
            assert_eq!((back.as_slice(), got.as_slice()), (&b"hello"[..], &b"hello"[..]));
            assert_eq!(proxy.tally.single_bytes.load(Ordering::Relaxed), what);
        }
    }

    #[test]
    fn a_server_that_is_away_closes_the_connection() {
        let (port, _) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(), ());
        let proxy = Proxy::start(port, Speech::Mysql, NEVER, 1).unwrap();
        let mut client = Client::connect(("127.0.0.1", proxy.port)).unwrap();
        assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
}
