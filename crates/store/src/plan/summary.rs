//! What ways of finding documents are called in `planSummary`.

use super::Access;
use std::sync::{Arc, LazyLock};

/// One document by its id, as MongoDB calls it.
pub(crate) static BY_ID: LazyLock<Arc<str>> = LazyLock::new(|| "EXPRESS_IXSCAN { _id: 1 }".into());
static BY_IDS: LazyLock<Arc<str>> = LazyLock::new(|| "CLUSTERED_IXSCAN".into());
static ALL: LazyLock<Arc<str>> = LazyLock::new(|| "COLLSCAN".into());
static NOTHING: LazyLock<Arc<str>> = LazyLock::new(|| "EOF".into());

impl Access {
    /// The name of this way, or of each of several.
    pub(crate) fn summaries(&self) -> Vec<Arc<str>> {
        match self {
            Access::Nothing => vec![NOTHING.clone()],
            Access::Ids(ids) if ids.len() == 1 => vec![BY_ID.clone()],
            Access::Ids(_) => vec![BY_IDS.clone()],
            Access::Collection { ids, .. } if !ids.is_all() => vec![BY_IDS.clone()],
            Access::Collection { .. } | Access::Natural { .. } => vec![ALL.clone()],
            Access::Index(scan) => vec![scan.index.summary.clone()],
            Access::Union(branches) => branches.iter().flat_map(Access::summaries).collect(),
        }
    }
}
