//! Replication endpoints: a database of this server given by name, or a remote one given by URL.

use super::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// The source or the target of a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A database of this server.
    Local(String),
    /// A remote database.
    Remote(Address),
}

/// The URL of a database, with credentials and headers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Whether the scheme is `https`.
    pub(crate) secure: bool,
    /// The user name.
    pub(crate) user: Option<String>,
    /// The password.
    password: String,
    /// The host, with the port if the URL states one.
    host: String,
    /// The escaped path of the database, ending in a slash.
    path: String,
    /// Headers for each request, with lower-case names.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Endpoint {
    /// Parses the member `field` of a replication: a string, or an object with a `url`.
    pub(crate) fn parse(value: Option<&Value>, field: &str) -> Result<Endpoint, Failure> {
        match value {
            Some(Value::String(text)) => Endpoint::from_text(text, field),
            Some(Value::Object(object)) => {
                let url = object.get("url").and_then(Value::as_str).filter(|url| !url.is_empty());
                let url = url.ok_or_else(|| {
                    bad(format!(
                        "The url property must exist in the `{field}` field and must be a non-empty string."
                    ))
                })?;
                match Endpoint::from_text(url, field)? {
                    Endpoint::Remote(mut address) => {
                        address.take_headers(object, field)?;
                        address.take_auth(object, field)?;
                        Ok(Endpoint::Remote(address))
                    }
                    local => Ok(local),
                }
            }
            None | Some(Value::Null) => Err(bad("Missing replicator database")),
            Some(_) => {
                Err(bad(format!("The `{field}` property must exist and be either a string or an object.")))
            }
        }
    }

    fn from_text(text: &str, field: &str) -> Result<Endpoint, Failure> {
        let invalid = || bad(format!("`{field}` has an invalid url"));
        let (secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(invalid()),
            None => {
                let name = percent_decode_str(text).decode_utf8().map_err(|_| invalid())?;
                if name.is_empty() {
                    return Err(bad("Missing replicator database"));
                }
                return Ok(Endpoint::Local(name.into_owned()));
            }
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let decode =
            |text: &str| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| invalid());
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (Some(decode(user)?), decode(password)?),
            None => (None, String::new()),
        };
        let path = format!("/{}{}", path, if path.is_empty() || path.ends_with('/') { "" } else { "/" });
        let address =
            Address { secure, user, password, host: host.to_owned(), path, headers: BTreeMap::new() };
        if host.is_empty() || address.path.contains(['?', '#']) || address.target("").parse::<Uri>().is_err()
        {
            return Err(invalid());
        }
        Ok(Endpoint::Remote(address))
    }

    /// The endpoint for messages, without the password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Endpoint::Local(name) => name.clone(),
            Endpoint::Remote(address) => address.shown(),
        }
    }

    /// Identifies the endpoint for the replication's id. The password does not count.
    pub(crate) fn identity(&self) -> Value {
        match self {
            Endpoint::Local(name) => json!(["local", name]),
            Endpoint::Remote(address) => {
                let host = match address.host.rsplit_once(':') {
                    Some((host, "80" | "5984")) if !address.secure => host,
                    Some((host, "443")) if address.secure => host,
                    _ => &address.host,
                };
                json!(["remote", address.user, host.to_ascii_lowercase(), address.path, address.headers])
            }
        }
    }
}

