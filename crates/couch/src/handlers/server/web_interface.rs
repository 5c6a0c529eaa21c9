//! `GET /_utils/…`: the files of the web interface. They hold no data, so nobody has to sign in for them.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use flate2::read::GzDecoder;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName, LOCATION,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use std::io::Read;

/// The page loads and asks nothing but this server, and runs no script but its own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      media-src 'self' blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'none'";

/// Returns a file.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let path = request.param("rest").to_owned();
    if path.is_empty() && !request.path.ends_with('/') {
        let response = Response::new(301, "text/plain", "The web interface is at /_utils/.\n");
        return Ok(response.with_header(LOCATION, "/_utils/"));
    }
    let file = diwan_web::file(&path).ok_or_else(Error::missing)?;
    if let Some(unchanged) = request.not_modified(&file.tag) {
        return Ok(guarded(unchanged));
    }
    let takes_gzip = request.header(ACCEPT_ENCODING).is_some_and(|accepted| accepted.contains("gzip"));
    let response = match takes_gzip {
        true => Response::new(200, file.content_type, file.gzip.into_owned())
            .with_header(CONTENT_ENCODING, "gzip"),
        false => {
            let mut plain = Vec::new();
            let unpacked = GzDecoder::new(&*file.gzip).read_to_end(&mut plain);
            unpacked.map_err(|error| Error::internal(error.to_string()))?;
            Response::new(200, file.content_type, plain)
        }
    };
    let kept = if file.is_named_by_hash { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(guarded(
        response.with_etag(&file.tag).with_header(CACHE_CONTROL, kept).with_header(VARY, "accept-encoding"),
    ))
}

/// Adds the headers that tell the browser what the page may do.
fn guarded(response: Response) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    headers.into_iter().fold(response, |response, (name, value)| response.with_header(name, value))
}
