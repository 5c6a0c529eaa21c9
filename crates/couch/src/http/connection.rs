//! The sockets: HTTP/1.1 and, for a client that begins with it, HTTP/2; quick requests are answered in place, the others on a
//! blocking thread each.

use super::response::{CHUNKS, ResponseBody, RowWriter};
use super::target::{Lenient, Next};
use super::{Body, Chunks, Outgoing, Query, Request, Response, cors, origin};
use crate::error::Error;
use crate::routes::{self, Found};
use crate::server::Couch;
use diwan_kv::CommitId;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, ORIGIN, SERVER,
};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// What tells requests from each other in an answer and in logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-couch-request-id");
/// How many milliseconds it took to receive a small body.
const BODY_TIME: HeaderName = HeaderName::from_static("x-couchdb-body-time");
/// How long a client may take to send a request's head.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bodies up to this length are read before a thread is taken for the request.
const SMALL_BODY: u64 = 64 << 10;
/// What is told when a handler panics.
const FAULT: &str = "The request met a fault of the server, which is logged.";
/// How long a small body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// Accepts connections for ever.
pub async fn serve(listener: TcpListener, couch: Arc<Couch>) {
    couch.inline.open(&Handle::current());
    let room = Arc::new(Semaphore::new(couch.config.max_connections));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok((stream, address)) => (stream, address.ip().to_canonical()),
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Answers are small and come whole: waiting for more of them only delays them.
        let _ = stream.set_nodelay(true);
        let couch = couch.clone();
        tokio::spawn(async move {
            let stream = Lenient::new(stream);
            let next = stream.next();
            let service = service_fn(move |request| {
                let (couch, next) = (couch.clone(), next.clone());
                async move { Ok::<_, Infallible>(answer(couch, peer, request, &next).await) }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(256 << 10);
            builder.http2().timer(TokioTimer::new()).max_concurrent_streams(64);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "HTTP connection broken");
            }
            drop(place);
        });
    }
}

/// Answers one request, with what CouchDB tells of each.
async fn answer(
    couch: Arc<Couch>,
    peer: IpAddr,
    request: hyper::Request<Incoming>,
    next: &Next,
) -> hyper::Response<Outgoing> {
    let number = couch.requests.fetch_add(1, Ordering::Relaxed);
    // A client that names its request finds it under that name.
    let id = match request.headers().get(REQUEST_ID) {
        Some(named) => Ok(named.clone()),
        None => HeaderValue::from_str(&couch.uuids.of_request(number)),
    };
    let mut body_time = Duration::ZERO;
    let mut response = respond(couch, peer, request, next, &mut body_time).await;
    let headers = response.headers_mut();
    headers.insert(BODY_TIME, u64::try_from(body_time.as_millis()).unwrap_or(u64::MAX).into());
    if let Ok(id) = id {
        headers.insert(REQUEST_ID, id);
    }
    response
}

