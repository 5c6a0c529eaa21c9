//! Protection against other sites: a web page must not use the browser of its visitor to reach a server on the
//! loopback interface.
//!
//! After DNS rebinding a browser sends the attacker's host name in `Host`; a page of another site sends its origin in
//! `Origin`. Both are refused unless they name this machine, the advertised host, or an origin allowed by
//! `--cors-origin`.

use crate::config::Config;
use crate::error::{Error, Result};
use hyper::header::{HOST, HeaderMap, ORIGIN};
use std::net::IpAddr;

/// Refuses a request that a page of another site may have sent.
pub fn check(config: &Config, headers: &HeaderMap, authority: Option<&str>) -> Result<()> {
    let host = headers.get(HOST).map(|value| value.to_str().unwrap_or("?")).or(authority);
    if let Some(host) = host
        && !is_own(config, host)
    {
        return Err(Error::forbidden(format!(
            "The server only accepts local requests, and '{host}' is not one of its names: use localhost, or add \
the name with --advertise"
        )));
    }
    if let Some(origin) = headers.get(ORIGIN) {
        let origin = origin.to_str().unwrap_or("?");
        let authority = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        if !is_own(config, authority) && !is_allowed(config, origin) {
            return Err(Error::forbidden(format!(
                "Pages of '{origin}' may not use this server: allow them with --cors-origin"
            )));
        }
    }
    Ok(())
}

/// Whether pages of this origin may read answers.
pub fn is_allowed(config: &Config, origin: &str) -> bool {
    config.cors_origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
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

    fn headers(pairs: &[(hyper::header::HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), hyper::header::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn check_refuses_foreign_hosts_and_origins() {
        let config = Config {
            cors_origins: vec!["https://app.example".to_owned()],
            advertise: Some("db.example:27017".to_owned()),
            ..Config::default()
        };
        for host in
            ["localhost:5984", "127.0.0.1", "127.0.0.1:1", "[::1]:5984", "db.example:5984", "x.localhost"]
        {
            assert!(check(&config, &headers(&[(HOST, host)]), None).is_ok(), "{host}");
        }
        for host in ["evil.example", "evil.example:5984", "127.0.0.1.evil.example", "10.0.0.1"] {
            assert_eq!(check(&config, &headers(&[(HOST, host)]), None).unwrap_err().status, 403, "{host}");
        }
        let with = |origin| headers(&[(HOST, "localhost:5984"), (ORIGIN, origin)]);
        for origin in ["http://localhost:3000", "https://app.example", "http://127.0.0.1"] {
            assert!(check(&config, &with(origin), None).is_ok(), "{origin}");
        }
        for origin in ["https://evil.example", "null", "https://app.example.evil"] {
            assert!(check(&config, &with(origin), None).is_err(), "{origin}");
        }
    }
}
