//! Execution of plans: sources that find, sort, window and project documents. The caller pulls one document after
//! another.

mod ahead;
mod count;
mod entry;
mod parallel;
mod records;
mod scan;
mod seen;
mod single;
mod sorted;
mod window;

pub use count::count_matches;
pub use parallel::cores;
pub(crate) use parallel::on_all_cores;
pub use scan::{Keys, Scan, ScanStats};
pub(crate) use single::Single;
pub(crate) use sorted::Sorted;
pub(crate) use window::{FoundKeys, Projected, Window};

use crate::error::Error;
use diwan_query as query;
use diwan_value::doc;

/// Converts the store's error to the error of a document source.
pub(crate) fn as_query_error(error: Error) -> query::Error {
    let message = error.to_string();
    match error {
        Error::Query(error) => error,
        Error::DuplicateKey(key) => {
            query::Error::with_details(query::code::DUPLICATE_KEY, message, key.details())
        }
        Error::DocumentValidation { details } => query::Error::with_details(
            query::code::DOCUMENT_VALIDATION_FAILURE,
            message,
            doc! { "errInfo": details },
        ),
        Error::CollectionDropped(_) => query::Error::new(query::code::QUERY_PLAN_KILLED, message),
        full if full.is_out_of_space() => query::Error::new(query::code::OUT_OF_DISK_SPACE, message),
        other => query::Error::new(query::code::INTERNAL_ERROR, other.to_string()),
    }
}
