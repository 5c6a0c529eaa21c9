//! The settings of fjall, all of them measured.
//!
//! - Write buffers are so large that [settling](super::settle) mostly flushes them first, which bounds memory and the
//!   time to replay journals. Frequent flushes make writers wait: fjall syncs files while it holds locks that they need.
//! - Blocks are large and compressed where whole ranges are read, and small where single keys are. Reading and unpacking
//!   the block is most of a look-up that misses the caches, and one in an index reads a block of each of its sorted runs.
//! - Tables of indexes are small. Keys come to an index in any order, so each compaction of new tables rewrites the whole
//!   first level, which is as large as four tables. The other spaces are mostly written in the order of their keys: their
//!   tables move down without being rewritten, and larger ones are fewer files.
//! - Filters exist where absent keys are looked up; not on the change log and on attachments, which are read by position.
//!   They stay in memory, about a byte for each key: if the cache dropped one, each read of a key would fetch it again.
//! - Attachments are not compressed here: the layer above compresses those that are worth it.
//! - Journals are not compressed: their checksums then do not depend on the compressor.
//!
//! fjall keeps a space's options with its data: a change here applies to directories created afterwards. The number of
//! threads is not among them.

use crate::Space;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PinningPolicy,
};
use fjall::{CompressionType, Config, Database, KeyspaceCreateOptions};
use std::path::Path;
use std::sync::Arc;

/// How to open an engine on disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes kept in memory for reading. An engine on disk without a cache around it uses all of them for blocks.
    pub cache_bytes: u64,
    /// Open the engine even if the journals lost writes, after copying the journals aside.
    pub accept_loss: bool,
    /// How many bytes of the file system are reserved for writes that free space: with fewer bytes free, writes that grow
    /// the store are refused. `None` for 500 MB or 2 % of the file system, whichever is less; 0 to refuse nothing.
    pub disk_reserve: Option<u64>,
    /// Settle in the background, when no commit has come for about a second or the journals have grown; and then read
    /// recent writes into the cache around the engine, if there is one.
    pub settle_in_background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache_bytes: 256 << 20, accept_loss: false, disk_reserve: None, settle_in_background: true }
    }
}

/// The least journal space that fjall accepts; it begins a new journal every 64 MB.
const MAX_JOURNAL_BYTES: u64 = 128 << 20;

/// fjall's threads for flushes and compactions. The first one takes no compactions but puts them back into the queue, over
/// and over until another thread takes them: it keeps a core busy for as long as all others compact. Of two threads that
/// is during every compaction, of four hardly ever.
const WORKERS: usize = 4;

pub(super) fn database(path: &Path, options: &Options) -> Config {
    Database::builder(path)
        .cache_size(options.cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(MAX_JOURNAL_BYTES)
        .worker_threads(WORKERS)
        .into_config()
}

struct Tuning {
    memtable_bytes: u64,
    table_bytes: u64,
    block_bytes: u32,
    filter: bool,
    compression: CompressionType,
}

const fn tuning(space: Space) -> Tuning {
    const COMMON: Tuning = Tuning {
        memtable_bytes: 32 << 20,
        table_bytes: 64 << 20,
        block_bytes: 16 << 10,
        filter: true,
        compression: CompressionType::Lz4,
    };
    match space {
        Space::Meta => Tuning { memtable_bytes: 4 << 20, block_bytes: 4 << 10, ..COMMON },
        Space::Indexes => Tuning { table_bytes: 16 << 20, block_bytes: 4 << 10, ..COMMON },
        Space::Records => Tuning { block_bytes: 8 << 10, ..COMMON },
        Space::Revisions => COMMON,
        Space::Log | Space::Events => Tuning { filter: false, ..COMMON },
        Space::Attachments => Tuning {
            memtable_bytes: 16 << 20,
            block_bytes: 128 << 10,
            filter: false,
            compression: CompressionType::None,
            ..COMMON
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
        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(tuning.table_bytes)))
        .data_block_size_policy(BlockSizePolicy::all(tuning.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(tuning.compression))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_policy(filter)
}