async fn respond(
    couch: Arc<Couch>,
    peer: IpAddr,
    request: hyper::Request<Incoming>,
    next: &Next,
    body_time: &mut Duration,
) -> hyper::Response<Outgoing> {
    let (mut head, incoming) = request.into_parts();
    head.method = overridden(head.method, &head.headers);
    let authority = head.uri.authority().map(|authority| authority.as_str());
    if let Err(error) = origin::check(&couch.config, &head.headers, authority) {
        return finish(&couch, None, error.into(), None);
    }
    if let Some(response) = cors::preflight(&couch.config, &head.method, &head.headers) {
        return finish(&couch, None, response, None);
    }
    let origin = head.headers.get(ORIGIN).cloned();
    let origin = origin.as_ref();
    // There are no users yet, so nobody's name and password are right, as in CouchDB.
    if head.headers.contains_key(AUTHORIZATION) {
        let error = Error::unauthorized("Name or password is incorrect.")
            .with_header("www-authenticate", "Basic realm=\"server\"");
        return finish(&couch, origin, error.into(), None);
    }
    let path = head.uri.path().to_owned();
    if let Some((status, text)) = (couch.config.extra)(&path) {
        let response = Response::new(status, "text/plain; version=0.0.4; charset=utf-8", text);
        return finish(&couch, origin, response, None);
    }
    let found = match routes::find(&head.method, &path) {
        Ok(found) => found,
        Err(error) => {
            // A small body may still be on its way: closing on it would cost the client the answer.
            let _ = receive(&head.headers, incoming, next, body_time).await;
            return finish(&couch, origin, error.into(), None);
        }
    };
    let body = match receive(&head.headers, incoming, next, body_time).await {
        Ok(body) => body,
        Err(error) => return finish(&couch, origin, error.into(), None),
    };
    let Found { handler, quick, params } = found;
    let request = Request {
        couch: couch.clone(),
        peer,
        method: head.method,
        path,
        params,
        query: Query::parse(head.uri.query().unwrap_or_default()),
        headers: head.headers,
        body,
    };
    let in_place = if quick { run_in_place(&couch, handler, request) } else { Err(request) };
    let (mut response, chunks) = match in_place {
        Ok(response) => pass(response).await,
        Err(request) => run(handler, request).await,
    };
    if let Some(commit) = response.after.take()
        && let Err(error) = durable(&couch, commit).await
    {
        return finish(&couch, origin, error.into(), None);
    }
    finish(&couch, origin, response, chunks)
}

/// The method that is meant, where something on the way lets only `POST` pass.
fn overridden(method: Method, headers: &HeaderMap) -> Method {
    const METHODS: [&[u8]; 6] = [b"COPY", b"DELETE", b"GET", b"HEAD", b"PATCH", b"PUT"];
    let named = headers.get("x-http-method-override").map(|name| name.as_bytes());
    let named = named.filter(|name| method == Method::POST && METHODS.contains(name));
    named.and_then(|name| Method::from_bytes(name).ok()).unwrap_or(method)
}

/// Takes a small body as a whole; a large one is read by its handler.
async fn receive(
    headers: &HeaderMap,
    incoming: Incoming,
    next: &Next,
    time: &mut Duration,
) -> Result<Body, Error> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let body = if incoming.is_end_stream() {
        Body::Empty
    } else if length.is_some_and(|length| length <= SMALL_BODY) {
        let began = Instant::now();
        let collected = tokio::time::timeout(BODY_PATIENCE, incoming.collect()).await;
        *time = began.elapsed();
        let collected = collected
            .map_err(|_| Error::request_timeout("The request's body came too slowly."))?
            .map_err(|error| Error::bad_request(format!("The request's body broke off: {error}")))?;
        Body::Bytes(collected.to_bytes())
    } else {
        Body::stream(incoming, Handle::current())
    };
    next.store(body.is_whole(), Ordering::Relaxed);
    match headers.get(CONTENT_ENCODING).map(|value| String::from_utf8_lossy(value.as_bytes())) {
        None => Ok(body),
        Some(name) if name == "identity" => Ok(body),
        Some(name) if name == "gzip" => Ok(body.gunzip()),
        // The handler of an attachment looks at the header itself.
        Some(name) => Ok(body.encoded(&name)),
    }
}

/// Waits until a commit is on disk; syncs it in this task, if there is a place for what blocks and nobody else does.
async fn durable(couch: &Couch, commit: CommitId) -> Result<(), Error> {
    let engine = couch.store.engine();
    if engine.durable() >= commit {
        return Ok(());
    }
    if let Some(_place) = couch.inline.enter()
        && let Some(outcome) = engine.sync_here(commit)
    {
        return Ok(outcome?);
    }
    let (sender, outcome) = oneshot::channel();
    engine.on_durable(commit, Box::new(move |outcome| drop(sender.send(outcome))));
    outcome.await.map_err(|_| Error::unavailable("The server is closing."))??;
    Ok(())
}

