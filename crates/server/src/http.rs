//! The HTTP listener: is the server alive, is it ready, and what does it count.

use diwan_mongo::Server;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How many connections are served at once; others wait.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take to send a request's head.
const PATIENCE: Duration = Duration::from_secs(10);

/// Accepts connections for ever.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = respond(&server, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP connection broken");
            }
            drop(place);
        });
    }
}

fn respond(server: &Server, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, text) = match request.uri().path() {
        "/healthz" | "/readyz" | "/metrics" if !get => {
            (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())
        }
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if server.is_ready() => (StatusCode::OK, "ready\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "closing\n".to_owned()),
        "/metrics" => (StatusCode::OK, server.prometheus()),
        _ => (StatusCode::NOT_FOUND, "there is /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
