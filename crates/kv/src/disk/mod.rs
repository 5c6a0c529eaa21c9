//! The engine on disk: fjall, with group commit and protection against damaged journals around it.
//!
//! A directory holds:
//!
//! ```text
//! lock      held while an engine has the directory open
//! mark      how far the journals are known to be on stable storage (see `mark`)
//! spaces    which spaces were made on demand (see `keyspaces`)
//! data/     fjall's: journals (N.jnl), tables (keyspaces/), its own lock and version
//! lost-N/   journals copied aside before an opening with accepted loss
//! ```
//!
//! Opening: take the lock; check the [manifests](manifest), and the journals against the [mark]; let fjall
//! replay them; start the [sync thread](sync) and the one that [settles](settle).

mod backpressure;
mod ingest;
mod journal;
mod journals;
mod keyspaces;
mod locks;
mod manifest;
mod mark;
mod poison;
mod read;
mod recover;
mod room;
mod settle;
mod sync;
mod tuning;

#[cfg(test)]
mod tests;

use crate::ticker::Ticker;
use crate::{
    Batch, Bytes, CommitId, DurableCallback, Engine, Error, KeyRange, MAX_KEY_LEN, Result, Snapshot,
    SortedPairs, Space, SpaceStats, Stats,
};
use fjall::{AbstractTree, Database, OwnedWriteBatch, PersistMode};
use keyspaces::Keyspaces;
use locks::KeyLocks;
use mark::{Mark, Synced};
use parking_lot::{Mutex, RwLock};
use poison::Poison;
use read::{DiskSnapshot, guarded};
use room::Room;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;
use sync::Syncer;

pub use tuning::Options;

/// An engine on disk. Dropping it closes it; another engine can open its directory once all snapshots and scans have been
/// dropped, too.
pub struct FjallEngine {
    core: Arc<Core>,
    settler: Mutex<Option<Ticker>>,
}

struct Core {
    path: PathBuf,
    db: Database,
    keyspaces: Arc<Keyspaces>,
    /// Held shared by each commit; held exclusively to wait for commits under way, and while pairs are ingested.
    gate: RwLock<()>,
    /// Set while the gate is held exclusively and no commit is under way.
    alone: AtomicBool,
    closed: AtomicBool,
    /// Held while a large batch is committed.
    large_commit: Mutex<()>,
    /// Held while settling.
    settling: Mutex<()>,
    locks: KeyLocks,
    room: Room,
    poison: Arc<Poison>,
    syncer: Syncer,
    /// Declared last, so that it is released last.
    _lock: File,
}

impl FjallEngine {
    /// Opens the engine in the directory `path`, which is created if it does not exist.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        // Only its owner reads a directory that is created here: it holds documents and verifiers of passwords.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| Error::io(format!("creating {}", path.display()), e))?;
        let lock = lock(path)?;
        let data = path.join("data");
        let (mut mark, mut synced) = prepare(path, &data, options)?;
        let (db, keyspaces) = open_database(path, &data, options)?;
        if synced.is_empty() {
            synced = created(&data, &mut mark).map_err(|e| Error::io("writing the mark", e))?;
        }
        let poison = Arc::new(Poison::default());
        let syncer = Syncer::start(data, mark, synced, Arc::clone(&poison))?;
        let core = Arc::new(Core {
            path: path.to_path_buf(),
            db,
            keyspaces,
            gate: RwLock::new(()),
            alone: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            large_commit: Mutex::new(()),
            settling: Mutex::new(()),
            locks: KeyLocks::new(),
            room: Room::new(options.disk_reserve),
            poison,
            syncer,
            _lock: lock,
        });
        // A shortage is logged here and refuses writes one by one; it does not keep the engine from opening.
        let _ = core.look_for_room(Duration::ZERO);
        let settler = options.settle_in_background.then(|| settle::in_background(&core)).transpose()?;
        Ok(Self { core, settler: Mutex::new(settler) })
    }
}

fn lock(path: &Path) -> Result<File> {
    let io = |e| Error::io(format!("locking {}", path.display()), e);
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(path.join("lock")).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked(path.to_path_buf())),
        Err(TryLockError::Error(e)) => Err(io(e)),
    }
}

