//! Synchronizes the store's indexes with the design documents.
//!
//! Changing a design document, over HTTP, by replication or as a MongoDB client, creates and drops indexes: shortly
//! after the request that wrote it, or else when a request next needs an index. A MongoDB client that drops an index
//! changes the design document in turn.

use super::design;
use super::indexes::{Definition, Listed};
use super::names::Names;
use super::request::{IndexRequest, as_filter};
use crate::error::{Error, Result};
use crate::http::blocking;
use crate::partition;
use crate::server::Couch;
use diwan_query::Interrupt;
use diwan_script::{Task, Tasks};
use diwan_store::{Collection, IndexKind, IndexSpec, Revision};
use diwan_value::key::Direction;
use diwan_value::{Doc, DocBuilder};
use parking_lot::{Mutex, ReentrantMutex};
use std::collections::HashMap;
use std::sync::Arc;

/// For how many databases the state of synchronization is cached.
const REMEMBERED: usize = 1024;

/// The state of synchronization between design documents and indexes, for each database.
#[derive(Default)]
pub(crate) struct Followed {
    known: Mutex<HashMap<[u8; 16], Arc<Following>>>,
    /// The index builds in progress.
    builds: Tasks,
    /// Aborts index builds when the server closes.
    ended: Interrupt,
}

#[derive(Default)]
struct Following {
    /// Held while indexes or their recorded names change, including during a build. Reentrant, because the holder may
    /// write a design document, which may in turn drop an index that cannot hold it.
    changing: ReentrantMutex<()>,
    seen: Mutex<Option<Seen>>,
}

/// The state of a database when it was last synchronized.
struct Seen {
    /// The [design version](Collection::design_version).
    designs: u64,
    /// The store's names of the defined indexes.
    indexes: Vec<String>,
    /// The defined indexes that could not be built.
    unmade: Vec<Listed>,
}

impl Followed {
    /// Aborts all current and future index builds.
    pub(crate) fn stop(&self) {
        self.ended.kill();
    }

    /// Lists the index builds in progress.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        self.builds.list()
    }

    /// Lists the indexes that design documents define but that could not be built at the last synchronization.
    pub(crate) fn unmade(&self, collection: &Collection) -> Vec<Listed> {
        let following = self.of(collection);
        let seen = following.seen.lock();
        let seen = seen.as_ref().filter(|seen| seen.designs == collection.design_version());
        seen.map_or_else(Vec::new, |seen| seen.unmade.clone())
    }

    fn of(&self, collection: &Collection) -> Arc<Following> {
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.retain(|_, following| Arc::strong_count(following) > 1);
        }
        known.entry(collection.uuid()).or_default().clone()
    }
}

impl Following {
    fn is_current(&self, collection: &Collection) -> bool {
        let seen = self.seen.lock();
        let Some(seen) = seen.as_ref() else { return false };
        let schema = collection.schema();
        let is_there = |name: &String| schema.indexes.iter().any(|index| index.spec.name == *name);
        seen.designs == collection.design_version() && seen.indexes.iter().all(is_there)
    }
}

/// Builds the indexes that design documents define and drops those that none defines any more.
pub(crate) fn follow(couch: &Couch, collection: &Arc<Collection>) -> Result<()> {
    let following = couch.followed_designs.of(collection);
    if following.is_current(collection) {
        return Ok(());
    }
    blocking(|| {
        let _changing = following.changing.lock();
        follow_locked(couch, collection, &following)
    })
}

/// Synchronizes in the background, after a design document was written.
pub(crate) fn follow_soon(couch: &Arc<Couch>, collection: &Arc<Collection>) {
    let (own, collection) = (couch.clone(), collection.clone());
    couch.workers.beside(move || {
        if let Err(error) = follow(&own, &collection) {
            tracing::warn!(%error, "the indexes of design documents were not built");
        }
    });
}

/// Synchronizes in the background if necessary, for a query that does not wait for index builds.
pub(super) fn keep_following(couch: &Arc<Couch>, collection: &Arc<Collection>) {
    let following = couch.followed_designs.of(collection);
    if !following.is_current(collection) && !following.changing.is_locked() {
        follow_soon(couch, collection);
    }
}

