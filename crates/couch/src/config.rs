//! What the program tells the face.

use std::path::PathBuf;
use std::time::Duration;

/// A path outside CouchDB's interface, such as `/metrics`, answered by the program.
pub type Extra = Box<dyn Fn(&str) -> Option<(u16, String)> + Send + Sync>;

/// The settings of the face.
pub struct Config {
    /// The origins whose pages may use the server (`*` for all); none by default.
    pub cors_origins: Vec<String>,
    /// Names, beside those of the loopback, under which the server may be asked for in `Host`.
    pub advertise: Option<String>,
    /// The version of Diwan.
    pub version: &'static str,
    /// The most bytes of one document's JSON or BSON.
    pub max_document_bytes: usize,
    /// The most bytes of a request that is held in memory as a whole.
    pub max_request_bytes: usize,
    /// How many connections there may be at once.
    pub max_connections: usize,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// Where temporary files may be made.
    pub temporary: Option<PathBuf>,
    /// What is answered under paths that are not CouchDB's.
    pub extra: Extra,
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
            extra: Box::new(|_| None),
        }
    }
}
