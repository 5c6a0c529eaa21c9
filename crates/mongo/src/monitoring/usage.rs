//! How much each collection is used: for `top`, and for `latencyStats` and `queryExecStats` of `$collStats`.

use crate::monitoring::metrics::{LatencyClass, OperationKind};
use diwan_value::{DocBuf, DocBuilder, doc};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many collections are counted at most. Others are not counted.
const MAX_COLLECTIONS: usize = 10_000;

/// How many operations there were, and their total time in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UseCount {
    pub count: u64,
    pub micros: u64,
}

impl UseCount {
    fn add(&mut self, micros: u64) {
        self.count += 1;
        self.micros += micros;
    }

    /// The sum of two counts.
    pub(crate) fn plus(self, other: UseCount) -> UseCount {
        UseCount { count: self.count + other.count, micros: self.micros + other.micros }
    }
}

/// The latencies of one class of operations.
#[derive(Clone, Debug, Default)]
struct Histogram {
    total: UseCount,
    /// The buckets that are not empty, by number. Most collections use a few of them.
    buckets: Vec<(u8, u64)>,
}

impl Histogram {
    fn add(&mut self, micros: u64) {
        self.total.add(micros);
        let number = bucket(micros);
        match self.buckets.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => self.buckets[at].1 += 1,
            Err(at) => self.buckets.insert(at, (number, 1)),
        }
    }

    /// The fields of `latencyStats` for one class.
    fn describe(&self, with_buckets: bool) -> DocBuf {
        let mut out = DocBuilder::new();
        if with_buckets {
            let shown = |(number, count): &(u8, u64)| {
                doc! { "micros": lower_bound(*number) as i64, "count": *count as i64 }
            };
            out.append("histogram", self.buckets.iter().map(shown).collect::<Vec<_>>());
        }
        out.append("latency", self.total.micros as i64).append("ops", self.total.count as i64);
        out.finish()
    }
}

/// Between these powers of two, MongoDB's histograms have two buckets for each.
const SPLIT: std::ops::Range<u32> = 11..21;
/// The number of the last bucket.
const LAST_BUCKET: u32 = 50;

/// The number of the bucket for a latency. Buckets are powers of two, and halves of them where operations are slow
/// enough to be looked at closely.
fn bucket(micros: u64) -> u8 {
    let Some(power) = micros.checked_ilog2() else { return 0 };
    let number = if power < SPLIT.start {
        power
    } else if power < SPLIT.end {
        let is_upper_half = micros >= 3 << (power - 1);
        power + (power - SPLIT.start) + u32::from(is_upper_half)
    } else {
        power + (SPLIT.end - SPLIT.start)
    };
    number.min(LAST_BUCKET) as u8
}

/// The shortest latency of a bucket, in microseconds.
fn lower_bound(number: u8) -> u64 {
    let number = u32::from(number);
    let first_whole = SPLIT.end + (SPLIT.end - SPLIT.start);
    if number == 0 {
        0
    } else if number < SPLIT.start {
        1 << number
    } else if number < first_whole {
        let halves = number - SPLIT.start;
        let power = SPLIT.start + halves / 2;
        (2 + u64::from(halves % 2)) << (power - 1)
    } else {
        1 << (number - (SPLIT.end - SPLIT.start))
    }
}

/// How many operations read a whole collection.
#[derive(Clone, Copy, Debug, Default)]
struct CollectionScans {
    total: u64,
    tailable: u64,
}

/// The use of one collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionUsage {
    latencies: [Histogram; LatencyClass::ALL.len()],
    pub kinds: [UseCount; OperationKind::ALL.len()],
    scans: CollectionScans,
}

impl CollectionUsage {
    /// The operations of one class.
    pub(crate) fn class(&self, class: LatencyClass) -> UseCount {
        self.latencies[class as usize].total
    }
}

