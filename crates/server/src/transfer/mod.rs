//! `diwan move`: copies a store to another place, and proves that the copy is the same.
//!
//! The pairs of the engine are copied as they are. A mark in the target refuses it to everybody until the copy is complete
//! (see [`diwan_store::incoming`]). The source is not written to.

mod copy;
mod run;
#[cfg(test)]
mod tests;

use crate::cli::MoveArguments;
use crate::place::{Place, SCAN_CACHE};
use crate::progress::Display;
use crate::signals;
use crate::units::Size;
use copy::{Failure, Progress, Step, Sums};
use diwan_kv::{Engine, Space, Stats};
use diwan_store::incoming::{Incoming, is_complete_store, state};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a line is written where standard error is no terminal.
const PLAIN: Duration = Duration::from_secs(5);

/// What every early end of a move that has begun is followed by.
const AGAIN: &str = "Run the same command again to go on; until then the target is refused by `diwan serve`";

/// Moves a store.
pub fn run(arguments: &MoveArguments) -> Result<(), String> {
    let began = Instant::now();
    let from = Place::parse(&arguments.from).map_err(|error| format!("--from: {error}"))?;
    let to = Place::parse(&arguments.to).map_err(|error| format!("--to: {error}"))?;
    from.check_apart(&to)?;
    let source = from.open_stopped(SCAN_CACHE, "")?;
    match is_complete_store(source.snapshot().as_ref()) {
        Ok(true) => {}
        Ok(false) => return Err(format!("there is no store in {from}: nothing to move")),
        Err(error) => return Err(format!("cannot move the store in {from}: {error}")),
    }
    let target = to.open_to_fill()?;
    let asked_to_end = signals::asked_to_end()?;
    let sums = fill(&from, source.as_ref(), &to, target.as_ref(), &asked_to_end)?;
    target.close().map_err(|error| format!("the store is in {to}, but closing it failed: {error}"))?;
    // The reader of the output may have closed it.
    let _ = show(&from, &to, &sums, began.elapsed());
    Ok(())
}

/// Fills the target, and verifies it.
fn fill(
    from: &Place,
    source: &dyn Engine,
    to: &Place,
    target: &dyn Engine,
    asked_to_end: &AtomicBool,
) -> Result<Sums, String> {
    let incoming = Incoming::begin(target, &from.to_string())
        .map_err(|error| format!("cannot write to {to}: {error}"))?
        .ok_or_else(|| {
            format!(
                "{to} is not empty, and was left as it is: name another place, or delete this {0}",
                to.whole()
            )
        })?;
    let mut watching = Watching::new(source, asked_to_end);
    let snapshot = source.snapshot();
    let copied = copy::copy(snapshot.as_ref(), target, &incoming, &mut |progress| watching.step(&progress));
    let verified = copied.and_then(|sums| {
        copy::verify(&sums, target, &mut |progress| watching.step(&progress)).map(|()| sums)
    });
    watching.display.clear();
    let sums = verified.map_err(|failure| describe(&failure, from, to))?;
    // What was copied is one state of the source. A later one would be missed.
    let unreadable = |error| format!("cannot read {from}: {error}. {AGAIN}");
    if state(snapshot.as_ref()).map_err(unreadable)?
        != state(source.snapshot().as_ref()).map_err(unreadable)?
    {
        return Err(format!("{from} was written to while it was copied: stop whoever writes to it. {AGAIN}"));
    }
    incoming.finish().map_err(|error| describe(&Failure::Target(error), from, to))?;
    Ok(sums)
}

/// Shows the progress, and ends the work on request.
struct Watching<'a> {
    source: &'a dyn Engine,
    sizes: Stats,
    asked_to_end: &'a AtomicBool,
    display: Display,
    /// How many pairs and bytes had been read when the display was last considered.
    considered: (u64, u64),
}

