//! CORS: the headers that allow a browser to give an answer to a page of another origin.
//!
//! The settings are CouchDB's section `cors`. A section `cors:HOST` overrides it for requests to that host. Answers are
//! those of CouchDB 3.5: an allowed origin is repeated, also where `*` allows it, and a preflight request for a method
//! or a header that is not allowed is answered like any other `OPTIONS`.

use super::Response;
use crate::server::Couch;
use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderValue, ORIGIN,
    VARY,
};

/// Headers that are exposed if an answer has them.
const SIMPLE: [&str; 5] = ["cache-control", "content-language", "expires", "last-modified", "pragma"];

/// What a request states of where it comes from. Without an origin it is not from a page of another site.
pub struct Page {
    origin: Option<HeaderValue>,
    host: Option<String>,
}

impl Page {
    /// Reads the headers of a request. `authority` is its host where it has no header for it.
    pub fn of(headers: &HeaderMap, authority: Option<&str>) -> Page {
        let origin = headers.get(ORIGIN).cloned();
        // Few requests have an origin; the host of all others is not needed.
        let host = match &origin {
            Some(_) => headers.get(HOST).and_then(|host| host.to_str().ok()).or(authority),
            None => None,
        };
        Page { origin, host: host.map(str::to_owned) }
    }

    /// The origin, if the settings allow it.
    fn allowed(&self, couch: &Couch) -> Option<&str> {
        let origin = self.origin.as_ref()?.to_str().ok()?;
        allows(couch, self.host.as_deref(), origin).then_some(origin)
    }

    fn setting(&self, couch: &Couch, key: &str) -> String {
        setting(couch, self.host.as_deref(), key)
    }

    fn list(&self, couch: &Couch, key: &str) -> Vec<String> {
        items(&self.setting(couch, key)).map(str::to_owned).collect()
    }

    /// Adds the headers that every answer to an allowed page has.
    fn name_origin(&self, couch: &Couch, response: Response, origin: &str) -> Response {
        let response = response.with_header(ACCESS_CONTROL_ALLOW_ORIGIN, origin).with_header(VARY, "Origin");
        // A page whose origin is literally `*` would allow itself to everybody.
        match origin != "*" && self.setting(couch, "credentials") == "true" {
            true => response.with_header(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
            false => response,
        }
    }

    /// Adds CORS headers if the request states an allowed origin.
    pub fn decorate(&self, couch: &Couch, response: Response) -> Response {
        let Some(origin) = self.allowed(couch) else { return response };
        let mut exposed = vec!["content-type".to_owned()];
        let simple = |name: &&str| response.headers.iter().any(|(header, _)| header == *name);
        exposed.extend(SIMPLE.into_iter().filter(|name| simple(name)).map(str::to_owned));
        exposed.extend(self.list(couch, "exposed_headers").iter().map(|name| name.to_ascii_lowercase()));
        self.name_origin(couch, response, origin)
            .with_header(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.join(", "))
    }

    /// Answers a preflight request; `None` for any other request, and for one that the settings do not allow.
    pub fn preflight(&self, couch: &Couch, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if method != Method::OPTIONS {
            return None;
        }
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?.to_str().ok()?;
        let origin = self.allowed(couch)?;
        let methods = self.list(couch, "methods");
        if !methods.iter().any(|method| method == wanted) {
            return None;
        }
        let fields = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
        let fields = fields.map_or(Some(""), |fields| fields.to_str().ok())?;
        let allowed = self.setting(couch, "headers");
        if !items(fields).all(|name| items(&allowed).any(|allowed| allowed.eq_ignore_ascii_case(name))) {
            return None;
        }
        let response = Response::new(204, "text/plain", "")
            .with_header(ACCESS_CONTROL_MAX_AGE, self.setting(couch, "max_age"))
            .with_header(ACCESS_CONTROL_ALLOW_METHODS, methods.join(", "))
            .with_header(ACCESS_CONTROL_ALLOW_HEADERS, fields);
        Some(self.name_origin(couch, response, origin))
    }
}

/// Whether pages of this origin may use the server under this name.
pub fn allows(couch: &Couch, host: Option<&str>, origin: &str) -> bool {
    couch.setting_flag("chttpd", "enable_cors")
        && items(&setting(couch, host, "origins")).any(|allowed| allowed == "*" || allowed == origin)
}

/// A setting for requests to this host.
fn setting(couch: &Couch, host: Option<&str>, key: &str) -> String {
    let is_fixed = couch.access.settings.fixed_by("cors", key).is_some();
    let own = host.filter(|_| !is_fixed).and_then(|host| {
        let name = host.split(':').next().unwrap_or(host);
        couch.setting(&format!("cors:{name}"), key)
    });
    own.or_else(|| couch.setting("cors", key)).unwrap_or_default()
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}
