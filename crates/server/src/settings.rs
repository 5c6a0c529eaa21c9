//! Settings: flags override environment variables, which override the configuration file, which overrides the defaults.

use crate::memory;
use crate::place::Place;
use crate::units::{CacheSize, Period, Size};
use clap::{Args, ValueEnum};
use diwan_mongo::{Durability, Topology};
use diwan_store::events::Retention;
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The settings of `diwan serve` as given; each may be missing.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A TOML file with any of these settings, under the flags' names
    #[arg(long, value_name = "FILE", env = "DIWAN_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// The directory of the documents; created if it is missing [default: diwan-data]
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA")]
    data: Option<PathBuf>,
    /// Keep the documents in a PostgreSQL server instead, such as `postgres://user:password@host/database`
    #[arg(long, value_name = "URI", env = "DIWAN_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Keep all data in memory; it is lost when the server stops
    #[arg(long, env = "DIWAN_MEMORY", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    memory: Option<bool>,
    /// The address for MongoDB drivers; port 0 chooses a free port [default: 127.0.0.1:27017]
    #[arg(long, value_name = "ADDR:PORT", env = "DIWAN_LISTEN")]
    listen: Option<SocketAddr>,
    /// The address for CouchDB clients, /healthz, /readyz and /metrics; "off" disables it [default: 127.0.0.1:5984]
    #[arg(long, value_name = "ADDR:PORT", env = "DIWAN_HTTP")]
    http: Option<HttpAddress>,
    /// Allow web pages of this origin, such as `https://app.example`, to use the HTTP port; repeatable, "*" for all
    #[arg(long, value_name = "ORIGIN", env = "DIWAN_CORS_ORIGIN", value_delimiter = ',')]
    cors_origin: Option<Vec<String>>,
    /// When an acknowledged write is on disk [default: write-concern]
    #[arg(long, value_enum, env = "DIWAN_DURABILITY")]
    durability: Option<DurabilityName>,
    /// The kind of server that drivers see [default: replicaset]
    #[arg(long, value_enum, env = "DIWAN_TOPOLOGY")]
    topology: Option<TopologyName>,
    /// The name of the replica set that drivers see [default: rs0]
    #[arg(long, value_name = "NAME", env = "DIWAN_SET_NAME")]
    set_name: Option<String>,
    /// The host:port under which drivers reach this server [default: the address that each client connected to]
    #[arg(long, value_name = "HOST:PORT", env = "DIWAN_ADVERTISE")]
    advertise: Option<String>,
    /// Follow another Diwan: copy everything that it has, keep up, and serve reads. The URL of its HTTP port with the name and
    /// password of an administrator, such as `http://user:password@host:5984`
    #[arg(long, value_name = "URL", env = "DIWAN_FOLLOW", hide_env_values = true)]
    follow: Option<Url>,
    /// A PEM file with the authorities, beside those of the system, that vouch for an `https://` server to follow
    #[arg(long, value_name = "FILE", env = "DIWAN_FOLLOW_CA", requires = "follow")]
    follow_ca: Option<PathBuf>,
    /// Follow although this directory has documents of its own: what only it has is sent to the primary first
    #[arg(long, env = "DIWAN_REJOIN", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    rejoin: Option<bool>,
    /// Memory that keeps documents and blocks of the store for reading, such as 1GiB; "auto" for a quarter of what the
    /// process may use, and at least 64MiB [default: auto]
    #[arg(long, value_name = "SIZE", env = "DIWAN_CACHE_SIZE")]
    cache_size: Option<CacheSize>,
    /// Free space to keep on the disk of the documents, such as 2GB: writes that would leave less are refused, deletions are
    /// not; 0 disables the limit [default: 500MB or 2 % of the file system, whichever is less]
    #[arg(long, value_name = "SIZE", env = "DIWAN_DISK_RESERVE")]
    disk_reserve: Option<Size>,
    /// The server's certificate, with its chain, in a PEM file: both ports are encrypted then
    #[arg(long, value_name = "FILE", env = "DIWAN_TLS_CERTIFICATE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in a PEM file
    #[arg(long, value_name = "FILE", env = "DIWAN_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The authorities, in a PEM file, whose certificates clients may show to sign in
    #[arg(long, value_name = "FILE", env = "DIWAN_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// Whether each client must show a certificate of those authorities [default: allowed]
    #[arg(long, value_enum, env = "DIWAN_TLS_CLIENT_CERTIFICATES")]
    tls_client_certificates: Option<ClientCertificates>,
    /// Listen on an address that others can reach without TLS, for example behind a tunnel: passwords and documents
    /// cross the network readable
    #[arg(long, env = "DIWAN_INSECURE_PLAINTEXT", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    insecure_plaintext: Option<bool>,
    /// A file to which sign-ins, refusals and changes of users and settings are appended, one JSON object a line
    #[arg(long, value_name = "FILE", env = "DIWAN_AUDIT")]
    audit: Option<PathBuf>,
    /// Allow `configureFailPoint`, which makes commands fail on purpose: for those who test programs against the server
    #[arg(long, env = "DIWAN_TEST_COMMANDS", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    test_commands: Option<bool>,
    /// How long changes are kept for change streams, such as 90m, 24h or 7d: a stream can be resumed this long [default: 24h]
    #[arg(long, value_name = "TIME", env = "DIWAN_CHANGE_HISTORY")]
    change_history: Option<Period>,
    /// The size above which the oldest of these changes are deleted earlier [default: 1GB]
    #[arg(long, value_name = "SIZE", env = "DIWAN_CHANGE_HISTORY_SIZE")]
    change_history_size: Option<Size>,
    /// Keep the changes of all collections from the start, not only of those on which a change stream was opened
    #[arg(long, env = "DIWAN_RECORD_CHANGES", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    record_changes: Option<bool>,
    /// The most MongoDB connections at a time [default: 65536]
    #[arg(long, value_name = "COUNT", env = "DIWAN_MAX_CONNECTIONS")]
    max_connections: Option<usize>,
    /// Open a store whose journal lost acknowledged writes, without those writes
    #[arg(long, env = "DIWAN_ACCEPT_LOSS", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    accept_loss: Option<bool>,
    /// The log level: error, warn, info, debug, trace, or a filter like "info,diwan_mongo=debug" [default: info]
    #[arg(long, value_name = "FILTER", env = "DIWAN_LOG")]
    log: Option<String>,
    /// The format of log lines [default: text]
    #[arg(long, value_enum, env = "DIWAN_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

