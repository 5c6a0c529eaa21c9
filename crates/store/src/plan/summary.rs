//! The names of accesses in `planSummary`.

use super::Access;
use std::sync::{Arc, LazyLock};

/// MongoDB's name for a lookup of one id.
pub(crate) static BY_ID: LazyLock<Arc<str>> = LazyLock::new(|| "EXPRESS_IXSCAN { _id: 1 }".into());
static BY_IDS: LazyLock<Arc<str>> = LazyLock::new(|| "CLUSTERED_IXSCAN".into());
static ALL: LazyLock<Arc<str>> = LazyLock::new(|| "COLLSCAN".into());
static NOTHING: LazyLock<Arc<str>> = LazyLock::new(|| "EOF".into());

impl Access {
    /// The name of the access, or the names of a union's branches.
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
