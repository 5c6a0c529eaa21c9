//! Settings: flags go before environment variables, these before the configuration file, this before the defaults.

use clap::{Args, ValueEnum};
use diwan_mongo::{Durability, Topology};
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The settings of `diwan serve` as they are given: each may be missing.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A TOML file with any of these settings, under the flags' names
    #[arg(long, value_name = "FILE", env = "DIWAN_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// The directory of the documents; made if it is missing [default: diwan-data]
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA")]
    data: Option<PathBuf>,
    /// Keep everything in memory: nothing survives the process
    #[arg(long, env = "DIWAN_MEMORY", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    memory: Option<bool>,
    /// Where MongoDB drivers connect; port 0 takes a free one [default: 127.0.0.1:27017]
    #[arg(long, value_name = "ADDR:PORT", env = "DIWAN_LISTEN")]
    listen: Option<SocketAddr>,
    /// Where CouchDB's clients connect, and /healthz, /readyz, /metrics are; "off" for nowhere [default: 127.0.0.1:5984]
    #[arg(long, value_name = "ADDR:PORT", env = "DIWAN_HTTP")]
    http: Option<HttpAddress>,
    /// Let pages of this origin, such as `https://app.example`, use the HTTP port; may be given several times, "*" for all
    #[arg(long, value_name = "ORIGIN", env = "DIWAN_CORS_ORIGIN", value_delimiter = ',')]
    cors_origin: Option<Vec<String>>,
    /// When an acknowledged write is on disk [default: write-concern]
    #[arg(long, value_enum, env = "DIWAN_DURABILITY")]
    durability: Option<DurabilityName>,
    /// What the server tells drivers that it is [default: replicaset]
    #[arg(long, value_enum, env = "DIWAN_TOPOLOGY")]
    topology: Option<TopologyName>,
    /// The name of the replica set that drivers see [default: rs0]
    #[arg(long, value_name = "NAME", env = "DIWAN_SET_NAME")]
    set_name: Option<String>,
    /// The host:port under which drivers reach this server [default: the address at which each arrived]
    #[arg(long, value_name = "HOST:PORT", env = "DIWAN_ADVERTISE")]
    advertise: Option<String>,
    /// Memory that keeps documents and blocks of the store for reading, such as 1GiB [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "DIWAN_CACHE_SIZE")]
    cache_size: Option<Size>,
    /// What stays free on the disk of the documents, such as 2GB: before less is left, writes that need room are refused, and
    /// deletions go on; 0 to refuse nothing [default: 500MB or 2 % of the file system, whichever is less]
    #[arg(long, value_name = "SIZE", env = "DIWAN_DISK_RESERVE")]
    disk_reserve: Option<Size>,
    /// How many MongoDB connections there may be at once [default: 65536]
    #[arg(long, value_name = "COUNT", env = "DIWAN_MAX_CONNECTIONS")]
    max_connections: Option<usize>,
    /// Open a store whose journal lost acknowledged writes, and go on without them
    #[arg(long, env = "DIWAN_ACCEPT_LOSS", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    accept_loss: Option<bool>,
    /// What is logged: error, warn, info, debug, trace, or a filter like "info,diwan_mongo=debug" [default: info]
    #[arg(long, value_name = "FILTER", env = "DIWAN_LOG")]
    log: Option<String>,
    /// How log lines look [default: text]
    #[arg(long, value_enum, env = "DIWAN_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

/// Where the HTTP listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum HttpAddress {
    /// Nowhere.
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

/// A number of bytes, written with or without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            _ => return Err("a size is a number and B, KB, MB, GB, KiB, MiB or GiB".to_owned()),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        bytes.map(Size).ok_or_else(|| "a size begins with a number that fits".to_owned())
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

