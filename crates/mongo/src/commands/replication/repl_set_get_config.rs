//! `replSetGetConfig`: the configuration of a replica set with one member.

use crate::commands::replication::repl_set_get_status::require_replica_set;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    require_replica_set(context)?;
    let options = &context.server.options;
    reply.append(
        "config",
        doc! {
            "_id": options.set_name.as_str(),
            "version": 1,
            "term": 1,
            "members": [{
                "_id": 0,
                "host": options.host(context.client.local),
                "arbiterOnly": false,
                "buildIndexes": true,
                "hidden": false,
                "priority": 1.0,
                "tags": {},
                "secondaryDelaySecs": 0i64,
                "votes": 1
            }],
            "protocolVersion": 1i64,
            "writeConcernMajorityJournalDefault": true,
            "settings": { "chainingAllowed": true, "getLastErrorModes": {} }
        },
    );
    Ok(())
}
