//! Failpoints of a real process, for the crash sweep (`cargo xtask torture sweep`).
//!
//! Only a build with the feature `failpoints` listens to `PATRA_FAILPOINT`; in a product build there is nothing to
//! strike. The line on stderr is how the sweep sees that a failpoint fired.

#[cfg(not(feature = "failpoints"))]
use patra_core::failpoint::Failpoints;
#[cfg(not(feature = "failpoints"))]
use patra_core::time::Span;

#[cfg(not(feature = "failpoints"))]
use crate::failure::Failure;

#[cfg(not(feature = "failpoints"))]
pub fn failpoints() -> Result<Failpoints, Failure> {
    Ok(Failpoints::none())
}

/// How often to reconcile instead of the usual.
#[cfg(not(feature = "failpoints"))]
pub fn reconcile_every() -> Option<Span> {
    None
}

#[cfg(feature = "failpoints")]
pub use armed::{failpoints, names, reconcile_every};

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use patra_core::failpoint::{ALL, Failpoints, Strike, Striker};
    use patra_core::time::Span;

    use crate::failure::{Exit, Failure};

    const VARIABLE: &str = "PATRA_FAILPOINT";

    /// Failpoints that a command of this binary passes.
    pub fn names() -> &'static [&'static str] {
        ALL
    }

    /// Often enough for a harvest of seconds to pass the reconciler.
    pub fn reconcile_every() -> Option<Span> {
        Some(Span::from_millis(100))
    }

    /// What `PATRA_FAILPOINT=NAME:abort|error|stall:HIT[:MILLISECONDS]` asks for.
    pub fn failpoints() -> Result<Failpoints, Failure> {
        let Ok(text) = std::env::var(VARIABLE) else { return Ok(Failpoints::none()) };
        let point = Point::parse(&text);
        let point = point.ok_or_else(|| Failure::new(Exit::Usage, format!("{VARIABLE} is `{text}`")))?;
        Ok(Failpoints::with(Arc::new(point)))
    }

    #[derive(Clone, Copy, Debug)]
    enum Mode {
        Abort,
        Error,
        Stall(Duration),
    }

    struct Point {
        name: String,
        mode: Mode,
        hit: u64,
        seen: AtomicU64,
    }

    impl Point {
        fn parse(text: &str) -> Option<Point> {
            let mut parts = text.split(':');
            let name = parts.next().filter(|name| ALL.contains(name))?.to_owned();
            let mode = parts.next()?;
            let hit = parts.next()?.parse().ok()?;
            let millis = parts.next().map_or(Some(0), |millis| millis.parse().ok())?;
            let mode = match mode {
                "abort" => Mode::Abort,
                "error" => Mode::Error,
                "stall" => Mode::Stall(Duration::from_millis(millis)),
                _ => return None,
            };
            Some(Point { name, mode, hit, seen: AtomicU64::new(0) })
        }
    }

    impl Striker for Point {
        fn strike(&self, name: &'static str) -> Strike {
            if name != self.name || self.seen.fetch_add(1, Ordering::SeqCst) + 1 != self.hit {
                return Strike::Pass;
            }
            eprintln!("failpoint {name} struck");
            match self.mode {
                // Not a panic: nothing of this process may clean up.
                Mode::Abort => std::process::abort(),
                Mode::Error => Strike::Error,
                // The thread and whatever it holds stand still, as a process does that is out of memory or stopped.
                Mode::Stall(span) => {
                    std::thread::sleep(span);
                    Strike::Pass
                }
            }
        }
    }
}
