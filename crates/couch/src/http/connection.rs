//! The HTTP listener: accepts connections (HTTP/1.1, or HTTP/2 with prior knowledge), parses requests and sends
//! responses.
//!
//! Quick handlers run in the connection's task, all others on blocking threads. No thread is held while a request
//! waits for its client.

use super::ending::Ending;
use super::paced::{Pace, Paced};
use super::reach::{Reached, probe, route};
use super::response::ResponseBody;
use super::socket::Socket;
use super::streamed::{self, CHUNKS, Moments, Streamed, pump};
use super::target::{Lenient, Next};
use super::workers::FAULT;
use super::{Body, Chunks, Feed, Outgoing, Query, Request, Response, blocking, origin};
use crate::auth::{self, Witness};
use crate::error::Error;
use crate::routes::{self, Found};
use crate::server::Couch;
use diwan_kv::CommitId;
use diwan_query::Interrupt;
use diwan_store::Claimant;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::io::{Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Identifies a request in its answer and in logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-couch-request-id");
/// States how many milliseconds it took to receive a small body.
const BODY_TIME: HeaderName = HeaderName::from_static("x-couchdb-body-time");
/// How long a client may take to send a request's head.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bodies up to this length are received before a thread is assigned to the request.
const SMALL_BODY: u64 = 64 << 10;
/// How long receiving a small body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// How a request came. Each request has it as an extension.
#[derive(Clone, Copy)]
struct Arrival {
    /// The address of this end of the connection.
    local: IpAddr,
    /// Whether the connection is encrypted.
    is_tls: bool,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival { local: IpAddr::V4(Ipv4Addr::UNSPECIFIED), is_tls: false }
    }
}

/// Accepts connections until the task is dropped.
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
        // Answers are small and written in one piece; Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let couch = couch.clone();
        let local =
            stream.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |own| own.ip().to_canonical());
        tokio::spawn(async move {
            let accepted = Socket::accept(couch.config.tls.as_ref(), &couch.handshakes, stream).await;
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%error, %peer, "no TLS with an HTTP client");
                    return;
                }
            };
            let arrival = Arrival { local, is_tls: stream.is_tls() };
            let stream = Paced::new(Lenient::new(stream), couch.config.write_timeout, PATIENCE);
            let (next, pace) = (stream.inner().next(), stream.pace());
            let service = service_fn(move |mut request: hyper::Request<Incoming>| {
                let (couch, next, pace) = (couch.clone(), next.clone(), pace.clone());
                request.extensions_mut().insert(arrival);
                async move { Ok::<_, Infallible>(answer(couch, peer, request, &next, pace).await) }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(256 << 10);
            builder.http2().timer(TokioTimer::new()).max_concurrent_streams(64).max_send_buf_size(64 << 10);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "HTTP connection broken");
            }
            drop(place);
        });
    }
}

