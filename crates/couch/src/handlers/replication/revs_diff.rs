//! `POST /{db}/_revs_diff` and `_missing_revs`: determines which revisions this database lacks.

use crate::document::{Rev, parse_id, parse_list, push_rev};
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_store::{ReadView, RevisionTree};
use serde_json::Value;
use std::io::Write;

/// The missing revisions of a document.
struct Missing {
    missing: Vec<Rev>,
    /// Stored leaves that may be ancestors of the missing revisions.
    possible_ancestors: Vec<diwan_store::Revision>,
}

/// Returns missing revisions with possible ancestors.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    answer(request, |out, missing| {
        out.extend_from_slice(br#"{"missing":"#);
        write_list(out, missing.missing.iter().map(|rev| move |out: &mut Vec<u8>| rev.push(out)));
        if !missing.possible_ancestors.is_empty() {
            out.extend_from_slice(br#","possible_ancestors":"#);
            let ancestors = missing.possible_ancestors.iter();
            write_list(out, ancestors.map(|revision| move |out: &mut Vec<u8>| push_rev(out, revision)));
        }
        out.push(b'}');
    })
    .map(|text| Response::json_text(200, text))
}

/// Returns missing revisions.
pub(crate) fn missing_revs(request: &mut Request) -> Result<Response> {
    let inner = answer(request, |out, missing| {
        write_list(out, missing.missing.iter().map(|rev| move |out: &mut Vec<u8>| rev.push(out)));
    })?;
    let mut text = br#"{"missing_revs":"#.to_vec();
    text.extend_from_slice(&inner);
    text.push(b'}');
    Ok(Response::json_text(200, text))
}

fn answer(request: &mut Request, write: impl Fn(&mut Vec<u8>, &Missing)) -> Result<Vec<u8>> {
    let collection = request.database()?;
    request.require_json()?;
    let asked = request.read_object()?;
    let view = collection.view();
    let mut out = b"{".to_vec();
    for (id, revs) in &asked {
        let revs = parse_list(revs)?;
        let Some(missing) = missing(&view, id, revs)? else { continue };
        if out.len() > 1 {
            out.push(b',');
        }
        write!(out, "{}:", Value::from(id.as_str()))?;
        write(&mut out, &missing);
    }
    out.push(b'}');
    Ok(out)
}

/// Returns the missing revisions of a document; `None` if all are stored.
fn missing(view: &ReadView, id: &str, revs: Vec<Rev>) -> Result<Option<Missing>> {
    // An invalid id has no stored revisions.
    let tree = match parse_id(id) {
        Ok(id) => tree_for(view, &id.key, &revs)?,
        Err(_) => Some(RevisionTree::new()),
    };
    let Some(tree) = tree else { return Ok(None) };
    let missing: Vec<Rev> =
        revs.into_iter().filter(|rev| rev.own().is_none_or(|revision| !tree.contains(&revision))).collect();
    let Some(newest) = missing.iter().map(Rev::generation).max() else { return Ok(None) };
    let possible_ancestors = tree
        .leaves()
        .iter()
        .map(|leaf| leaf.revision)
        .filter(|revision| u64::from(revision.generation) < newest)
        .collect();
    Ok(Some(Missing { missing, possible_ancestors }))
}

/// Reads as much of the tree as needed; `None` if the winner alone shows that nothing is missing.
fn tree_for(view: &ReadView, id: &[u8], revs: &[Rev]) -> Result<Option<RevisionTree>> {
    let Some(winner) = view.document(id)? else { return Ok(Some(RevisionTree::new())) };
    if revs.iter().all(|rev| rev.own() == Some(winner.revision)) {
        return Ok(None);
    }
    // Without branches the winner is the only leaf and the newest revision, so newer revisions are missing.
    let generation = u64::from(winner.revision.generation);
    if !winner.has_branches && revs.iter().all(|rev| rev.generation() > generation) {
        let mut tree = RevisionTree::new();
        tree.merge(winner.revision, winner.deleted, &[]);
        return Ok(Some(tree));
    }
    Ok(Some(view.tree(id)?.unwrap_or_default()))
}

fn write_list<W: Fn(&mut Vec<u8>)>(out: &mut Vec<u8>, items: impl Iterator<Item = W>) {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
        item(out);
        out.push(b'"');
    }
    out.push(b']');
}
