//! Execution: documents found by a plan, sorted, windowed and projected, one pulled after another.

mod count;
mod scan;
mod single;
mod sorted;
mod window;

pub use count::count_matches;
pub use scan::{Scan, ScanStats};
pub(crate) use single::Single;
pub(crate) use sorted::Sorted;
pub(crate) use window::{Projected, Window};

use crate::error::Error;
use diwan_query as query;

/// The store's error as a document source may raise it.
pub(crate) fn as_query_error(error: Error) -> query::Error {
    match error {
        Error::Query(error) => error,
        other => query::Error::new(query::code::INTERNAL_ERROR, other.to_string()),
    }
}
