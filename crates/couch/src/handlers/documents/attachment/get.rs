//! `GET /{db}/{doc}/{name*}`: an attachment's bytes, whole or by ranges, compressed or not.

use crate::document::{Rev, open, parse_id};
use crate::error::{Error, Result};
use crate::handlers::documents::document::{find, id_of};
use crate::http::{Flow, Request, Response, multipart};
use crate::users;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_store::Collection;
use diwan_store::blob::{Attachment, BlobForm};
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, IF_RANGE, RANGE,
};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// A request for more ranges than this gets the whole attachment.
const MOST_RANGES: usize = 9;

/// Returns the attachment.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    users::require_whole(request, &collection, &id_of(request))?;
    let id = parse_id(&id_of(request)).map_err(|_| Error::missing())?;
    let rev = request.query.get("rev").map(Rev::parse).transpose()?;
    let doc = find(&collection.view(), &id, rev.as_ref())?;
    let name = request.param("name");
    let attachment = doc.attachments.into_iter().find(|attachment| attachment.name == name);
    let attachment = attachment.ok_or_else(|| Error::not_found("Document is missing attachment"))?;
    let tag = STANDARD.encode(attachment.md5);
    if let Some(response) = request.not_modified(&tag) {
        return Ok(response);
    }
    let packed = attachment.encoding.is_some();
    let as_stored = packed && accepts_gzip(request.header(ACCEPT_ENCODING).unwrap_or_default());
    let ranges = match request.header(RANGE) {
        Some(text) if !packed && is_same(request.header(IF_RANGE), &tag) => {
            parse_ranges(text, attachment.length)?
        }
        _ => None,
    };
    let response = match ranges.as_deref() {
        Some([range]) => {
            let content_range = content_range(range, attachment.length);
            let length = range.end - range.start;
            whole(collection, attachment, BlobForm::Stored, Some(range.clone()), length)
                .with_status(StatusCode::PARTIAL_CONTENT)
                .with_header(CONTENT_RANGE, content_range)
        }
        Some(_) => several(collection, attachment, ranges.unwrap_or_default()),
        None if as_stored => {
            let length = attachment.encoded_length;
            whole(collection, attachment, BlobForm::Stored, None, length)
                .with_header(CONTENT_ENCODING, "gzip")
        }
        // It was uploaded compressed without stating its uncompressed length, so the length is unknown.
        None if packed && attachment.length == attachment.encoded_length => {
            let mut response = whole(collection, attachment, BlobForm::Identity, None, 0);
            response.headers.retain(|(name, _)| name != CONTENT_LENGTH);
            response
        }
        None => {
            let length = attachment.length;
            let response = whole(collection, attachment, BlobForm::Identity, None, length);
            // The digest is of the stored form, so it is only sent with that.
            if packed { response } else { response.with_header(HeaderName::from_static("content-md5"), &tag) }
        }
    };
    Ok(response
        .with_etag(&tag)
        .with_header(CACHE_CONTROL, "must-revalidate")
        .with_header(CONTENT_SECURITY_POLICY, "sandbox")
        .with_header(ACCEPT_RANGES, if packed { "none" } else { "bytes" }))
}

/// Responds with the whole attachment or one range.
fn whole(
    collection: Arc<Collection>,
    attachment: Attachment,
    form: BlobForm,
    range: Option<Range<u64>>,
    length: u64,
) -> Response {
    let kind = attachment.content_type.clone();
    Response::rows(move |out| {
        out.splice(open(&collection, &attachment, form, range.clone())?);
        Ok(Flow::Done)
    })
    .with_header(CONTENT_TYPE, kind)
    .with_header(CONTENT_LENGTH, length.to_string())
}

