//! Checking the journals before fjall opens them.
//!
//! fjall replays a journal up to the first bytes that it cannot read, and cuts off the rest silently; synced commits
//! behind a damaged byte would be lost. So the journals are walked first and compared with the [mark](super::mark):
//! every byte noted there must read as it was written. If not, opening fails and changes nothing. A journal that is
//! whole up to its mark and torn behind it is the usual trace of a crash: the torn end is cut off here, so that fjall
//! sees only whole commits.
//!
//! The beginning of a settled journal has been released: it is a hole, read as zeros, up to the mark's base. fjall would
//! take the first zero for the end, so the rest is moved to the front.

use super::journal::{self, Stop, Walk};
use super::mark::{Mark, Synced};
use crate::{Error, LostJournal, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The result of a walk through one journal.
struct Found {
    id: u64,
    base: u64,
    end: u64,
    chain: u64,
    /// The file's length, zeros allocated ahead included.
    len: u64,
    loss: Option<LostJournal>,
}

/// Checks all journals of `dir`, repairs torn ends and gaps, and brings the mark up to date. With
/// `accept_loss`, damaged journals are copied to a fresh directory beside `dir` and then cut at the damage.
pub(super) fn recover(
    dir: &Path,
    mark: &mut Mark,
    noted: &[Synced],
    accept_loss: bool,
) -> Result<Vec<Synced>> {
    let at = |what: &str| format!("{what} the journals in {}", dir.display());
    let ids = journal::list(dir).map_err(|e| Error::io(at("listing"), e))?;
    let mut lost = missing(dir, &ids, noted);
    let mut journals = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        let entry = noted.iter().find(|e| e.journal == *id);
        let sealed = i + 1 < ids.len();
        let found = examine(dir, *id, entry, sealed).map_err(|e| Error::io(at("reading"), e))?;
        lost.extend(found.loss.clone());
        journals.push(found);
    }
    if !lost.is_empty() {
        if !accept_loss {
            return Err(Error::LostWrites(lost));
        }
        let copy = set_aside(dir, &ids).map_err(|e| Error::io(at("copying"), e))?;
        tracing::warn!(?lost, copy = %copy.display(), "the store is opened without writes that were lost");
    }
    let mut synced = Vec::with_capacity(journals.len());
    for found in &journals {
        synced.push(tidy(dir, found).map_err(|e| Error::io(at("repairing"), e))?);
    }
    let note = |mark: &mut Mark| mark.write(&synced).and_then(|()| mark.sync());
    note(mark).map_err(|e| Error::io("writing the mark of the journals", e))?;
    Ok(synced)
}

/// The entries to assume without a mark: all journals begin at their first byte that is not zero.
pub(super) fn unmarked(dir: &Path) -> io::Result<Vec<Synced>> {
    let ids = if dir.try_exists()? { journal::list(dir)? } else { Vec::new() };
    let one = |journal| {
        let base = journal::first_nonzero(&mut File::open(journal::path(dir, journal))?)?.unwrap_or(0);
        Ok(Synced { journal, base, end: base, chain: 0 })
    };
    ids.into_iter().map(one).collect()
}

/// Journals that are missing: journals are numbered without gaps and removed from the oldest on, and one always remains.
fn missing(dir: &Path, ids: &[u64], noted: &[Synced]) -> Vec<LostJournal> {
    let lost = |id: u64, synced: u64| LostJournal {
        path: journal::path(dir, id),
        synced,
        intact: 0,
        reason: "the file is missing".into(),
    };
    let gaps = ids.windows(2).flat_map(|pair| pair[0] + 1..pair[1]).take(100).map(|id| lost(id, 0));
    let newest = noted.iter().max_by_key(|e| e.journal);
    let newest = newest.filter(|e| ids.last().is_none_or(|last| *last < e.journal));
    gaps.chain(newest.map(|e| lost(e.journal, e.end - e.base))).collect()
}