impl Watching<'_> {
    fn new<'a>(source: &'a dyn Engine, asked_to_end: &'a AtomicBool) -> Watching<'a> {
        let display = Display::new(Some(PLAIN));
        Watching { source, sizes: source.stats(), asked_to_end, display, considered: (0, 0) }
    }

    fn step(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        if self.asked_to_end.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let now = (progress.done.pairs() >> 6, progress.done.bytes() >> 20);
        if now != self.considered {
            self.considered = now;
            let (source, sizes) = (self.source, &mut self.sizes);
            self.display.show(|| line(progress, source, sizes));
        }
        ControlFlow::Continue(())
    }
}

fn line(progress: &Progress<'_>, source: &dyn Engine, sizes: &mut Stats) -> String {
    let expected = |sizes: &Stats| sizes.spaces[progress.space.index()].approximate_keys;
    if expected(sizes) == 0 {
        // An engine may learn its sizes in the background.
        *sizes = source.stats();
    }
    let (pairs, bytes) = (progress.done.pairs(), Size(progress.done.bytes()));
    let of = match expected(sizes) {
        expected if expected > pairs => format!(" of about {expected}"),
        _ => String::new(),
    };
    let doing = match progress.step {
        Step::Resuming => "reading what is there of",
        Step::Copying => "copying",
        Step::Verifying => "verifying",
    };
    format!("{doing} {}: {pairs}{of} pairs, {bytes}", progress.space)
}

fn describe(failure: &Failure, from: &Place, to: &Place) -> String {
    let whole = to.whole();
    match failure {
        Failure::Stopped => format!("stopped. {AGAIN}"),
        Failure::Source(error @ diwan_kv::Error::Damaged(_)) => {
            format!("cannot read {from}: {error}. `diwan check` lists the damage; a backup has what is lost")
        }
        Failure::Source(error) => format!("cannot read {from}: {error}. {AGAIN}"),
        Failure::Target(diwan_kv::Error::Conflict(_)) => {
            format!("another `diwan move` has taken over the move into {to}")
        }
        Failure::Target(error @ diwan_kv::Error::Damaged(_)) => {
            format!(
                "what was copied to {to} is damaged: {error}. Delete this {whole}, and run the move again"
            )
        }
        Failure::Target(error) if error.is_out_of_space() => {
            format!("there is not enough room in {to}: {error}. Make room. {AGAIN}")
        }
        Failure::Target(error) => format!("cannot write to {to}: {error}. {AGAIN}"),
        Failure::Thread(error) => format!("cannot start a thread: {error}. {AGAIN}"),
        Failure::Changed(space) => format!(
            "what an earlier move has copied to {to} is not what {from} has now (in the space {space}): {from} has been \
             written to since then, or is another store. To copy it anew, delete the {whole} of the target, and run the move \
             again"
        ),
        Failure::Different(space) => format!(
            "the copy in {to} is not what was written to it (in the space {space}): delete this {whole}, and run the move \
             again. If it happens again, look for a defect of the disk or the memory"
        ),
    }
}

/// Prints the figures of all spaces.
fn show(from: &Place, to: &Place, sums: &Sums, took: Duration) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let pairs: u64 = sums.iter().map(|sum| sum.pairs()).sum();
    let bytes: u64 = sums.iter().map(|sum| sum.bytes()).sum();
    writeln!(out, "{:<12} {:>12} {:>16}  XXH3-128", "space", "pairs", "bytes")?;
    for (space, sum) in Space::ALL.into_iter().zip(sums) {
        writeln!(out, "{:<12} {:>12} {:>16}  {:032x}", space.name(), sum.pairs(), sum.bytes(), sum.digest())?;
    }
    writeln!(out, "{:<12} {pairs:>12} {bytes:>16}", "all")?;
    writeln!(
        out,
        "moved {from} to {to} in {:.1} s, and read it back: source and target are equal",
        took.as_secs_f64()
    )?;
    writeln!(out, "{from} was left as it is: do not serve both, and delete it when you no longer need it")
}
