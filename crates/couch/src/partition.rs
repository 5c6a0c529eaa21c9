//! Partitions: the documents of a partitioned database whose ids begin with the partition's name and a colon.

use crate::error::{Error, Result};
use crate::http::Request;
use diwan_store::Collection;
use diwan_value::Value;

/// The collection setting that marks a database as partitioned.
pub(crate) const SETTING: &str = "partitioned";

pub(crate) fn is_partitioned(collection: &Collection) -> bool {
    collection.setting(SETTING).is_some_and(|value| value.as_value() == Value::Boolean(true))
}

/// The error for a partitioned design document or index in a database that is not partitioned.
pub(crate) fn cannot_be_partitioned() -> Error {
    let reason = "partitioned option cannot be true in a non-partitioned database.";
    Error::new(400, "invalid_design_doc", reason)
}

/// The error for a partition query on a database that is not partitioned.
pub(crate) fn not_supported() -> Error {
    Error::query_parse_error("`partition` parameter is not supported on this db")
}

/// Whether the id belongs to the partition.
pub(crate) fn has(partition: &str, id: &str) -> bool {
    id.strip_prefix(partition).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns the partition in the request's path, after checking that the database is partitioned.
pub(crate) fn of(request: &Request) -> Result<String> {
    let collection = request.database()?;
    if !is_partitioned(&collection) {
        return Err(Error::bad_request("database is not partitioned"));
    }
    let name = request.param("partition");
    check(name)?;
    if request.query.get("partition").is_some_and(|other| other != name) {
        return Err(Error::bad_request("Conflicting value for `partition` in query string"));
    }
    Ok(name.to_owned())
}

/// Refuses an invalid partition name.
pub(crate) fn check(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::illegal_partition("Partition must not be empty"));
    }
    if name.starts_with('_') {
        return Err(Error::illegal_partition("Partition must not start with an underscore"));
    }
    if name.contains(':') {
        return Err(Error::illegal_partition("Partition must not contain a colon"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_and_check_follow_the_rules_for_partition_names() {
        assert!(has("a", "a:b") && !has("a", "ab:c") && !has("a", "a"));
        for bad in ["", "_x", "a:b"] {
            assert_eq!(check(bad).unwrap_err().error, "illegal_partition", "{bad}");
        }
        assert!(check("straße").is_ok());
    }
}
