//! Making a follower's catalog the same as the primary's: collections and views are dropped, renamed, created and changed.
//!
//! A collection is recognized by its identifier. Drops and renames are made by a complete report alone, because only that
//! tells that an identifier is nowhere else.

use super::news::{Described, Description, Kind, News};
use super::{Applying, is_copied};
use crate::collection::{Collection, Schema};
use crate::error::{Error, Result};
use crate::index::{BuildProgress, IndexSpec};
use crate::namespace::Namespace;
use crate::options::CollectionOptions;
use crate::store::{Entry, Store};
use diwan_query::Interrupt;
use diwan_value::{Doc, DocBuf};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The beginning of the names of collections that are on the way to a name that is not free yet.
const MOVING: &str = "diwan.moving.";

/// The database of collections that only a server had which then followed another one.
pub const SET_ASIDE: &str = "set_aside";

/// What became of a report.
#[derive(Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// The catalog is the same. These indexes could not be built; the next report tries again.
    Done(Vec<String>),
    /// Only a complete report tells what to drop or rename.
    NeedsAll,
}

impl Store {
    /// Makes the named collections and views the same as the primary's. Documents are not copied.
    pub fn reconcile(self: &Arc<Self>, news: &News, interrupt: &Interrupt) -> Result<Reconciled> {
        let _applying = Applying::begin();
        if news.complete {
            self.drop_unknown(news)?;
            self.move_renamed(news)?;
        } else if news.names.iter().any(|description| self.is_drop_or_rename(description)) {
            return Ok(Reconciled::NeedsAll);
        }
        let mut unbuilt = Vec::new();
        for Description { namespace, kind } in &news.names {
            match kind {
                Kind::Missing => {}
                Kind::View(options) => self.reconcile_view(namespace, options.as_doc())?,
                Kind::Collection(described) => {
                    let collection = match self.collection(namespace)? {
                        Some(collection) => collection,
                        None => self.create_copy(namespace, described)?,
                    };
                    reconcile_collection(self, &collection, described, interrupt, &mut unbuilt)?;
                }
            }
        }
        Ok(Reconciled::Done(unbuilt))
    }

    /// Whether a name must be freed or moved first.
    fn is_drop_or_rename(&self, description: &Description) -> bool {
        match (&description.kind, self.entry(&description.namespace)) {
            (_, None) => false,
            (Kind::Collection(described), Some(Entry::Collection(own))) => own.uuid() != described.uuid,
            (Kind::View(_), Some(Entry::View(_))) => false,
            _ => true,
        }
    }

    /// Drops what the primary does not have.
    fn drop_unknown(self: &Arc<Self>, news: &News) -> Result<()> {
        let mut uuids = HashMap::new();
        let mut views = HashMap::new();
        for description in &news.names {
            match &description.kind {
                Kind::Collection(described) => {
                    uuids.insert(described.uuid, description.namespace.clone());
                }
                Kind::View(_) => {
                    views.insert(description.namespace.clone(), ());
                }
                Kind::Missing => {}
            }
        }
        let mut unknown = Vec::new();
        self.each_entry(None, &mut |namespace, entry| {
            let is_known = match entry {
                Entry::Collection(collection) => uuids.contains_key(&collection.uuid()),
                Entry::View(_) => views.contains_key(namespace),
            };
            if is_copied(namespace) && !is_known {
                unknown.push(namespace.clone());
            }
        });
        for namespace in unknown {
            tracing::info!(collection = %namespace, "dropping what the primary does not have");
            self.drop_collection(&namespace)?;
        }
        Ok(())
    }

    /// Renames the collections that have another name on the primary.
    fn move_renamed(&self, news: &News) -> Result<()> {
        let mut own = HashMap::new();
        self.each_entry(None, &mut |namespace, entry| {
            if let Entry::Collection(collection) = entry {
                own.insert(collection.uuid(), namespace.clone());
            }
        });
        let mut moves: BTreeMap<Namespace, ([u8; 16], Namespace)> = BTreeMap::new();
        for Description { namespace, kind } in &news.names {
            if let Kind::Collection(described) = kind
                && let Some(from) = own.get(&described.uuid)
                && from != namespace
            {
                moves.insert(from.clone(), (described.uuid, namespace.clone()));
            }
        }
        // A name that another collection still has is freed first.
        let mut steps = Vec::new();
        for (from, (uuid, to)) in moves {
            let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            let collection = format!("{MOVING}{uuid}");
            let between = Namespace { database: from.database.clone(), collection };
            // A kill may have left it there.
            if from != between {
                self.rename(&from, &between, false)?;
            }
            steps.push((between, to));
        }
        for (between, to) in steps {
            tracing::info!(collection = %to, "renamed as on the primary");
            self.rename(&between, &to, false)?;
        }
        Ok(())
    }

