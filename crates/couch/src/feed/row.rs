//! Formats one row of a feed as JSON.

use crate::document::{self, Output, Show};
use crate::error::Result;
use crate::mango::Fields;
use crate::sequence::SequenceWriter;
use diwan_store::{ChangeRow, ReadView, Record, Revision};
use std::sync::Arc;

/// The leaves that a row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// The winning leaf.
    Winner,
    /// All leaves.
    All,
    /// The leaves that a filter accepted.
    Chosen(Vec<Revision>),
}

/// How rows are formatted.
#[derive(Clone)]
pub(crate) struct RowWriting {
    /// Formats sequences.
    pub(crate) sequences: SequenceWriter,
    /// Whether rows contain their documents.
    pub(crate) include_docs: bool,
    /// What is shown of the documents.
    pub(crate) show: Show,
    /// The fields that are shown of the documents; `None` for all.
    pub(crate) fields: Option<Arc<Fields>>,
}

impl RowWriting {
    /// Appends a row. `view` is only needed for documents.
    pub(crate) fn write(
        &self,
        out: &mut impl Output,
        view: Option<&ReadView>,
        row: &ChangeRow,
        leaves: &Leaves,
        with_sequence: bool,
    ) -> Result<()> {
        let buffer = out.buffer();
        buffer.extend_from_slice(b"{\"seq\":");
        match with_sequence {
            true => self.sequences.write(buffer, row.sequence),
            false => buffer.extend_from_slice(b"null"),
        }
        buffer.extend_from_slice(b",\"id\":");
        document::write_id(buffer, row.id_value.as_value());
        buffer.extend_from_slice(b",\"changes\":[");
        let winner = [row.revision];
        let revisions: &[Revision] = match leaves {
            Leaves::Winner => &winner,
            Leaves::All if row.leaves.is_empty() => &winner,
            Leaves::All => &row.leaves,
            Leaves::Chosen(chosen) => chosen,
        };
        for (at, revision) in revisions.iter().enumerate() {
            buffer.extend_from_slice(if at == 0 { b"{\"rev\":\"" } else { b",{\"rev\":\"" });
            document::push_rev(buffer, revision);
            buffer.extend_from_slice(b"\"}");
        }
        buffer.push(b']');
        if row.deleted {
            buffer.extend_from_slice(b",\"deleted\":true");
        }
        if let Some(view) = view.filter(|_| self.include_docs) {
            buffer.extend_from_slice(b",\"doc\":");
            // Most documents are shown as they are stored.
            let is_stored = !row.deleted && self.fields.is_none() && self.show.is_plain();
            if is_stored && let Some(stored) = view.raw_document(&row.id)? {
                document::write_record(buffer, &Record::parse(&stored)?)?;
                buffer.push(b'}');
                return Ok(());
            }
            match (view.document(&row.id)?, &self.fields) {
                (None, _) => buffer.extend_from_slice(b"null"),
                (Some(found), None) => document::write_doc(out, view, &row.id, &found, &self.show)?,
                (Some(found), Some(fields)) => fields.write(buffer, view, &row.id, &found, &self.show)?,
            }
        }
        out.buffer().push(b'}');
        Ok(())
    }
}
