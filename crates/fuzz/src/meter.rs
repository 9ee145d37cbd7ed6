//! Memory and time of this process, where the system tells them.

use std::time::{Duration, Instant};

/// Largest resident size so far in bytes; 0 where it is unknown.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Begins the measurement anew, where the system allows it.
pub fn reset_peak() {
    // Without this the peak of an earlier case is shown again; that is harmless.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Time that this thread has computed; time of waiting for a core does not count. Wall time where it is unknown.
pub struct Computed {
    since: Duration,
    began: Instant,
}

impl Computed {
    pub fn start() -> Self {
        Self { since: thread_time().unwrap_or_default(), began: Instant::now() }
    }

    pub fn elapsed(&self) -> Duration {
        thread_time().map_or_else(|| self.began.elapsed(), |now| now.saturating_sub(self.since))
    }
}

fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