    fn reconcile_view(self: &Arc<Self>, namespace: &Namespace, options: Doc<'_>) -> Result<()> {
        if let Some(Entry::View(view)) = self.entry(namespace) {
            if view.options.to_doc() == options {
                return Ok(());
            }
            self.drop_collection(namespace)?;
        }
        self.create(namespace, options).map(drop)
    }

    /// Drops the copy of a collection, to copy it anew.
    pub fn discard_copy(&self, namespace: &Namespace) -> Result<()> {
        let _applying = Applying::begin();
        self.drop_collection(namespace).map(drop)
    }
}

/// Changes options, settings and indexes.
fn reconcile_collection(
    store: &Arc<Store>,
    collection: &Arc<Collection>,
    described: &Described,
    interrupt: &Interrupt,
    unbuilt: &mut Vec<String>,
) -> Result<()> {
    let now = Described::of(collection);
    let namespace = collection.namespace();
    if now.options != described.options {
        let options = Arc::new(CollectionOptions::parse(described.options.as_doc())?);
        let edit = |schema: &mut Schema| {
            schema.options = options.clone();
            Ok(())
        };
        store.modify(&namespace, Doc::EMPTY, Some(edit))?;
    }
    for name in now.settings.keys().filter(|name| !described.settings.contains_key(*name)) {
        collection.set_setting(name, None)?;
    }
    for (name, value) in &described.settings {
        if now.settings.get(name) != Some(value) {
            collection.set_setting(name, Some(value.as_value()))?;
        }
    }
    if now.indexes != described.indexes {
        reconcile_indexes(store, collection, &now.indexes, &described.indexes, interrupt, unbuilt)?;
    }
    Ok(())
}

fn reconcile_indexes(
    store: &Arc<Store>,
    collection: &Arc<Collection>,
    now: &[DocBuf],
    wanted: &[DocBuf],
    interrupt: &Interrupt,
    unbuilt: &mut Vec<String>,
) -> Result<()> {
    let namespace = collection.namespace();
    let name = |spec: &DocBuf| spec.as_doc().get_str("name").unwrap_or_default().to_owned();
    for old in now {
        match wanted.iter().find(|spec| name(spec) == name(old)) {
            Some(new) if new == old => {}
            Some(new) if differ_in_options_alone(old.as_doc(), new.as_doc()) => {
                let edit = |schema: &mut Schema| {
                    let new = || IndexSpec::parse(new.as_doc(), None);
                    schema.modify_index(|index| index.spec.name == name(old), |_| new()).map(drop)
                };
                store.modify(&namespace, Doc::EMPTY, Some(edit))?;
            }
            _ => collection.remove_indexes(|index| index.spec.name == name(old))?,
        }
    }
    for spec in wanted {
        let has_it = collection.schema().indexes.iter().any(|index| index.spec.name == name(spec));
        if has_it {
            continue;
        }
        let parsed = IndexSpec::parse(spec.as_doc(), None)?;
        match collection.create_indexes(vec![parsed], interrupt, &BuildProgress::default()) {
            Ok(_) => {}
            Err(error @ Error::Engine(_)) => return Err(error),
            // Documents that are on their way may be in the way of an index at this moment.
            Err(error) => {
                tracing::warn!(collection = %namespace, index = name(spec), %error, "an index is not built yet");
                unbuilt.push(format!("{namespace} {}", name(spec)));
            }
        }
    }
    Ok(())
}