/// `--durability`.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityName {
    /// As the write concern says; a write that states none is fsynced before it is acknowledged
    WriteConcern,
    /// Always before it is acknowledged, even with w: 1
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
    /// The directory of the documents; `None` for memory.
    pub data: Option<PathBuf>,
    /// Where MongoDB drivers connect.
    pub listen: SocketAddr,
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// The origins whose pages may use the HTTP port.
    pub cors_origins: Vec<String>,
    /// When an acknowledged write is on disk.
    pub durability: Durability,
    /// What the server tells drivers that it is.
    pub topology: Topology,
    /// The replica set's name.
    pub set_name: String,
    /// Under which name drivers reach the server.
    pub advertise: Option<String>,
    /// Bytes for the store's cache.
    pub cache_size: u64,
    /// Bytes that stay free on the disk; `None` for the default.
    pub disk_reserve: Option<u64>,
    /// How many connections there may be.
    pub max_connections: usize,
    /// Whether to go on after a loss.
    pub accept_loss: bool,
    /// What is logged.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Settings {
    /// Reads the configuration file, fills in the defaults, and refuses what is not safe.
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
        for address in [Some(listen), http].into_iter().flatten() {
            if !address.ip().is_loopback() {
                return Err(format!(
                    "refusing to listen on {address}: anyone who reaches it could read and change everything. \
                     Users come first, and this version has none yet: listen on 127.0.0.1 or [::1], and reach the \
                     server from elsewhere through a tunnel such as `ssh -L`"
                ));
            }
        }
        let memory = self.memory.unwrap_or(false);
        if memory && self.data.is_some() {
            return Err("--memory and --data exclude each other".to_owned());
        }
        let data = if memory { None } else { Some(self.data.unwrap_or_else(|| PathBuf::from("diwan-data"))) };
        let durability = match self.durability {
            Some(DurabilityName::Always) => Durability::Always,
            _ => Durability::WriteConcern,
        };
        let topology = match self.topology {
            Some(TopologyName::Standalone) => Topology::Standalone,
            Some(TopologyName::Mongos) => Topology::Mongos,
            _ => Topology::ReplicaSet,
        };
        Ok(Resolved {
            data,
            listen,
            http,
            cors_origins: self.cors_origin.unwrap_or_default(),
            durability,
            topology,
            set_name: self.set_name.unwrap_or_else(|| "rs0".to_owned()),
            advertise: self.advertise,
            cache_size: self.cache_size.map_or(256 << 20, |size| size.0),
            disk_reserve: self.disk_reserve.map(|size| size.0),
            max_connections: self.max_connections.unwrap_or(65_536),
            accept_loss: self.accept_loss.unwrap_or(false),
            log: self.log.unwrap_or_else(|| "info".to_owned()),
            log_format: self.log_format.unwrap_or_default(),
        })
    }

    /// Takes from `file` what is not set.
    fn or(&mut self, file: Settings) {
        macro_rules! fill {
            ($($field:ident),*) => { $(self.$field = self.$field.take().or(file.$field);)* };
        }
        fill!(data, memory, listen, http, cors_origin, durability, topology, set_name, advertise, cache_size);
        fill!(disk_reserve, max_connections, accept_loss, log, log_format);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("2 GB"), Ok(2_000_000_000));
        assert_eq!(size("4096"), Ok(4096));
        assert!(size("many").is_err() && size("5 parsecs").is_err() && size("99999999999999999999").is_err());
    }

    #[test]
    fn flags_go_before_the_file() {
        let mut flags = Settings { set_name: Some("flag".into()), ..Settings::default() };
        flags.or(toml::from_str("set-name = 'file'\nlog = 'debug'\nhttp = 'off'").unwrap());
        let resolved = Box::new(flags).resolve().unwrap();
        assert_eq!(
            (resolved.set_name.as_str(), resolved.log.as_str(), resolved.http),
            ("flag", "debug", None)
        );
    }

    #[test]
    fn unknown_settings_are_refused() {
        assert!(toml::from_str::<Settings>("colour = 'blue'").is_err());
    }

    #[test]
    fn only_loopback_is_listened_on() {
        let open = Settings { listen: Some("0.0.0.0:27017".parse().unwrap()), ..Settings::default() };
        assert!(Box::new(open).resolve().unwrap_err().contains("Users come first"));
    }
}