/// Runs a quick handler here, if its body has come and there is a place; gives the request back if not.
// It is moved once, by its only caller: a box would cost more.
#[allow(clippy::result_large_err)]
fn run_in_place(
    couch: &Couch,
    handler: routes::Handler,
    mut request: Request,
) -> Result<(Response, bool), Request> {
    let place = if request.body.is_whole() { couch.inline.enter() } else { None };
    let Some(_place) = place else { return Err(request) };
    // The connection, and with HTTP/2 its other requests, outlive a handler's fault, as where it has its own thread.
    let response = match catch_unwind(AssertUnwindSafe(|| handler(&mut request))) {
        Ok(response) => response.unwrap_or_else(Response::from),
        Err(_) => Error::internal(FAULT).into(),
    };
    Ok((response, request.method == hyper::Method::HEAD))
}

/// Begins what a response has to be written with after its head.
async fn pass((response, is_head): (Response, bool)) -> (Response, Option<Chunks>) {
    match response.body {
        ResponseBody::Rows(_) if !is_head => on_thread(move || response, is_head).await,
        _ => split(response, is_head),
    }
}

/// Runs a handler on a thread that may block.
async fn run(handler: routes::Handler, mut request: Request) -> (Response, Option<Chunks>) {
    let is_head = request.method == hyper::Method::HEAD;
    on_thread(move || handler(&mut request).unwrap_or_else(Response::from), is_head).await
}

/// Makes a response on a thread that may block, and writes there what follows its head.
async fn on_thread(
    make: impl FnOnce() -> Response + Send + 'static,
    is_head: bool,
) -> (Response, Option<Chunks>) {
    let (head_sender, head) = oneshot::channel();
    let task = tokio::task::spawn_blocking(move || {
        let mut response = make();
        match std::mem::replace(&mut response.body, ResponseBody::Bytes(Bytes::new())) {
            ResponseBody::Rows(rows) if !is_head => {
                let (sender, receiver) = mpsc::channel(CHUNKS);
                let mut writer = RowWriter::new(sender);
                if head_sender
                    .send((response, Some(Chunks { first: None, rest: receiver, length: None })))
                    .is_err()
                {
                    return;
                }
                let written = rows(&mut writer).and_then(|()| io::Write::flush(&mut writer));
                if let Err(error) = written
                    && error.kind() != io::ErrorKind::BrokenPipe
                {
                    tracing::warn!(%error, "a response broke off");
                    writer.abort(error);
                }
            }
            body => {
                response.body = body;
                drop(head_sender.send(split(response, is_head)));
            }
        }
    });
    match head.await {
        Ok(answered) => answered,
        Err(_) => {
            let reason = match task.await {
                Err(error) if error.is_panic() => FAULT,
                _ => "The server is closing.",
            };
            (Error::internal(reason).into(), None)
        }
    }
}

/// A response that needs no thread any more, and the chunks that follow its head. A `HEAD` is answered without them.
fn split(mut response: Response, is_head: bool) -> (Response, Option<Chunks>) {
    let body = std::mem::replace(&mut response.body, ResponseBody::Bytes(Bytes::new()));
    let chunks = match body {
        ResponseBody::Bytes(bytes) => {
            response.body = ResponseBody::Bytes(bytes);
            None
        }
        ResponseBody::Feed(rest) if !is_head => Some(Chunks { first: None, rest, length: None }),
        ResponseBody::Begun(first, rest) if !is_head => {
            Some(Chunks { first: Some(first), rest, length: None })
        }
        _ => None,
    };
    (response, chunks)
}

/// The response as hyper sends it.
fn finish(
    couch: &Couch,
    origin: Option<&HeaderValue>,
    response: Response,
    chunks: Option<Chunks>,
) -> hyper::Response<Outgoing> {
    let response = cors::decorate(&couch.config, origin, response);
    let body = match (chunks, response.body) {
        (Some(chunks), _) => Outgoing::Chunks(chunks),
        (None, ResponseBody::Bytes(bytes)) => Outgoing::Whole(bytes),
        (None, _) => Outgoing::Empty,
    };
    let mut out = hyper::Response::new(body);
    *out.status_mut() = response.status;
    // With room for what is added, by hyper too.
    out.headers_mut().reserve(response.headers.len() + 5);
    for (name, value) in response.headers {
        out.headers_mut().append(name, value);
    }
    out.headers_mut().insert(SERVER, couch.server_header.clone());
    out
}
