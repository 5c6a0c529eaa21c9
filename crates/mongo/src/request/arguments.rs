//! The generic arguments, which every command takes: database, session, concerns, time limit, API version.

use crate::error::{CommandError, Result, code};
use crate::request::fields::{self, Field, int64, wrong_type};
use diwan_value::{Doc, Timestamp, Value};
use std::time::Duration;

/// The names of the generic arguments, sorted.
const NAMES: &[&str] = &[
    "$audit",
    "$client",
    "$clusterTime",
    "$configServerState",
    "$configTime",
    "$db",
    "$maxTimeMS",
    "$oplogQueryData",
    "$queryOptions",
    "$readPreference",
    "$replData",
    "$tenant",
    "$topologyTime",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "autocommit",
    "clientOperationKey",
    "comment",
    "coordinator",
    "databaseVersion",
    "help",
    "lsid",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "mayBypassWriteBlocking",
    "rawData",
    "readConcern",
    "requestGossipRoutingCache",
    "shardVersion",
    "startOrContinueTransaction",
    "startTransaction",
    "tracking_info",
    "txnNumber",
    "txnRetryCounter",
    "versionContext",
    "writeConcern",
];

/// Whether `key` names a generic argument.
pub(crate) fn is_generic(key: &str) -> bool {
    NAMES.binary_search(&key).is_ok()
}

/// A logical session's identifier: a UUID.
pub(crate) type SessionId = [u8; 16];

/// The generic arguments of one command.
#[derive(Debug, Default)]
pub(crate) struct GenericArguments<'a> {
    pub database: &'a str,
    pub session: Option<SessionId>,
    pub txn_number: Option<i64>,
    pub autocommit: Option<bool>,
    pub start_transaction: bool,
    /// The read concern, if the client set one.
    pub read_concern: Option<ReadConcern<'a>>,
    pub write_concern: Option<WriteConcern>,
    pub max_time: Option<Duration>,
    pub comment: Option<Value<'a>>,
    /// The UUID that the client expects the collection to have.
    pub collection_uuid: Option<[u8; 16]>,
    pub api_version: Option<&'a str>,
    pub api_strict: bool,
}

impl<'a> GenericArguments<'a> {
    /// Reads them from a command's `body`. `database` is given if the protocol names the database outside of the body.
    pub(crate) fn parse(
        name: &'a str,
        body: Doc<'a>,
        database: Option<&'a str>,
    ) -> Result<GenericArguments<'a>> {
        let mut arguments =
            GenericArguments { database: database.unwrap_or_default(), ..GenericArguments::default() };
        let mut has_database = database.is_some();
        let mut api_deprecation_errors = None;
        let mut api_strict = None;
        let generic = body.iter().skip(1).filter_map(|element| {
            // Each command lists `collectionUUID` among its own arguments, but it is checked in one place.
            let is_read_here = |key: &&str| is_generic(key) || *key == "collectionUUID";
            let key = std::str::from_utf8(element.key).ok().filter(is_read_here)?;
            Some(Field::new(name, key, element.value()))
        });
        fields::read(generic, |field| {
            match field.key {
                "$db" => {
                    arguments.database = field.string()?;
                    has_database = true;
                }
                "lsid" => arguments.session = Some(session_id(field.document()?)?),
                "txnNumber" => arguments.txn_number = Some(field.integer()?),
                "autocommit" => arguments.autocommit = Some(field.boolean()?),
                "startTransaction" => arguments.start_transaction = field.boolean()?,
                "readConcern" => {
                    let concern = field.document()?;
                    arguments.read_concern = Some(read_concern(concern)?).filter(|_| !concern.is_empty());
                }
                "writeConcern" => arguments.write_concern = WriteConcern::parse(field.document()?)?,
                "maxTimeMS" => arguments.max_time = max_time(field.value())?,
                "collectionUUID" => arguments.collection_uuid = Some(uuid(field)?),
                "comment" => arguments.comment = Some(field.value()),
                "apiVersion" => arguments.api_version = Some(field.string()?),
                "apiStrict" => api_strict = Some(field.boolean()?),
                "apiDeprecationErrors" => api_deprecation_errors = Some(field.boolean()?),
                _ => {}
            }
            Ok(())
        })?;
        if !has_database {
            return Err(CommandError::new(40571, "OP_MSG requests require a $db argument"));
        }
        match arguments.api_version {
            Some("1") => arguments.api_strict = api_strict == Some(true),
            Some(other) => {
                let text = format!("API version must be \"1\", but \"{other}\" was given");
                return Err(CommandError::new(code::API_VERSION_ERROR, text));
            }
            None if api_strict.is_some() || api_deprecation_errors.is_some() => {
                let text = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
                return Err(CommandError::new(code::API_PARAMETERS_WITHOUT_VERSION, text));
            }
            None => {}
        }
        Ok(arguments)
    }

    /// Whether the command claims to be part of a multi-document transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        self.autocommit.is_some() || self.start_transaction
    }
}

