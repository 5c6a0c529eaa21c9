//! `serverStatus`: the counters and measurements of the server.

use crate::dispatch::Context;
use crate::error::Result;
use crate::monitoring::machine;
use crate::monitoring::metrics::{LatencyClass, OperationKind};
use crate::server::Server;
use crate::server::clock::unix_millis;
use crate::server::cursors::{CursorCounters, Cursors};
use crate::server::identity::VERSION;
use crate::server::options::Topology;
use crate::server::replica_set::{MemberState, ReplicaSet};
use diwan_store::Entry;
use diwan_value::{DocBuf, DocBuilder, Value, array, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let server: &Server = context.server;
    let metrics = &server.metrics;
    let uptime = server.started.elapsed();
    reply.append("host", machine::hostname()).append("version", VERSION);
    reply.append("process", if server.options.topology == Topology::Mongos { "mongos" } else { "mongod" });
    reply.append("pid", i64::from(std::process::id())).append("uptime", uptime.as_secs_f64().trunc());
    reply.append("uptimeMillis", uptime.as_millis() as i64).append("uptimeEstimate", uptime.as_secs() as i64);
    reply.append("localTime", Value::DateTime(unix_millis()));
    let open = metrics.open_connections();
    let limit = server.options.max_connections as u64;
    reply.append(
        "connections",
        doc! {
            "current": open as i32,
            "available": limit.saturating_sub(open) as i32,
            "totalCreated": metrics.connections_opened.get() as i64,
            "rejected": metrics.connections_refused.get() as i64,
            "active": server.operations.list().len() as i32
        },
    );
    reply.append(
        "network",
        doc! {
            "bytesIn": metrics.bytes_in.get() as i64,
            "bytesOut": metrics.bytes_out.get() as i64,
            "numRequests": metrics.requests.get() as i64
        },
    );
    reply.begin_document("opcounters");
    for kind in OperationKind::ALL {
        reply.append(kind.name(), metrics.operations[kind as usize].get() as i64);
    }
    reply.end();
    reply.begin_document("opLatencies");
    for class in LatencyClass::ALL {
        let latency = &metrics.latencies[class as usize];
        let shown = doc! { "latency": latency.micros.get() as i64, "ops": latency.count.get() as i64 };
        reply.append(class.name(), shown);
    }
    reply.end();
    reply.append("catalogStats", catalog_stats(server));
    reply.append("metrics", doc! { "cursor": cursor_metrics(&server.cursors) });
    reply.append("transactions", transactions(server));
    reply.append("logicalSessionRecordCache", doc! { "activeSessionsCount": server.sessions.count() as i32 });
    if server.options.topology == Topology::ReplicaSet {
        let set = ReplicaSet::of(server, context.client.local);
        let hosts: Vec<&str> = set.hosts.iter().map(String::as_str).collect();
        reply.begin_document("repl").append("setName", &*set.name).append("setVersion", 1);
        reply.append("isWritablePrimary", set.state == MemberState::Primary);
        reply.append("secondary", set.state == MemberState::Secondary);
        if let Some(primary) = &set.primary {
            reply.append("primary", &**primary);
        }
        reply.append("hosts", hosts).append("me", &*set.me);
        if let Some(lag) = server.store.replica().lag() {
            reply.append("lagMillis", lag.as_millis() as i64);
        }
        reply.end();
    }
    reply.append(
        "storageEngine",
        doc! {
            "name": server.options.storage_engine, "supportsCommittedReads": true,
            "supportsSnapshotReadConcern": true, "readOnly": false, "persistent": server.options.persistent
        },
    );
    let stats = server.engine.stats();
    reply.append(
        "diwan",
        doc! {
            "diskBytes": stats.disk_bytes as i64,
            "journalBytes": stats.journal_bytes as i64,
            "journals": stats.journals as i64,
            "memtableBytes": stats.memtable_bytes as i64,
            "cacheBytes": stats.cache_bytes as i64,
            "cacheCapacity": stats.cache_capacity as i64,
            "failedCommands": metrics.errors.get() as i64
        },
    );
    let resident = machine::resident_bytes() / 1024 / 1024;
    reply.append("mem", doc! { "bits": 64, "resident": resident as i32, "supported": true });
    reply.append("transportSecurity", doc! {}).append("security", doc! { "authentication": array![] });
    Ok(())
}

/// `catalogStats`: the number of collections and views. Those in `admin`, `config` and `local` are counted separately.
fn catalog_stats(server: &Server) -> DocBuf {
    let (mut collections, mut capped, mut views) = (0, 0, 0);
    let (mut internal_collections, mut internal_views) = (0, 0);
    for database in server.store.databases() {
        let is_internal = matches!(database.as_str(), "admin" | "config" | "local");
        for (_, entry) in server.store.entries_of(&database) {
            match entry {
                Entry::Collection(_) if is_internal => internal_collections += 1,
                Entry::View(_) if is_internal => internal_views += 1,
                Entry::Collection(collection) => {
                    collections += 1;
                    capped += i32::from(collection.schema().options.capped.is_some());
                }
                Entry::View(_) => views += 1,
            }
        }
    }
    doc! {
        "collections": collections,
        "capped": capped,
        "clustered": 0,
        "timeseries": 0,
        "views": views,
        "internalCollections": internal_collections,
        "internalViews": internal_views
    }
}

/// `transactions`: how many are open, and how many have been.
fn transactions(server: &Server) -> DocBuf {
    let (open, counters) = (server.transactions.open(), &server.transactions.counters);
    doc! {
        "currentActive": open.active as i64,
        "currentInactive": open.inactive as i64,
        "currentOpen": (open.active + open.inactive) as i64,
        "totalAborted": counters.aborted.get() as i64,
        "totalCommitted": counters.committed.get() as i64,
        "totalStarted": counters.started.get() as i64
    }
}

/// `metrics.cursor`.
fn cursor_metrics(cursors: &Cursors) -> DocBuf {
    let (open, counters) = (cursors.count(), cursors.counters());
    let mut lifespan = DocBuilder::new();
    for (name, count) in CursorCounters::LIFESPAN_NAMES.iter().zip(&counters.lifespans) {
        lifespan.append(name, count.get() as i64);
    }
    doc! {
        "moreThanOneBatch": counters.more_than_one_batch.get() as i64,
        "timedOut": counters.timed_out.get() as i64,
        "totalOpened": counters.opened.get() as i64,
        "lifespan": lifespan.finish(),
        "open": {
            "noTimeout": open.no_timeout as i64,
            "pinned": open.pinned as i64,
            "total": open.total as i64
        }
    }
}
