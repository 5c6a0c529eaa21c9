//! What the face is told at start: whom it says it is, and how careful it is.

use diwan_value::DocBuf;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What the server claims to be when drivers say hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// A single server: no retryable writes, no transactions.
    Standalone,
    /// The one member of a replica set.
    #[default]
    ReplicaSet,
    /// A router of a sharded cluster.
    Mongos,
}

/// When an acknowledged write is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// As the write concern says; without one, before it is acknowledged.
    #[default]
    WriteConcern,
    /// Always before it is acknowledged.
    Always,
}

/// The settings of the face.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the server claims to be.
    pub topology: Topology,
    /// The replica set's name.
    pub set_name: String,
    /// The `host:port` under which clients reach this server; without one, the address at which each client's own
    /// connection arrived.
    pub advertise: Option<String>,
    /// When an acknowledged write is on disk.
    pub durability: Durability,
    /// How many connections there may be at once.
    pub max_connections: usize,
    /// The command line, for `getCmdLineOpts`.
    pub arguments: Vec<String>,
    /// The settings that were given, for `getCmdLineOpts`.
    pub settings: DocBuf,
    /// The name of the storage engine, for `serverStatus`.
    pub storage_engine: &'static str,
    /// Whether the data outlives the process.
    pub persistent: bool,
    /// Where sorts and groups that outgrow memory put their files; `None` to refuse them.
    pub temporary: Option<PathBuf>,
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
        }
    }
}

impl Options {
    /// How a client that arrived at `local` is told to reach this server.
    pub(crate) fn host(&self, local: SocketAddr) -> String {
        match &self.advertise {
            Some(host) => host.clone(),
            None => local.to_string(),
        }
    }
}
