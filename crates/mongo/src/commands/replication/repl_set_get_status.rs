//! `replSetGetStatus`: the members of the replica set, their parts, and how far each has come.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::server::clock::unix_millis;
use crate::server::options::Topology;
use crate::server::replica_set::{MemberState, ReplicaSet};
use diwan_store::replica::Member;
use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Timestamp, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    require_replica_set(context)?;
    let server = context.server;
    let replica = server.store.replica();
    let set = ReplicaSet::of(server, context.client.local);
    // A follower's own clock says nothing of what it has.
    let own = match replica.primary() {
        Some(primary) => Timestamp::from_bits(primary.applied),
        None => server.store.clock().now(),
    };
    let time = op_time(own, set.term);
    reply.append("set", &*set.name).append("date", Value::DateTime(unix_millis()));
    reply.append("myState", set.state.shown().0).append("term", set.term);
    if let (Some(primary), true) = (&set.primary, replica.follows()) {
        reply.append("syncSourceHost", &**primary);
    }
    reply.append("heartbeatIntervalMillis", 2000i64).append("majorityVoteCount", 1);
    reply
        .append("writeMajorityCount", 1)
        .append("votingMembersCount", 1)
        .append("writableVotingMembersCount", 1);
    reply.append(
        "optimes",
        doc! { "lastCommittedOpTime": &time, "appliedOpTime": &time, "durableOpTime": &time },
    );
    let followers = replica.members();
    let mut members = ArrayBuilder::new();
    for (number, host) in set.hosts.iter().enumerate() {
        let number = number as i32;
        let mut member = if *host == set.me {
            let uptime = server.started.elapsed().as_secs() as i32;
            let mut member = describe(number, host, set.state, uptime, (own, set.term));
            if let Some(lag) = replica.lag() {
                member.append("lagMillis", lag.as_millis() as i64);
            }
            if let Some(trouble) = replica.primary().and_then(|primary| primary.trouble) {
                member.append("infoMessage", trouble);
            }
            member.append("self", true);
            member
        } else if let Some(follower) = followers.iter().find(|follower| follower.host == *host) {
            describe_follower(number, follower, set.term)
        } else {
            // On a follower: the primary, and followers that only the primary knows.
            let is_primary = set.primary.as_ref() == Some(host);
            let trouble = replica.primary().and_then(|primary| primary.trouble);
            let state = if is_primary { MemberState::Primary } else { MemberState::Secondary };
            let mut member = describe(number, host, state, 0, (own, set.term));
            if let Some(trouble) = trouble.filter(|_| is_primary) {
                member.append("lastHeartbeatMessage", trouble);
            }
            member
        };
        member.append("configVersion", 1).append("configTerm", 1);
        members.push(member.finish());
    }
    reply.append("members", members);
    Ok(())
}

fn op_time(time: Timestamp, term: i64) -> DocBuf {
    doc! { "ts": time, "t": term }
}

fn describe(
    number: i32,
    host: &str,
    state: MemberState,
    uptime: i32,
    (time, term): (Timestamp, i64),
) -> DocBuilder {
    let (code, name) = state.shown();
    let mut out = DocBuilder::new();
    out.append("_id", number).append("name", host).append("health", 1.0);
    out.append("state", code).append("stateStr", name).append("uptime", uptime);
    out.append("optime", op_time(time, term));
    out.append("optimeDate", Value::DateTime(i64::from(time.seconds) * 1000));
    out
}

fn describe_follower(number: i32, follower: &Member, term: i64) -> DocBuilder {
    let state = if follower.complete { MemberState::Secondary } else { MemberState::Startup };
    let uptime = follower.known.as_secs() as i32;
    let applied = Timestamp::from_bits(follower.applied);
    let mut out = describe(number, &follower.host, state, uptime, (applied, term));
    let heard = unix_millis() - follower.silent.as_millis() as i64;
    out.append("lastHeartbeatRecv", Value::DateTime(heard));
    out
}

/// Refuses the command unless the server reports a replica set.
pub(crate) fn require_replica_set(context: &Context<'_>) -> Result<()> {
    match context.server.options.topology {
        Topology::ReplicaSet => Ok(()),
        _ => Err(CommandError::new(76, "not running with --replSet")),
    }
}