/// Whether two specifications of an index differ in nothing that its entries depend on.
fn differ_in_options_alone(old: Doc<'_>, new: Doc<'_>) -> bool {
    let rest = |spec: Doc<'_>| {
        let kept = spec.iter().filter(|part| !matches!(part.key_str(), "hidden" | "expireAfterSeconds"));
        kept.map(|part| (part.key_str().to_owned(), part.value().to_owned())).collect::<Vec<_>>()
    };
    rest(old) == rest(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;
    use diwan_value::{Value, doc};

    fn store() -> Arc<Store> {
        Store::open(Arc::new(MemoryEngine::new())).unwrap()
    }

    fn name(text: &str) -> Namespace {
        Namespace::parse(text).unwrap()
    }

    fn follow(primary: &Arc<Store>, follower: &Arc<Store>, position: u64) -> u64 {
        let interrupt = Interrupt::new();
        let mut news = primary.news(position);
        if follower.reconcile(&news, &interrupt).unwrap() == Reconciled::NeedsAll {
            news = primary.news(0);
            assert_eq!(follower.reconcile(&news, &interrupt).unwrap(), Reconciled::Done(Vec::new()));
        }
        let clear = |mut news: News| {
            news.position = 0;
            for description in &mut news.names {
                if let Kind::Collection(described) = &mut description.kind {
                    (described.sequence, described.created) = (0, None);
                }
            }
            news
        };
        assert_eq!(clear(follower.news(0)), clear(primary.news(0)));
        news.position
    }

    #[test]
    fn reconcile_follows_creation_change_rename_and_drop() {
        let (primary, follower) = (store(), store());
        follower.replica().follow_in_test();
        let (a, b, c) = (name("d.a"), name("d.b"), name("e.c"));
        let capped = doc! { "capped": true, "size": 4096, "max": 10i64 };
        let first = primary.create_collection(&a, Doc::EMPTY).unwrap();
        primary.create_collection(&b, capped.as_doc()).unwrap();
        let mut position = follow(&primary, &follower, 0);
        let index = |doc: DocBuf| IndexSpec::parse(doc.as_doc(), None).unwrap();
        let specs = vec![
            index(doc! { "key": { "x": 1 }, "name": "x", "unique": true }),
            index(doc! { "key": { "t": 1 }, "name": "t", "expireAfterSeconds": 60 }),
        ];
        first.create_indexes(specs, &Interrupt::new(), &BuildProgress::default()).unwrap();
        first.set_setting("security", Some(Value::Int32(7))).unwrap();
        let view = doc! { "viewOn": "a", "pipeline": [{ "$match": {} }] };
        primary.create(&name("d.view"), view.as_doc()).unwrap();
        position = follow(&primary, &follower, position);
        let hide = |schema: &mut Schema| {
            schema.modify_index(
                |index| index.spec.name == "t",
                |spec| spec.modified(Some(true), Some(90), None),
            )?;
            Ok(())
        };
        primary.modify(&a, doc! { "validator": { "x": 1 } }.as_doc(), Some(hide)).unwrap();
        first.remove_indexes(|index| index.spec.name == "x").unwrap();
        first.set_setting("security", None).unwrap();
        position = follow(&primary, &follower, position);
        // Two collections change their names, and a third one takes a name.
        primary.rename(&a, &c, false).unwrap();
        primary.rename(&b, &a, false).unwrap();
        primary.rename(&c, &b, false).unwrap();
        position = follow(&primary, &follower, position);
        primary.drop_collection(&b).unwrap();
        primary.create_collection(&b, Doc::EMPTY).unwrap();
        primary.drop_collection(&name("d.view")).unwrap();
        position = follow(&primary, &follower, position);
        primary.drop_database("d").unwrap();
        follow(&primary, &follower, position);
        assert!(!follower.has_documents());
    }

    #[test]
    fn a_follower_refuses_every_other_write() {
        let store = store();
        let persons = store.create_collection(&name("d.persons"), Doc::EMPTY).unwrap();
        store.replica().follow_in_test();
        let refused = |outcome: Result<()>| match outcome {
            Err(Error::Query(error)) => error.code,
            other => panic!("{other:?}"),
        };
        let doc = doc! { "_id": 1 };
        assert_eq!(refused(persons.insert(&[doc.as_doc()], true, Default::default()).map(drop)), 10107);
        assert_eq!(refused(persons.set_setting("x", None).map(drop)), 10107);
        assert_eq!(refused(persons.put_local("x", Doc::EMPTY, None).map(drop)), 10107);
        assert_eq!(refused(store.create(&name("d.x"), Doc::EMPTY).map(drop)), 10107);
        assert_eq!(refused(store.drop_collection(&name("d.persons")).map(drop)), 10107);
        assert_eq!(refused(store.rename(&name("d.persons"), &name("d.y"), false)), 10107);
        // Reading over HTTP marks the collection, which is no change for clients.
        persons.keep_history().unwrap();
    }
}