/// Answers one request and adds the headers that CouchDB sends with each answer.
async fn answer(
    couch: Arc<Couch>,
    peer: IpAddr,
    request: hyper::Request<Incoming>,
    next: &Next,
    pace: Pace,
) -> hyper::Response<Outgoing> {
    let number = couch.requests.fetch_add(1, Ordering::Relaxed);
    // A client may choose the request's id.
    let id = match request.headers().get(REQUEST_ID) {
        Some(named) => Ok(named.clone()),
        None => HeaderValue::from_str(&couch.uuids.of_request(number)),
    };
    let mut body_time = Duration::ZERO;
    let mut response = respond(couch, peer, request, next, pace, &mut body_time).await;
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
    pace: Pace,
    body_time: &mut Duration,
) -> hyper::Response<Outgoing> {
    let (mut head, incoming) = request.into_parts();
    head.method = overridden(head.method, &head.headers);
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let mut ending = Ending::of(&couch, &head);
    if let Err(error) = origin::check(&couch, &head.headers, authority) {
        return ending.refuse(error);
    }
    if let Some(response) = ending.page.preflight(&couch, &head.method, &head.headers) {
        return ending.finish_preflight(response);
    }
    let path = head.uri.path().to_owned();
    if let Some(response) = probe(&couch, &path) {
        return ending.finish(response, None);
    }
    if !couch.store.is_caught_up() {
        let store = couch.store.clone();
        let caught_up = tokio::task::spawn_blocking(move || store.catch_up()).await;
        if let Ok(Err(error)) = caught_up {
            return ending.refuse(Error::from(error));
        }
    }
    let Arrival { local, is_tls } = head.extensions.get().copied().unwrap_or_default();
    let signed = auth::sign_in(&couch, &auth::Head { headers: &head.headers, peer, local, is_tls }).await;
    let found = signed.and_then(|signed| {
        ending.renewal = signed.renewal;
        let found = route(&couch, &signed.caller, &head.method, &path, peer);
        found.map(|found| (found, signed.caller, signed.handler))
    });
    let (found, caller, handler_name) = match found {
        Ok(found) => found,
        Err(error) => {
            // The client may still be sending a small body. Closing the connection now could lose the answer.
            if length(&head.headers).is_some_and(|length| length <= SMALL_BODY) {
                let _ = receive(&couch, &head.headers, incoming, next, body_time).await;
            }
            return ending.refuse(error);
        }
    };
    let Found { handler, quick, params, .. } = match found {
        Reached::Row(found) => found,
        Reached::Extra(response) => return ending.finish(response, None),
    };
    let body = match receive(&couch, &head.headers, incoming, next, body_time).await {
        Ok(body) => body,
        Err(error) => return ending.refuse(error),
    };
    // The connection drops this future when the client goes away.
    let waiting = Waiting::default();
    let witness = Witness::of(&caller, peer, &head.method, &path);
    let request = Request {
        interrupt: waiting.0.clone(),
        may_wait: true,
        couch: couch.clone(),
        peer,
        local,
        is_tls,
        caller,
        handler: handler_name,
        method: head.method,
        path,
        params,
        query: query(&couch, head.uri.query().unwrap_or_default()),
        headers: head.headers,
        body,
    };
    let in_place = if quick { run_in_place(&couch, handler, request).await } else { Err(request) };
    let begun = match in_place {
        Ok((response, is_head)) => begin(&couch, move || response, is_head).await,
        Err(request) => run(&couch, handler, request).await,
    };
    let (mut response, chunks) = match begun {
        Begun::Whole(response) => (response, None),
        Begun::Feed(response, rest) => {
            (response, Some(Chunks { first: None, rest, last: None, length: None, pace }))
        }
        Begun::Rows(response, first, answer) => {
            let (sender, rest) = mpsc::channel(CHUNKS);
            let couch = couch.clone();
            tokio::spawn(async move { pump(&couch.workers, answer, sender).await });
            (response, Some(Chunks { first: Some(first), rest, last: None, length: None, pace }))
        }
    };
    if let Some(reason) = &response.refusal {
        witness.refused(&couch, None, reason);
    }
    if let Some(commit) = response.after.take()
        && let Err(error) = durable(&couch, commit).await
    {
        return ending.refuse(error);
    }
    ending.finish(response, chunks)
}

/// Somebody waits for the answer as long as this exists.
#[derive(Default)]
struct Waiting(Interrupt);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn query(couch: &Couch, text: &str) -> Query {
    // Only a plus makes a difference.
    let plus_is_space = !text.contains('+') || couch.setting_flag("chttpd", "decode_plus_to_space");
    Query::parse_with(text, plus_is_space)
}

/// The length of the body, if the request states it.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// Returns the method in `X-HTTP-Method-Override`, which clients use where a proxy only passes `POST`.
fn overridden(method: Method, headers: &HeaderMap) -> Method {
    const METHODS: [&[u8]; 6] = [b"COPY", b"DELETE", b"GET", b"HEAD", b"PATCH", b"PUT"];
    let named = headers.get("x-http-method-override").map(|name| name.as_bytes());
    let named = named.filter(|name| method == Method::POST && METHODS.contains(name));
    named.and_then(|name| Method::from_bytes(name).ok()).unwrap_or(method)
}