/// Checks the directory and repairs it where fjall must not open it as it is. Returns no journals if it is new.
fn prepare(path: &Path, data: &Path, options: &Options) -> Result<(Mark, Vec<Synced>)> {
    let io = |e| Error::io(format!("preparing {}", path.display()), e);
    let mark_path = path.join("mark");
    let create_mark = || {
        let mark = Mark::create(&mark_path).map_err(io)?;
        recover::sync_dir(path).map_err(io)?;
        Ok(mark)
    };
    let (mut mark, noted) = match Mark::open(&mark_path) {
        Ok(Some(found)) => found,
        Ok(None) if !data.try_exists().map_err(io)? => (create_mark()?, Vec::new()),
        Ok(None) | Err(Error::Damaged(_)) if options.accept_loss => {
            let noted = recover::unmarked(data).map_err(io)?;
            (create_mark()?, noted)
        }
        Ok(None) => {
            return Err(Error::damaged(format!(
                "{} is missing: without it the journals cannot be checked for completeness",
                mark_path.display()
            )));
        }
        Err(e) => return Err(e),
    };
    if noted.is_empty() {
        // New, or the first opening was interrupted before anything could be written.
        return match std::fs::remove_dir_all(data) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(e)),
            _ => Ok((mark, noted)),
        };
    }
    if !data.join("version").try_exists().map_err(io)? {
        return Err(Error::damaged(format!("{} is missing", data.join("version").display())));
    }
    manifest::check(data, &keyspaces::listed(path)?)?;
    let synced = recover::recover(data, &mut mark, &noted, options.accept_loss)?;
    Ok((mark, synced))
}

/// Notes in the mark that fjall's directory is complete.
fn created(data: &Path, mark: &mut Mark) -> std::io::Result<Vec<Synced>> {
    recover::sync_dir(data.parent().unwrap_or(data))?;
    let journal = *journal::list(data)?.last().ok_or(std::io::ErrorKind::NotFound)?;
    let synced = vec![Synced { journal, base: 0, end: 0, chain: 0 }];
    mark.write(&synced)?;
    mark.sync()?;
    Ok(synced)
}

fn open_database(path: &Path, data: &Path, options: &Options) -> Result<(Database, Arc<Keyspaces>)> {
    let db = guarded(|| {
        let db = match Database::open(tuning::database(data, options)) {
            Err(fjall::Error::Locked) => return Ok(Err(Error::Locked(path.to_path_buf()))),
            opened => opened?,
        };
        Ok(Ok(db))
    })??;
    let keyspaces = Keyspaces::open(&db, path)?;
    Ok((db, Arc::new(keyspaces)))
}

impl Core {
    fn writable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    /// Refuses further writes: after a failed one it is unknown what was written.
    fn poisoned_by(&self, error: Error) -> Error {
        let Error::Poisoned(why) = &error else {
            self.poison.set(&error.to_string());
            return error;
        };
        // fjall's own threads log their failures, and do not return them; a full disk is the usual cause.
        match room::free_space(&self.path) {
            Some((available, _)) => self.poison.set(&format!("{why}; the disk has {available} bytes left")),
            None => self.poison.set(why),
        }
        self.poison.check().err().unwrap_or(error)
    }

    fn view(&self) -> fjall::Snapshot {
        let view = self.db.snapshot();
        // A flush may raise the visible sequence number above that of a commit that is still being applied. A
        // commit is applied under the journal's lock, so after passing that lock all commits below the view are complete.
        fence(Ordering::SeqCst);
        if self.gate.is_locked() && !self.alone.load(Ordering::SeqCst) {
            // A failure concerns writing alone; the view is complete.
            let _ = guarded(|| self.db.persist(PersistMode::Buffer));
        }
        view
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if key.is_empty() || key.len() > MAX_KEY_LEN {
            return Ok(None);
        }
        let Some(keyspace) = self.keyspaces.get(space) else { return Ok(None) };
        // While the view exists, compaction keeps the values that this read needs.
        let view = self.db.snapshot();
        guarded(|| fjall::Readable::get(&view, keyspace, key))
    }

