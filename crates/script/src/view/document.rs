//! Adds to documents the metadata that map functions see: conflicts, attachments, the sequence.

use crate::error::Result;
use crate::json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_store::blob::Attachment;
use diwan_store::{ReadView, Record, Revision};

/// The members of a document that are not in its body, as JSON without braces. Usually empty.
pub(super) fn more_members(
    view: &ReadView,
    id: &[u8],
    record: &Record<'_>,
    local_seq: bool,
) -> Result<String> {
    let mut out = String::new();
    if local_seq {
        out.push_str(&format!(r#""_local_seq":{}"#, record.sequence));
    }
    if record.has_attachments() {
        attachments(&mut out, &record.attachments()?);
    }
    if record.has_branches()
        && let Some(tree) = view.tree(id)?
    {
        revisions(&mut out, "_conflicts", &tree.conflicts());
        revisions(&mut out, "_deleted_conflicts", &tree.deleted_conflicts());
    }
    Ok(out)
}

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
}

fn revisions(out: &mut String, name: &str, revisions: &[Revision]) {
    if !revisions.is_empty() {
        separate(out);
        let list: Vec<String> = revisions.iter().map(|revision| format!("\"{revision}\"")).collect();
        out.push_str(&format!(r#""{name}":[{}]"#, list.join(",")));
    }
}

fn attachments(out: &mut String, attachments: &[Attachment]) {
    separate(out);
    out.push_str(r#""_attachments":{"#);
    for (index, attachment) in attachments.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::quote(out, &attachment.name);
        out.push_str(r#":{"content_type":"#);
        json::quote(out, &attachment.content_type);
        let digest = STANDARD.encode(attachment.md5);
        out.push_str(&format!(
            r#","revpos":{},"digest":"md5-{digest}","length":{},"stub":true}}"#,
            attachment.revpos, attachment.length
        ));
    }
    out.push('}');
}