/// A URL that may contain a password, so it is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Url(pub String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Url")
    }
}

impl FromStr for Url {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Url, Infallible> {
        Ok(Url(text.to_owned()))
    }
}

/// Which server to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    /// The URL of its HTTP port.
    pub url: Url,
    /// The authorities to trust.
    pub authorities: Option<PathBuf>,
    /// Whether to follow in spite of documents of its own.
    pub rejoins: bool,
}

/// The address of the HTTP listener, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum HttpAddress {
    /// No HTTP listener.
    Off,
    /// At an address.
    At(SocketAddr),
}

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAddress, String> {
        if text == "off" {
            return Ok(HttpAddress::Off);
        }
        text.parse().map(HttpAddress::At).map_err(|error| format!("{error}, nor \"off\""))
    }
}

impl TryFrom<String> for HttpAddress {
    type Error = String;

    fn try_from(text: String) -> Result<HttpAddress, String> {
        text.parse()
    }
}

/// `--durability`.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityName {
    /// As the write concern says; a write without one is fsynced before it is acknowledged
    WriteConcern,
    /// Every write is fsynced before it is acknowledged, even with w: 1
    Always,
}

/// `--topology`.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TopologyName {
    /// A single server: drivers send no retryable writes
    Standalone,
    /// The one member of a replica set
    #[value(name = "replicaset")]
    ReplicaSet,
    /// A router of a sharded cluster
    Mongos,
}

/// `--tls-client-certificates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// A client may show one; without one it signs in with a password
    #[default]
    Allowed,
    /// A client without one is refused
    Required,
}

/// Where the certificates are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate and its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates.
    pub authorities: Option<PathBuf>,
    /// Whether clients must show a certificate.
    pub clients: ClientCertificates,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The settings of `diwan serve`, complete and checked.
