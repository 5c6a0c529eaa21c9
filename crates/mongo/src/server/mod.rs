//! The MongoDB face of a store: the state that its connections share, the accept loop, and shutdown.

pub(crate) mod clock;
pub(crate) mod concerns;
pub(crate) mod cursors;
pub(crate) mod identity;
pub mod options;
pub(crate) mod parameters;
pub(crate) mod replica_set;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod transactions;

use crate::connection;
use crate::connection::client::{Clients, Conversations};
use crate::connection::room::Room;
use crate::connection::tls::Handshakes;
use crate::fail_points::FailPoints;
use crate::monitoring::metrics::Metrics;
use crate::monitoring::operations::Operations;
use crate::monitoring::profiler::Profiler;
use crate::monitoring::usage::Usage;
use crate::monitoring::{machine, prometheus};
use crate::request::arguments::SessionId;
use crate::server::concerns::DefaultConcerns;
use crate::server::cursors::Cursors;
use crate::server::options::{Options, Topology};
use crate::server::parameters::Parameters;
use crate::server::sessions::Sessions;
use crate::server::snapshots::Snapshots;
use crate::server::transactions::Transactions;
use diwan_access::Access;
use diwan_kv::Engine;
use diwan_store::{Namespace, ServerState, Store};
use diwan_value::{Doc, DocBuf, ObjectId};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// How often unused sessions and cursors are removed.
const SWEEP: Duration = Duration::from_secs(5);

/// How often the ages of open transactions are checked.
const LIFETIME_CHECK: Duration = Duration::from_secs(1);

/// How often the clients of running commands are checked. Commands that have run for less than this are not checked.
const ABANDONED: Duration = Duration::from_millis(250);

/// The MongoDB face of a store.
pub struct Server {
    pub(crate) store: Arc<Store>,
    /// Users, roles and what each may do.
    pub(crate) access: Arc<Access>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) options: Options,
    pub(crate) clients: Clients,
    pub(crate) conversations: Conversations,
    pub(crate) concerns: DefaultConcerns,
    pub(crate) metrics: Metrics,
    pub(crate) operations: Operations,
    pub(crate) parameters: Parameters,
    pub(crate) profiler: Profiler,
    pub(crate) room: Room,
    pub(crate) sessions: Sessions,
    /// The snapshots that clients read by their times.
    pub(crate) snapshots: Snapshots,
    pub(crate) transactions: Transactions,
    pub(crate) usage: Usage,
    pub(crate) started: Instant,
    /// The fail points, if there are some.
    pub(crate) fail_points: Option<FailPoints>,
    /// The TLS handshakes that are incomplete.
    pub(crate) handshakes: Handshakes,
    /// The address of the listener.
    listening: OnceLock<SocketAddr>,
    /// Identifies this process in the topology versions that drivers compare.
    pub(crate) process: ObjectId,
    message_id: AtomicI32,
    draining: AtomicBool,
}

impl Server {
    /// Creates the face of the register's store.
    pub fn new(access: Arc<Access>, options: Options) -> Arc<Server> {
        let store = access.store().clone();
        let cursors = Arc::new(Cursors::default());
        let server = Arc::new(Server {
            engine: store.engine().clone(),
            concerns: DefaultConcerns::load(&store),
            store,
            access,
            transactions: Transactions::new(cursors.clone()),
            cursors,
            fail_points: options.test_commands.then(FailPoints::default),
            snapshots: Snapshots::new(options.kept_snapshots),
            options,
            clients: Clients::default(),
            conversations: Conversations::default(),
            metrics: Metrics::default(),
            operations: Operations::default(),
            parameters: Parameters::default(),
            profiler: Profiler::default(),
            room: Room::default(),
            sessions: Sessions::default(),
            usage: Usage::default(),
            started: Instant::now(),
            handshakes: Handshakes::default(),
            listening: OnceLock::new(),
            process: ObjectId::generate(),
            message_id: AtomicI32::new(0),
            draining: AtomicBool::new(false),
        });
        server.store.set_server_state(Box::new(ServerView(Arc::downgrade(&server))));
        server
    }

    /// How many blocking threads the runtime must allow: one for each conversation, and some in reserve.
    pub const BLOCKING_THREADS: usize = connection::MAX_THREADS + 64;

