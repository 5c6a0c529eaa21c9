//! Partitions: the documents of a partitioned database whose ids begin with the partition's name and a colon.

mod limit;

pub(crate) use limit::{PartitionSizes, check_size};

use crate::error::{Error, Result};
use crate::http::Request;
use diwan_kv::{Bytes, Direction, KeyRange};
use diwan_store::{Collection, id_key};
use diwan_value::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

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

/// The documents of a partition and their size, with attachments.
#[derive(Default)]
pub(crate) struct Measured {
    /// How many documents there are.
    pub(crate) documents: u64,
    /// The size in bytes.
    pub(crate) bytes: u64,
}

/// The keys of a partition's documents.
pub(crate) fn range(name: &str) -> Result<KeyRange> {
    let key = |end: char| -> Result<Bytes> { Ok(id_key(Value::String(&format!("{name}{end}")))?.into()) };
    // The range ends at the character after the colon.
    Ok(KeyRange::half_open(key(':')?, key(';')?))
}

/// Reads a partition, until it has more than `most` bytes.
pub(crate) fn measure(collection: &Arc<Collection>, name: &str, most: u64) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut damage = None;
    collection.view().documents(&range(name)?, Direction::Forward, &mut |_, record| {
        measured.documents += 1;
        measured.bytes += record.doc.as_bytes().len() as u64;
        if record.has_attachments() {
            match record.attachments() {
                Ok(list) => {
                    measured.bytes += list.iter().map(|attachment| attachment.encoded_length).sum::<u64>();
                }
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        if measured.bytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match damage {
        Some(damage) => Err(damage.into()),
        None => Ok(measured),
    }
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
