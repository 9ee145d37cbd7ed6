//! Progress of what counts records: a line that changes on a terminal, a line now and then elsewhere, nothing when quiet.

use std::io::IsTerminal;
use std::sync::Arc;

use indicatif::ProgressBar;
use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};

/// Plain lines come at most this often.
const LINE_EVERY: Span = Span::from_seconds(5);

pub struct Counting {
    bar: Option<ProgressBar>,
    quiet: bool,
    clock: Arc<dyn Clock>,
    said_at: Timestamp,
}

impl Counting {
    pub fn new(quiet: bool, clock: Arc<dyn Clock>) -> Counting {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(ProgressBar::new_spinner);
        Counting { bar, quiet, said_at: clock.now(), clock }
    }

    /// Says how far it is, if it is time to.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        let now = self.clock.now();
        match &self.bar {
            Some(bar) => {
                bar.set_message(line());
                bar.tick();
            }
            None if !self.quiet && now.since(self.said_at) >= LINE_EVERY => {
                self.said_at = now;
                eprintln!("{}", line());
            }
            None => {}
        }
    }

    /// Takes the line away, so that the result stands alone.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
