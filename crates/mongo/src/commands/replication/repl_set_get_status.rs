//! `replSetGetStatus`: the status of a replica set with one member, the primary.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::server::clock::unix_millis;
use crate::server::options::Topology;
use diwan_value::{DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    require_replica_set(context)?;
    let server = context.server;
    let now = server.store.clock().now();
    let time = doc! { "ts": now, "t": 1i64 };
    let date = Value::DateTime(i64::from(now.seconds) * 1000);
    reply.append("set", server.options.set_name.as_str()).append("date", Value::DateTime(unix_millis()));
    reply.append("myState", 1).append("term", 1i64);
    reply.append("heartbeatIntervalMillis", 2000i64).append("majorityVoteCount", 1);
    reply
        .append("writeMajorityCount", 1)
        .append("votingMembersCount", 1)
        .append("writableVotingMembersCount", 1);
    reply.append(
        "optimes",
        doc! { "lastCommittedOpTime": &time, "appliedOpTime": &time, "durableOpTime": &time },
    );
    reply.append(
        "members",
        diwan_value::array![{
            "_id": 0,
            "name": server.options.host(context.client.local),
            "health": 1.0,
            "state": 1,
            "stateStr": "PRIMARY",
            "uptime": server.started.elapsed().as_secs() as i32,
            "optime": &time,
            "optimeDate": date,
            "configVersion": 1,
            "configTerm": 1,
            "self": true
        }],
    );
    Ok(())
}

/// Refuses the command unless the server reports a replica set.
pub(crate) fn require_replica_set(context: &Context<'_>) -> Result<()> {
    match context.server.options.topology {
        Topology::ReplicaSet => Ok(()),
        _ => Err(CommandError::new(76, "not running with --replSet")),
    }
}
