//! The fixed keyspaces of an engine.
//!
//! There are few, and never one per collection: a prefix of the key tells collections apart. Data with the same access
//! pattern shares a space, so that each space can be tuned for its pattern.

/// A keyspace: an ordered map of its own, committed together with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// Small, often read, seldom written: the catalog, settings, counters, results of retryable writes.
    Meta = 0,
    /// The documents, clustered by their identity: read by key and scanned whole.
    Records = 1,
    /// Entries of secondary indexes: keys carry everything, values are small or empty.
    Indexes = 2,
    /// The change log, by sequence: written at the end, read forward, trimmed at the front.
    Log = 3,
    /// Histories and conflicting revisions of documents, large bodies beside records: read by key, seldom.
    Revisions = 4,
    /// Chunks of attachments, some 100 KB each: written once, in the order of their keys, and read in runs.
    Attachments = 5,
    /// Events of change streams, by time: written at the end, read forward, trimmed at the front.
    Events = 6,
}

impl Space {
    /// Every space, in the order of their numbers.
    pub const ALL: [Space; 7] = [
        Space::Meta,
        Space::Records,
        Space::Indexes,
        Space::Log,
        Space::Revisions,
        Space::Attachments,
        Space::Events,
    ];

    /// The name of the space, which is also its name on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Meta => "meta",
            Space::Records => "records",
            Space::Indexes => "indexes",
            Space::Log => "log",
            Space::Revisions => "revisions",
            Space::Attachments => "attachments",
            Space::Events => "events",
        }
    }

    /// Whether the space is created by its first write: most stores never need it, and each space on disk makes the first
    /// start a little longer.
    pub(crate) const fn is_made_on_demand(self) -> bool {
        matches!(self, Space::Attachments | Space::Events)
    }

    /// The position of the space in [`Space::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
