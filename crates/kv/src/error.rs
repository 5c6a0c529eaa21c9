//! The errors of engines, one for each reaction of the callers.

use std::path::PathBuf;
use std::sync::Arc;

/// The result of an engine's operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An engine's error. Cloneable, because one failed sync answers every commit that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A condition of the batch does not hold; nothing was written. The number counts the batch's conditions
    /// from 0, in the order in which they were required.
    #[error("condition {0} of the batch does not hold")]
    Conflict(usize),
    /// A key is empty or longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN); nothing was written.
    #[error("a key must have 1 to 65535 bytes, this one has {0}")]
    KeyLength(usize),
    /// A write or a sync failed earlier, so that memory and disk may differ: nothing is written until the engine
    /// is opened anew. Reads still work.
    #[error("the store refuses writes after a failure and must be restarted: {0}")]
    Poisoned(Arc<str>),
    /// The file system has less free space than the engine's reserve: writes that may grow the store are refused until
    /// there is more. Nothing was written.
    #[error("available disk space of {available} bytes is less than required minimum of {required}")]
    OutOfSpace {
        /// How many bytes are free.
        available: u64,
        /// How many bytes must be free.
        required: u64,
    },
    /// Another process has written the store since the write was evaluated; nothing was written. The write must be
    /// [evaluated again](crate::Peers).
    #[error("another process has written to the store meanwhile; try again")]
    Stale,
    /// The engine has been closed.
    #[error("the store is closed")]
    Closed,
    /// Another process (or another engine in this one) has the directory open.
    #[error("the data directory {0} is in use by another process")]
    Locked(PathBuf),
    /// The journals hold less than was synced to them. The files have not been changed.
    #[error("the journal lost writes that had been acknowledged as durable: {}; nothing was changed; \
             open with accepted loss to go on without them", list(.0))]
    LostWrites(Vec<LostJournal>),
    /// Stored data fails its checksum or does not parse.
    #[error("stored data is damaged: {0}")]
    Damaged(Arc<str>),
    /// The operating system refused an operation.
    #[error("{context}: {source}")]
    Io {
        /// The operation that failed.
        context: Arc<str>,
        /// The operating system's answer.
        source: Arc<std::io::Error>,
    },
}

/// A journal that no longer holds all that was synced to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostJournal {
    /// The journal's file.
    pub path: PathBuf,
    /// How many of its bytes had been synced.
    pub synced: u64,
    /// How many of its bytes, from the beginning, still read as whole commits.
    pub intact: u64,
    /// How the damage was detected.
    pub reason: String,
}

impl Error {
    pub(crate) fn io(context: impl Into<Arc<str>>, source: std::io::Error) -> Self {
        Error::Io { context: context.into(), source: Arc::new(source) }
    }

    /// Whether the cause is a full file system.
    pub fn is_out_of_space(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::OutOfSpace { .. } => true,
            Error::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }

    /// Whether a server that has the data accepts no writes at present.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Whether a server that has the data does not answer at present. What failed was not written.
    pub fn is_unreachable(&self) -> bool {
        use std::io::ErrorKind::{ConnectionAborted, TimedOut};
        matches!(self, Error::Io { source, .. } if matches!(source.kind(), ConnectionAborted | TimedOut))
    }

    pub(crate) fn damaged(what: impl Into<Arc<str>>) -> Self {
        Error::Damaged(what.into())
    }
}

fn list(journals: &[LostJournal]) -> String {
    let one = |j: &LostJournal| {
        format!("{}: {} of {} synced bytes are intact ({})", j.path.display(), j.intact, j.synced, j.reason)
    };
    journals.iter().map(one).collect::<Vec<_>>().join("; ")
}
