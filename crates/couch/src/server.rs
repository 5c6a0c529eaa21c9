//! State that all requests share, and the start and end of serving.

use crate::config::Config;
use crate::edit::Validators;
use crate::error::{Error, Result};
use crate::feed::Hubs;
use crate::http::{self, Inline, Workers};
use crate::mango;
use crate::partition::PartitionSizes;
use crate::replicator::Replicator;
use crate::uuids::{self, Uuids};
use diwan_access::Access;
use diwan_script::{Limits, Sandbox, Views};
use diwan_store::Store;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The CouchDB face of a store: the state shared by its requests.
pub struct Couch {
    /// The store.
    pub store: Arc<Store>,
    /// Users, roles and what each may do.
    pub(crate) access: Arc<Access>,
    pub(crate) config: Config,
    /// Generates document ids.
    pub(crate) uuids: Uuids,
    /// The server's UUID, new at each start.
    pub(crate) uuid: String,
    /// When the face was created.
    pub(crate) started: Instant,
    /// The number of requests so far.
    pub(crate) requests: AtomicU64,
    /// The TLS handshakes that are incomplete.
    pub(crate) handshakes: AtomicUsize,
    /// Notifies waiting feeds of changes.
    pub(crate) feeds: Hubs,
    /// Limits the threads that read the store for waiting feeds.
    pub(crate) feed_readers: Arc<Semaphore>,
    /// Serializes updates of the counters of purged documents.
    pub(crate) purge_counts: Mutex<()>,
    /// How far each database's indexes have been synchronized with its design documents.
    pub(crate) followed_designs: mango::Followed,
    /// Runs the functions of design documents.
    pub(crate) scripts: Arc<Sandbox>,
    /// The view indexes.
    views: Arc<Views>,
    /// Caches the `validate_doc_update` functions of databases.
    pub(crate) validators: Validators,
    /// The database whose `_design/_auth` was looked for.
    pub(crate) auth_design: Mutex<Option<[u8; 16]>>,
    /// How large partitions are.
    pub(crate) partition_sizes: PartitionSizes,
    /// Runs replications; set by [`Couch::serve`].
    replicator: OnceLock<Arc<Replicator>>,
    /// The value of the `Server` header.
    pub(crate) server_header: HeaderValue,
    /// Limits the runtime workers that run quick handlers.
    pub(crate) inline: Inline,
    /// Limits the blocking threads that run everything else.
    pub(crate) workers: Workers,
}

impl Couch {
    /// Creates a face over the register's store.
    pub fn new(access: Arc<Access>, config: Config) -> Arc<Couch> {
        let store = access.store().clone();
        let scripts = Sandbox::new(Limits::default());
        // Some clients check that the header begins with `CouchDB/`.
        let server_header = format!("CouchDB/{} (Diwan/{})", crate::COUCHDB_VERSION, config.version);
        let server_header =
            HeaderValue::try_from(server_header).unwrap_or_else(|_| HeaderValue::from_static("CouchDB"));
        Arc::new(Couch {
            store,
            access,
            config,
            uuids: Uuids::new(),
            uuid: uuids::random(),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            handshakes: AtomicUsize::new(0),
            feeds: Hubs::default(),
            feed_readers: Arc::new(Semaphore::new(Workers::FEED_READERS)),
            purge_counts: Mutex::new(()),
            followed_designs: mango::Followed::default(),
            views: Views::new(scripts.clone()),
            scripts,
            validators: Validators::default(),
            auth_design: Mutex::default(),
            partition_sizes: PartitionSizes::default(),
            replicator: OnceLock::new(),
            server_header,
            inline: Inline::default(),
            workers: Workers::default(),
        })
    }

    /// Users, roles and what each may do.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// How many requests there were since the start.
    pub fn request_count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How many blocking threads the runtime must allow.
    pub const BLOCKING_THREADS: usize = Workers::THREADS;

    /// Starts the replicator and accepts connections until the task is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        self.replicator.get_or_init(|| Replicator::start(&self, Handle::current()));
        http::connection::serve(listener, self).await;
    }

    /// The view indexes, with the limits that the settings have now.
    pub(crate) fn views(&self) -> &Arc<Views> {
        self.scripts.limit_reductions(self.reduce_limit());
        &self.views
    }

    /// Returns the replicator.
    pub(crate) fn replicator(&self) -> Result<&Arc<Replicator>> {
        self.replicator.get().ok_or_else(|| Error::unavailable("The server is starting."))
    }

    /// Stops background work: view builds, index builds and replications. Call it from a thread that may block.
    pub fn close(&self) {
        self.views.stop();
        self.followed_designs.stop();
        if let Some(replicator) = self.replicator.get() {
            replicator.close();
        }
    }
}
