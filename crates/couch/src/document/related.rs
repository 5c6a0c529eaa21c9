//! A document and its attachments as `multipart/related`: the first part is the JSON, the others are the stored
//! bytes.

use super::attachments;
use crate::error::Result;
use crate::http::RowWriter;
use crate::http::multipart::{file_name, header_value};
use diwan_store::Collection;
use diwan_store::blob::{Attachment, BlobForm};
use std::io::Write;
use std::sync::Arc;

/// A document that is ready to be sent.
pub(crate) struct Related {
    /// The JSON, in which attachments are marked `follows`.
    pub(crate) json: Vec<u8>,
    /// The attachments that follow.
    pub(crate) following: Vec<Attachment>,
    /// The boundary between the parts.
    pub(crate) boundary: String,
}

impl Related {
    /// The content type: plain JSON if no attachment follows.
    pub(crate) fn content_type(&self) -> String {
        match self.following.is_empty() {
            true => "application/json".to_owned(),
            false => format!("multipart/related; boundary=\"{}\"", self.boundary),
        }
    }

    /// The number of bytes that [`send_related`] writes.
    pub(crate) fn length(&self) -> u64 {
        if self.following.is_empty() {
            return self.json.len() as u64;
        }
        let heads: usize = self.following.iter().map(|attachment| self.head(attachment).len()).sum();
        let bytes: u64 = self.following.iter().map(|attachment| attachment.encoded_length).sum();
        (self.begin().len() + self.json.len() + heads + self.end().len()) as u64 + bytes
    }

    fn begin(&self) -> String {
        format!("--{}\r\nContent-Type: application/json\r\n\r\n", self.boundary)
    }

    /// The delimiter and headers before an attachment's bytes.
    fn head(&self, attachment: &Attachment) -> String {
        format!(
            "\r\n--{}\r\nContent-Disposition: attachment; filename=\"{}\"\r\nContent-Type: {}\r\nContent-Length: {}{}\r\n\r\n",
            self.boundary,
            file_name(&attachment.name),
            header_value(&attachment.content_type),
            attachment.encoded_length,
            if attachment.encoding.is_some() { "\r\nContent-Encoding: gzip" } else { "" },
        )
    }

    fn end(&self) -> String {
        format!("\r\n--{}--", self.boundary)
    }
}

/// Writes a document and its attachments.
pub(crate) fn send_related(
    out: &mut RowWriter,
    collection: &Arc<Collection>,
    related: &Related,
) -> Result<()> {
    if related.following.is_empty() {
        out.write_all(&related.json)?;
        return Ok(());
    }
    out.write_all(related.begin().as_bytes())?;
    out.write_all(&related.json)?;
    for attachment in &related.following {
        out.write_all(related.head(attachment).as_bytes())?;
        out.splice(attachments::open(collection, attachment, BlobForm::Stored, None)?);
    }
    out.write_all(related.end().as_bytes())?;
    Ok(())
}
