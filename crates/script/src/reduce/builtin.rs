//! The built-in reduce functions by name.

use crate::error::{Error, Result};

/// A built-in reduce function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// `_sum`
    Sum,
    /// `_count`
    Count,
    /// `_stats`
    Stats,
    /// `_approx_count_distinct`
    Distinct,
    /// `_first`
    First,
    /// `_last`
    Last,
    /// `_top_N`
    Top(usize),
    /// `_bottom_N`
    Bottom(usize),
}

/// The maximum number of values that `_top_N` and `_bottom_N` keep, as in CouchDB.
const MOST_RANKED: usize = 100;

impl Builtin {
    /// Finds the function with this name.
    pub fn parse(name: &str) -> Result<Builtin> {
        let name = name.trim();
        let reject = |reason: &str| Err(Error::Design(reason.to_owned()));
        let ranked = [("_top_", Builtin::Top as fn(usize) -> Builtin), ("_bottom_", Builtin::Bottom)];
        for (prefix, make) in ranked {
            let Some(rank) = name.strip_prefix(prefix) else { continue };
            return match rank.parse::<i128>() {
                Err(_) => reject("invalid rank reducer"),
                Ok(rank) => {
                    match usize::try_from(rank).ok().filter(|rank| (1..=MOST_RANKED).contains(rank)) {
                        None => reject("rank value must be between 1 and 100"),
                        Some(rank) => Ok(make(rank)),
                    }
                }
            };
        }
        Ok(match name {
            // As in CouchDB, the rest of these names is ignored.
            name if name.starts_with("_sum") => Builtin::Sum,
            name if name.starts_with("_count") => Builtin::Count,
            name if name.starts_with("_stats") => Builtin::Stats,
            name if name.starts_with("_approx_count_distinct") => Builtin::Distinct,
            name if name.starts_with("_first") => Builtin::First,
            name if name.starts_with("_last") => Builtin::Last,
            _ => return reject(&format!("`{name}` is not a supported reduce function.")),
        })
    }
}
