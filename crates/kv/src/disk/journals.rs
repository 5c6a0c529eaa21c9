//! The journals: read back, synced, noted in the mark, and released.

use super::journal::{self, Stop, Walk};
use super::mark::{Mark, Synced};
use std::io;
use std::path::{Path, PathBuf};

/// A position in the journals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    journal: u64,
    position: u64,
}

/// The journals on disk as far as they have been read back.
pub(super) struct Journals {
    dir: PathBuf,
    mark: Mark,
    /// The journals before the current one, oldest first; complete, and synced by fjall.
    sealed: Vec<Synced>,
    current_id: u64,
    current: Walk,
    synced_to: u64,
    /// How many commits have been read back since the engine was opened; unknown once a journal was removed before it was read.
    seen: Option<u64>,
}

impl Journals {
    pub fn open(dir: PathBuf, mark: Mark, mut synced: Vec<Synced>) -> io::Result<Self> {
        let newest = synced.pop().ok_or_else(|| io::Error::other("there is no journal"))?;
        let mut current = Walk::open(&journal::path(&dir, newest.journal), newest.base)?;
        (current.position, current.chain) = (newest.end, newest.chain);
        let current_id = newest.journal;
        Ok(Self { dir, mark, sealed: synced, current_id, current, synced_to: newest.end, seen: Some(0) })
    }

    /// Makes the first `group` commits since the engine was opened durable, and notes it in the mark.
    pub fn sync(&mut self, group: u64) -> io::Result<()> {
        self.read_on()?;
        // A shorter journal was the newest while it was read, so it held all commits.
        while self.current.position > journal::KEPT_UP_TO
            && let Some(next) = self.next_journal()?
        {
            // Now that the next exists, this one is complete.
            if let Stop::Broken(why) = self.read_on()? {
                return Err(io::Error::other(format!("a finished journal does not read back: {why}")));
            }
            self.move_to(next)?;
            self.read_on()?;
        }
        if self.current.is_removed()? {
            return Err(io::Error::other("the current journal is gone"));
        }
        if let Some(seen) = self.seen.filter(|seen| *seen < group) {
            let why = format!("of {group} commits only {seen} read back from the journal");
            return Err(io::Error::other(why));
        }
        if self.current.position > self.synced_to {
            self.current.file().sync_data()?;
            self.synced_to = self.current.position;
            self.mark.write(&self.entries())?;
        }
        Ok(())
    }

    /// Reads the bytes added to the current journal.
    fn read_on(&mut self) -> io::Result<Stop> {
        let before = self.current.batches;
        let stop = self.current.advance(u64::MAX)?;
        self.seen = self.seen.map(|seen| seen + self.current.batches - before);
        Ok(stop)
    }

    /// The journal after the current one, if it has been begun.
    fn next_journal(&self) -> io::Result<Option<u64>> {
        let exists = |id| journal::path(&self.dir, id).try_exists();
        if exists(self.current_id + 1)? {
            return Ok(Some(self.current_id + 1));
        }
        // Journals go from the oldest on: only if this one is gone can the next have come and gone.
        if exists(self.current_id)? {
            return Ok(None);
        }
        self.oldest_after(self.current_id).map(Some)
    }

    fn oldest_after(&self, id: u64) -> io::Result<u64> {
        let next = journal::list(&self.dir)?.into_iter().find(|other| *other > id);
        next.ok_or_else(|| io::Error::other("the current journal is gone"))
    }

    fn move_to(&mut self, mut next: u64) -> io::Result<()> {
        self.sealed.push(self.entry());
        self.forget_removed();
        self.current = loop {
            match Walk::open(&journal::path(&self.dir, next), 0) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => next = self.oldest_after(next)?,
                opened => break opened?,
            }
        };
        if next != self.current_id + 1 {
            self.seen = None;
        }
        (self.current_id, self.synced_to) = (next, 0);
        Ok(())
    }

    fn forget_removed(&mut self) {
        let dir = &self.dir;
        self.sealed.retain(|e| journal::path(dir, e.journal).exists());
    }

    fn entry(&self) -> Synced {
        let Walk { base, position, chain, .. } = self.current;
        Synced { journal: self.current_id, base, end: position, chain }
    }

    fn entries(&self) -> Vec<Synced> {
        self.sealed.iter().copied().chain([self.entry()]).collect()
    }

    pub fn point(&self) -> Point {
        Point { journal: self.current_id, position: self.current.position }
    }

    pub fn held(&self) -> u64 {
        self.entries().iter().map(|e| e.end - e.base).sum()
    }

    /// Returns the space of everything before a point to the file system. A point may come late, when more has been
    /// released already.
    pub fn release(&mut self, point: Point) -> io::Result<()> {
        self.forget_removed();
        let before = self.entries();
        for entry in &mut self.sealed {
            if entry.journal < point.journal {
                (entry.base, entry.chain) = (entry.end, 0);
            } else if entry.journal == point.journal && entry.base < point.position {
                let rest = Self::walk(&self.dir, point, entry.end)?;
                (entry.base, entry.chain) = (rest.base, rest.chain);
            }
        }
        if self.current_id == point.journal && self.current.base < point.position {
            self.current = Self::walk(&self.dir, point, self.current.position)?;
        }
        let after = self.entries();
        if after == before {
            return Ok(());
        }
        // The mark must be durable first: a hole under an old mark would look like a loss.
        self.mark.write(&after)?;
        self.mark.sync()?;
        for (old, new) in before.iter().zip(&after).filter(|(old, new)| old.base < new.base) {
            release_space(&journal::path(&self.dir, new.journal), old.base, new.base)?;
        }
        Ok(())
    }

    /// Walks again from a point to the end of the part that was read.
    fn walk(dir: &Path, from: Point, end: u64) -> io::Result<Walk> {
        let mut walk = Walk::open(&journal::path(dir, from.journal), from.position)?;
        walk.advance(end)?;
        if walk.position == end {
            Ok(walk)
        } else {
            Err(io::Error::other("a journal changed behind its end"))
        }
    }
}

/// Turns a part of a file into a hole, if the file system can; otherwise the space is merely kept.
#[cfg(target_os = "linux")]
fn release_space(path: &Path, from: u64, to: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let file = match std::fs::OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(&file, flags, from, to - from) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        outcome => outcome.map_err(Into::into),
    }
}

#[cfg(not(target_os = "linux"))]
fn release_space(_path: &Path, _from: u64, _to: u64) -> io::Result<()> {
    Ok(())
}