#[derive(Debug)]
pub struct Resolved {
    /// Where the documents are.
    pub place: Place,
    /// The address for MongoDB drivers.
    pub listen: SocketAddr,
    /// The address for HTTP clients.
    pub http: Option<SocketAddr>,
    /// The origins whose pages may use the HTTP port.
    pub cors_origins: Vec<String>,
    /// When an acknowledged write is on disk.
    pub durability: Durability,
    /// The kind of server that drivers see.
    pub topology: Topology,
    /// The replica set's name.
    pub set_name: String,
    /// The name under which drivers reach the server.
    pub advertise: Option<String>,
    /// The server to follow.
    pub follow: Option<Follow>,
    /// Bytes for the store's cache.
    pub cache_size: u64,
    /// Bytes that stay free on the disk; `None` for the default.
    pub disk_reserve: Option<u64>,
    /// The certificates; `None` for plain connections.
    pub tls: Option<TlsFiles>,
    /// Whether others may reach the server without TLS.
    pub insecure_plaintext: bool,
    /// The audit log.
    pub audit: Option<PathBuf>,
    /// Whether commands may be made to fail on purpose.
    pub test_commands: bool,
    /// How long and how many changes are kept for change streams.
    pub change_history: Retention,
    /// Whether the changes of all collections are kept.
    pub record_changes: bool,
    /// The most connections at a time.
    pub max_connections: usize,
    /// Whether to open a store that lost writes.
    pub accept_loss: bool,
    /// The log filter.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
}

impl Settings {
    /// Reads the configuration file, adds the defaults, and refuses unsafe settings.
    pub fn resolve(mut self: Box<Settings>) -> Result<Resolved, String> {
        if let Some(path) = self.config.take() {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read the configuration {}: {error}", path.display()))?;
            let file: Settings =
                toml::from_str(&text).map_err(|error| format!("in {}: {error}", path.display()))?;
            self.or(file);
        }
        let listen = self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 27017)));
        let http = match self.http.unwrap_or(HttpAddress::At(SocketAddr::from(([127, 0, 0, 1], 5984)))) {
            HttpAddress::Off => None,
            HttpAddress::At(address) => Some(address),
        };
        let tls = match (self.tls_certificate, self.tls_key) {
            (Some(certificate), Some(key)) => Some(TlsFiles {
                certificate,
                key,
                authorities: self.tls_ca,
                clients: self.tls_client_certificates.unwrap_or_default(),
            }),
            (None, None) if self.tls_ca.is_none() && self.tls_client_certificates.is_none() => None,
            _ => {
                return Err("TLS needs both --tls-certificate and --tls-key; \
                            `diwan certificate --self-signed` makes a pair to try"
                    .to_owned());
            }
        };
        if let Some(tls) = &tls
            && tls.clients == ClientCertificates::Required
            && tls.authorities.is_none()
        {
            return Err("--tls-client-certificates required needs --tls-ca, the authorities of the clients"
                .to_owned());
        }
        let place = Place::of(self.data, self.store, self.memory.unwrap_or(false))?;
        if matches!(place, Place::Postgres(_))
            && (self.disk_reserve.is_some() || self.accept_loss == Some(true))
        {
            return Err("--disk-reserve and --accept-loss are for a directory, not for --store".to_owned());
        }
        let rejoins = self.rejoin.unwrap_or(false);
        if self.follow.is_none() && (rejoins || self.follow_ca.is_some()) {
            return Err("--rejoin and --follow-ca need --follow, the server to follow".to_owned());
        }
        let authorities = self.follow_ca;
        let follow = self.follow.map(|url| Follow { url, authorities, rejoins });
        if follow.is_some() {
            check_follower(&place, listen, self.advertise.is_some(), self.topology)?;
        }
        let durability = match self.durability {
            Some(DurabilityName::Always) => Durability::Always,
            _ => Durability::WriteConcern,
        };
        let topology = match self.topology {
            Some(TopologyName::Standalone) => Topology::Standalone,
            Some(TopologyName::Mongos) => Topology::Mongos,
            _ => Topology::ReplicaSet,
        };
        let defaults = Retention::default();
        let change_history = Retention {
            millis: self.change_history.map_or(defaults.millis, |period| period.0.as_millis() as i64),
            bytes: self.change_history_size.map_or(defaults.bytes, |size| size.0),
        };
        Ok(Resolved {
            place,
            listen,
            http,
            cors_origins: self.cors_origin.unwrap_or_default(),
            durability,
            topology,
            set_name: self.set_name.unwrap_or_else(|| "rs0".to_owned()),
            advertise: self.advertise,
            follow,
            cache_size: self.cache_size.unwrap_or(CacheSize::Auto).bytes(memory::usable),
            disk_reserve: self.disk_reserve.map(|size| size.0),
            tls,
            insecure_plaintext: self.insecure_plaintext.unwrap_or(false),
            audit: self.audit,
            test_commands: self.test_commands.unwrap_or(false),
            change_history,
            record_changes: self.record_changes.unwrap_or(false),
            max_connections: self.max_connections.unwrap_or(65_536),
            accept_loss: self.accept_loss.unwrap_or(false),
            log: self.log.unwrap_or_else(|| "info".to_owned()),
            log_format: self.log_format.unwrap_or_default(),
        })
    }

    /// Takes missing settings from `file`.
    fn or(&mut self, file: Settings) {
        macro_rules! fill {
            ($($field:ident),*) => { $(self.$field = self.$field.take().or(file.$field);)* };
        }
        fill!(
            data,
            store,
            memory,
            listen,
            http,
            cors_origin,
            durability,
            topology,
            set_name,
            advertise,
            cache_size
        );
        fill!(follow, follow_ca, rejoin);
        fill!(
            tls_certificate,
            tls_key,
            tls_ca,
            tls_client_certificates,
            insecure_plaintext,
            audit,
            test_commands
        );
        fill!(change_history, change_history_size, record_changes);
        fill!(disk_reserve, max_connections, accept_loss, log, log_format);
    }
}

