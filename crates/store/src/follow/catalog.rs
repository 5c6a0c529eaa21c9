//! Following the catalog: collections and views that others have created, renamed, changed or dropped.

use crate::catalog::CatalogEntry;
use crate::collection::{Collection, Recovered, Schema};
use crate::error::Result;
use crate::feed::DatabaseEventKind;
use crate::index::Index;
use crate::namespace::Namespace;
use crate::store::{Entry, Store, open_entry};
use diwan_kv::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl Store {
    /// Makes the entries of the names that are meant those that are `stored`.
    pub(super) fn follow_catalog(
        &self,
        stored: BTreeMap<Namespace, Bytes>,
        is_meant: impl Fn(&Namespace) -> bool,
    ) -> Result<()> {
        let mut known: HashMap<[u8; 16], (Namespace, Entry)> = self
            .entries()
            .read()
            .iter()
            .filter(|(name, _)| is_meant(name))
            .map(|(name, entry)| (entry.uuid(), (name.clone(), entry.clone())))
            .collect();
        let mut present = Vec::with_capacity(stored.len());
        let (mut created, mut deleted) = (Vec::new(), Vec::new());
        for (name, value) in stored {
            let entry = CatalogEntry::decode(&value)?;
            let entry = match known.remove(&entry.uuid) {
                Some((former, Entry::Collection(collection))) => {
                    if former != name {
                        collection.set_namespace(name.clone());
                        deleted.push(former);
                        created.push(name.clone());
                    }
                    collection.follow_schema(entry);
                    Entry::Collection(collection)
                }
                former => {
                    let is_new = former.is_none() && entry.options.view.is_none();
                    created.extend(is_new.then(|| name.clone()));
                    let recovered = Recovered::stored(self.shared.engine.as_ref(), entry.id)?;
                    open_entry(&self.shared, name.clone(), entry, recovered)?
                }
            };
            present.push((name, entry));
        }
        {
            let mut entries = self.entries().write();
            entries.retain(|name, _| !is_meant(name));
            entries.extend(present);
        }
        for (name, entry) in known.into_values() {
            if let Entry::Collection(collection) = entry {
                collection.stop_writes().publish_drop();
                deleted.push(name);
            }
        }
        let databases = &self.shared.databases;
        deleted.iter().for_each(|name| databases.note(DatabaseEventKind::Deleted, name));
        created.iter().for_each(|name| databases.note(DatabaseEventKind::Created, name));
        Ok(())
    }
}

impl Collection {
    /// Shows the schema of a stored entry.
    fn follow_schema(&self, entry: CatalogEntry) {
        let mut stopped = self.stop_writes();
        let known = stopped.schema();
        let follow = |stored: &Arc<Index>| match known.indexes.iter().find(|index| index.id == stored.id) {
            Some(index) => follow_index(index, stored),
            None => stored.clone(),
        };
        let indexes: Vec<Arc<Index>> = entry.indexes.iter().map(follow).collect();
        let options = match known.options.to_doc() == entry.options.to_doc() {
            true => known.options.clone(),
            false => entry.options,
        };
        let recorded = self.shared.events.records(&self.namespace());
        let stored = Schema { options, indexes, history: entry.history, recorded, dropped: false };
        let is_same = stored.shows_the_same_as(known)
            && (stored.history, stored.recorded) == (known.history, known.recorded);
        if !is_same {
            stopped.publish(stored);
        }
        if entry.history {
            self.note_history();
        }
    }
}

/// An index as it is stored now, with the state that its versions share.
fn follow_index(known: &Arc<Index>, stored: &Index) -> Arc<Index> {
    known.add_multikey(stored.multikey());
    known.note_multikey(stored.multikey());
    let is_same_spec = known.spec.to_doc() == stored.spec.to_doc();
    match (is_same_spec, known.is_ready() == stored.is_ready()) {
        (true, true) => known.clone(),
        (true, false) => Arc::new(known.completed()),
        (false, true) => Arc::new(known.respecified(stored.spec.clone())),
        (false, false) => Arc::new(known.respecified(stored.spec.clone()).completed()),
    }
}
