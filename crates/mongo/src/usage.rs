//! How much each collection is used: what `top` shows.

use crate::metrics::{Class, Kind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Of how many collections the use is counted, at most.
const MAX_COLLECTIONS: usize = 10_000;

/// How often, and how long altogether in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    pub count: u64,
    pub micros: u64,
}

impl Use {
    fn add(&mut self, micros: u64) {
        self.count += 1;
        self.micros += micros;
    }
}

/// The use of one collection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collection {
    pub reads: Use,
    pub writes: Use,
    pub kinds: [Use; Kind::ALL.len()],
}

/// The use of all collections, by database and name.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    databases: Mutex<BTreeMap<String, BTreeMap<String, Collection>>>,
}

impl Usage {
    /// Counts a command on a collection.
    pub(crate) fn record(&self, database: &str, name: &str, kind: Kind, class: Class, took: Duration) {
        let micros = took.as_micros() as u64;
        let mut databases = self.databases.lock();
        let known = databases.get_mut(database).and_then(|collections| collections.get_mut(name));
        let collection = match known {
            Some(collection) => collection,
            None => {
                let count: usize = databases.values().map(BTreeMap::len).sum();
                if count >= MAX_COLLECTIONS {
                    return;
                }
                databases.entry(database.to_owned()).or_default().entry(name.to_owned()).or_default()
            }
        };
        match class {
            Class::Writes => collection.writes.add(micros),
            Class::Reads | Class::Commands => collection.reads.add(micros),
        }
        collection.kinds[kind as usize].add(micros);
    }

    /// Forgets a database's collection, or all of them.
    pub(crate) fn forget(&self, database: &str, name: Option<&str>) {
        let mut databases = self.databases.lock();
        match name {
            None => {
                databases.remove(database);
            }
            Some(name) => {
                if let Some(collections) = databases.get_mut(database) {
                    collections.remove(name);
                }
            }
        }
    }

    /// The use of every collection, by its full name.
    pub(crate) fn list(&self) -> Vec<(String, Collection)> {
        let databases = self.databases.lock();
        let all = databases.iter().flat_map(|(database, collections)| {
            collections.iter().map(move |(name, used)| (format!("{database}.{name}"), *used))
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_collection() {
        let usage = Usage::default();
        let took = Duration::from_micros(5);
        usage.record("a", "x", Kind::Insert, Class::Writes, took);
        usage.record("a", "x", Kind::Query, Class::Reads, took);
        usage.record("b", "y", Kind::Query, Class::Reads, took);
        let listed = usage.list();
        assert_eq!(listed.len(), 2);
        assert_eq!((listed[0].1.writes.count, listed[0].1.reads.micros), (1, 5));
        usage.forget("a", Some("x"));
        usage.forget("b", None);
        assert!(usage.list().is_empty());
    }
}
