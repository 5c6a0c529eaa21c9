//! The face as a whole: its state, the loop that accepts connections, the end.

use crate::arguments::SessionId;
use crate::client::{Clients, Conversations};
use crate::clock::Clock;
use crate::concerns::Concerns;
use crate::connection;
use crate::cursors::Cursors;
use crate::machine;
use crate::metrics::{self, Metrics};
use crate::operations::Operations;
use crate::options::{Options, Topology};
use crate::parameters::Parameters;
use crate::profiler::Profiler;
use crate::sessions::Sessions;
use crate::usage::Usage;
use diwan_kv::Engine;
use diwan_store::{ServerState, Store};
use diwan_value::{Doc, DocBuf, ObjectId};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// How often what is not used any more is swept.
const SWEEP: Duration = Duration::from_secs(5);

/// How often long commands are asked whether their clients are still there, and how long a long command is.
const ABANDONED: Duration = Duration::from_millis(250);

/// The MongoDB face of a store.
pub struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) cursors: Cursors,
    pub(crate) options: Options,
    pub(crate) clients: Clients,
    pub(crate) conversations: Conversations,
    pub(crate) clock: Clock,
    pub(crate) concerns: Concerns,
    pub(crate) metrics: Metrics,
    pub(crate) operations: Operations,
    pub(crate) parameters: Parameters,
    pub(crate) profiler: Profiler,
    pub(crate) sessions: Sessions,
    pub(crate) usage: Usage,
    pub(crate) started: Instant,
    /// Where clients are accepted.
    listening: OnceLock<SocketAddr>,
    /// Names this process in the topology versions that drivers compare.
    pub(crate) process: ObjectId,
    message_id: AtomicI32,
    draining: AtomicBool,
}

impl Server {
    /// A face of `store`.
    pub fn new(store: Arc<Store>, options: Options) -> Arc<Server> {
        let server = Arc::new(Server {
            engine: store.engine().clone(),
            concerns: Concerns::load(&store),
            store,
            cursors: Cursors::default(),
            options,
            clients: Clients::default(),
            conversations: Conversations::default(),
            clock: Clock::new(),
            metrics: Metrics::default(),
            operations: Operations::default(),
            parameters: Parameters::default(),
            profiler: Profiler::default(),
            sessions: Sessions::default(),
            usage: Usage::default(),
            started: Instant::now(),
            listening: OnceLock::new(),
            process: ObjectId::generate(),
            message_id: AtomicI32::new(0),
            draining: AtomicBool::new(false),
        });
        server.store.set_server_state(Box::new(State(Arc::downgrade(&server))));
        server
    }

    /// How many threads the runtime must allow for blocking work: one for every conversation, and some to spare.
    pub const BLOCKING_THREADS: usize = connection::MAX_THREADS + 64;

    /// Accepts connections until [`Server::drain`], on a runtime that allows [`Server::BLOCKING_THREADS`].
    pub async fn serve(self: Arc<Server>, listener: TcpListener) {
        if let Ok(address) = listener.local_addr() {
            self.listening.get_or_init(|| address);
        }
        let sweeper = tokio::spawn(sweep(self.clone()));
        let watcher = tokio::spawn(watch(self.clone()));
        while !self.is_draining() {
            match listener.accept().await {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) => {
                    // Out of descriptors, most likely: those who are connected go on, and some will leave.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        sweeper.abort();
        watcher.abort();
    }

    /// Lets every running command finish, if it does so within `patience`, closes all connections and accepts no more.
    pub async fn drain(&self, patience: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        self.clients.close_all();
        let end = Instant::now() + patience;
        while self.clients.count() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.operations.kill_where(|_| true);
    }

    /// Whether commands are answered: until the server is told to close.
    pub fn is_ready(&self) -> bool {
        !self.is_draining()
    }

    /// The counters in Prometheus' text format.
    pub fn prometheus(&self) -> String {
        metrics::prometheus(self)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.clients.count()
    }

    /// Whether replies tell a cluster's time: a server that stands alone has none.
    pub(crate) fn keeps_cluster_time(&self) -> bool {
        self.options.topology != Topology::Standalone
    }

    /// The name and port by which documents about the server call it.
    pub(crate) fn host(&self) -> String {
        match &self.options.advertise {
            Some(host) => host.clone(),
            None => {
                let port = self.listening.get().map_or(0, SocketAddr::port);
                format!("{}:{port}", machine::hostname())
            }
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn next_message_id(&self) -> i32 {
        self.message_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends sessions and stops what runs in them.
    pub(crate) fn kill_sessions(&self, sessions: &[SessionId]) {
        self.operations.kill_where(|operation| operation.session.is_some_and(|id| sessions.contains(&id)));
        self.cursors.kill_sessions(sessions);
        for session in sessions {
            self.sessions.end(session);
        }
    }

    fn welcome(self: &Arc<Server>, stream: TcpStream, peer: SocketAddr) {
        if self.clients.count() >= self.options.max_connections {
            self.metrics.connections_refused.add(1);
            tracing::warn!(%peer, limit = self.options.max_connections, "connection refused: too many are open");
            return;
        }
        let local = stream.set_nodelay(true).and_then(|()| stream.local_addr());
        let local: io::Result<SocketAddr> = local;
        // A socket without an address has been reset already.
        let Ok(local) = local else { return };
        self.metrics.connections_opened.add(1);
        let client = self.clients.add(peer, local);
        tokio::spawn(connection::serve(self.clone(), stream, client));
    }
}

/// A server as its store sees it.
struct State(Weak<Server>);

impl ServerState for State {
    fn operations(&self, _: Doc<'_>) -> Vec<DocBuf> {
        self.0.upgrade().map_or_else(Vec::new, |server| server.operations.describe())
    }

    fn sessions(&self) -> Vec<DocBuf> {
        self.0.upgrade().map_or_else(Vec::new, |server| server.sessions.describe(Instant::now()))
    }

    fn host(&self) -> String {
        self.0.upgrade().map_or_else(String::new, |server| server.host())
    }
}

/// Stops what clients have left behind.
async fn watch(server: Arc<Server>) {
    let mut interval = tokio::time::interval(ABANDONED);
    loop {
        interval.tick().await;
        server.operations.stop_abandoned(ABANDONED);
    }
}

/// Forgets what nobody has used for long.
async fn sweep(server: Arc<Server>) {
    let mut interval = tokio::time::interval(SWEEP);
    loop {
        interval.tick().await;
        let now = Instant::now();
        let ended = server.sessions.expire(now);
        server.cursors.kill_sessions(&ended);
        server.cursors.expire(now, server.parameters.cursor_timeout());
    }
}