fn follow_locked(couch: &Couch, collection: &Arc<Collection>, following: &Following) -> Result<()> {
    if following.is_current(collection) {
        return Ok(());
    }
    let designs = collection.design_version();
    let noted = Names::noted(collection);
    let mut names = Names::existing(collection);
    // An index whose name was noted but that is gone was dropped by a MongoDB client: remove its definition.
    for dropped in noted.iter().filter(|noted| !names.contains(noted)) {
        if let Some(edit) = design::without_index(collection, &dropped.ddoc, &dropped.name)? {
            edit.write(couch, collection)?;
        }
    }
    let before = names.clone();
    let mut defined = Vec::new();
    let mut unmade = Vec::new();
    let requests = design::defined(collection)?;
    for request in &requests {
        let wanted = Wanted::of(request, collection);
        match wanted.ensure(couch, collection, &mut names) {
            Ok(_) => defined.push(wanted),
            // Keep the document: it may have come from another server that can use it.
            Err(error) => {
                let Wanted { ddoc, name, partitioned, .. } = wanted;
                tracing::warn!(%error, ddoc, name, "an index of a design document cannot be built");
                unmade.push(Listed {
                    ddoc: Some(ddoc),
                    name,
                    partitioned,
                    definition: Definition::asked(request),
                    index: String::new(),
                    failure: Some(error.reason.into_owned()),
                });
            }
        }
    }
    names.retain(|names| defined.iter().any(|wanted| wanted.is_called(names)));
    if names != noted {
        // A crash between the two calls leaves an unnamed index, which is harmless. In the other order it would leave
        // names without an index, and the next synchronization would remove them from a design document that may
        // define another index of that name by then.
        Names::note(collection, &names)?;
        drop_unnamed(collection, &names, &before)?;
    }
    let indexes = names.into_iter().map(|names| names.index).collect();
    *following.seen.lock() = Some(Seen { designs, indexes, unmade });
    Ok(())
}

/// Creates an index and adds it to its design document. Returns whether the same index existed already, and its two
/// names.
pub(crate) fn create(
    couch: &Couch,
    collection: &Arc<Collection>,
    request: &IndexRequest,
) -> Result<(bool, String, String)> {
    let following = couch.followed_designs.of(collection);
    let _changing = following.changing.lock();
    follow_locked(couch, collection, &following)?;
    let before = Names::existing(collection);
    let mut names = before.clone();
    let wanted = Wanted::of(request, collection);
    let edit = design::with_index(collection, &wanted.ddoc, &wanted.name, request)?;
    // Build first: an index that cannot be built is not added to the document.
    if wanted.ensure(couch, collection, &mut names)? {
        return Ok((true, wanted.ddoc, wanted.name));
    }
    Names::note(collection, &names)?;
    if let Err(error) = edit.write(couch, collection) {
        Names::note(collection, &before)?;
        drop_unnamed(collection, &before, &names)?;
        return Err(error);
    }
    drop_unnamed(collection, &names, &before)?;
    Ok((false, wanted.ddoc, wanted.name))
}

/// Removes one index or all indexes from a design document. An index of the store is dropped with its last name.
/// Returns whether any was found.
pub(crate) fn remove(
    couch: &Couch,
    collection: &Arc<Collection>,
    ddoc: &str,
    name: Option<&str>,
) -> Result<bool> {
    let ddoc = if ddoc.starts_with("_design/") { ddoc.to_owned() } else { format!("_design/{ddoc}") };
    let following = couch.followed_designs.of(collection);
    let _changing = following.changing.lock();
    follow_locked(couch, collection, &following)?;
    let mut found = false;
    let made = Names::existing(collection).into_iter().map(|names| (Some(names.ddoc), names.name));
    let unmade =
        couch.followed_designs.unmade(collection).into_iter().map(|listed| (listed.ddoc, listed.name));
    for (of, own) in made.chain(unmade) {
        if of.as_ref() == Some(&ddoc)
            && name.is_none_or(|name| own == name)
            && let Some(edit) = design::without_index(collection, &ddoc, &own)?
        {
            edit.write(couch, collection)?;
            found = true;
        }
    }
    follow_locked(couch, collection, &following)?;
    Ok(found)
}

/// Drops Mango indexes that cannot hold one of these documents. CouchDB's indexes can hold any document.
pub(crate) fn drop_unfit_indexes(
    couch: &Couch,
    collection: &Arc<Collection>,
    docs: &[Doc<'_>],
) -> Result<()> {
    let following = couch.followed_designs.of(collection);
    let _changing = following.changing.lock();
    let schema = collection.schema();
    let holds = |names: &Names| {
        let index = schema.indexes.iter().find(|index| index.spec.name == names.index);
        index.is_none_or(|index| docs.iter().all(|doc| index.keys_of(*doc).is_ok()))
    };
    let before = Names::existing(collection);
    let (left, gone): (Vec<Names>, Vec<Names>) =
        before.into_iter().partition(|names| !names.own || holds(names));
    for Names { ddoc, name, .. } in &gone {
        tracing::warn!(ddoc, name, "an index was dropped because it cannot hold a document");
    }
    Names::note(collection, &left)?;
    drop_unnamed(collection, &left, &gone)
}

/// An index that should exist.
struct Wanted<'a> {
    ddoc: String,
    name: String,
    partitioned: bool,
    request: &'a IndexRequest,
}

