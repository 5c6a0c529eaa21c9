//! A remote database, accessed over `http://` or `https://`.
//!
//! Requests are sent by the server's runtime while the job's thread waits, with a limit on silence and until the job
//! is stopped. Redirects are followed; credentials are only sent to the original origin.

use super::session::Session;
use super::{Answer, Call, Chunks, Patience, Payload, Peer, Source, Trust};
use crate::http::{self, BSON, Outgoing};
use crate::replicator::endpoint::Address;
use crate::replicator::failure::{Failure, Kind};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How many chunks of a request may be queued.
const CHUNKS: usize = 4;
/// The size of a chunk of a streamed request.
const CHUNK: usize = 64 << 10;
/// How long an idle connection is kept open.
const IDLE: Duration = Duration::from_secs(20);
/// How many redirects are followed.
const MOST_REDIRECTS: usize = 10;
/// The longest pause that a peer may request with `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The HTTP clients for all remote peers.
pub(crate) struct Http {
    runtime: Handle,
    plain: Client<HttpConnector, Outgoing>,
    /// Created at the first `https://` request, because loading the root certificates takes time.
    secure: Mutex<Option<(Trust, SecureClient)>>,
}

type SecureClient = Client<HttpsConnector<HttpConnector>, Outgoing>;

/// How a remote server is recognized, and recognizes the replicator.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    /// Which certificates are trusted.
    pub(in crate::replicator) trust: Trust,
    /// Whether to sign in for a session.
    pub(in crate::replicator) signs_in: bool,
}

impl Http {
    /// Creates the clients, without connections.
    pub(crate) fn new(runtime: Handle) -> Arc<Http> {
        let plain = Http::builder().build(connector());
        Arc::new(Http { runtime, plain, secure: Mutex::new(None) })
    }

    fn builder() -> hyper_util::client::legacy::Builder {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(32);
        builder
    }

    /// Returns the client for `https://` that trusts these certificates.
    fn secure(&self, trust: &Trust) -> Result<SecureClient, Failure> {
        let mut made = self.secure.lock();
        if let Some((known, client)) = &*made
            && known == trust
        {
            return Ok(client.clone());
        }
        let mut http = connector();
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(trust.config()?)
            .https_only()
            .enable_http1()
            .wrap_connector(http);
        let client: SecureClient = Http::builder().build(https);
        *made = Some((trust.clone(), client.clone()));
        Ok(client)
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_keepalive(Some(Duration::from_secs(60)));
    connector
}

/// A remote database.
pub(crate) struct Remote {
    http: Arc<Http>,
    address: Address,
    shown: String,
    /// The headers of every request.
    headers: HeaderMap,
    /// Headers that are only sent to the address's own origin.
    secrets: HeaderMap,
    patience: Patience,
    security: Security,
    session: Session,
}

impl Remote {
    /// Creates a peer for the database at `address`.
    pub(crate) fn new(
        http: Arc<Http>,
        address: Address,
        patience: Patience,
        security: Security,
    ) -> Result<Remote, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("Diwan-Replicator"));
        let mut secrets = HeaderMap::new();
        let bad = |what: &str| Failure::new("bad_request", format!("invalid {what} for {}", address.shown()));
        for (name, value) in &address.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| bad("header"))?;
            secrets.insert(name, HeaderValue::from_str(value).map_err(|_| bad("header"))?);
        }
        let basic = match address.authorization() {
            Some(authorization) => {
                let mut value = HeaderValue::from_str(&authorization).map_err(|_| bad("credentials"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let session = Session::new(address.login(), basic, security.signs_in);
        let shown = address.shown();
        Ok(Remote { http, address, shown, headers, secrets, patience, security, session })
    }

    /// The scheme, the host and the port of the server.
    pub(super) fn origin(&self) -> String {
        self.address.origin()
    }

    /// The headers of every request.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Waits for a future on the runtime, within the allowed silence.
    fn wait<T>(&self, what: &str, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.http.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.patience.stop.stopped() => Err(Failure::stopped()),
                result = tokio::time::timeout(self.patience.silence, future) => {
                    result.unwrap_or_else(|_| Err(Failure::passing("req_timedout", what)))
                }
            }
        })
    }

    /// Converts a connection error, with the innermost cause as the reason.
    fn broken(&self, what: &str, error: &ClientError) -> Failure {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason = cause.to_string();
            if let Some(error) = cause.downcast_ref::<io::Error>()
                && error.get_ref().is_none()
            {
                break;
            }
            source = cause.source();
        }
        if error.is_connect() && reason.contains("failed to lookup address") {
            return Failure::passing("nxdomain", format!("could not resolve {}", self.shown));
        }
        Failure::passing("http_request_failed", format!("{what}: {reason}"))
    }
}

impl Peer for Remote {
    fn uri(&self) -> &str {
        &self.shown
    }

