//! What a primary tells a follower of its catalog: which collections and views exist, what they are like, and how far the
//! change log of each has come.
//!
//! A report names what the log of database events (`_db_updates`) has since the last report. Where that log does not reach
//! back far enough, the report is complete: it names everything, so what it does not name does not exist.

use super::is_copied;
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::store::{Entry, Store};
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value, ValueBuf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Settings of a collection that each server has for itself.
const OWN_SETTINGS: [&str; 2] = [super::copy::POSITION, crate::collection::MARK];

/// What a follower has to know about one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The name.
    pub namespace: Namespace,
    /// What it names.
    pub kind: Kind,
}

/// What a name is the name of.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing.
    Missing,
    /// A view with these options.
    View(DocBuf),
    /// A collection.
    Collection(Box<Described>),
}

/// A collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Its identifier.
    pub uuid: [u8; 16],
    /// When it was created, in microseconds since the Unix epoch.
    pub created: Option<i64>,
    /// Its options.
    pub options: DocBuf,
    /// The specifications of its complete indexes, except the one on `_id`.
    pub indexes: Vec<DocBuf>,
    /// Its settings, except those that each server has for itself.
    pub settings: BTreeMap<String, ValueBuf>,
    /// The sequence of its newest change.
    pub sequence: u64,
}

/// A part of the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The position in the log of database events from which the next report continues.
    pub position: u64,
    /// Whether what is not named does not exist.
    pub complete: bool,
    /// The names.
    pub names: Vec<Description>,
}

impl Store {
    /// What changed after `position`, which an earlier report gave; everything if that is not known.
    pub fn news(&self, position: u64) -> News {
        // The position is taken first: what changes from now on is in the next report too.
        let last = self.last_database_event();
        if !self.has_database_events_after(position) {
            let mut names = Vec::new();
            self.each_entry(None, &mut |namespace, entry| {
                if is_copied(namespace) {
                    names.push(describe(namespace, Some(entry)));
                }
            });
            return News { position: last, complete: true, names };
        }
        let events = self.database_events(position, usize::MAX);
        let last = events.last().map_or(position, |event| event.sequence);
        let names: BTreeSet<Namespace> =
            events.into_iter().map(|event| event.namespace).filter(is_copied).collect();
        let names = names.iter().map(|namespace| describe(namespace, self.entry(namespace).as_ref()));
        News { position: last, complete: false, names: names.collect() }
    }
}

fn describe(namespace: &Namespace, entry: Option<&Entry>) -> Description {
    let kind = match entry {
        None => Kind::Missing,
        Some(Entry::View(view)) => Kind::View(view.options.to_doc().to_owned()),
        Some(Entry::Collection(collection)) => Kind::Collection(Box::new(Described::of(collection))),
    };
    Description { namespace: namespace.clone(), kind }
}

impl Described {
    /// Describes a collection.
    pub(super) fn of(collection: &Arc<Collection>) -> Described {
        let schema = collection.schema();
        let ready = schema.secondary().iter().filter(|index| index.is_ready());
        let mut settings = collection.all_settings();
        settings.retain(|name, _| !OWN_SETTINGS.contains(&name.as_str()));
        Described {
            uuid: collection.uuid(),
            created: collection.created(),
            options: schema.options.to_doc().to_owned(),
            indexes: ready.map(|index| index.spec.to_doc().to_owned()).collect(),
            settings,
            sequence: collection.last_sequence(),
        }
    }
}