impl Address {
    fn take_headers(&mut self, object: &Map<String, Value>, field: &str) -> Result<(), Failure> {
        let headers = match object.get("headers") {
            None => return Ok(()),
            Some(Value::Object(headers)) => headers,
            Some(_) => return Err(bad(format!("`{field}.headers` must be a non-null object."))),
        };
        for (name, value) in headers {
            let value = value
                .as_str()
                .ok_or_else(|| bad(format!("The header `{name}` in `{field}.headers` must be a string.")))?;
            self.headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        // Convert basic authentication in a header to credentials, so that a changed password does not make it
        // another replication.
        if self.user.is_none()
            && let Some((user, password)) = self.headers.get("authorization").and_then(|value| basic(value))
        {
            self.headers.remove("authorization");
            (self.user, self.password) = (Some(user), password);
        }
        Ok(())
    }

    fn take_auth(&mut self, object: &Map<String, Value>, field: &str) -> Result<(), Failure> {
        let auth = match object.get("auth") {
            None => return Ok(()),
            Some(Value::Object(auth)) => auth,
            Some(_) => return Err(bad(format!("`{field}.auth` must be a non-null object."))),
        };
        for (kind, value) in auth {
            let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
            match (kind.as_str(), text("username"), text("password")) {
                ("basic", Some(user), Some(password)) => (self.user, self.password) = (Some(user), password),
                ("basic", ..) => {
                    return Err(bad(format!("`{field}.auth.basic` must have a username and a password.")));
                }
                (other, ..) => {
                    return Err(bad(format!("`{field}.auth.{other}` is not supported: use `basic`.")));
                }
            }
        }
        Ok(())
    }

    /// Returns the URL of a path below the database.
    pub(crate) fn target(&self, path: &str) -> String {
        format!("{}://{}{}{path}", self.scheme(), self.host, self.path)
    }

    /// Returns the value of the `Authorization` header.
    pub(crate) fn authorization(&self) -> Option<String> {
        let user = self.user.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{}", self.password))))
    }

    /// The name and the password.
    pub(crate) fn login(&self) -> Option<(&str, &str)> {
        Some((self.user.as_ref()?, &self.password))
    }

    /// The scheme, the host and the port.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host)
    }

    /// The URL for messages, without the password.
    pub(crate) fn shown(&self) -> String {
        let login = self.user.as_ref().map_or_else(String::new, |user| format!("{user}:*****@"));
        format!("{}://{login}{}{}", self.scheme(), self.host, self.path)
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

impl fmt::Debug for Address {
    /// Leaves out the password and the headers, which may hold tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// Parses the user and password of basic authentication.
fn basic(value: &str) -> Option<(String, String)> {
    let decoded = STANDARD.decode(value.strip_prefix("Basic ")?.trim()).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn bad(reason: impl Into<String>) -> Failure {
    Failure::new("bad_request", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &Value) -> Result<Endpoint, Failure> {
        Endpoint::parse(Some(value), "source")
    }

    fn remote(value: &Value) -> Address {
        match parse(value) {
            Ok(Endpoint::Remote(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn endpoints_are_parsed_from_urls_and_names() {
        assert_eq!(parse(&json!("a%2Fb")).unwrap(), Endpoint::Local("a/b".to_owned()));
        let address = remote(&json!("https://us%40er:p%3Aw@host:6984/a%2Fb"));
        assert_eq!(address.shown(), "https://us@er:*****@host:6984/a%2Fb/");
        assert_eq!(address.target("_changes"), "https://host:6984/a%2Fb/_changes");
        assert_eq!(basic(&address.authorization().unwrap()), Some(("us@er".into(), "p:w".into())));
        let given = json!({ "url": "http://h/d", "auth": { "basic": { "username": "u", "password": "p" } }, "headers": { "X-A": "1" } });
        assert_eq!(remote(&given).headers["x-a"], "1");
        assert_eq!(remote(&given).user.as_deref(), Some("u"));
        for bad in [
            json!(null),
            json!(1),
            json!("ftp://h/d"),
            json!("http:///d"),
            json!("http://h/d?x"),
            json!({}),
            json!(""),
        ] {
            assert_eq!(parse(&bad).unwrap_err().error, "bad_request", "{bad}");
        }
    }

    #[test]
    fn identity_ignores_passwords_and_default_ports() {
        let identity = |value: Value| parse(&value).unwrap().identity();
        let plain = identity(json!("http://u:one@host:5984/db"));
        assert_eq!(plain, identity(json!("http://u:two@HOST/db/")));
        let header = format!("Basic {}", STANDARD.encode("u:three"));
        assert_eq!(
            plain,
            identity(json!({ "url": "http://host/db", "headers": { "Authorization": header } }))
        );
        assert_ne!(plain, identity(json!("http://host/db")));
        assert_ne!(plain, identity(json!("http://u:one@host:5985/db")));
    }
}