    fn send(&self, call: Call) -> Result<Answer, Failure> {
        let again = call.again();
        let proof = self.session.proof(self);
        let answer = self.follow(call, &proof)?;
        if let Some(call) = again
            && matches!(answer.status, 401 | 403)
            && self.session.renew(self, &proof)
        {
            return self.follow(call, &self.session.proof(self));
        }
        if answer.is_success() {
            self.session.learn(&answer.headers);
        }
        Ok(answer)
    }
}

impl Remote {
    /// Sends a request and follows redirects. `proof` goes to the address's own origin.
    fn follow(&self, call: Call, proof: &HeaderMap) -> Result<Answer, Failure> {
        let what =
            format!("{} {}{}", call.method, self.shown, call.path.split('?').next().unwrap_or_default());
        let invalid = || Failure::new("bad_request", format!("invalid URL {}", self.shown));
        let home: Uri = self.address.target(&call.path).parse().map_err(|_| invalid())?;
        let again = match &call.payload {
            Payload::Empty => Some(Payload::Empty),
            Payload::Json(bytes) => Some(Payload::Json(bytes.clone())),
            Payload::Bson(bytes) => Some(Payload::Bson(bytes.clone())),
            Payload::Stream { .. } => None,
        };
        let Call { mut method, mut payload, headers, gzip, .. } = call;
        let mut uri = home.clone();
        for _ in 0..=MOST_REDIRECTS {
            let mut all = self.headers.clone();
            if is_same_origin(&uri, &home) {
                all.extend(self.secrets.clone());
                all.extend(proof.clone());
            }
            for (name, value) in &headers {
                all.insert(name, HeaderValue::from_static(value));
            }
            let response = self.request(&what, &method, &uri, all, payload, gzip)?;
            let Some(next) = redirect(&uri, &response) else { return Ok(self.answer(response, gzip)) };
            uri = next;
            payload = match &again {
                // As in browsers, a 303 redirect becomes a `GET` without the body.
                _ if response.status() == StatusCode::SEE_OTHER => {
                    method = Method::GET;
                    Payload::Empty
                }
                Some(Payload::Json(bytes)) => Payload::Json(bytes.clone()),
                Some(Payload::Bson(bytes)) => Payload::Bson(bytes.clone()),
                Some(_) => Payload::Empty,
                None => {
                    let reason = format!("{what}: the upload was redirected to {}", shown(&uri));
                    return Err(Failure::new("redirected", reason));
                }
            };
        }
        Err(Failure::new(
            "too_many_redirects",
            format!("{what}: redirected more than {MOST_REDIRECTS} times"),
        ))
    }
}

impl Remote {
    /// Sends a request to one URL.
    pub(super) fn request(
        &self,
        what: &str,
        method: &Method,
        uri: &Uri,
        headers: HeaderMap,
        payload: Payload,
        gzip: bool,
    ) -> Result<Response<Incoming>, Failure> {
        let (payload, stream) = Prepared::split(payload);
        let mut request = Request::new(payload.body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        if let Some(content_type) = payload.content_type {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        if gzip && !request.headers().contains_key(ACCEPT_ENCODING) {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let secure = if uri.scheme_str() == Some("https") {
            Some(self.http.secure(&self.security.trust)?)
        } else {
            None
        };
        let plain = &self.http.plain;
        let mut sent = self.http.runtime.spawn(match secure {
            Some(client) => client.request(request),
            None => plain.request(request),
        });
        let pumped = match stream {
            Some((sender, reader)) => self.pump(sender, reader),
            None => Ok(()),
        };
        let response = self.wait(what, async {
            match (&mut sent).await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(error)) => Err(self.broken(what, &error)),
                Err(_) => Err(Failure::stopped()),
            }
        });
        if response.is_err() {
            sent.abort();
        }
        match (pumped, response) {
            // The peer may refuse an upload before it has read all of it; its answer is more useful than the send
            // error.
            (_, Ok(response)) if !response.status().is_success() => Ok(response),
            (Err(error), _) => Err(error),
            (Ok(()), response) => response,
        }
    }
}

/// Returns the target of a redirect.
fn redirect(from: &Uri, response: &Response<Incoming>) -> Option<Uri> {
    if !matches!(response.status().as_u16(), 301..=303 | 307 | 308) {
        return None;
    }
    resolve(from, response.headers().get(LOCATION)?.to_str().ok()?)
}

/// Resolves a relative reference in an answer from `base`.
fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
    let text = match reference {
        _ if reference.contains("://") => reference.to_owned(),
        _ if reference.starts_with("//") => format!("{scheme}:{reference}"),
        _ if reference.starts_with('/') => format!("{scheme}://{authority}{reference}"),
        _ if reference.starts_with('?') => format!("{scheme}://{authority}{}{reference}", base.path()),
        _ => format!("{scheme}://{authority}{directory}/{reference}"),
    };
    let uri: Uri = text.parse().ok()?;
    (matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()).then_some(uri)
}