/// The value of an argument that is a UUID.
pub(crate) fn uuid(field: Field<'_>) -> Result<[u8; 16]> {
    match field.value() {
        Value::Binary { subtype: 4, bytes } => bytes.try_into().map_err(|_| field.wrong("UUID")),
        _ => Err(field.wrong("UUID")),
    }
}

/// The UUID of an `lsid` document.
pub(crate) fn session_id(lsid: Doc<'_>) -> Result<SessionId> {
    match lsid.get("id") {
        Some(Value::Binary { subtype: 4, bytes }) => bytes
            .try_into()
            .map_err(|_| CommandError::new(207, "BSON field 'lsid.id' is not a UUID of 16 bytes")),
        Some(other) => Err(wrong_type("OperationSessionInfo.lsid", "id", other, "binData")),
        None => Err(CommandError::new(
            code::IDL_MISSING_FIELD,
            "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field",
        )),
    }
}

/// A read concern.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadConcern<'a> {
    pub level: Option<&'a str>,
    /// The time of the snapshot to read.
    pub at: Option<Timestamp>,
    /// The time of a commit that the read must show. All that were acknowledged are shown.
    pub after: Option<Timestamp>,
}

/// Parses a read concern. With one member that holds every commit, all levels read the same data, except `snapshot`, which
/// spans several commands.
pub(crate) fn read_concern(concern: Doc<'_>) -> Result<ReadConcern<'_>> {
    let mut parsed = ReadConcern::default();
    for element in concern {
        let field = Field::new("readConcern", element.key_str(), element.value());
        match element.key_str() {
            "level" => match field.string()? {
                known @ ("local" | "available" | "majority" | "linearizable" | "snapshot") => {
                    parsed.level = Some(known);
                }
                other => {
                    return Err(CommandError::bad_value(format!(
                        "Enumeration value '{other}' for field 'readConcern.level' is not a valid value."
                    )));
                }
            },
            "afterClusterTime" => parsed.after = Some(timestamp(field)?),
            "atClusterTime" => parsed.at = Some(timestamp(field)?),
            "afterOpTime" | "provenance" => {}
            _ => return Err(field.unknown()),
        }
    }
    let invalid = |text: &str| Err(CommandError::new(code::INVALID_OPTIONS, text));
    match (parsed.at, parsed.after) {
        (Some(_), Some(_)) => invalid("Can not specify both 'afterClusterTime' and 'atClusterTime'"),
        (Some(at), _) if at.to_bits() == 0 => invalid("atClusterTime cannot be a null timestamp"),
        (Some(_), _) if parsed.level != Some("snapshot") => {
            invalid("'atClusterTime' field can be set only if 'level' is equal to snapshot")
        }
        _ => Ok(parsed),
    }
}

fn timestamp(field: Field<'_>) -> Result<Timestamp> {
    match field.value() {
        Value::Timestamp(time) => Ok(time),
        _ => Err(field.wrong("timestamp")),
    }
}

/// The time limit of `maxTimeMS`. Zero means no limit.
fn max_time(value: Value<'_>) -> Result<Option<Duration>> {
    let Some(millis) = int64(value).filter(|_| value.is_number()) else {
        return Err(CommandError::bad_value("maxTimeMS must be a number"));
    };
    let Some(limit) = u64::try_from(millis).ok().filter(|millis| *millis <= i32::MAX as u64) else {
        let text = format!("{millis} value for maxTimeMS is out of range [0, 2147483647]");
        return Err(CommandError::bad_value(text));
    };
    if let Value::Double(number) = value
        && number.fract() != 0.0
    {
        return Err(CommandError::bad_value("maxTimeMS has non-integral value"));
    }
    Ok(Some(Duration::from_millis(limit)).filter(|limit| !limit.is_zero()))
}

/// A write concern: how durable a write must be before it is acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    /// How many members must have the write. `None` leaves it to the default.
    pub w: Option<Acknowledgement>,
    /// Whether to wait for the sync of the journal. `None` leaves it to `w`.
    pub journal: Option<bool>,
    /// How long to wait for other members. `None` for as long as it takes.
    pub timeout: Option<Duration>,
}

/// The `w` of a write concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    /// A number of members. 0 asks for no acknowledgement.
    Members(i64),
    /// The majority, which also applies if neither the command nor the default sets `w`.
    Majority,
    /// The members of a named mode of the replica set's configuration.
    Named(String),
}

