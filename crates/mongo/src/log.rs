//! The last lines of the log, for `getLog`. Whoever writes the log hands its lines on here.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// How many lines are kept (MongoDB's number).
const KEPT: usize = 1024;
/// What is kept of a line.
const LINE_BYTES: usize = 1024;

struct Recent {
    total: u64,
    lines: VecDeque<String>,
}

static RECENT: Mutex<Recent> = Mutex::new(Recent { total: 0, lines: VecDeque::new() });

/// Remembers a line.
pub fn remember(line: &str) {
    let line = line.trim_end();
    let end = line.floor_char_boundary(LINE_BYTES);
    let mut recent = RECENT.lock();
    recent.total += 1;
    if recent.lines.len() == KEPT {
        recent.lines.pop_front();
    }
    recent.lines.push_back(line[..end].to_owned());
}

/// How many lines there ever were, and the last ones.
pub(crate) fn recent() -> (u64, Vec<String>) {
    let recent = RECENT.lock();
    (recent.total, recent.lines.iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        for number in 0..KEPT + 10 {
            remember(&format!("line {number}\n"));
        }
        let (total, lines) = recent();
        assert_eq!((total, lines.len()), (KEPT as u64 + 10, KEPT));
        assert_eq!(lines[0], "line 10");
    }
}
