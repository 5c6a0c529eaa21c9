//! Validation of edits before they are stored: `validate_doc_update` functions of design documents, the syntax of new
//! design documents, and the rules of system databases.

use super::{Author, Draft};
use crate::database;
use crate::document::{Show, write_doc, write_record, write_rev, write_stubs};
use crate::error::Result;
use crate::http::blocking;
use crate::replicator::{check_document, is_replicator};
use crate::server::Couch;
use diwan_script::{Design, Sandbox, design_documents};
use diwan_store::blob::THIS_EDIT;
use diwan_store::{Base, Collection, ReadView, RevisedDocument, Revision, id_key};
use diwan_value::json::{push_hash, write_couch_members, write_string};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

/// The member of a design document that holds the function.
const FUNCTION: &str = "validate_doc_update";

/// For how many databases the functions are cached.
const REMEMBERED: usize = 256;

/// A cache of the parsed `validate_doc_update` functions of each database.
#[derive(Default)]
pub(crate) struct Validators {
    known: Mutex<HashMap<[u8; 16], Known>>,
}

struct Known {
    /// The [design version](Collection::design_version), read before the design documents.
    version: u64,
    revisions: Vec<Revision>,
    designs: Arc<Vec<Design>>,
}

/// The validation functions of a database.
pub(crate) struct Validation {
    sandbox: Arc<Sandbox>,
    designs: Arc<Vec<Design>>,
    database: String,
    author: Author,
}

impl Validation {
    /// Loads the current functions of a database, for edits of this author.
    pub(crate) fn of(couch: &Couch, collection: &Arc<Collection>, author: Author) -> Result<Validation> {
        let version = collection.design_version();
        let designs = match couch.validators.known(collection, version) {
            Some(designs) => designs,
            None => Self::read(couch, collection, version)?,
        };
        let database = crate::names::database(&collection.namespace()).unwrap_or_default();
        Ok(Validation { sandbox: couch.scripts.clone(), designs, database, author })
    }

    fn read(couch: &Couch, collection: &Arc<Collection>, version: u64) -> Result<Arc<Vec<Design>>> {
        let mut revisions = Vec::new();
        let mut texts = Vec::new();
        design_documents(&collection.view(), &mut |record| {
            if record.doc.contains_key(FUNCTION) {
                revisions.push(record.revision());
                let mut text = Vec::new();
                texts.push(write_record(&mut text, &record).map(|()| text));
            }
        })?;
        couch.validators.designs(collection, version, revisions, texts)
    }

    /// Refuses an edit that the author may not make or a function rejects, and a design document whose functions do not
    /// compile.
    pub(crate) fn check(&self, couch: &Couch, collection: &Arc<Collection>, draft: &Draft) -> Result<()> {
        self.author.check(couch, collection, draft)?;
        let Some((id, base)) = draft.base() else { return Ok(()) };
        if draft.id.starts_with("_design/") {
            if !draft.deleted {
                let design = Design::parse(&new_json(draft, base))?;
                blocking(|| self.sandbox.check(&design))?;
                if design.options().partitioned == Some(true) && !crate::partition::is_partitioned(collection)
                {
                    return Err(crate::partition::cannot_be_partitioned());
                }
            }
            return Ok(());
        }
        if is_replicator(&self.database) && !draft.deleted {
            check_document(&draft.id, &new_json(draft, base))?;
        }
        crate::partition::check_size(couch, collection, draft)?;
        // Without validation functions the documents need not be formatted.
        if self.designs.is_empty() {
            return Ok(());
        }
        let view = collection.view();
        let key = id_key(id.as_value())?;
        let old = match base {
            Base::New => None,
            Base::Leaf(revision) => view.revision(&key, *revision)?,
            // The revision is stored already, so nothing will be written.
            Base::Graft { revision, .. } if view.revision(&key, *revision)?.is_some() => return Ok(()),
            Base::Graft { revision, ancestors } => newest_ancestor(&view, &key, *revision, ancestors)?,
        };
        let new = new_json(draft, base);
        let old = match &old {
            None => b"null".to_vec(),
            Some(old) => {
                let mut text = Vec::new();
                write_doc(&mut text, &view, &key, old, &Show { revs: true, ..Show::default() })?;
                text
            }
        };
        let (new, old) = (String::from_utf8_lossy(&new), String::from_utf8_lossy(&old));
        let security = String::from_utf8_lossy(&database::security(collection)).into_owned();
        let user = self.author.context(&self.database);
        for design in self.designs.iter() {
            blocking(|| self.sandbox.validate_doc_update(design, &new, &old, &user, &security))?;
        }
        Ok(())
    }
}