/// One operation on a collection that has ended.
pub(crate) struct Used<'a> {
    pub database: &'a str,
    pub collection: &'a str,
    pub kind: OperationKind,
    pub class: LatencyClass,
    pub took: Duration,
    /// Whether the operation read the whole collection.
    pub scanned: bool,
    /// Whether the operation opened a tailable cursor.
    pub tailable: bool,
}

/// The use of all collections, by database and name.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    databases: Mutex<BTreeMap<String, BTreeMap<String, CollectionUsage>>>,
}

impl Usage {
    /// Counts an operation.
    pub(crate) fn record(&self, used: &Used<'_>) {
        let Used { database, collection: name, .. } = *used;
        let micros = used.took.as_micros() as u64;
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
        collection.latencies[used.class as usize].add(micros);
        collection.kinds[used.kind as usize].add(micros);
        if used.scanned {
            collection.scans.total += 1;
            collection.scans.tailable += u64::from(used.tailable);
        }
    }

    /// Removes the counts of a dropped collection, or of a dropped database.
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
    pub(crate) fn list(&self) -> Vec<(String, CollectionUsage)> {
        let databases = self.databases.lock();
        let all = databases.iter().flat_map(|(database, collections)| {
            collections.iter().map(move |(name, used)| (format!("{database}.{name}"), used.clone()))
        });
        all.collect()
    }

    /// `latencyStats` of a collection.
    pub(crate) fn latency_stats(&self, database: &str, name: &str, histograms: bool) -> DocBuf {
        let usage = self.of(database, name);
        let mut out = DocBuilder::new();
        for class in LatencyClass::ALL {
            out.append(class.name(), usage.latencies[class as usize].describe(histograms));
        }
        out.append("transactions", Histogram::default().describe(histograms));
        out.finish()
    }

    /// `queryExecStats` of a collection.
    pub(crate) fn query_stats(&self, database: &str, name: &str) -> DocBuf {
        let scans = self.of(database, name).scans;
        let non_tailable = (scans.total - scans.tailable) as i64;
        doc! { "collectionScans": { "total": scans.total as i64, "nonTailable": non_tailable } }
    }

    /// The use of one collection, empty if nothing was counted.
    fn of(&self, database: &str, name: &str) -> CollectionUsage {
        let databases = self.databases.lock();
        databases.get(database).and_then(|collections| collections.get(name)).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_counts_by_collection_and_class() {
        let usage = Usage::default();
        let record = |database, collection, kind, class| {
            let took = Duration::from_micros(5);
            usage.record(&Used { database, collection, kind, class, took, scanned: true, tailable: false });
        };
        record("a", "x", OperationKind::Insert, LatencyClass::Writes);
        record("a", "x", OperationKind::Query, LatencyClass::Reads);
        record("b", "y", OperationKind::Query, LatencyClass::Reads);
        let listed = usage.list();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].1.class(LatencyClass::Writes).count, 1);
        assert_eq!(listed[0].1.class(LatencyClass::Reads).micros, 5);
        let scans = usage.query_stats("a", "x");
        let expected = doc! { "collectionScans": { "total": 2i64, "nonTailable": 2i64 } };
        assert_eq!(scans, expected);
        usage.forget("a", Some("x"));
        usage.forget("b", None);
        assert!(usage.list().is_empty());
    }

    #[test]
    fn every_latency_lies_in_the_bucket_of_its_bounds() {
        assert_eq!([0, 1, 2, 2047, 2048, 3071, 3072, 4096].map(bucket), [0, 0, 1, 10, 11, 11, 12, 13]);
        for number in 0..=LAST_BUCKET as u8 {
            assert_eq!(bucket(lower_bound(number)), number);
            if number > 0 {
                assert_eq!(bucket(lower_bound(number) - 1), number - 1);
            }
        }
        assert_eq!(bucket(u64::MAX), LAST_BUCKET as u8);
        assert_eq!([31, 32, 50].map(lower_bound), [2 << 20, 4 << 20, 1 << 40]);
    }
}
