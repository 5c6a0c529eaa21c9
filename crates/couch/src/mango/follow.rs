//! Keeping the store's indexes as design documents say.
//!
//! Whoever changes a design document, over HTTP, by replication or as a MongoDB client, makes and drops indexes thereby:
//! soon after a request that wrote one, and else when somebody asks for an index. A MongoDB client that drops an index
//! changes its design document in the same way.

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

/// Of how many databases it is remembered that their indexes are as design documents say.
const REMEMBERED: usize = 1024;

/// How far the indexes of each database follow its design documents.
#[derive(Default)]
pub struct Followed {
    known: Mutex<HashMap<[u8; 16], Arc<Following>>>,
    /// What is being built.
    builds: Tasks,
    /// Ends what is being built when the server closes.
    ended: Interrupt,
}

#[derive(Default)]
struct Following {
    /// Held by whoever changes indexes or what is noted of them, also while one is built. Such a one may write a design
    /// document that an index has to give way to.
    changing: ReentrantMutex<()>,
    seen: Mutex<Option<Seen>>,
}

/// What was there when design documents had been followed.
struct Seen {
    /// The [design version](Collection::design_version).
    designs: u64,
    /// The store's indexes that they need.
    indexes: Vec<String>,
    /// Those that they define and that cannot be made.
    unmade: Vec<Listed>,
}

impl Followed {
    /// Ends what is being built, and everything that would be later.
    pub fn stop(&self) {
        self.ended.kill();
    }

    /// The indexes that are being built.
    pub fn tasks(&self) -> Vec<Task> {
        self.builds.list()
    }

    /// The indexes that design documents of a database define and that could not be made when they were followed last.
    pub fn unmade(&self, collection: &Collection) -> Vec<Listed> {
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

/// Makes the indexes that design documents define and drops those that none defines any more.
pub fn follow(couch: &Couch, collection: &Arc<Collection>) -> Result<()> {
    let following = couch.followed_designs.of(collection);
    if following.is_current(collection) {
        return Ok(());
    }
    blocking(|| {
        let _changing = following.changing.lock();
        follow_locked(couch, collection, &following)
    })
}

/// The same soon, for who has just written a design document.
pub fn follow_soon(couch: &Arc<Couch>, collection: &Arc<Collection>) {
    let (own, collection) = (couch.clone(), collection.clone());
    couch.workers.beside(move || {
        if let Err(error) = follow(&own, &collection) {
            tracing::warn!(%error, "the indexes of design documents were not made");
        }
    });
}

/// The same soon if it is needed, for who does not wait for an index to be built.
pub fn keep_following(couch: &Arc<Couch>, collection: &Arc<Collection>) {
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
            // The document stays, for who can use it; it may have come from another server.
            Err(error) => {
                let Wanted { ddoc, name, partitioned, .. } = wanted;
                tracing::warn!(%error, ddoc, name, "the index of a design document cannot be made");
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
        // A stop between the two leaves an index without names, which is harmless. Names of no index would be
        // taken out of a design document that perhaps defines another one of that name by now.
        Names::note(collection, &names)?;
        drop_unnamed(collection, &names, &before)?;
    }
    let indexes = names.into_iter().map(|names| names.index).collect();
    *following.seen.lock() = Some(Seen { designs, indexes, unmade });
    Ok(())
}

/// Makes an index, and writes it into its design document. Says whether there was the same one, and its names.
pub fn create(
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
    // What cannot be built is no document either.
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

/// Takes an index out of its design document, or all of its indexes, and drops each with its last name. Says whether
/// there was one.
pub fn remove(couch: &Couch, collection: &Arc<Collection>, ddoc: &str, name: Option<&str>) -> Result<bool> {
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

/// Drops the indexes of design documents that cannot hold one of these documents. CouchDB's can hold all.
pub fn give_way(couch: &Couch, collection: &Arc<Collection>, docs: &[Doc<'_>]) -> Result<()> {
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
        tracing::warn!(ddoc, name, "an index gives way to a document with several arrays");
    }
    Names::note(collection, &left)?;
    drop_unnamed(collection, &left, &gone)
}

/// An index that is to be there.
struct Wanted<'a> {
    ddoc: String,
    name: String,
    partitioned: bool,
    request: &'a IndexRequest,
}

impl<'a> Wanted<'a> {
    fn of(request: &'a IndexRequest, collection: &Collection) -> Wanted<'a> {
        let partitioned = request.partitioned.unwrap_or_else(|| partition::is_partitioned(collection));
        // Names that nobody gave are made of all that was asked, so that the same request has the same names, and two
        // indexes of which one is named otherwise have design documents of their own.
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

    /// Sees to it that the store has such an index, and that it has these names. Says whether all was so already.
    fn ensure(&self, couch: &Couch, collection: &Arc<Collection>, names: &mut Vec<Names>) -> Result<bool> {
        if self.partitioned && !partition::is_partitioned(collection) {
            return Err(partition::cannot_be_partitioned());
        }
        if let [only] = self.request.fields.parts()
            && only.path.as_str() == "_id"
        {
            return Err(Error::bad_request("Documents are in the order of `_id` without an index"));
        }
        let mut key = DocBuilder::new();
        for part in self.request.fields.parts() {
            key.append(part.path.as_str(), if part.direction == Direction::Ascending { 1 } else { -1 });
        }
        let key = key.finish();
        let partial = self.request.partial.as_ref().map(|selector| as_filter(selector.as_doc()));

        let schema = collection.schema();
        let same = schema.indexes.iter().find(|index| {
            let spec = &index.spec;
            let plain = !spec.unique && !spec.sparse && !spec.hidden && spec.expire_after_seconds.is_none();
            plain
                && spec.kind == IndexKind::Ordinary
                && spec.key == key
                && spec.collation.is_none()
                && spec.to_doc().get_doc("partialFilterExpression").map(Doc::to_owned) == partial
        });
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

    /// The name of a new index of the store: the view's, if no other index has it.
    fn free_name(&self, taken: impl Fn(&str) -> bool) -> String {
        let qualified = format!("{}/{}", self.ddoc.trim_start_matches("_design/"), self.name);
        let numbered = (2..).map(|number| format!("{qualified} {number}"));
        let mut names = [self.name.clone(), qualified.clone()].into_iter().chain(numbered);
        names.find(|name| !taken(name)).unwrap_or(qualified)
    }
}

/// Drops the indexes that were made for design documents and have lost their last name.
fn drop_unnamed(collection: &Collection, left: &[Names], before: &[Names]) -> Result<()> {
    for gone in before.iter().filter(|before| before.own) {
        if !left.iter().any(|names| names.index == gone.index) {
            collection.remove_indexes(|index| index.spec.name == gone.index)?;
        }
    }
    Ok(())
}
