//! The rules of commands in transactions and with read concern `snapshot`, and the store that such a command runs on.

use crate::commands::Command;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::server::Server;
use crate::server::clock::unix_millis;
use crate::server::options::Topology;
use crate::server::transactions::{Beginning, TransactionTurn};
use diwan_access::Caller;
use diwan_query::Interrupt;
use diwan_store::{Store, Transaction};
use diwan_value::Timestamp;
use std::sync::Arc;

/// What a command runs on.
pub(crate) enum Source<'a> {
    /// The store as it is.
    Store(&'a Arc<Store>),
    /// The private store of a transaction.
    Transaction(TransactionTurn<'a>),
    /// A snapshot that clients read by its time.
    Snapshot(Arc<Transaction>),
}

impl<'a> Source<'a> {
    /// The store that the command's statements run on.
    pub(crate) fn store(&self) -> Result<&Arc<Store>> {
        match self {
            Source::Store(store) => Ok(store),
            Source::Transaction(turn) => turn
                .store()
                .ok_or_else(|| CommandError::new(code::NO_SUCH_TRANSACTION, "the transaction has ended")),
            Source::Snapshot(snapshot) => Ok(snapshot.store()),
        }
    }

    /// The number of the transaction.
    pub(crate) fn transaction(&self) -> Option<i64> {
        match self {
            Source::Transaction(turn) => Some(turn.number),
            _ => None,
        }
    }

    /// The time of the snapshot.
    pub(crate) fn snapshot_time(&self) -> Option<Timestamp> {
        match self {
            Source::Snapshot(snapshot) => Some(snapshot.started()),
            _ => None,
        }
    }
}

/// Checks the rules of transactions and retryable writes that follow from the command and its generic arguments alone.
pub(super) fn check_rules(server: &Server, command: &Command, request: &Request<'_>) -> Result<()> {
    let arguments = &request.arguments;
    let name = request.name;
    let invalid = |text: &str| Err(CommandError::new(code::INVALID_OPTIONS, text));
    if arguments.txn_number.is_none() {
        if arguments.autocommit.is_some() {
            return invalid("'autocommit' field requires a transaction number to also be specified");
        }
        if arguments.start_transaction {
            return invalid("'startTransaction' field requires a transaction number to also be specified");
        }
        return Ok(());
    }
    if arguments.session.is_none() {
        return invalid("Transaction number requires a session ID to also be specified");
    }
    if server.options.topology == Topology::Standalone {
        let text = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    if arguments.txn_number.is_some_and(|number| number < 0) {
        return invalid("Transaction number cannot be negative");
    }
    match arguments.autocommit {
        Some(true) => return invalid("Specifying autocommit=true is not allowed."),
        Some(false) => {}
        None if arguments.start_transaction => {
            return invalid("'startTransaction' field requires 'autocommit' field to also be specified");
        }
        None if command.ends_transactions() => return Ok(()),
        None if !command.is_retryable() => {
            let text = format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                 autocommit:false was not provided, and {name} is not a retryable write command."
            );
            return Err(CommandError::new(50768, text));
        }
        None => return Ok(()),
    }
    check_inside(command, request)
}

/// Checks a command of a transaction.
fn check_inside(command: &Command, request: &Request<'_>) -> Result<()> {
    let (arguments, name) = (&request.arguments, request.name);
    let unsupported =
        |text: String| Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
    let invalid = |text: &str| Err(CommandError::new(code::INVALID_OPTIONS, text));
    if command.ends_transactions() {
        if arguments.start_transaction {
            return invalid("commitTransaction and abortTransaction cannot start a transaction");
        }
        return Ok(());
    }
    if !command.is_in_transactions() {
        return unsupported(if name == "count" {
            "Cannot run 'count' in a multi-document transaction. Please see \
             http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
                .to_owned()
        } else {
            format!("Cannot run '{name}' in a multi-document transaction.")
        });
    }
    // A `bulkWrite` checks the collections that it names itself.
    let names_none = !command.names_collection() && arguments.database == "admin";
    if !names_none {
        check_namespace(arguments.database, request.body.get_str(name).unwrap_or_default())?;
    }
    if arguments.write_concern.is_some() {
        return invalid("writeConcern is not allowed within a multi-statement transaction");
    }
    if let Some(concern) = &arguments.read_concern {
        if !arguments.start_transaction {
            return invalid("Only the first command in a transaction may specify a readConcern");
        }
        if !matches!(concern.level, None | Some("local" | "majority" | "snapshot")) {
            return invalid(
                "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a \
                 transaction",
            );
        }
    }
    if name == "getMore" && arguments.start_transaction {
        let text = "Cannot run 'getMore' as the first command in a transaction";
        return Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
    }
    Ok(())
}

/// Refuses the collections that transactions do not read or write.
pub(crate) fn check_namespace(database: &str, collection: &str) -> Result<()> {
    let text = if matches!(database, "config" | "local" | "admin") {
        format!("Cannot run command against the '{database}' database in a transaction.")
    } else if collection.starts_with("system.") {
        format!("Cannot run command against the '{database}.{collection}' collection in a transaction.")
    } else {
        return Ok(());
    };
    Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text))
}

/// What the command runs on: its transaction, which it may begin, a snapshot, or the store.
pub(super) fn source<'a>(
    server: &'a Server,
    command: &Command,
    request: &Request<'_>,
    caller: &Caller,
    interrupt: &Interrupt,
) -> Result<Source<'a>> {
    let arguments = &request.arguments;
    let level = arguments.read_concern.as_ref().and_then(|concern| concern.level);
    let at = arguments.read_concern.as_ref().and_then(|concern| concern.at);
    if command.ends_transactions() {
        return Ok(Source::Store(&server.store));
    }
    let numbered = arguments.session.zip(arguments.txn_number);
    if let Some((session, number)) = numbered.filter(|_| !arguments.in_transaction()) {
        server.transactions.outdate(session, number)?;
    }
    if let Some((session, number)) = numbered.filter(|_| arguments.in_transaction()) {
        if !arguments.start_transaction {
            return server.transactions.resume(session, number).map(Source::Transaction);
        }
        let beginning = Beginning { owner: caller.owner(), level, wall_millis: unix_millis() };
        let turn =
            server.transactions.begin(&server.store, session, number, beginning, interrupt, || match at {
                None => Ok(server.store.begin_transaction()),
                Some(_) => Ok(server.snapshots.at(&server.store, at)?.fork()),
            })?;
        return Ok(Source::Transaction(turn));
    }
    // A cursor reads what it was opened on.
    if level != Some("snapshot") || request.name == "getMore" {
        return Ok(Source::Store(&server.store));
    }
    if !matches!(request.name, "find" | "aggregate" | "distinct") {
        let text = format!(
            "Command {} does not support {{ readConcern: {{ level: \"snapshot\" }} }} :: caused by :: Command does not support read concern level snapshot",
            request.name
        );
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    if server.options.topology == Topology::Standalone {
        let text = "Cannot use snapshot readConcern on a standalone mongod";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    server.snapshots.at(&server.store, at).map(Source::Snapshot)
}
