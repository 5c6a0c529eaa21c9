//! `GET /favicon.ico`: requested by browsers.

use crate::error::Result;
use crate::http::{Request, Response};
use hyper::header::CACHE_CONTROL;

/// An icon of one transparent pixel.
const DOT: &[u8] = &[
    0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 32, 0, 48, 0, 0, 0, 22, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0,
    1, 0, 32, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,
];

/// Returns the icon.
pub(crate) fn get(_request: &mut Request) -> Result<Response> {
    let response = Response::new(200, "image/x-icon", DOT);
    Ok(response.with_header(CACHE_CONTROL, "public, max-age=31536000"))
}
