//! The newest lines of the log, for `getLog`. The logger of the process passes every line to [`remember`].

use parking_lot::Mutex;
use std::collections::VecDeque;

/// How many lines are kept, as in MongoDB.
const KEPT: usize = 1024;
/// The longest part of a line that is kept.
const LINE_BYTES: usize = 1024;

struct RecentLines {
    /// How many lines were logged since the start.
    total: u64,
    lines: VecDeque<String>,
}

static RECENT: Mutex<RecentLines> = Mutex::new(RecentLines { total: 0, lines: VecDeque::new() });

/// Keeps a line of the log, and drops the oldest one if there are too many.
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

/// How many lines were logged since the start, and the newest of them.
pub(crate) fn recent() -> (u64, Vec<String>) {
    let recent = RECENT.lock();
    (recent.total, recent.lines.iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remember_keeps_the_newest_lines() {
        for number in 0..KEPT + 10 {
            remember(&format!("line {number}\n"));
        }
        let (total, lines) = recent();
        assert_eq!((total, lines.len()), (KEPT as u64 + 10, KEPT));
        assert_eq!(lines[0], "line 10");
    }
}
