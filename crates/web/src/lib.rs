//! The files of the web interface, as `make web` builds them from `web/src`. Each is compressed by gzip.

use rust_embed::RustEmbed;
use std::borrow::Cow;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Files;

/// A file of the web interface.
pub struct File {
    /// Its contents, compressed by gzip.
    pub gzip: Cow<'static, [u8]>,
    /// Its content type.
    pub content_type: &'static str,
    /// A text that changes with the contents.
    pub tag: String,
    /// Whether the name changes with the contents, so that a browser may keep the file for ever.
    pub is_named_by_hash: bool,
}

/// The file at a path such as `assets/app-1A2B.js`; the empty path is the page itself.
pub fn file(path: &str) -> Option<File> {
    let path = if path.is_empty() { "index.html" } else { path };
    let found = Files::get(&format!("{path}.gz"))?;
    let hash = found.metadata.sha256_hash();
    Some(File {
        gzip: found.data,
        content_type: content_type(path)?,
        tag: hash[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
        is_named_by_hash: path.starts_with("assets/"),
    })
}

/// The content type by the file's ending. A file of another kind is not served.
fn content_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_content_type() {
        for name in Files::iter() {
            assert!(name.strip_suffix(".gz").and_then(content_type).is_some(), "{name}");
        }
    }

    #[test]
    fn the_empty_path_is_the_page() {
        assert_eq!(file("").map(|page| page.content_type), Some("text/html; charset=utf-8"));
        assert!(file("nothing.js").is_none() && file("../Cargo.toml").is_none());
    }
}
