//! The settings of the face: how it introduces itself to drivers, its durability, its limits.

use diwan_value::DocBuf;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// The TLS configuration for new connections, which changes when its certificate is renewed.
pub type TlsConfigs = watch::Receiver<Arc<rustls::ServerConfig>>;

/// The kind of deployment that the server reports to drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// A single server: no retryable writes, no transactions.
    Standalone,
    /// The one member of a replica set.
    #[default]
    ReplicaSet,
    /// The router of a sharded cluster.
    Mongos,
}

/// When a write is synced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// As its write concern says. Without one, before it is acknowledged.
    #[default]
    WriteConcern,
    /// Before it is acknowledged, whatever its write concern says.
    Always,
}

/// The settings of the face.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of deployment that the server reports.
    pub topology: Topology,
    /// The replica set's name.
    pub set_name: String,
    /// The `host:port` at which clients reach this server. Without one, each client is told the local address of its own
    /// connection.
    pub advertise: Option<String>,
    /// When a write is synced to disk.
    pub durability: Durability,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The command line, for `getCmdLineOpts`.
    pub arguments: Vec<String>,
    /// The settings from command line, environment and file, for `getCmdLineOpts`.
    pub settings: DocBuf,
    /// The name of the storage engine, for `serverStatus`.
    pub storage_engine: &'static str,
    /// Whether the data survives a restart.
    pub persistent: bool,
    /// The directory for temporary files of large sorts and groups. `None` makes them fail instead.
    pub temporary: Option<PathBuf>,
    /// If it is set, all connections are encrypted.
    pub tls: Option<TlsConfigs>,
    /// Whether `configureFailPoint` may make commands fail on purpose.
    pub test_commands: bool,
    /// How many snapshots are kept for clients that read by a time. Over some engines each holds a connection.
    pub kept_snapshots: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            topology: Topology::default(),
            set_name: "rs0".to_owned(),
            advertise: None,
            durability: Durability::default(),
            max_connections: 65_536,
            arguments: vec!["diwan".to_owned()],
            settings: DocBuf::new(),
            storage_engine: "memory",
            persistent: false,
            temporary: Some(std::env::temp_dir()),
            tls: None,
            test_commands: false,
            kept_snapshots: 64,
        }
    }
}

impl Options {
    /// The `host:port` of the server for a client whose connection has the local address `local`.
    pub(crate) fn host(&self, local: SocketAddr) -> String {
        match &self.advertise {
            Some(host) => host.clone(),
            None => local.to_string(),
        }
    }
}
