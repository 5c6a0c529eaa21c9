//! The replica set as this server shows it to drivers, and the commands that a follower refuses.
//!
//! Without followers the set has one member, whose address each client knows best. With followers, all members must name
//! each other alike, so the address is the one that the server advertises or listens on.

use crate::commands::Command;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::server::Server;
use crate::server::identity::ELECTION;
use crate::server::options::Topology;
use diwan_store::replica::Identity;
use diwan_value::ObjectId;
use std::net::SocketAddr;

/// Commands beside those that read documents which MongoDB's secondaries answer only with a read preference.
const OPT_IN: [&str; 9] = [
    "collStats",
    "dataSize",
    "dbHash",
    "dbStats",
    "dbstats",
    "explain",
    "listCollections",
    "listDatabases",
    "listIndexes",
];

/// The part of a server in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It takes writes.
    Primary,
    /// It follows, and its copy is complete.
    Secondary,
    /// It follows, and its copy grows for the first time.
    Startup,
}

impl MemberState {
    /// MongoDB's number and name.
    pub(crate) fn shown(self) -> (i32, &'static str) {
        match self {
            MemberState::Primary => (1, "PRIMARY"),
            MemberState::Secondary => (2, "SECONDARY"),
            MemberState::Startup => (5, "STARTUP2"),
        }
    }
}

/// The set as of one moment.
pub(crate) struct ReplicaSet {
    /// Its name.
    pub name: String,
    /// This server's address.
    pub me: String,
    /// The addresses of all members.
    pub hosts: Vec<String>,
    /// The primary's address, if this server knows it.
    pub primary: Option<String>,
    /// The part of this server.
    pub state: MemberState,
    /// The number of the primary's term.
    pub term: i64,
    /// The number of this state, for drivers that wait for a change.
    pub version: i64,
}

impl ReplicaSet {
    /// The set as a client sees it whose connection has the local address `local`.
    pub(crate) fn of(server: &Server, local: SocketAddr) -> ReplicaSet {
        let replica = server.store.replica();
        // The number is read first: what is read later is at least as new.
        let version = replica.version();
        let Identity { set_name, term, complete, .. } = replica.identity();
        let (follows, members) = (replica.follows(), replica.members());
        let common = replica.own_address().0.filter(|_| follows || !members.is_empty());
        let me = common.unwrap_or_else(|| server.options.host(local));
        let state = match (follows, complete) {
            (false, _) => MemberState::Primary,
            (true, true) => MemberState::Secondary,
            (true, false) => MemberState::Startup,
        };
        let primary = match replica.primary() {
            None => Some(me.clone()),
            Some(primary) => Some(primary.host).filter(|host| !host.is_empty()),
        };
        ReplicaSet {
            name: if set_name.is_empty() { server.options.set_name.clone() } else { set_name },
            hosts: replica.hosts(&me),
            me,
            primary,
            state,
            term: term.max(1),
            version,
        }
    }

    /// Identifies the election that made the primary one. Drivers believe the greater one.
    pub(crate) fn election(&self) -> ObjectId {
        let mut bytes = ELECTION.0;
        bytes[4..].copy_from_slice(&self.term.to_be_bytes());
        ObjectId(bytes)
    }
}

/// Refuses what a follower does not do: writes, and reads by a client that wants the primary.
pub(crate) fn check_member(server: &Server, command: &Command, request: &Request<'_>) -> Result<()> {
    let replica = server.store.replica();
    if !replica.follows() {
        return Ok(());
    }
    if command.changes() || request.arguments.in_transaction() {
        return Err(CommandError::new(code::NOT_WRITABLE_PRIMARY, "not primary"));
    }
    let is_read = (command.reads() && request.name != "getMore") || OPT_IN.contains(&command.name);
    if !is_read || server.options.topology != Topology::ReplicaSet {
        return Ok(());
    }
    let preference =
        request.body.get_doc("$readPreference").and_then(|preference| preference.get_str("mode"));
    if matches!(preference, None | Some("primary")) {
        return Err(CommandError::new(
            code::NOT_PRIMARY_NO_SECONDARY_OK,
            "not primary and secondaryOk=false - consider using readPreference=secondaryPreferred",
        ));
    }
    if !replica.is_readable() {
        return Err(CommandError::new(
            code::NOT_PRIMARY_OR_SECONDARY,
            "node is not in primary or recovering state: its first copy is not complete",
        ));
    }
    Ok(())
}