/// Responds with several ranges as `multipart/byteranges`.
fn several(collection: Arc<Collection>, attachment: Attachment, ranges: Vec<Range<u64>>) -> Response {
    let boundary = multipart::boundary();
    let kind = format!("multipart/byteranges; boundary=\"{boundary}\"");
    Response::rows(move |out| {
        write!(out, "--{boundary}")?;
        for range in &ranges {
            let kind = multipart::header_value(&attachment.content_type);
            let content_range = content_range(range, attachment.length);
            write!(out, "\r\nContent-Type: {kind}\r\nContent-Range: {content_range}\r\n\r\n")?;
            out.splice(open(&collection, &attachment, BlobForm::Stored, Some(range.clone()))?);
            write!(out, "\r\n--{boundary}")?;
        }
        out.write_all(b"--")?;
        Ok(Flow::Done)
    })
    .with_status(StatusCode::PARTIAL_CONTENT)
    .with_header(CONTENT_TYPE, kind)
}

fn content_range(range: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.start, range.end - 1)
}

/// Whether the `If-Range` condition holds; if not, the whole attachment is sent.
fn is_same(condition: Option<&str>, tag: &str) -> bool {
    condition.is_none_or(|condition| condition.trim().trim_matches('"') == tag)
}

/// Whether `Accept-Encoding` allows gzip.
fn accepts_gzip(text: &str) -> bool {
    text.split(',').any(|choice| {
        let mut parts = choice.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let refused = parts
            .filter_map(|part| part.strip_prefix("q="))
            .any(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        is_gzip && !refused
    })
}

/// Parses the `Range` header; `None` if it asks for everything or is not understood.
fn parse_ranges(text: &str, length: u64) -> Result<Option<Vec<Range<u64>>>> {
    let Some(list) = text.trim().strip_prefix("bytes=") else { return Ok(None) };
    let mut ranges = Vec::new();
    for part in list.split(',').map(str::trim) {
        let Some((from, to)) = part.split_once('-') else { return Ok(None) };
        let number = |text: &str| text.parse::<u64>().ok();
        let (start, end) = match (number(from), number(to)) {
            (Some(0), None) if to.is_empty() => return Ok(None),
            (Some(from), None) if to.is_empty() => (from, length),
            (Some(from), Some(to)) if to < from => return Err(unsatisfiable(length)),
            (Some(from), Some(to)) => (from, to.saturating_add(1).min(length)),
            // A suffix range: the last bytes.
            (None, Some(last)) if from.is_empty() => (length.saturating_sub(last), length),
            _ => return Ok(None),
        };
        if start >= end {
            return Err(unsatisfiable(length));
        }
        ranges.push(start..end);
    }
    Ok(Some(ranges).filter(|ranges| ranges.len() <= MOST_RANGES))
}

fn unsatisfiable(length: u64) -> Error {
    Error::bad_range("Requested range not satisfiable")
        .with_header("content-range", format!("bytes */{length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_like_couchdb() {
        let ranges = |text| {
            let ranges = parse_ranges(text, 10).unwrap()?;
            Some(ranges.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>())
        };
        assert_eq!(ranges("bytes=2-4"), Some(vec![(2, 5)]));
        assert_eq!(ranges("bytes=2-"), Some(vec![(2, 10)]));
        assert_eq!(ranges("bytes=-3"), Some(vec![(7, 10)]));
        assert_eq!(ranges("bytes=-30"), Some(vec![(0, 10)]));
        assert_eq!(ranges("bytes=5-99, 0-0"), Some(vec![(5, 10), (0, 1)]));
        for everything in [
            "bytes=0-",
            "lines=1-2",
            "bytes=a-b",
            "bytes=-",
            "bytes=1",
            "bytes=0-1,0-1,0-1,0-1,0-1,0-1,0-1,0-1,0-1,0-1",
        ] {
            assert_eq!(ranges(everything), None, "{everything}");
        }
        for bad in ["bytes=4-2", "bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(parse_ranges(bad, 10).unwrap_err().status, 416, "{bad}");
        }
        assert!(accepts_gzip("deflate, GZIP;q=0.5") && accepts_gzip("gzip"));
        assert!(!accepts_gzip("gzip;q=0") && !accepts_gzip("") && !accepts_gzip("br"));
    }
}
