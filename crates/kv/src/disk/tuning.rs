//! How fjall is set up: measured choices, one place.
//!
//! - Write buffers so large that [settling](super::settle) mostly comes first: it bounds memory and the time to replay
//!   journals. Who flushes often makes writers wait often: fjall syncs files while it holds locks that they need.
//! - Large compressed blocks where whole ranges are read, small ones where single keys are.
//! - Filters where absent keys are asked for; none on the change log and on attachments, which are read by position.
//!   They stay in memory, about a byte for each key: where one is dropped from the cache, every read of a key fetches it again.
//! - No compression of attachments: what can be packed is, before it comes here.
//! - Journals uncompressed: their checksums then do not depend on what a compressor makes of a value.
//!
//! fjall keeps a space's options with its data: a change here applies to directories created afterwards.

use crate::Space;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PinningPolicy,
};
use fjall::{CompressionType, Config, Database, KeyspaceCreateOptions};
use std::path::Path;

/// How to open an engine on disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes kept in memory for reading; an engine on disk without a cache around it takes all of them for blocks.
    pub cache_bytes: u64,
    /// Go on without writes that the journals lost, after copying the journals aside.
    pub accept_loss: bool,
    /// How many bytes stay free on the file system for what makes room: writes that grow the store are refused before. `None`
    /// for 500 MB or 2 % of the file system, whichever is less; 0 to refuse nothing.
    pub disk_reserve: Option<u64>,
    /// Settle in the background: when no commit has come for about a second, or the journals have grown; and then read what
    /// was written into a cache around the engine.
    pub settle_in_background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache_bytes: 256 << 20, accept_loss: false, disk_reserve: None, settle_in_background: true }
    }
}

/// The least journal space that fjall takes; it begins a new journal every 64 MB.
const MAX_JOURNAL_BYTES: u64 = 128 << 20;

pub(super) fn database(path: &Path, options: &Options) -> Config {
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4));
    Database::builder(path)
        .cache_size(options.cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(MAX_JOURNAL_BYTES)
        .worker_threads(workers)
        .into_config()
}

struct Tuning {
    memtable_bytes: u64,
    block_bytes: u32,
    filter: bool,
    compression: CompressionType,
}

const fn tuning(space: Space) -> Tuning {
    const COMMON: Tuning = Tuning {
        memtable_bytes: 32 << 20,
        block_bytes: 16 << 10,
        filter: true,
        compression: CompressionType::Lz4,
    };
    match space {
        Space::Meta => Tuning { memtable_bytes: 4 << 20, block_bytes: 4 << 10, ..COMMON },
        Space::Records | Space::Indexes | Space::Revisions => COMMON,
        Space::Log => Tuning { filter: false, ..COMMON },
        Space::Attachments => Tuning {
            memtable_bytes: 16 << 20,
            block_bytes: 128 << 10,
            filter: false,
            compression: CompressionType::None,
        },
    }
}

pub(super) fn keyspace(space: Space) -> KeyspaceCreateOptions {
    let tuning = tuning(space);
    let filter = if tuning.filter {
        FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)))
    } else {
        FilterPolicy::disabled()
    };
    KeyspaceCreateOptions::default()
        .max_memtable_size(tuning.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(tuning.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(tuning.compression))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_policy(filter)
}
