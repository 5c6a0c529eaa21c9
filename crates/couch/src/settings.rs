//! Settings that clients change while the server runs, under CouchDB's names.
//!
//! A value comes from the register of settings (`access.settings`), where a flag overrides what is stored. Without one,
//! the defaults below hold, or the configuration with which the face was made. Each use asks again, so a change takes
//! effect at once.
//!
//! CouchDB moved settings between sections: those of `couch_httpd_auth` are read and written as settings of
//! `chttpd_auth`, and those of `httpd` count where `chttpd` has none.

use crate::auth;
use crate::error::{Error, Result};
use crate::server::Couch;
use crate::uuids::Algorithm;
use diwan_access::Sections;
use diwan_auth::Prf;
use diwan_script::{Overflow, ReduceLimit};
use hyper::header::HeaderName;
use std::time::Duration;

/// The default of each setting that has one, by section and key.
const DEFAULTS: &[(&str, &str, &str)] = &[
    (
        "attachments",
        "compressible_types",
        "text/*, application/javascript, application/json, application/xml",
    ),
    ("attachments", "compression_level", "8"),
    ("chttpd", "admin_only_all_dbs", "true"),
    ("chttpd", "allow_jsonp", "false"),
    (
        "chttpd",
        "authentication_handlers",
        "{chttpd_auth, cookie_authentication_handler}, {chttpd_auth, default_authentication_handler}",
    ),
    ("chttpd", "decode_plus_to_space", "true"),
    ("chttpd", "require_valid_user", "true"),
    ("chttpd", "secure_rewrites", "true"),
    ("chttpd", "x_forwarded_host", "X-Forwarded-Host"),
    ("chttpd", "x_forwarded_proto", "X-Forwarded-Proto"),
    ("chttpd", "x_forwarded_ssl", "X-Forwarded-Ssl"),
    ("chttpd_auth", "allow_persistent_cookies", "true"),
    ("chttpd_auth", "authentication_db", "_users"),
    ("chttpd_auth", "hash_algorithms", "sha256, sha"),
    ("chttpd_auth", "iterations", "600000"),
    ("chttpd_auth", "pbkdf2_prf", "sha256"),
    ("chttpd_auth", "proxy_use_secret", "true"),
    ("chttpd_auth", "timeout", "600"),
    ("chttpd_auth", "upgrade_hash_on_auth", "true"),
    ("chttpd_auth", "users_db_public", "false"),
    (
        "cors",
        "exposed_headers",
        "accept-ranges, etag, server, x-couch-request-id, x-couch-update-newrev, x-couchdb-body-time",
    ),
    (
        "cors",
        "headers",
        "accept, accept-language, authorization, content-length, content-range, content-type, destination, expires, \
         if-match, last-modified, origin, pragma, x-couch-full-commit, x-couch-id, x-couch-persist, \
         x-couchdb-www-authenticate, x-http-method-override, x-requested-with, x-couchdb-vhost-path",
    ),
    ("cors", "max_age", "600"),
    ("cors", "methods", "CONNECT, COPY, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE"),
    ("couchdb", "max_partition_size", "0"),
    ("couchdb", "users_db_security_editable", "false"),
    ("jwt_auth", "required_claims", "exp"),
    ("query_server_config", "os_process_limit", "100"),
    ("query_server_config", "reduce_limit", "true"),
    ("query_server_config", "reduce_limit_ratio", "2.0"),
    ("query_server_config", "reduce_limit_threshold", "5000"),
    ("query_servers", "javascript", "built in"),
    ("replicator", "auth_plugins", "couch_replicator_auth_session,couch_replicator_auth_noop"),
    ("replicator", "checkpoint_interval", "5000"),
    ("replicator", "connection_timeout", "30000"),
    ("replicator", "http_connections", "20"),
    ("replicator", "interval", "60000"),
    ("replicator", "max_jobs", "200"),
    ("replicator", "retries_per_request", "5"),
    ("replicator", "use_bulk_get", "true"),
    ("replicator", "use_checkpoints", "true"),
    ("replicator", "verify_ssl_certificates", "true"),
    ("replicator", "worker_batch_size", "500"),
    ("replicator", "worker_processes", "4"),
    ("uuids", "algorithm", "sequential"),
    ("uuids", "max_count", "1000"),
    ("uuids", "utc_id_suffix", ""),
];

/// The section and key under which a setting is stored.
pub(crate) fn canonical<'a>(section: &'a str, key: &'a str) -> (&'a str, &'a str) {
    match section {
        "couch_httpd_auth" => ("chttpd_auth", key),
        _ => (section, key),
    }
}

impl Couch {
    /// The value of a setting, if it has one.
    pub(crate) fn setting(&self, section: &str, key: &str) -> Option<String> {
        let (section, key) = canonical(section, key);
        let all = self.access.settings.all();
        let stored = |section: &str| all.get(section).and_then(|section| section.get(key)).cloned();
        let older = || if section == "chttpd" { stored("httpd") } else { None };
        stored(section).or_else(older).or_else(|| self.default_setting(section, key))
    }

