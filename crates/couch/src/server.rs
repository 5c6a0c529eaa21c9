//! The face as a whole: what all requests share.

use crate::config::Config;
use crate::document::Validators;
use crate::error::{Error, Result};
use crate::feed::{self, Hubs};
use crate::http::{self, Inline, Workers};
use crate::mango;
use crate::replicator::Replicator;
use crate::uuids::{self, Uuids};
use diwan_script::{Limits, Sandbox, Views};
use diwan_store::Store;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The CouchDB face of a store.
pub struct Couch {
    /// The store.
    pub store: Arc<Store>,
    /// The settings.
    pub config: Config,
    /// New ids.
    pub uuids: Uuids,
    /// The server's identity, new at each start.
    pub uuid: String,
    /// When the face was opened.
    pub started: Instant,
    /// How many requests there were.
    pub requests: AtomicU64,
    /// Word of changes for feeds that wait.
    pub feeds: Hubs,
    /// Places for threads that read the store for such feeds.
    pub feed_readers: Arc<Semaphore>,
    /// Held by whoever counts documents that were purged.
    pub purge_counts: Mutex<()>,
    /// How far the indexes of each database follow its design documents.
    pub followed_designs: mango::Followed,
    /// Where functions of design documents run.
    pub scripts: Arc<Sandbox>,
    /// The indexes of views.
    pub views: Arc<Views>,
    /// What design documents say of edits.
    pub(crate) validators: Validators,
    /// The replications, once the face serves.
    replicator: OnceLock<Arc<Replicator>>,
    /// The header `Server`.
    pub(crate) server_header: HeaderValue,
    /// The workers that may run quick handlers.
    pub(crate) inline: Inline,
    /// The threads for everything else.
    pub(crate) workers: Workers,
}

impl Couch {
    /// A face over `store`.
    pub fn new(store: Arc<Store>, config: Config) -> Arc<Couch> {
        let scripts = Sandbox::new(Limits::default());
        // Clients look at how it begins.
        let server_header = format!("CouchDB/{} (Diwan/{})", crate::COUCHDB_VERSION, config.version);
        let server_header =
            HeaderValue::try_from(server_header).unwrap_or_else(|_| HeaderValue::from_static("CouchDB"));
        Arc::new(Couch {
            store,
            config,
            uuids: Uuids::new(),
            uuid: uuids::random(),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            feeds: Hubs::default(),
            feed_readers: Arc::new(Semaphore::new(feed::READERS)),
            purge_counts: Mutex::new(()),
            followed_designs: mango::Followed::default(),
            views: Views::new(scripts.clone()),
            scripts,
            validators: Validators::default(),
            replicator: OnceLock::new(),
            server_header,
            inline: Inline::default(),
            workers: Workers::default(),
        })
    }

    /// How many threads the runtime must allow for blocking work.
    pub const BLOCKING_THREADS: usize = Workers::THREADS;

    /// Accepts connections for ever, and looks after replications.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        self.replicator.get_or_init(|| Replicator::start(&self, Handle::current()));
        http::connection::serve(listener, self).await;
    }

    /// The replications.
    pub(crate) fn replicator(&self) -> Result<&Arc<Replicator>> {
        self.replicator.get().ok_or_else(|| Error::unavailable("The server is starting."))
    }

    /// Ends what goes on beside requests. To be called from a thread that may block.
    pub fn close(&self) {
        self.views.stop();
        self.followed_designs.stop();
        if let Some(replicator) = self.replicator.get() {
            replicator.close();
        }
    }
}
