//! Documents as maps and rows see them: with their revision, their conflicts and what is told of attachments.

use super::parameters::ViewQuery;
use super::{Documents, StoredDocuments};
use crate::error::Result;
use crate::json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_store::blob::Attachment;
use diwan_store::{ReadView, Record, Revision, id_key};
use diwan_value::json::{id_from_text, write_couch_members, write_string};

/// The members of a document that come from elsewhere than its body, as JSON without braces: mostly none.
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

impl Documents for StoredDocuments {
    fn write(
        &self,
        view: &ReadView,
        id: &str,
        revision: Option<&str>,
        query: &ViewQuery,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Ok(value) = id_from_text(id) else { return Ok(false) };
        let key = id_key(value.as_value())?;
        let found = match revision {
            Some(text) => match parse_revision(text) {
                Some(revision) => view.revision(&key, revision)?,
                None => None,
            },
            None => view.document(&key)?.filter(|found| !found.deleted),
        };
        let Some(found) = found else { return Ok(false) };
        out.extend_from_slice(b"{\"_id\":");
        write_string(out, id);
        out.extend_from_slice(format!(r#","_rev":"{}""#, found.revision).as_bytes());
        if found.deleted {
            out.extend_from_slice(br#","_deleted":true"#);
        }
        write_couch_members(out, found.doc.as_doc());
        let mut more = String::new();
        if !found.attachments.is_empty() {
            attachments(&mut more, &found.attachments);
        }
        if query.conflicts == Some(true)
            && found.has_branches
            && let Some(tree) = view.tree(&key)?
        {
            revisions(&mut more, "_conflicts", &tree.conflicts());
        }
        if !more.is_empty() {
            out.push(b',');
            out.extend_from_slice(more.as_bytes());
        }
        out.push(b'}');
        Ok(true)
    }
}

/// Reads a revision as clients write it.
fn parse_revision(text: &str) -> Option<Revision> {
    let (generation, digits) = text.split_once('-')?;
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut hash = [0; 16];
    for (byte, at) in hash.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(Revision { generation: generation.parse().ok()?, hash })
}
