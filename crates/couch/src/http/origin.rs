//! Protection against other sites: a web page must not use the browser of its visitor to reach a server on the
//! loopback interface.
//!
//! After DNS rebinding a browser sends the attacker's host name in `Host`; a page of another site sends its origin in
//! `Origin`. Both are refused unless they name this machine, the advertised host, or an origin that `--cors-origin` or
//! the settings allow. On a server with users any `Host` is accepted: under a foreign name, a browser knows no password and
//! has no cookie.

use super::cors;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::server::Couch;
use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use std::net::IpAddr;

/// Refuses a request that a page of another site may have sent.
pub fn check(couch: &Couch, headers: &HeaderMap, authority: Option<&str>) -> Result<()> {
    let host = headers.get(HOST).map(|value| value.to_str().unwrap_or("?")).or(authority);
    let needs_own_host = couch.access.is_open()?;
    check_names(&couch.config, headers.get(ORIGIN), host, needs_own_host, &|origin| {
        cors::allows(couch, host, origin)
    })
}

fn check_names(
    config: &Config,
    origin: Option<&HeaderValue>,
    host: Option<&str>,
    needs_own_host: bool,
    is_allowed: &dyn Fn(&str) -> bool,
) -> Result<()> {
    if let Some(host) = host
        && needs_own_host
        && !is_own(config, host)
    {
        return Err(Error::forbidden(format!(
            "The server only accepts local requests, and '{host}' is not one of its names: use localhost, or add \
the name with --advertise"
        )));
    }
    if let Some(origin) = origin {
        let origin = origin.to_str().unwrap_or("?");
        let authority = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let is_same = !needs_own_host && host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
        if !is_same && !is_own(config, authority) && !is_allowed(origin) {
            return Err(Error::forbidden(format!(
                "Pages of '{origin}' may not use this server: allow them with --cors-origin, or with the settings \
chttpd/enable_cors and cors/origins"
            )));
        }
    }
    Ok(())
}

/// Whether `host[:port]` names the loopback interface or the advertised host.
fn is_own(config: &Config, host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let advertised = config.advertise.as_deref().is_some_and(|own| {
        let own = own.rsplit_once(':').map_or(own, |(name, _)| name);
        own.eq_ignore_ascii_case(name)
    });
    loopback
        || advertised
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_foreign_hosts_and_origins() {
        let config = Config { advertise: Some("db.example:27017".to_owned()), ..Config::default() };
        let check = |host: &str, origin: Option<&str>, needs_own_host| {
            let origin = origin.map(|origin| HeaderValue::from_str(origin).unwrap());
            let is_allowed = |origin: &str| origin == "https://app.example";
            check_names(&config, origin.as_ref(), Some(host), needs_own_host, &is_allowed)
        };
        for host in
            ["localhost:5984", "127.0.0.1", "127.0.0.1:1", "[::1]:5984", "db.example:5984", "x.localhost"]
        {
            assert!(check(host, None, true).is_ok(), "{host}");
        }
        for host in ["evil.example", "evil.example:5984", "127.0.0.1.evil.example", "10.0.0.1"] {
            assert_eq!(check(host, None, true).unwrap_err().status, 403, "{host}");
            assert!(check(host, None, false).is_ok(), "{host}");
        }
        for origin in ["http://localhost:3000", "https://app.example", "http://127.0.0.1"] {
            assert!(check("localhost:5984", Some(origin), true).is_ok(), "{origin}");
        }
        for origin in ["https://evil.example", "null", "https://app.example.evil"] {
            assert!(check("localhost:5984", Some(origin), true).is_err(), "{origin}");
            assert!(check("db.other:5984", Some(origin), false).is_err(), "{origin}");
        }
        assert!(check("db.other:5984", Some("https://db.other:5984"), false).is_ok());
        assert!(check("db.other:5984", Some("https://db.other:5984"), true).is_err());
    }
}