    fn check_conditions(&self, batch: &Batch) -> Result<()> {
        for (i, condition) in batch.conditions().iter().enumerate() {
            let keyspace = self.keyspaces.get(condition.space);
            let found = keyspace.map_or(Ok(None), |keyspace| guarded(|| keyspace.get(&*condition.key)))?;
            if found != condition.expected {
                return Err(Error::Conflict(i));
            }
        }
        Ok(())
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        batch.check_keys()?;
        self.writable()?;
        let _turn = self.wait_for_memory(&batch)?;
        let _gate = self.gate.read();
        self.writable()?;
        if !batch.takes_reserve() {
            self.check_room()?;
        }
        let _locks = self.locks.lock(&batch);
        self.check_conditions(&batch)?;
        if batch.is_empty() {
            return Ok(self.syncer.last_completed());
        }
        for write in batch.writes().iter().filter(|write| write.value.is_some()) {
            self.keyspaces.make(&self.db, write.space).map_err(|e| self.poisoned_by(e))?;
        }
        let outcome = guarded(|| {
            let mut writes = OwnedWriteBatch::with_capacity(self.db.clone(), batch.len());
            for write in batch.into_writes() {
                let Some(keyspace) = self.keyspaces.get(write.space) else { continue };
                match write.value {
                    Some(value) => writes.insert(keyspace, write.key, value),
                    None => writes.remove(keyspace, write.key),
                }
            }
            writes.durability(Some(PersistMode::Buffer)).commit()
        });
        outcome.map_err(|e| self.poisoned_by(e))?;
        Ok(self.syncer.completed())
    }

    fn stats(&self) -> Stats {
        let (journals, journal_bytes) = journal_space(&self.path.join("data"));
        let mut stats = Stats {
            disk_bytes: disk_space(&self.path),
            journal_bytes,
            journals,
            memtable_bytes: self.db.write_buffer_size(),
            cache_bytes: self.db.cache_size(),
            cache_capacity: self.db.cache_capacity(),
            spaces: Default::default(),
        };
        for (stats, space) in stats.spaces.iter_mut().zip(Space::ALL) {
            let Some(keyspace) = self.keyspaces.get(space) else { continue };
            *stats = SpaceStats {
                disk_bytes: keyspace.disk_space(),
                memory_bytes: keyspace.tree.active_memtable().size(),
                approximate_keys: keyspace.tree.approximate_len() as u64,
            };
        }
        // fjall counts the memory that is being flushed for all spaces together.
        let sealed = |space| self.keyspaces.get(space).map_or(0, |space| space.tree.sealed_memtable_count());
        let sealed = Space::ALL.map(|space| sealed(space) as u64);
        let active: u64 = stats.spaces.iter().map(|space| space.memory_bytes).sum();
        let written = stats.memtable_bytes.saturating_sub(active);
        if let all @ 1.. = sealed.iter().sum::<u64>() {
            for (space, own) in stats.spaces.iter_mut().zip(sealed) {
                space.memory_bytes += written / all * own;
            }
        }
        stats
    }
}

impl Engine for FjallEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(DiskSnapshot { view: self.core.view(), keyspaces: Arc::clone(&self.core.keyspaces) })
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.core.get(space, key)
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        self.core.commit(batch)
    }

    fn writable(&self) -> Result<()> {
        self.core.writable()?;
        self.core.check_room()
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        self.core.ingest(space, pairs)
    }

    fn on_durable(&self, commit: CommitId, callback: DurableCallback) {
        self.core.syncer.on_durable(commit, callback);
    }

    fn sync_here(&self, commit: CommitId) -> Option<Result<()>> {
        self.core.syncer.sync_here(commit)
    }

    fn wait_durable(&self, commit: CommitId) -> Result<()> {
        self.core.syncer.wait(commit)
    }

    fn durable(&self) -> CommitId {
        self.core.syncer.durable()
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        crate::engine::delete_in_batches(self, space, range)
    }

    fn settle(&self) -> Result<()> {
        self.core.settle()
    }

    fn stats(&self) -> Stats {
        self.core.stats()
    }

    fn close(&self) -> Result<()> {
        drop(self.settler.lock().take());
        if self.core.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let settled = self.core.settle();
        self.core.closed.store(true, Ordering::Release);
        // Commits under way finish first, so that the last sync covers them.
        drop(self.core.gate.write());
        self.core.syncer.stop().and(settled)
    }
}

impl Drop for FjallEngine {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "closing the store");
        }
    }
}

/// Bytes that a directory's files occupy, holes not counted.
fn disk_space(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_space(&entry.path()),
        Ok(meta) => allocated(&meta),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn journal_space(data: &Path) -> (usize, u64) {
    let ids = journal::list(data).unwrap_or_default();
    let size = |id: &u64| std::fs::metadata(journal::path(data, *id)).map_or(0, |meta| allocated(&meta));
    (ids.len(), ids.iter().map(size).sum())
}

#[cfg(unix)]
fn allocated(meta: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta) * 512
}

#[cfg(not(unix))]
fn allocated(meta: &std::fs::Metadata) -> u64 {
    meta.len()
}