/// Refuses settings with which a server cannot be a follower.
fn check_follower(
    place: &Place,
    listen: SocketAddr,
    has_name: bool,
    topology: Option<TopologyName>,
) -> Result<(), String> {
    if matches!(place, Place::Postgres(_)) {
        return Err(
            "--follow is for a directory, not for --store: PostgreSQL has followers of its own".to_owned()
        );
    }
    if listen.ip().is_unspecified() && !has_name {
        return Err(format!(
            "--follow with --listen {listen} needs --advertise HOST:PORT: drivers learn from the primary how they reach \
             this server"
        ));
    }
    match topology {
        None | Some(TopologyName::ReplicaSet) => Ok(()),
        Some(_) => {
            Err("--follow needs --topology replicaset: a follower is a member of a replica set".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_the_configuration_file() {
        let mut flags = Settings { set_name: Some("flag".into()), ..Settings::default() };
        flags.or(toml::from_str("set-name = 'file'\nlog = 'debug'\nhttp = 'off'").unwrap());
        let resolved = Box::new(flags).resolve().unwrap();
        assert_eq!(
            (resolved.set_name.as_str(), resolved.log.as_str(), resolved.http),
            ("flag", "debug", None)
        );
    }

    #[test]
    fn resolve_refuses_two_places() {
        let resolve = |text: &str| Box::new(toml::from_str::<Settings>(text).unwrap()).resolve();
        for text in [
            "store = 'postgres://a/b'\ndata = 'c'",
            "store = 'postgres://a/b'\nmemory = true",
            "memory = true\ndata = 'c'",
        ] {
            assert!(resolve(text).unwrap_err().contains("exclude each other"), "{text}");
        }
        assert!(resolve("store = 'postgres://a/b'\ndisk-reserve = '1GB'").is_err());
        let place = resolve("store = 'postgres://me:secret@a/b'").unwrap().place;
        assert_eq!(place.to_string(), "PostgreSQL at a:5432, database b, schema diwan");
        assert!(!format!("{place:?}").contains("secret"));
        let error = resolve("store = 'mysql://me:secret@a/b'").unwrap_err();
        assert!(error.contains("postgres://") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn resolve_refuses_what_no_follower_can_be() {
        let resolve = |text: &str| Box::new(toml::from_str::<Settings>(text).unwrap()).resolve();
        let follow = "follow = 'http://me:secret@a:5984'";
        let resolved = resolve(follow).unwrap();
        assert!(!format!("{resolved:?}").contains("secret"));
        for (more, says) in [
            ("store = 'postgres://a/b'", "PostgreSQL"),
            ("listen = '0.0.0.0:27017'", "--advertise"),
            ("topology = 'standalone'", "--topology"),
        ] {
            let error = resolve(&format!("{follow}\n{more}")).unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
        assert!(resolve(&format!("{follow}\nlisten = '0.0.0.0:1'\nadvertise = 'h:1'")).is_ok());
        assert!(resolve("rejoin = true").unwrap_err().contains("--follow"));
    }

    #[test]
    fn configuration_file_refuses_unknown_settings() {
        assert!(toml::from_str::<Settings>("colour = 'blue'").is_err());
    }

    #[test]
    fn resolve_refuses_incomplete_tls() {
        let only_key = Settings { tls_key: Some("key.pem".into()), ..Settings::default() };
        assert!(Box::new(only_key).resolve().unwrap_err().contains("--tls-certificate"));
        let required = Settings {
            tls_certificate: Some("certificate.pem".into()),
            tls_key: Some("key.pem".into()),
            tls_client_certificates: Some(ClientCertificates::Required),
            ..Settings::default()
        };
        assert!(Box::new(required).resolve().unwrap_err().contains("--tls-ca"));
    }
}
