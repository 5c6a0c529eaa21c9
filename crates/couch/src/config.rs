//! Settings that the binary passes to the CouchDB face.

use diwan_access::Caller;
use diwan_query::Interrupt;
use diwan_value::{Doc, DocBuf};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The TLS configuration for new connections, which changes when its certificate is renewed.
pub type TlsConfigs = watch::Receiver<Arc<rustls::ServerConfig>>;

/// Answers paths outside CouchDB's API, such as `/metrics`: maps a path to a status and a text body.
pub type Extra = Box<dyn Fn(&str) -> Option<(u16, String)> + Send + Sync>;

/// One command of MongoDB that came over HTTP.
pub struct Command<'a> {
    /// Who runs it.
    pub caller: &'a Caller,
    /// The address of the client.
    pub peer: IpAddr,
    /// The database.
    pub database: &'a str,
    /// The command, its name first.
    pub body: Doc<'a>,
    /// Killed when the client goes away.
    pub interrupt: Interrupt,
}

/// Runs a command of MongoDB and returns its reply.
pub type Commands = Box<dyn Fn(Command<'_>) -> DocBuf + Send + Sync>;

/// What the binary knows and the face does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The addresses of both faces and the version.
    Status,
    /// Sizes and connections.
    Figures,
    /// The last hour.
    History,
}

/// Gives a report as JSON.
pub type Reports = Box<dyn Fn(Report) -> serde_json::Value + Send + Sync>;

/// The settings of the CouchDB face.
pub struct Config {
    /// Origins whose pages may read answers (`*` allows all). Empty by default.
    pub cors_origins: Vec<String>,
    /// A host name that requests may give in `Host`, besides the names of the loopback interface.
    pub advertise: Option<String>,
    /// Diwan's version, for the `Server` header and `GET /`.
    pub version: &'static str,
    /// The largest document, in bytes of its JSON or of its BSON.
    pub max_document_bytes: usize,
    /// The largest request body that is buffered in memory.
    pub max_request_bytes: usize,
    /// How many client connections may be open at once.
    pub max_connections: usize,
    /// A connection is closed when its client has read nothing of an answer for this long.
    pub write_timeout: Duration,
    /// The directory for temporary files; `None` means the system's.
    pub temporary: Option<PathBuf>,
    /// If it is set, all connections are encrypted.
    pub tls: Option<TlsConfigs>,
    /// Whether followers may copy the store. They would miss the writes of other processes to the same store.
    pub followable: bool,
    /// Answers paths that are not part of CouchDB's API.
    pub extra: Extra,
    /// Runs commands of MongoDB, where there is a MongoDB face.
    pub commands: Option<Commands>,
    /// Describes the server as a whole, for `/_diwan/status` and `/_diwan/history`.
    pub reports: Option<Reports>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cors_origins: Vec::new(),
            advertise: None,
            version: env!("CARGO_PKG_VERSION"),
            max_document_bytes: diwan_value::MAX_DOCUMENT_BYTES,
            max_request_bytes: 64 << 20,
            max_connections: 4096,
            write_timeout: Duration::from_secs(60),
            temporary: None,
            tls: None,
            followable: true,
            extra: Box::new(|_| None),
            commands: None,
            reports: None,
        }
    }
}
