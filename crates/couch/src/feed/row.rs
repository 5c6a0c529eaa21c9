//! One row of a feed as JSON.

use crate::document::{self, Output, Show};
use crate::error::Result;
use crate::mango::Fields;
use crate::sequence::SequenceWriter;
use diwan_store::{ChangeRow, ReadView, Revision};
use std::sync::Arc;

/// Which of a document's leaves a row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The winner.
    Winner,
    /// All of them.
    All,
    /// Those that a filter let through.
    Chosen(Vec<Revision>),
}

/// How rows are written.
#[derive(Clone)]
pub struct RowWriting {
    /// Writes sequences.
    pub sequences: SequenceWriter,
    /// Whether rows have their documents.
    pub include_docs: bool,
    /// What is shown of them.
    pub show: Show,
    /// Which fields of them; all if there is nothing.
    pub fields: Option<Arc<Fields>>,
}

impl RowWriting {
    /// Appends a row. `view` is needed for documents alone.
    pub fn write(
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