impl<'a> Wanted<'a> {
    fn of(request: &'a IndexRequest, collection: &Collection) -> Wanted<'a> {
        let partitioned = request.partitioned.unwrap_or_else(|| partition::is_partitioned(collection));
        // Generated names are a hash of the whole request. So the same request always gets the same names, and
        // requests that differ in a given name get separate design documents.
        let hash = || {
            let mut asked = DocBuilder::new();
            asked.append("index", request.definition.as_doc()).append("partitioned", partitioned);
            for (member, given) in [("name", &request.name), ("ddoc", &request.ddoc)] {
                if let Some(given) = given {
                    asked.append(member, given.as_str());
                }
            }
            Revision::first(asked.finish().as_doc()).to_string().split_off(2)
        };
        let ddoc = request.ddoc.clone().unwrap_or_else(|| format!("_design/{}", hash()));
        let name = request.name.clone().unwrap_or_else(hash);
        Wanted { ddoc, name, partitioned, request }
    }

    fn is_called(&self, names: &Names) -> bool {
        names.ddoc == self.ddoc && names.name == self.name
    }

    /// Ensures that the store has such an index under these names. Returns whether both existed already.
    fn ensure(&self, couch: &Couch, collection: &Arc<Collection>, names: &mut Vec<Names>) -> Result<bool> {
        if self.partitioned && !partition::is_partitioned(collection) {
            return Err(partition::cannot_be_partitioned());
        }
        if let [only] = self.request.fields.parts()
            && only.path.as_str() == "_id"
        {
            return Err(Error::bad_request("Sorting by `_id` needs no index"));
        }
        let mut key = DocBuilder::new();
        for part in self.request.fields.parts() {
            key.append(part.path.as_str(), if part.direction == Direction::Ascending { 1 } else { -1 });
        }
        let key = key.finish();
        let partial = self.request.partial.as_ref().map(|selector| as_filter(selector.as_doc()));

        let schema = collection.schema();
        // Reuse an existing index if it is equivalent, also one that a MongoDB client created.
        let same = schema.indexes.iter().find(|index| {
            let spec = &index.spec;
            let plain = !spec.unique && !spec.sparse && !spec.hidden && spec.expire_after_seconds.is_none();
            plain
                && spec.kind == IndexKind::Ordinary
                && spec.key == key
                && spec.collation.is_none()
                && spec.to_doc().get_doc("partialFilterExpression").map(Doc::to_owned) == partial
        });
        // The names may belong to an index with another definition; they then move to this one.
        let before = names.iter().position(|names| self.is_called(names));
        let (index, own) = match same {
            Some(index) => {
                let index = index.spec.name.clone();
                if let Some(before) = before
                    && names[before].index == index
                    && names[before].partitioned == self.partitioned
                {
                    return Ok(true);
                }
                let own = names.iter().any(|names| names.index == index && names.own);
                (index, own)
            }
            None => {
                let taken = |wanted: &str| schema.indexes.iter().any(|index| index.spec.name == wanted);
                let index = self.free_name(taken);
                let mut spec = DocBuilder::new();
                spec.append("key", &key).append("name", index.as_str());
                if let Some(partial) = &partial {
                    spec.append("partialFilterExpression", partial);
                }
                let spec = IndexSpec::parse(spec.finish().as_doc(), None)?;
                let Followed { builds, ended, .. } = &couch.followed_designs;
                let build = builds.begin(collection.namespace(), &self.ddoc, 0, collection.count());
                collection.create_indexes(vec![spec], ended, &build.work)?;
                (index, true)
            }
        };
        if let Some(before) = before {
            names.remove(before);
        }
        let (ddoc, name) = (self.ddoc.clone(), self.name.clone());
        names.push(Names { ddoc, name, index, partitioned: self.partitioned, own });
        Ok(false)
    }

    /// Chooses the name of a new index in the store: the view's name unless another index has it.
    fn free_name(&self, taken: impl Fn(&str) -> bool) -> String {
        let qualified = format!("{}/{}", self.ddoc.trim_start_matches("_design/"), self.name);
        let numbered = (2..).map(|number| format!("{qualified} {number}"));
        let mut names = [self.name.clone(), qualified.clone()].into_iter().chain(numbered);
        names.find(|name| !taken(name)).unwrap_or(qualified)
    }
}

/// Drops the indexes that were created for design documents and have lost their last name.
fn drop_unnamed(collection: &Collection, left: &[Names], before: &[Names]) -> Result<()> {
    for gone in before.iter().filter(|before| before.own) {
        if !left.iter().any(|names| names.index == gone.index) {
            collection.remove_indexes(|index| index.spec.name == gone.index)?;
        }
    }
    Ok(())
}
