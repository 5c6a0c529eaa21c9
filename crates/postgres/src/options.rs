//! What an engine is opened with: the URI and the options.

use crate::OpenError;
use crate::tls::Verify;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How an engine uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The schema that the tables lie in, if the URI does not name one (`?schema=…`).
    pub schema: String,
    /// The most connections that snapshots hold at a time, if the URI does not say it (`?connections=…`). As many more may be made for threads that already hold one, and a
    /// few serve single reads and commits.
    pub connections: usize,
    /// How long an operation waits for a free connection, or for a server that is away, before it fails.
    pub patience: Duration,
    /// Make the store if there is none. Otherwise its absence is an error, and nothing is written.
    pub create: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { schema: "diwan".into(), connections: 32, patience: Duration::from_secs(30), create: true }
    }
}

/// Where the server is, as the URI tells.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub config: tokio_postgres::Config,
    pub schema: String,
    pub connections: usize,
    pub verify: Verify,
    pub roots: Option<PathBuf>,
}

impl Target {
    /// Reads a URI. It may have all that the client knows, and `schema`, `connections`, `sslrootcert` and the modes `verify-ca` and
    /// `verify-full` of `sslmode`, which it does not.
    pub fn parse(uri: &str, options: &Options) -> Result<Target, OpenError> {
        let bad = |reason: String| OpenError::Uri { reason };
        if !uri.starts_with("postgres://") && !uri.starts_with("postgresql://") {
            return Err(bad("it must begin with postgres:// or postgresql://".into()));
        }
        let (mut rest, query) = match uri.split_once('?') {
            Some((rest, query)) => (rest.to_owned(), query),
            None => (uri.to_owned(), ""),
        };
        let mut schema = options.schema.clone();
        let mut connections = options.connections;
        let mut roots = None;
        let mut mode = None;
        let mut separator = '?';
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = || {
                let text = percent_decode_str(value).decode_utf8();
                text.map(|text| text.into_owned()).map_err(|_| bad(format!("{name} is not UTF-8")))
            };
            match name {
                "schema" => schema = text()?,
                "connections" => {
                    let number = text()?.parse().ok().filter(|number| (1..=10_000).contains(number));
                    connections =
                        number.ok_or_else(|| bad("connections must be a number from 1 to 10000".into()))?;
                }
                "sslrootcert" => roots = Some(PathBuf::from(text()?)),
                "sslmode" => mode = Some(text()?),
                _ => {
                    rest.push(separator);
                    rest.push_str(pair);
                    separator = '&';
                }
            }
        }
        let is_name = |name: &str| {
            name.len() <= 63
                && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                && !name.starts_with("pg_")
        };
        if !is_name(&schema) {
            return Err(bad(format!(
                "the schema {schema:?} must be of lower-case letters, digits and _, and must not begin with pg_ or a digit"
            )));
        }
        let mut config: tokio_postgres::Config =
            rest.parse().map_err(|error| bad(crate::error::text(&error)))?;
        let (ssl, verify) = tls_mode(mode.as_deref(), roots.is_some()).map_err(bad)?;
        config.ssl_mode(ssl);
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(bad("it names no host".into()));
        }
        // Of several hosts one may be a copy that accepts no writes.
        if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.application_name("diwan");
        let quarter_minute = Duration::from_secs(15);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // A peer that is gone without a word is noticed while an answer is awaited and while nothing is.
        config.tcp_user_timeout(2 * quarter_minute).keepalives_idle(quarter_minute);
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        Ok(Target { config, schema, connections, verify, roots })
    }

    /// The server's address for messages; without the password.
    pub fn address(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        hosts.collect::<Vec<_>>().join(", ")
    }

    /// The user's name for messages.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or("the user of this process")
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres")
    }
}

/// Where a store is, for people; without the password.
pub fn describe(uri: &str) -> Result<String, OpenError> {
    let target = Target::parse(uri, &Options::default())?;
    let (address, database) = (target.address(), target.database());
    Ok(format!("PostgreSQL at {address}, database {database}, schema {}", target.schema))
}

/// What a mode means, as for the server's own clients: below `verify-ca`, certificates are not looked at, unless there are roots to verify
/// them with.
fn tls_mode(mode: Option<&str>, has_roots: bool) -> Result<(SslMode, Verify), String> {
    Ok(match mode {
        Some("disable") => (SslMode::Disable, Verify::Nothing),
        None | Some("allow" | "prefer") => (SslMode::Prefer, Verify::Nothing),
        Some("require") if has_roots => (SslMode::Require, Verify::Issuer),
        Some("require") => (SslMode::Require, Verify::Nothing),
        Some("verify-ca") => (SslMode::Require, Verify::Issuer),
        Some("verify-full") => (SslMode::Require, Verify::IssuerAndName),
        Some(other) => {
            return Err(format!(
                "sslmode is {other:?}; it may be disable, allow, prefer, require, verify-ca or verify-full"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(uri: &str) -> Result<Target, OpenError> {
        Target::parse(uri, &Options::default())
    }

    #[test]
    fn parse_reads_what_the_client_does_not_know() {
        let target =
            parse("postgres://me:secret@db:6000,b/store?sslmode=verify-full&connect_timeout=3&schema=other&connections=7&sslrootcert=a%2Fb")
                .unwrap();
        assert_eq!((target.schema.as_str(), target.verify), ("other", Verify::IssuerAndName));
        assert_eq!((target.roots.clone(), target.connections), (Some("a/b".into()), 7));
        assert_eq!(target.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(target.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(target.address(), "db:6000, b:5432");
        assert_eq!((target.user(), target.database()), ("me", "store"));
        assert!(!format!("{target:?}").contains("secret"));
    }

    #[test]
    fn parse_refuses_what_it_cannot_follow() {
        for uri in [
            "mysql://db/x",
            "postgres:///x",
            "postgres://db/x?sslmode=perhaps",
            "postgres://db/x?schema=Big",
            "postgres://db/x?schema=pg_x",
            "postgres://db/x?schema=",
            "postgres://db/x?connections=0",
            "postgres://db/x?sslcert=a",
            "postgres://db:port/x",
        ] {
            assert!(matches!(parse(uri), Err(OpenError::Uri { .. })), "{uri}");
        }
    }
}
