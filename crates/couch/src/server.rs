//! The face as a whole: what all requests share.

use crate::config::Config;
use crate::http;
use crate::uuids::{self, Uuids};
use diwan_store::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use tokio::net::TcpListener;

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
    /// The header `Server`.
    pub(crate) server_header: String,
}

impl Couch {
    /// A face over `store`.
    pub fn new(store: Arc<Store>, config: Config) -> Arc<Couch> {
        let server_header = format!("Diwan/{} (CouchDB/{})", config.version, crate::COUCHDB_VERSION);
        Arc::new(Couch {
            store,
            config,
            uuids: Uuids::new(),
            uuid: uuids::random(),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            server_header,
        })
    }

    /// Accepts connections for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        http::connection::serve(listener, self).await;
    }
}
