//! `replSetGetConfig`: the configuration of the replica set. The primary is its one voting member: followers never become
//! the primary by themselves.

use crate::commands::replication::repl_set_get_status::require_replica_set;
use crate::dispatch::Context;
use crate::error::Result;
use crate::server::replica_set::ReplicaSet;
use diwan_value::{ArrayBuilder, DocBuilder, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    require_replica_set(context)?;
    let set = ReplicaSet::of(context.server, context.client.local);
    let mut members = ArrayBuilder::new();
    for (number, host) in set.hosts.iter().enumerate() {
        let votes = i32::from(set.primary.as_ref() == Some(host));
        members.push(doc! {
            "_id": number as i32,
            "host": &**host,
            "arbiterOnly": false,
            "buildIndexes": true,
            "hidden": false,
            "priority": f64::from(votes),
            "tags": {},
            "secondaryDelaySecs": 0i64,
            "votes": votes
        });
    }
    reply.begin_document("config").append("_id", &*set.name);
    reply.append("version", 1).append("term", set.term).append("members", members);
    reply.append("protocolVersion", 1i64).append("writeConcernMajorityJournalDefault", true);
    reply.append("settings", doc! { "chainingAllowed": false, "getLastErrorModes": {} }).end();
    Ok(())
}
