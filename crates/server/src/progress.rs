//! The progress of a long operation on standard error: one line that changes on a terminal, and plain lines elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often the line on a terminal changes.
const TERMINAL: Duration = Duration::from_millis(100);

/// Shows the progress.
pub struct Display {
    is_terminal: bool,
    every: Option<Duration>,
    shown_at: Instant,
}

impl Display {
    /// A display. Where standard error is no terminal, it writes a line every `plain`, or nothing.
    pub fn new(plain: Option<Duration>) -> Display {
        let is_terminal = io::stderr().is_terminal();
        Display {
            is_terminal,
            every: if is_terminal { Some(TERMINAL) } else { plain },
            shown_at: Instant::now(),
        }
    }

    /// Shows the line if it is time for it.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        if self.every.is_none_or(|every| self.shown_at.elapsed() < every) {
            return;
        }
        self.shown_at = Instant::now();
        if self.is_terminal {
            eprint!("\r\x1b[K{}", line());
        } else {
            eprintln!("{}", line());
        }
    }

    /// Removes the line from a terminal.
    pub fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