impl Validators {
    /// Returns the cached functions, if no design document has changed since they were read.
    fn known(&self, collection: &Collection, version: u64) -> Option<Arc<Vec<Design>>> {
        let known = self.known.lock();
        let known = known.get(&collection.uuid())?;
        (known.version == version).then(|| known.designs.clone())
    }

    /// Caches the functions. If the revisions of the design documents are unchanged, the cached functions stay.
    fn designs(
        &self,
        collection: &Collection,
        version: u64,
        revisions: Vec<Revision>,
        texts: Vec<Result<Vec<u8>>>,
    ) -> Result<Arc<Vec<Design>>> {
        let mut known = self.known.lock();
        if let Some(known) = known.get_mut(&collection.uuid())
            && known.revisions == revisions
        {
            known.version = version;
            return Ok(known.designs.clone());
        }
        let designs = texts.into_iter().map(|text| Ok(Design::parse(&text?)?)).collect::<Result<Vec<_>>>()?;
        let designs = Arc::new(designs);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(collection.uuid(), Known { version, revisions, designs: designs.clone() });
        Ok(designs)
    }
}

/// Returns the newest stored ancestor of a replicated revision.
fn newest_ancestor(
    view: &ReadView,
    key: &[u8],
    mut revision: Revision,
    ancestors: &[[u8; 16]],
) -> Result<Option<RevisedDocument>> {
    for hash in ancestors {
        revision.generation = revision.generation.saturating_sub(1);
        revision.hash = *hash;
        if let Some(found) = view.revision(key, revision)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Formats the document as validation functions receive it, with the revisions that the client named.
fn new_json(draft: &Draft, base: &Base) -> Vec<u8> {
    let mut out = br#"{"_id":"#.to_vec();
    write_string(&mut out, &draft.id);
    let (revision, ancestors) = match base {
        Base::New => (None, &[][..]),
        Base::Leaf(revision) => (Some(revision), &[][..]),
        Base::Graft { revision, ancestors } => (Some(revision), ancestors.as_slice()),
    };
    if let Some(revision) = revision {
        out.extend_from_slice(br#","_rev":"#);
        write_rev(&mut out, revision);
    }
    write_couch_members(&mut out, draft.body().as_doc());
    if draft.deleted {
        out.extend_from_slice(br#","_deleted":true"#);
    }
    if let Some(revision) = revision {
        let _ = write!(out, r#","_revisions":{{"start":{},"ids":[""#, revision.generation);
        push_hash(&mut out, &revision.hash);
        for hash in ancestors {
            out.extend_from_slice(b"\",\"");
            push_hash(&mut out, hash);
        }
        out.extend_from_slice(b"\"]}");
    }
    if !draft.attachments().is_empty() {
        let mut attachments = draft.attachments().to_vec();
        for attachment in attachments.iter_mut().filter(|attachment| attachment.revpos == THIS_EDIT) {
            attachment.revpos = match base {
                Base::New => 1,
                Base::Leaf(parent) => parent.generation.saturating_add(1),
                Base::Graft { revision, .. } => revision.generation,
            };
        }
        write_stubs(&mut out, &attachments);
    }
    out.push(b'}');
    out
}