    fn default_setting(&self, section: &str, key: &str) -> Option<String> {
        let config = &self.config;
        match (section, key) {
            ("chttpd", "enable_cors") => Some((!config.cors_origins.is_empty()).to_string()),
            ("chttpd", "max_http_request_size") => Some(config.max_request_bytes.to_string()),
            // Browsers' libraries send cookies unless told otherwise. For all pages of the web that is no default.
            ("cors", "credentials") => {
                let named = &config.cors_origins;
                Some((!named.is_empty() && !named.iter().any(|origin| origin == "*")).to_string())
            }
            ("cors", "origins") => Some(config.cors_origins.join(",")),
            ("couchdb", "max_document_size") => Some(config.max_document_bytes.to_string()),
            ("couchdb", "uuid") => Some(self.uuid.clone()),
            ("vendor", "name") => Some("Diwan".to_owned()),
            ("vendor", "version") => Some(config.version.to_owned()),
            _ => {
                let found = DEFAULTS.iter().find(|row| row.0 == section && row.1 == key);
                found.map(|row| row.2.to_owned())
            }
        }
    }

    /// All settings with their values in force.
    pub(crate) fn all_settings(&self) -> Sections {
        let mut sections = Sections::new();
        let computed = [
            ("chttpd", "enable_cors"),
            ("chttpd", "max_http_request_size"),
            ("cors", "credentials"),
            ("cors", "origins"),
            ("couchdb", "max_document_size"),
            ("couchdb", "uuid"),
            ("vendor", "name"),
            ("vendor", "version"),
        ];
        let listed = DEFAULTS.iter().map(|row| (row.0, row.1)).chain(computed);
        for (section, key) in listed {
            if let Some(value) = self.setting(section, key) {
                sections.entry(section.to_owned()).or_default().insert(key.to_owned(), value);
            }
        }
        for (section, keys) in self.access.settings.all().iter() {
            let section = canonical(section, "").0;
            let known = sections.entry(section.to_owned()).or_default();
            known.extend(keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        sections
    }

    /// A setting that is `true` or `false`.
    pub(crate) fn setting_flag(&self, section: &str, key: &str) -> bool {
        self.setting(section, key).is_some_and(|value| value.trim() == "true")
    }

    /// A setting that is a number; `default` if it is none.
    pub(crate) fn setting_number(&self, section: &str, key: &str, default: u64) -> u64 {
        self.setting(section, key).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
    }

    /// The largest document, in bytes of its JSON or of its BSON. No setting allows more than the store can hold.
    pub(crate) fn max_document_bytes(&self) -> usize {
        let bytes =
            self.setting_number("couchdb", "max_document_size", self.config.max_document_bytes as u64);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(diwan_value::MAX_DOCUMENT_BYTES)
    }

    /// The largest request body that is buffered in memory.
    pub(crate) fn max_request_bytes(&self) -> usize {
        let bytes =
            self.setting_number("chttpd", "max_http_request_size", self.config.max_request_bytes as u64);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The limit of the reductions of views.
    pub(crate) fn reduce_limit(&self) -> ReduceLimit {
        let default = ReduceLimit::default();
        let setting = |key: &str| self.setting("query_server_config", key);
        let threshold = setting("reduce_limit_threshold").and_then(|value| value.parse().ok());
        let ratio = setting("reduce_limit_ratio").and_then(|value| value.parse().ok());
        ReduceLimit {
            overflow: match setting("reduce_limit").as_deref() {
                Some("log") => Overflow::Log,
                Some("false") => Overflow::Ignore,
                _ => Overflow::Refuse,
            },
            threshold: threshold.unwrap_or(default.threshold),
            ratio: ratio.unwrap_or(default.ratio),
        }
    }

    /// How long a session lasts.
    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_secs(self.setting_number("chttpd_auth", "timeout", 600))
    }

    /// The algorithms of cookies and of proxies' tokens; the first one makes new cookies.
    pub(crate) fn hash_algorithms(&self) -> Vec<Prf> {
        Prf::parse_list(&self.setting("chttpd_auth", "hash_algorithms").unwrap_or_default())
    }
}

/// Settings that are numbers.
const NUMBERS: [(&str, &str); 17] = [
    ("chttpd", "max_http_request_size"),
    ("chttpd_auth", "iterations"),
    ("chttpd_auth", "timeout"),
    ("couchdb", "max_document_size"),
    ("couchdb", "max_partition_size"),
    ("query_server_config", "os_process_limit"),
    ("query_server_config", "reduce_limit_threshold"),
    ("replicator", "checkpoint_interval"),
    ("replicator", "connection_timeout"),
    ("replicator", "http_connections"),
    ("replicator", "interval"),
    ("replicator", "max_jobs"),
    ("replicator", "retries_per_request"),
    ("replicator", "worker_batch_size"),
    ("replicator", "worker_processes"),
    ("uuids", "max_count"),
    ("cors", "max_age"),
];

/// Settings that are `true` or `false`.
const FLAGS: [(&str, &str); 15] = [
    ("chttpd", "admin_only_all_dbs"),
    ("chttpd", "allow_jsonp"),
    ("chttpd", "decode_plus_to_space"),
    ("chttpd", "enable_cors"),
    ("chttpd", "require_valid_user"),
    ("chttpd", "secure_rewrites"),
    ("chttpd_auth", "allow_persistent_cookies"),
    ("chttpd_auth", "proxy_use_secret"),
    ("chttpd_auth", "upgrade_hash_on_auth"),
    ("chttpd_auth", "users_db_public"),
    ("cors", "credentials"),
    ("couchdb", "users_db_security_editable"),
    ("replicator", "use_bulk_get"),
    ("replicator", "use_checkpoints"),
    ("replicator", "verify_ssl_certificates"),
];

/// Settings of CouchDB that have one value here: they can be read, and set to what they are.
const UNCHANGEABLE: [(&str, &str); 1] = [("chttpd_auth", "authentication_db")];

/// Refuses a value that the setting cannot have. Unknown settings have any value.
pub(crate) fn check(section: &str, key: &str, value: &str) -> Result<()> {
    // The settings for one host are like those for all.
    let section = if section.starts_with("cors:") { "cors" } else { section };
    let bad = |what: String| Err(Error::bad_request(format!("{section}/{key} {what}")));
    let newer = if section == "httpd" { "chttpd" } else { section };
    if NUMBERS.contains(&(newer, key)) && value.parse::<u64>().is_err() {
        return bad("must be a number".to_owned());
    }
    if FLAGS.contains(&(newer, key)) && !matches!(value, "true" | "false") {
        return bad("must be true or false".to_owned());
    }
    if section == "cors" && matches!(key, "exposed_headers" | "headers" | "methods") && !are_tokens(value) {
        return bad("must be a list of names, separated by commas".to_owned());
    }
    if UNCHANGEABLE.contains(&(newer, key)) {
        let only = DEFAULTS.iter().find(|row| (row.0, row.1) == (newer, key)).map_or("", |row| row.2);
        return match value == only {
            true => Ok(()),
            false => Err(Error::not_implemented(format!("{section}/{key} is always {only} here"))),
        };
    }
    match (section, key) {
        ("attachments", "compression_level") if !matches!(value.parse(), Ok(0..=9)) => {
            bad("must be a number from 0, for no compression, to 9".to_owned())
        }
        ("couchdb", "max_document_size") => {
            let most = diwan_value::MAX_DOCUMENT_BYTES;
            match value.parse::<usize>() {
                Ok(bytes) if bytes <= most => Ok(()),
                _ => bad(format!("must not exceed {most}, the most that the store can hold")),
            }
        }
        ("chttpd", "authentication_handlers") if !auth::has_handler(value) => {
            bad("names no authentication handler, so nobody could sign in".to_owned())
        }
        ("chttpd_auth", "pbkdf2_prf") if Prf::from_name(value).is_none() => {
            bad("must be sha, sha224, sha256, sha384 or sha512".to_owned())
        }
        ("chttpd_auth", "iterations") if !(1..=10_000_000).contains(&value.parse::<u64>().unwrap_or(0)) => {
            bad("must be between 1 and 10000000".to_owned())
        }
        ("chttpd_auth", "password_regexp") if !crate::users::are_password_rules(value) => {
            bad("must be a list of regular expressions".to_owned())
        }
        ("chttpd_auth", "same_site")
            if !matches!(value.to_ascii_lowercase().as_str(), "" | "none" | "lax" | "strict") =>
        {
            bad("must be none, lax or strict".to_owned())
        }
        ("query_server_config", "reduce_limit") if !matches!(value, "true" | "false" | "log") => {
            bad("must be true, false or log".to_owned())
        }
        ("query_server_config", "reduce_limit_ratio")
            if !value.parse().is_ok_and(|ratio: f64| ratio >= 0.0) =>
        {
            bad("must be a number that is not negative".to_owned())
        }
        ("uuids", "algorithm") if !Algorithm::is_known(value) => {
            bad("must be sequential, random, utc_random or utc_id".to_owned())
        }
        ("jwt_keys", name) => {
            let read = diwan_auth::jwt::JwtKeys::new().add(name, value);
            read.map_err(|error| Error::bad_request(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Whether a text is a list of names of headers or methods.
fn are_tokens(list: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && HeaderName::from_bytes(name.as_bytes()).is_ok();
    list.split(',').map(str::trim).all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_names_the_newer_section() {
        assert_eq!(canonical("couch_httpd_auth", "timeout"), ("chttpd_auth", "timeout"));
        assert_eq!(canonical("chttpd", "x"), ("chttpd", "x"));
    }

    #[test]
    fn defaults_stand_in_canonical_sections_once() {
        for (at, row) in DEFAULTS.iter().enumerate() {
            assert_eq!(canonical(row.0, row.1), (row.0, row.1));
            assert!(!DEFAULTS[at + 1..].iter().any(|other| (other.0, other.1) == (row.0, row.1)), "{row:?}");
        }
    }
}
