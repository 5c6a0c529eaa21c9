//! The state of accumulators that collect values: `$addToSet`, `$lastN` and `$mergeObjects`.

use super::kept::Kept;
use crate::display::Shown;
use crate::error::{Error, Result};
use diwan_value::key::{Direction, encode_order};
use diwan_value::{ArrayBuilder, Collator, Doc, DocBuf, DocBuilder, Value};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;

/// Distinct values in order of first occurrence.
#[derive(Clone, Debug, Default)]
pub(super) struct Distinct {
    hasher: DefaultHashBuilder,
    /// The range of each value's key bytes in `keys`.
    table: HashTable<Range<usize>>,
    /// The concatenated key bytes of the values.
    keys: Vec<u8>,
    values: ArrayBuilder,
}

impl Distinct {
    pub fn add(&mut self, value: Value<'_>, collator: Option<&Collator>) {
        let Distinct { hasher, table, keys, values } = self;
        let start = keys.len();
        encode_order(keys, value, Direction::Ascending, collator);
        let key = &keys[start..];
        let same = |other: &Range<usize>| keys[other.clone()] == *key;
        let hash = |place: &Range<usize>| hasher.hash_one(&keys[place.clone()]);
        match table.entry(hasher.hash_one(key), same, hash) {
            Entry::Vacant(vacant) => {
                vacant.insert(start..keys.len());
                values.push(value);
            }
            Entry::Occupied(_) => keys.truncate(start),
        }
    }

    pub fn into_values(self) -> ArrayBuilder {
        self.values
    }

    pub fn memory(&self) -> usize {
        self.values.len() + self.keys.len() + self.table.capacity() * size_of::<Range<usize>>()
    }
}

/// The last `n` values.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    n: usize,
    values: VecDeque<Kept>,
    bytes: usize,
}

impl Recent {
    pub fn new(n: usize) -> Recent {
        Recent { n, values: VecDeque::new(), bytes: 0 }
    }

    pub fn add(&mut self, value: Value<'_>) {
        let mut place = if self.values.len() == self.n { self.values.pop_front() } else { None };
        self.bytes -= place.as_ref().map_or(0, Kept::memory);
        Kept::keep(&mut place, value);
        self.bytes += place.as_ref().map_or(0, Kept::memory);
        self.values.extend(place);
    }

    pub fn into_values(self) -> ArrayBuilder {
        let mut values = ArrayBuilder::new();
        for kept in &self.values {
            values.push(kept.value());
        }
        values
    }

    pub fn memory(&self) -> usize {
        self.bytes + self.values.len() * size_of::<Kept>()
    }
}

/// Documents merged over one another.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged(DocBuf);

impl Merged {
    pub fn add(&mut self, value: Option<Value<'_>>) -> Result<()> {
        match value {
            None | Some(Value::Null | Value::Undefined) => Ok(()),
            Some(Value::Document(doc)) => {
                self.0 = overlay(self.0.as_doc(), doc);
                Ok(())
            }
            Some(other) => {
                let text = format!(
                    "$mergeObjects requires object inputs, but input {} is of type {}",
                    Shown(other),
                    other.tag().alias()
                );
                Err(Error::new(40400, text))
            }
        }
    }

    pub fn doc(&self) -> Doc<'_> {
        self.0.as_doc()
    }
}

/// Merges two documents: fields of `over` replace fields of `under`, and new fields come last.
pub(crate) fn overlay(under: Doc<'_>, over: Doc<'_>) -> DocBuf {
    let mut builder = DocBuilder::new();
    for element in under.iter() {
        match over.iter().find(|candidate| candidate.key == element.key) {
            Some(newer) => builder.append_element(newer),
            None => builder.append_element(element),
        };
    }
    for element in over.iter() {
        if !under.iter().any(|known| known.key == element.key) {
            builder.append_element(element);
        }
    }
    builder.finish()
}
