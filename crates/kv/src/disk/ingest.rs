//! Ingestion: sorted pairs become tables without going through the journal and memory.
//!
//! The tables are written beside all other traffic and then added to their space under a new sequence number, which
//! places them between earlier and later commits. For that the space's memory must be flushed to tables, and no commit
//! may be under way: it could have a smaller number and not be in memory yet. So commits wait at the end. All that can
//! be done before they wait is done before: the tables are synced, and memory is flushed except for commits that come
//! in the meantime.
//!
//! After a kill, either the tables belong to their space, with all earlier commits, or they are unused and the next start
//! deletes them. If they belong to it, the space's commits with smaller numbers in the journal are not replayed.

use super::Core;
use super::read::guarded;
use crate::{Error, MAX_KEY_LEN, Result, SortedPairs, Space};
use fjall::{AbstractTree, Keyspace, PersistMode};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// With so many runs of tables that are not compacted yet, ingestion waits: with some more, fjall would slow down commits.
const MOST_RUNS: usize = 12;

impl Core {
    pub fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return self.writable();
        }
        self.look_for_room(Duration::ZERO)?;
        let keyspace = self.made(space)?;
        let first_table = keyspace.tree.next_table_id();
        let written = guarded(|| {
            let mut ingestion = keyspace.start_ingestion()?;
            for (key, value) in pairs {
                if key.is_empty() || key.len() > MAX_KEY_LEN {
                    return Ok(Err(Error::KeyLength(key.len())));
                }
                ingestion.write(key, value)?;
            }
            Ok(Ok(ingestion))
        });
        let ingestion = written.map_err(|e| self.poisoned_by(e))??;
        sync_tables(keyspace, first_table)
            .map_err(|e| self.poisoned_by(Error::io("syncing ingested tables", e)))?;
        self.wait_for_compaction(keyspace)?;
        self.flush(keyspace)?;
        self.syncer.wait(self.syncer.last_completed())?;
        let _gate = self.gate.write();
        self.writable()?;
        // Snapshots need not wait: all commits have ended.
        self.alone.store(true, Ordering::SeqCst);
        let finished = guarded(|| {
            // Commits that are flushed from memory must be synced in the journal first, with their parts in other spaces.
            if keyspace.tree.get_highest_memtable_seqno().is_some() {
                self.db.persist(PersistMode::SyncAll)?;
            }
            ingestion.finish()
        });
        self.alone.store(false, Ordering::SeqCst);
        finished.map_err(|e| self.poisoned_by(e))
    }

    fn made(&self, space: Space) -> Result<&Keyspace> {
        let _gate = self.gate.read();
        self.writable()?;
        self.keyspaces.make(&self.db, space).map_err(|e| self.poisoned_by(e))
    }

    fn wait_for_compaction(&self, keyspace: &Keyspace) -> Result<()> {
        while keyspace.tree.l0_run_count() >= MOST_RUNS {
            self.writable()?;
            // fjall reports a failed compaction here.
            guarded(|| self.db.persist(PersistMode::Buffer)).map_err(|e| self.poisoned_by(e))?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Syncs the tables from this number on as far as they are written, so that little is left to be synced later.
fn sync_tables(keyspace: &Keyspace, first: u64) -> io::Result<()> {
    for entry in std::fs::read_dir(keyspace.path().join("tables"))? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if number.is_none_or(|number: u64| number < first) {
            continue;
        }
        match File::open(entry.path()).and_then(|file| file.sync_data()) {
            // A compaction has removed the table meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            synced => synced?,
        }
    }
    Ok(())
}