/// Whether two URLs have the same origin.
fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = |uri: &Uri| uri.host().unwrap_or_default().to_ascii_lowercase();
    one.scheme_str() == other.scheme_str() && host(one) == host(other) && port(one) == port(other)
}

/// The URL for messages, without its query.
fn shown(uri: &Uri) -> String {
    format!("{}://{}{}", uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default(), uri.path())
}

impl Remote {
    /// Reads a request's body and sends it to the connection.
    fn pump(
        &self,
        sender: mpsc::Sender<io::Result<Bytes>>,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<(), Failure> {
        loop {
            let mut chunk = vec![0; CHUNK];
            let piece = match reader.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    chunk.truncate(count);
                    Ok(Bytes::from(chunk))
                }
                Err(error) => Err(error),
            };
            let failed = piece.as_ref().err().map(ToString::to_string);
            // If the connection is closed, the answer tells why.
            let taken = self.wait("sending", async { Ok(sender.send(piece).await.is_ok()) })?;
            if let Some(reason) = failed {
                return Err(Failure::passing("attachment_read_failed", reason));
            }
            if !taken {
                return Ok(());
            }
        }
    }

    fn answer(&self, response: Response<Incoming>, gunzip: bool) -> Answer {
        let (head, incoming) = response.into_parts();
        let chunks = Chunks {
            runtime: self.http.runtime.clone(),
            stop: self.patience.stop.clone(),
            source: Silent { incoming, limit: self.patience.silence },
            ready: Bytes::new(),
        };
        let packed = head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
        let body: Box<dyn Read + Send> =
            if packed && gunzip { Box::new(MultiGzDecoder::new(chunks)) } else { Box::new(chunks) };
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }
}

/// Classifies a status for retries.
pub(crate) fn kind_of(status: u16, headers: &HeaderMap) -> Kind {
    match status {
        429 | 503 => {
            let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            match seconds {
                Some(seconds) => Kind::Pause(Duration::from_secs(seconds).min(LONGEST_PAUSE)),
                None => Kind::Passing,
            }
        }
        // A missing feature will not appear before a retry.
        501 | 505 => Kind::Lasting,
        408 | 500..=599 => Kind::Passing,
        _ => Kind::Lasting,
    }
}

/// Limits the silence between the chunks of a body.
struct Silent {
    incoming: Incoming,
    limit: Duration,
}

impl Source for Silent {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let frame = tokio::time::timeout(self.limit, self.incoming.frame())
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => {}
                },
            }
        }
    }
}

/// A request's body with its type.
struct Prepared {
    body: Outgoing,
    content_type: Option<HeaderValue>,
}

/// The reader of a streamed body and the channel to send it to.
type Streamed = (mpsc::Sender<io::Result<Bytes>>, Box<dyn Read + Send>);

impl Prepared {
    fn split(payload: Payload) -> (Prepared, Option<Streamed>) {
        match payload {
            Payload::Empty => (Prepared { body: Outgoing::Empty, content_type: None }, None),
            Payload::Json(bytes) => {
                let content_type = Some(HeaderValue::from_static("application/json"));
                (Prepared { body: Outgoing::Whole(bytes), content_type }, None)
            }
            Payload::Bson(bytes) => {
                let content_type = Some(HeaderValue::from_static(BSON));
                (Prepared { body: Outgoing::Whole(bytes), content_type }, None)
            }
            Payload::Stream { content_type, length, reader } => {
                let (sender, rest) = mpsc::channel(CHUNKS);
                let content_type = HeaderValue::from_str(&content_type).ok();
                let body = Outgoing::Chunks(http::Chunks {
                    first: None,
                    rest,
                    last: None,
                    length: Some(length),
                    pace: http::Pace::default(),
                });
                (Prepared { body, content_type }, Some((sender, reader)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved_and_origins_compared() {
        let base: Uri = "http://host:5984/db/_design%2Fd?rev=1-a".parse().unwrap();
        for (reference, expected) in [
            ("http://other/x?y=1#z", Some("http://other/x?y=1")),
            ("https://host:5984/x", Some("https://host:5984/x")),
            ("//other/x", Some("http://other/x")),
            ("/db/_design/d?rev=1-a", Some("http://host:5984/db/_design/d?rev=1-a")),
            ("_all_docs", Some("http://host:5984/db/_all_docs")),
            ("?a=1", Some("http://host:5984/db/_design%2Fd?a=1")),
            ("ftp://host/x", None),
            ("http://", None),
        ] {
            assert_eq!(resolve(&base, reference), expected.map(|text| text.parse().unwrap()), "{reference}");
        }
        let same = |one: &str, other: &str| is_same_origin(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(same("http://host/a", "http://HOST:80/b") && same("https://h:443/", "https://h/"));
        for other in ["https://host/", "http://host:81/", "http://host.example/"] {
            assert!(!same("http://host/", other), "{other}");
        }
    }
}
