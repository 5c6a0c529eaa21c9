//! Which attachments are stored compressed: the settings `attachments/compressible_types` and `compression_level`.
//!
//! They hold for bytes that come uncompressed. What is stored stays as it is.

use crate::server::Couch;
use diwan_store::blob::BlobSource;

/// How the bytes of an attachment of this media type are stored.
pub(super) fn source(couch: &Couch, content_type: &str) -> BlobSource {
    // As in CouchDB, 0 stands for no compression.
    let level = couch.setting_number("attachments", "compression_level", 0).min(9);
    let types = couch.setting("attachments", "compressible_types").unwrap_or_default();
    match u32::try_from(level) {
        Ok(level @ 1..) if is_listed(&types, content_type) => BlobSource::ToPack { level },
        _ => BlobSource::Plain,
    }
}

/// Whether a list of patterns such as `text/*` contains a media type. Its parameters do not count.
fn is_listed(patterns: &str, content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut patterns = patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
    patterns.any(|pattern| fits(&pattern.to_ascii_lowercase(), &kind))
}

/// Whether a text fits a pattern in which a star stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    // The first place for each part leaves the most room for the others.
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_listed_compares_media_types_with_patterns() {
        let default = "text/*, application/javascript, application/json, application/xml";
        for packed in ["text/plain", "TEXT/html; charset=utf-8", "application/json", "application/xml ;q=1"] {
            assert!(is_listed(default, packed), "{packed}");
        }
        for plain in ["", "text", "image/png", "application/jsonp", "application/octet-stream", "x/text/y"] {
            assert!(!is_listed(default, plain), "{plain}");
        }
        assert!(is_listed("image/SVG+xml", "image/svg+xml") && is_listed("*", "image/png"));
        assert!(is_listed("application/*+json", "application/vnd.x+json"));
        assert!(!is_listed("application/*+json", "application/json") && !is_listed("", "text/plain"));
        assert!(is_listed("*a*b*", "xaxbx") && !is_listed("*a*b*", "xbxax") && !is_listed("ab*ba", "aba"));
    }
}