impl News {
    /// Appends the report to a document.
    pub fn write(&self, out: &mut DocBuilder) {
        let mut names = ArrayBuilder::new();
        for description in &self.names {
            let mut one = DocBuilder::new();
            one.append("db", &*description.namespace.database);
            one.append("name", &*description.namespace.collection);
            match &description.kind {
                Kind::Missing => {}
                Kind::View(options) => {
                    one.append("view", options.as_doc());
                }
                Kind::Collection(described) => {
                    one.append("uuid", Value::Binary { subtype: 4, bytes: &described.uuid });
                    if let Some(created) = described.created {
                        one.append("created", created);
                    }
                    one.append("options", described.options.as_doc());
                    let mut indexes = ArrayBuilder::new();
                    described.indexes.iter().for_each(|spec| {
                        indexes.push(spec.as_doc());
                    });
                    one.append("indexes", indexes);
                    one.begin_document("settings");
                    for (name, value) in &described.settings {
                        one.append(name, value.as_value());
                    }
                    one.end().append("sequence", described.sequence as i64);
                }
            }
            names.push(one.finish());
        }
        out.append("position", self.position as i64).append("complete", self.complete).append("names", names);
    }

    /// Reads what [`News::write`] wrote.
    pub fn parse(doc: Doc<'_>) -> Result<News> {
        let read = || {
            let number = |name| doc.get(name).and_then(Value::as_i64_exact);
            let names = doc.get_array("names")?.iter().map(|one| read_description(one.as_doc()?));
            Some(News {
                position: u64::try_from(number("position")?).ok()?,
                complete: doc.get("complete")?.as_bool()?,
                names: names.collect::<Option<Vec<_>>>()?,
            })
        };
        read().ok_or_else(|| Error::Damaged("a report of the primary".to_owned()))
    }
}

fn read_description(one: Doc<'_>) -> Option<Description> {
    let name = |key| one.get_str(key).map(str::to_owned);
    let namespace = Namespace { database: name("db")?, collection: name("name")? };
    let kind = match (one.get("uuid"), one.get_doc("view")) {
        (Some(Value::Binary { bytes, .. }), _) => {
            let indexes = one.get_array("indexes")?.iter().map(|spec| Some(spec.as_doc()?.to_owned()));
            let settings = one.get_doc("settings")?;
            let sequence = one.get("sequence")?.as_i64_exact()?;
            Kind::Collection(Box::new(Described {
                uuid: bytes.try_into().ok()?,
                created: one.get("created").and_then(Value::as_i64_exact),
                options: one.get_doc("options")?.to_owned(),
                indexes: indexes.collect::<Option<_>>()?,
                settings: settings
                    .iter()
                    .map(|setting| (setting.key_str().to_owned(), setting.value().to_owned()))
                    .collect(),
                sequence: u64::try_from(sequence).ok()?,
            }))
        }
        (None, Some(options)) => Kind::View(options.to_owned()),
        (None, None) => Kind::Missing,
        _ => return None,
    };
    Some(Description { namespace, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;
    use diwan_value::doc;

    #[test]
    fn news_name_what_changed_and_survive_the_wire() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let name = |text| Namespace::parse(text).unwrap();
        let persons = store.collection_or_create(&name("shop.persons")).unwrap();
        store.collection_or_create(&name("local.own")).unwrap();
        let first = store.news(0);
        assert!(first.complete);
        assert_eq!(first.names.len(), 1);
        assert_eq!(store.news(first.position).names, []);
        persons.set_setting("security", Some(Value::Int32(1))).unwrap();
        persons.set_setting(crate::replica::copy::POSITION, Some(Value::Int32(1))).unwrap();
        store.create(&name("shop.view"), doc! { "viewOn": "persons", "pipeline": [] }.as_doc()).unwrap();
        let second = store.news(first.position);
        assert!(!second.complete);
        let mut out = DocBuilder::new();
        second.write(&mut out);
        let read = News::parse(out.finish().as_doc()).unwrap();
        assert_eq!(read, second);
        let Kind::Collection(described) = &read.names[0].kind else { panic!("{read:?}") };
        assert_eq!(described.settings.keys().collect::<Vec<_>>(), ["security"]);
        assert!(matches!(read.names[1].kind, Kind::View(_)));
        store.drop_collection(&name("shop.persons")).unwrap();
        let third = store.news(second.position);
        assert_eq!(third.names.len(), 1);
        assert_eq!(third.names[0].kind, Kind::Missing);
    }
}