/// Buffers a body that is small, or for which no upload thread is free. The handler reads any other body as it
/// arrives.
async fn receive(
    couch: &Couch,
    headers: &HeaderMap,
    incoming: Incoming,
    next: &Next,
    time: &mut Duration,
) -> Result<Body, Error> {
    let length = length(headers);
    let (body, has_come) = if incoming.is_end_stream() {
        (Body::Empty, true)
    } else if length.is_some_and(|length| length <= SMALL_BODY) {
        let began = Instant::now();
        let collected = tokio::time::timeout(BODY_PATIENCE, incoming.collect()).await;
        *time = began.elapsed();
        let collected = collected
            .map_err(|_| Error::request_timeout("The request's body arrived too slowly."))?
            .map_err(|error| Error::bad_request(format!("The request's body could not be read: {error}")))?;
        (Body::Bytes(collected.to_bytes()), true)
    } else if let Some(place) = couch.workers.upload() {
        (Body::stream(incoming, Handle::current(), place), false)
    } else {
        (hold(couch, incoming).await?, true)
    };
    next.store(has_come, Ordering::Relaxed);
    match headers.get(CONTENT_ENCODING).map(|value| String::from_utf8_lossy(value.as_bytes())) {
        None => Ok(body),
        Some(name) if name == "identity" => Ok(body),
        Some(name) if name == "gzip" => Ok(body.gunzip()),
        // Attachment handlers inspect the header themselves.
        Some(name) => Ok(body.encoded(&name)),
    }
}

/// Buffers a body before its handler runs, because too many uploads are in progress to give each a thread. Larger
/// bodies are spooled to a temporary file.
async fn hold(couch: &Couch, mut incoming: Incoming) -> Result<Body, Error> {
    let mut bytes = Vec::new();
    let mut file: Option<std::fs::File> = None;
    let kept = |error| Error::internal(format!("The request's body cannot be kept: {error}"));
    loop {
        let frame = tokio::time::timeout(BODY_PATIENCE, incoming.frame()).await;
        let frame = frame.map_err(|_| Error::request_timeout("The request's body arrived too slowly."))?;
        let Some(frame) = frame else { break };
        let frame = frame
            .map_err(|error| Error::bad_request(format!("The request's body could not be read: {error}")))?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        if bytes.len() as u64 > SMALL_BODY {
            let write = || {
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(match &couch.config.temporary {
                        Some(directory) => tempfile::tempfile_in(directory)?,
                        None => tempfile::tempfile()?,
                    }),
                };
                file.write_all(&bytes)
            };
            blocking(write).map_err(kept)?;
            bytes.clear();
        }
    }
    let Some(mut file) = file else { return Ok(Body::Bytes(bytes.into())) };
    let finish = || file.write_all(&bytes).and_then(|()| file.seek(SeekFrom::Start(0)));
    blocking(finish).map_err(kept)?;
    Ok(Body::Reader(Box::new(file)))
}

/// Waits until a commit is durable. Syncs in this task if a permit for blocking is free and no other sync is running.
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

/// Runs a quick handler in this task if its body has been received and a worker is free; otherwise returns the
/// request. A worker must not wait for a transaction: the handler fails instead, and runs again when the transaction
/// has ended.
// The only caller moves the request once; a box would cost more.
#[allow(clippy::result_large_err)]
async fn run_in_place(
    couch: &Couch,
    handler: routes::Handler,
    mut request: Request,
) -> Result<(Response, bool), Request> {
    if !request.body.is_whole() {
        return Err(request);
    }
    let body = request.body.share();
    loop {
        request.may_wait = false;
        let outcome = match couch.inline.enter() {
            // A panicking handler must not take down the connection and, with HTTP/2, its other requests.
            Some(_place) => catch_unwind(AssertUnwindSafe(|| handler(&mut request))),
            None => {
                request.may_wait = true;
                return Err(request);
            }
        };
        let response = match outcome {
            Ok(Err(Error { claimant: Some(claimant), .. })) => {
                request.body = body.share();
                ended(&claimant).await;
                continue;
            }
            Ok(response) => response.unwrap_or_else(Response::from),
            Err(_) => Error::internal(FAULT).into(),
        };
        return Ok((response, request.method == hyper::Method::HEAD));
    }
}