fn examine(dir: &Path, id: u64, noted: Option<&Synced>, sealed: bool) -> io::Result<Found> {
    let path = journal::path(dir, id);
    let len = std::fs::metadata(&path)?.len();
    // A journal begins where its released part ends, or at 0 if an interrupted opening moved it to the front.
    let bases: &[u64] = match noted {
        Some(e) if e.base > 0 => &[e.base, 0],
        _ => &[0],
    };
    let mut first_try = None;
    for base in bases {
        let (walk, stop, whole) = walk_past_mark(&path, *base, noted)?;
        let demanded = noted.is_some_and(|e| e.end > e.base);
        if whole && (demanded || walk.batches > 0 || *base == 0) {
            return finish(id, len, walk, stop, noted, sealed, &path);
        }
        first_try.get_or_insert((walk, stop));
    }
    // The walk failed from every base, so the mark demands something.
    let (walk, stop) = first_try.expect("there is at least one base");
    let synced = noted.map_or(0, |e| e.end - e.base);
    let intact = (walk.position - walk.base).min(synced);
    let reason = match stop {
        Stop::Broken(why) => format!("at byte {}, {why}", walk.position),
        Stop::Blank if intact < synced => format!("nothing is written from byte {} on", walk.position),
        Stop::Blank | Stop::Limit => "its commits are not those that were synced".into(),
    };
    let loss = Some(LostJournal { path, synced, intact, reason });
    Ok(Found { id, base: walk.base, end: walk.position, chain: walk.chain, len, loss })
}

/// Walks from `base` to the last whole batch; also tells whether it passed the mark with the right chain.
fn walk_past_mark(path: &Path, base: u64, noted: Option<&Synced>) -> io::Result<(Walk, Stop, bool)> {
    let mut walk = Walk::open(path, base)?;
    let mut whole = true;
    if let Some(e) = noted.filter(|e| e.end > e.base) {
        let target = base + (e.end - e.base);
        let stop = walk.advance(target)?;
        whole = stop == Stop::Limit && walk.position == target && walk.chain == e.chain;
        if stop != Stop::Limit {
            return Ok((walk, stop, false));
        }
    }
    let stop = walk.advance(u64::MAX)?;
    Ok((walk, stop, whole))
}

fn finish(
    id: u64,
    len: u64,
    mut walk: Walk,
    stop: Stop,
    noted: Option<&Synced>,
    sealed: bool,
    path: &Path,
) -> io::Result<Found> {
    // A journal is synced as a whole before the next one begins, so it cannot be torn.
    let loss = if sealed && !walk.blank_to_the_end()? {
        let why = if let Stop::Broken(why) = stop { why } else { "it goes on after its end" };
        Some(LostJournal {
            path: path.to_path_buf(),
            synced: noted.map_or(walk.position, |e| e.end).max(walk.position) - walk.base,
            intact: walk.position - walk.base,
            reason: format!("at byte {}, {why}, though a later journal exists", walk.position),
        })
    } else {
        None
    };
    Ok(Found { id, base: walk.base, end: walk.position, chain: walk.chain, len, loss })
}

/// Rewrites the file so that it holds exactly the batches found, from byte 0 on, and syncs it.
fn tidy(dir: &Path, found: &Found) -> io::Result<Synced> {
    let path = journal::path(dir, found.id);
    let kept = found.end - found.base;
    if found.base > 0 && kept > 0 {
        let moved = path.with_extension("moved");
        let mut from = File::open(&path)?;
        from.seek(SeekFrom::Start(found.base))?;
        let mut to = File::create(&moved)?;
        io::copy(&mut from.take(kept), &mut to)?;
        to.sync_all()?;
        std::fs::rename(&moved, &path)?;
        sync_dir(dir)?;
    } else {
        let file = OpenOptions::new().write(true).open(&path)?;
        if found.len != kept {
            file.set_len(kept)?;
        }
        file.sync_all()?;
    }
    Ok(Synced { journal: found.id, base: 0, end: kept, chain: found.chain })
}

fn set_aside(dir: &Path, ids: &[u64]) -> io::Result<PathBuf> {
    let parent = dir.parent().unwrap_or(dir);
    let mut number = 1;
    let copy = loop {
        let candidate = parent.join(format!("lost-{number}"));
        match std::fs::create_dir(&candidate) {
            Ok(()) => break candidate,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(e),
        }
    };
    for id in ids {
        let to = journal::path(&copy, *id);
        std::fs::copy(journal::path(dir, *id), &to)?;
        File::open(&to)?.sync_all()?;
    }
    sync_dir(&copy)?;
    Ok(copy)
}

/// Makes the entries of a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}