impl WriteConcern {
    /// Parses a `writeConcern`. `None` if it sets neither `w` nor `j`, so that the default applies.
    pub(crate) fn parse(concern: Doc<'_>) -> Result<Option<WriteConcern>> {
        let mut parsed = WriteConcern::default();
        let mut is_set = false;
        for element in concern {
            let value = element.value();
            let field = Field::new("writeConcern", element.key_str(), value);
            match element.key_str() {
                "w" => {
                    is_set = true;
                    parsed.w = Some(match value {
                        Value::String("majority") => Acknowledgement::Majority,
                        Value::String(mode) => Acknowledgement::Named(mode.to_owned()),
                        _ => match int64(value) {
                            Some(members @ 0..=50) => Acknowledgement::Members(members),
                            Some(_) => {
                                let text =
                                    "w has to be a non-negative number and not greater than 50; found: ";
                                return Err(CommandError::new(
                                    code::FAILED_TO_PARSE,
                                    format!("{text}{}", int64(value).unwrap_or_default()),
                                ));
                            }
                            None => {
                                let text = "w has to be a number, string, or object; found: ";
                                let text = format!("{text}{}", value.tag().alias());
                                return Err(CommandError::new(code::FAILED_TO_PARSE, text));
                            }
                        },
                    });
                }
                "j" => {
                    is_set = true;
                    parsed.journal = Some(field.flag()?);
                }
                "fsync" => {
                    if field.flag()? {
                        is_set = true;
                        parsed.journal = Some(true);
                    }
                }
                "wtimeout" => {
                    let millis = u64::try_from(field.integer()?).unwrap_or(0);
                    parsed.timeout = Some(Duration::from_millis(millis)).filter(|limit| !limit.is_zero());
                }
                "provenance" | "wElectionId" | "wOpTime" | "getLastError" => {}
                _ => return Err(field.unknown()),
            }
        }
        Ok(is_set.then_some(parsed))
    }

    /// This concern, completed from `default`.
    pub(crate) fn or(&self, default: Option<&WriteConcern>) -> WriteConcern {
        match (&self.w, default) {
            (None, Some(default)) => {
                let (w, journal) = (default.w.clone(), self.journal.or(default.journal));
                WriteConcern { w, journal, timeout: self.timeout.or(default.timeout) }
            }
            _ => self.clone(),
        }
    }

    /// Whether the client asks for no acknowledgement. `j: true` asks for one even with `w: 0`.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.w == Some(Acknowledgement::Members(0)) && self.journal != Some(true)
    }

    /// Whether the reply waits until the write is synced, so that it survives a power failure.
    pub(crate) fn waits_for_sync(&self) -> bool {
        match self.w {
            Some(Acknowledgement::Members(0 | 1)) => self.journal == Some(true),
            _ => self.journal != Some(false),
        }
    }

    /// How many followers must have the write.
    pub(crate) fn followers(&self) -> usize {
        match self.w {
            Some(Acknowledgement::Members(members)) => usize::try_from(members - 1).unwrap_or(0),
            _ => 0,
        }
    }

    /// Code and text of the `writeConcernError` for a concern that a set of this many followers cannot satisfy.
    pub(crate) fn unsatisfiable(&self, followers: usize) -> Option<(i32, String)> {
        match &self.w {
            Some(Acknowledgement::Members(_)) if self.followers() > followers => {
                Some((code::UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes".to_owned()))
            }
            Some(Acknowledgement::Named(mode)) => Some((
                code::UNKNOWN_REPL_WRITE_CONCERN,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn parse_requires_a_database() {
        let body = doc! { "ping": 1 };
        assert_eq!(GenericArguments::parse("ping", body.as_doc(), None).unwrap_err().code, 40571);
        assert!(GenericArguments::parse("ping", body.as_doc(), Some("admin")).is_ok());
    }

    #[test]
    fn parse_refuses_api_parameters_without_a_known_version() {
        let parse = |body: diwan_value::DocBuf| {
            GenericArguments::parse("ping", body.as_doc(), Some("x")).map_err(|e| e.code).err()
        };
        assert_eq!(parse(doc! { "ping": 1, "apiVersion": "1", "apiStrict": true }), None);
        assert_eq!(parse(doc! { "ping": 1, "apiVersion": "2" }), Some(322));
        assert_eq!(parse(doc! { "ping": 1, "apiStrict": true }), Some(4886600));
    }

    #[test]
    fn waits_for_sync_follows_w_and_j() {
        let waits = |concern: diwan_value::DocBuf| {
            WriteConcern::parse(concern.as_doc()).unwrap().unwrap_or_default().waits_for_sync()
        };
        assert!(waits(doc! {}));
        assert!(waits(doc! { "wtimeout": 100 }));
        assert!(waits(doc! { "w": "majority" }));
        assert!(waits(doc! { "w": 1, "j": true }));
        assert!(!waits(doc! { "w": 1 }));
        assert!(!waits(doc! { "w": 0 }));
        assert!(!waits(doc! { "w": 1.0, "j": false }));
        assert!(WriteConcern::parse(doc! { "w": -1 }.as_doc()).is_err());
        assert!(WriteConcern::parse(doc! { "w": 1, "x": 1 }.as_doc()).is_err());
    }
}