/// Waits until a transaction has ended.
async fn ended(claimant: &Claimant) {
    let (sender, ended) = oneshot::channel();
    claimant.on_end(Box::new(move || {
        let _ = sender.send(());
    }));
    let _ = ended.await;
}

/// A response whose head is ready.
enum Begun {
    /// The body is complete.
    Whole(Response),
    /// The body is a feed.
    Feed(Response, Feed),
    /// The first chunk is ready; the rest is written as the client reads.
    Rows(Response, Bytes, Streamed),
}

/// Runs a handler on a blocking thread.
async fn run(couch: &Couch, handler: routes::Handler, mut request: Request) -> Begun {
    let is_head = request.method == hyper::Method::HEAD;
    let mut make = move || handler(&mut request).unwrap_or_else(Response::from);
    let directory = couch.config.temporary.clone();
    match couch.workers.run(move || first_chunk(make(), is_head, directory)).await {
        Ok(first) => first_rows(couch, first).await,
        Err(error) => Begun::Whole(error.into()),
    }
}

/// Starts the response of a handler that ran in this task.
async fn begin(couch: &Couch, make: impl FnOnce() -> Response + Send + 'static, is_head: bool) -> Begun {
    let response = make();
    if is_head || !matches!(response.body, ResponseBody::Rows(_)) {
        return first_rows(couch, first_chunk(response, is_head, None)).await;
    }
    let directory = couch.config.temporary.clone();
    match couch.workers.run(move || first_chunk(response, is_head, directory)).await {
        Ok(first) => first_rows(couch, first).await,
        Err(error) => Begun::Whole(error.into()),
    }
}

/// The result of writing a first chunk.
enum First {
    Begun(Begun),
    Later(Response, Streamed),
}

/// Writes the first chunk of a response, so that an error in it can still become an error response. Call it on a
/// blocking thread if the response has rows. `HEAD` requests get no body.
fn first_chunk(mut response: Response, is_head: bool, directory: Option<PathBuf>) -> First {
    match std::mem::replace(&mut response.body, ResponseBody::Bytes(Bytes::new())) {
        ResponseBody::Bytes(bytes) => {
            response.body = ResponseBody::Bytes(bytes);
            First::Begun(Begun::Whole(response))
        }
        ResponseBody::Feed(rest) if !is_head => First::Begun(Begun::Feed(response, rest)),
        ResponseBody::Rows(rows) if !is_head => first_row(response, Streamed::new(rows, directory)),
        body => {
            response.body = body;
            First::Begun(Begun::Whole(response))
        }
    }
}

fn first_row(response: Response, mut answer: Streamed) -> First {
    match answer.next() {
        Err(error) => First::Begun(Begun::Whole(error.into())),
        Ok(streamed::Next::Later) => First::Later(response, answer),
        Ok(streamed::Next::End) => First::Begun(Begun::Whole(answer.head(response))),
        Ok(streamed::Next::Chunk(chunk)) => {
            let mut response = answer.head(response);
            First::Begun(match answer.is_done() {
                true => {
                    response.body = ResponseBody::Bytes(chunk);
                    Begun::Whole(response)
                }
                false => Begun::Rows(response, chunk, answer),
            })
        }
    }
}

/// Retries until there is a first chunk.
async fn first_rows(couch: &Couch, mut first: First) -> Begun {
    let mut moments = Moments::default();
    loop {
        match first {
            First::Begun(begun) => return begun,
            First::Later(response, answer) => {
                tokio::time::sleep(moments.next()).await;
                first = match couch.workers.run(move || first_row(response, answer)).await {
                    Ok(first) => first,
                    Err(error) => return Begun::Whole(error.into()),
                };
            }
        }
    }
}