    /// Accepts connections until [`Server::drain`], on a runtime that allows [`Server::BLOCKING_THREADS`].
    pub async fn serve(self: Arc<Server>, listener: TcpListener) {
        if let Ok(address) = listener.local_addr() {
            self.listening.get_or_init(|| address);
        }
        let sweeper = tokio::spawn(expire_unused(self.clone()));
        let watcher = tokio::spawn(interrupt_abandoned(self.clone()));
        let reaper = tokio::spawn(abort_expired(self.clone()));
        while !self.is_draining() {
            match listener.accept().await {
                Ok((stream, peer)) => self.add_connection(stream, peer),
                Err(error) => {
                    // Most likely the process has no file descriptors left. Open connections keep working, and the
                    // loop tries again when some may have closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        sweeper.abort();
        watcher.abort();
        reaper.abort();
    }

    /// Shuts the face down: it accepts no more connections and closes idle ones at once, the others after their command.
    /// Commands that run longer than `patience` are interrupted.
    pub async fn drain(&self, patience: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        self.clients.close_all();
        let end = Instant::now() + patience;
        while self.clients.count() > 0 && Instant::now() < end {
            // A command may begin another one.
            self.abort_transactions();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.operations.kill_where(|_| true);
    }

    /// Aborts the open transactions, so that those who wait for them go on.
    pub fn abort_transactions(&self) {
        self.transactions.abort_all();
    }

    /// Whether the server answers commands. False from the start of the shutdown.
    pub fn is_ready(&self) -> bool {
        !self.is_draining()
    }

    /// The metrics in Prometheus' text format.
    pub fn prometheus(&self) -> String {
        prometheus::render(self)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.clients.count()
    }

    /// Whether replies have a cluster time. Those of a standalone server do not.
    pub(crate) fn keeps_cluster_time(&self) -> bool {
        self.options.topology != Topology::Standalone
    }

    /// The `host:port` in documents about the server, such as those of `$collStats`.
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

    /// Ends sessions, aborts their transactions, kills their cursors and interrupts their commands.
    pub(crate) fn kill_sessions(&self, sessions: &[SessionId]) {
        self.operations.kill_where(|operation| operation.session.is_some_and(|id| sessions.contains(&id)));
        self.cursors.kill_sessions(sessions);
        self.transactions.end_sessions(sessions);
        for session in sessions {
            self.sessions.end(session);
        }
    }

    /// Starts the task of a new connection, unless too many are open. On a server with users, the oldest connection of a
    /// stranger makes room: strangers cannot keep users out.
    fn add_connection(self: &Arc<Server>, stream: TcpStream, peer: SocketAddr) {
        let is_full = self.clients.count() >= self.options.max_connections;
        let has_users = !self.access.is_open().unwrap_or(false);
        if is_full && !(has_users && self.clients.evict_anonymous()) {
            self.metrics.connections_refused.add(1);
            tracing::warn!(%peer, limit = self.options.max_connections, "connection refused: too many are open");
            return;
        }
        let local = stream.set_nodelay(true).and_then(|()| stream.local_addr());
        let local: io::Result<SocketAddr> = local;
        // A socket without an address was reset before it was accepted.
        let Ok(local) = local else { return };
        self.metrics.connections_opened.add(1);
        let client = self.clients.add(peer, local);
        tokio::spawn(connection::serve(self.clone(), stream, client));
    }
}

/// The face as the store sees it. The reference is weak because the face owns the store.
struct ServerView(Weak<Server>);

impl ServerState for ServerView {
    fn operations(&self, _: Doc<'_>) -> Vec<DocBuf> {
        self.0.upgrade().map_or_else(Vec::new, |server| {
            let mut shown = server.operations.describe();
            let lifetime = server.parameters.transaction_lifetime();
            let idle = server.transactions.describe_idle(&server.host(), lifetime);
            shown.extend(idle.into_iter().map(|(_, shown)| shown));
            shown
        })
    }

    fn sessions(&self) -> Vec<DocBuf> {
        self.0.upgrade().map_or_else(Vec::new, |server| server.sessions.describe(Instant::now()))
    }

    fn host(&self) -> String {
        self.0.upgrade().map_or_else(String::new, |server| server.host())
    }

    fn latency_stats(&self, namespace: &Namespace, histograms: bool) -> DocBuf {
        self.0.upgrade().map_or_else(DocBuf::new, |server| {
            server.usage.latency_stats(&namespace.database, &namespace.collection, histograms)
        })
    }

    fn query_stats(&self, namespace: &Namespace) -> DocBuf {
        self.0.upgrade().map_or_else(DocBuf::new, |server| {
            server.usage.query_stats(&namespace.database, &namespace.collection)
        })
    }
}

/// Interrupts commands whose clients have disconnected.
async fn interrupt_abandoned(server: Arc<Server>) {
    let mut interval = tokio::time::interval(ABANDONED);
    loop {
        interval.tick().await;
        server.operations.stop_abandoned(ABANDONED);
    }
}

/// Aborts the transactions that have been open for too long.
async fn abort_expired(server: Arc<Server>) {
    let mut interval = tokio::time::interval(LIFETIME_CHECK);
    loop {
        interval.tick().await;
        let ended = server.transactions.expire(server.parameters.transaction_lifetime());
        for session in ended {
            server.operations.kill_where(|operation| operation.session == Some(session));
        }
    }
}

/// Removes sessions and cursors that have timed out.
async fn expire_unused(server: Arc<Server>) {
    let mut interval = tokio::time::interval(SWEEP);
    loop {
        interval.tick().await;
        let now = Instant::now();
        let ended = server.sessions.expire(now);
        server.cursors.kill_sessions(&ended);
        server.transactions.end_sessions(&ended);
        server.snapshots.expire();
        server.store.replica().forget_silent();
        server.concerns.follow(&server.store);
        server.cursors.expire(now, server.parameters.cursor_timeout());
    }
}
