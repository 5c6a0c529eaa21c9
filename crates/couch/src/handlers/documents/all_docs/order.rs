//! The order of listings: ids sorted by their text.
//!
//! The store sorts ids by type first: strings, then `ObjectId`s, with rarer types before and between. Over HTTP every
//! id is text. Strings and `ObjectId`s are each in text order already, so a listing merges the two: it reads a run of
//! one type until the next id of the other. Ids of other types, whose text begins with a tilde, are listed together
//! at the position of `~`, in the store's order, before longer strings that begin with a tilde.

use crate::handlers::listing::{Edge, Interval};
use diwan_kv::{Bytes, Direction, KeyRange};
use diwan_store::{ReadView, Record, Result, id_key};
use diwan_value::{ObjectId, Type, Value, json, key};
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

/// Receives the key bytes of an id and the document.
pub(super) type Show<'a> = dyn FnMut(&[u8], Record<'_>) -> ControlFlow<()> + 'a;

/// The remaining part of an interval: a position that stays valid in newer snapshots.
pub(super) struct Walk {
    cursors: Vec<KindCursor>,
}

impl Walk {
    /// Starts a walk over an interval.
    pub(super) fn new(interval: &Interval) -> Walk {
        Walk {
            cursors: [IdKind::Strings, IdKind::ObjectIds, IdKind::Others]
                .map(|kind| KindCursor::new(kind, interval))
                .into(),
        }
    }

    /// Passes the remaining documents to `show` in text order, until `show` breaks. Returns whether it did.
    pub(super) fn go(
        &mut self,
        view: &ReadView,
        direction: Direction,
        show: &mut Show<'_>,
    ) -> Result<ControlFlow<()>> {
        let cursors = &mut self.cursors;
        // A head found in an earlier snapshot may have been deleted since.
        cursors.iter_mut().for_each(|cursor| cursor.head = None);
        loop {
            for cursor in cursors.iter_mut() {
                cursor.find_head(view, direction)?;
            }
            cursors.retain(|cursor| cursor.head.is_some());
            // Of equal texts the string comes first in ascending order and last in descending order.
            let next = match direction {
                Direction::Forward => {
                    (0..cursors.len()).min_by(|&a, &b| cursors[a].head.cmp(&cursors[b].head))
                }
                Direction::Reverse => {
                    (0..cursors.len()).max_by(|&a, &b| cursors[a].head.cmp(&cursors[b].head))
                }
            };
            let Some(next) = next else { return Ok(ControlFlow::Continue(())) };
            let others = cursors
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != next)
                .filter_map(|(_, cursor)| cursor.head.as_deref());
            let until = match direction {
                Direction::Forward => others.min(),
                Direction::Reverse => others.max(),
            };
            let until = until.map(str::to_owned);
            if cursors[next].show_until(view, until.as_deref(), direction, show)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdKind {
    Strings,
    ObjectIds,
    Others,
}

/// The remaining ids of one kind.
struct KindCursor {
    kind: IdKind,
    /// The key ranges, in order.
    ranges: VecDeque<KeyRange>,
    /// The text of the next id, as far as it matters for the order.
    head: Option<String>,
}

/// The position of all ids of other types.
const TILDE: &str = "~";

impl KindCursor {
    fn new(kind: IdKind, interval: &Interval) -> KindCursor {
        let (strings, object_ids) = (bounds(Type::String), bounds(Type::ObjectId));
        // Bounds of other types are placed after the tilde itself and before longer strings that begin with it.
        let low = interval.low.as_ref().map(|edge| placed(edge, false));
        let high = interval.high.as_ref().map(|edge| placed(edge, true));
        let ranges = match kind {
            IdKind::Strings => vec![KeyRange::new(
                low.map_or(Bound::Included(strings.0), |(edge, _)| bound(&edge, string_key(&edge.text))),
                high.map_or(Bound::Excluded(strings.1), |(edge, _)| bound(&edge, string_key(&edge.text))),
            )],
            IdKind::ObjectIds => vec![KeyRange::new(
                low.map_or(Bound::Included(object_ids.0), |(edge, _)| object_id_low(&edge)),
                high.map_or(Bound::Excluded(object_ids.1), |(edge, _)| object_id_high(&edge)),
            )],
            IdKind::Others => {
                let all = |leaves: bool| leaves.then_some(Bound::Unbounded);
                let low = low.map_or(Some(Bound::Unbounded), |(edge, other)| {
                    other.or_else(|| all(edge.text.as_str() <= TILDE))
                });
                let high = high.map_or(Some(Bound::Unbounded), |(edge, other)| {
                    other.or_else(|| all(edge.text.as_str() > TILDE))
                });
                match (low, high) {
                    (Some(low), Some(high)) => vec![
                        cut(Bound::Unbounded, Bound::Excluded(strings.0), &low, &high),
                        cut(Bound::Included(strings.1), Bound::Excluded(object_ids.0), &low, &high),
                        cut(Bound::Included(object_ids.1), Bound::Unbounded, &low, &high),
                    ],
                    _ => Vec::new(),
                }
            }
        };
        KindCursor {
            kind,
            ranges: ranges.into_iter().filter(|range| !range.is_empty()).collect(),
            head: None,
        }
    }

    /// Finds the next id unless it is known.
    fn find_head(&mut self, view: &ReadView, direction: Direction) -> Result<()> {
        while self.head.is_none() {
            let range = match direction {
                Direction::Forward => self.ranges.front(),
                Direction::Reverse => self.ranges.back(),
            };
            let Some(range) = range else { return Ok(()) };
            let mut head = None;
            view.documents(range, direction, &mut |_, record| {
                head = Some(match (self.kind, record.doc.get("_id")) {
                    (IdKind::Strings, Some(Value::String(text))) => text.to_owned(),
                    (IdKind::ObjectIds, Some(Value::ObjectId(id))) => id.to_string(),
                    _ => TILDE.to_owned(),
                });
                ControlFlow::Break(())
            })?;
            self.head = head;
            if self.head.is_none() {
                self.drop_range(direction);
            }
        }
        Ok(())
    }

    fn drop_range(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.ranges.pop_front(),
            Direction::Reverse => self.ranges.pop_back(),
        };
    }

    /// Shows the ids up to the text `until` of another kind.
    fn show_until(
        &mut self,
        view: &ReadView,
        until: Option<&str>,
        direction: Direction,
        show: &mut Show<'_>,
    ) -> Result<ControlFlow<()>> {
        self.head = None;
        let range = match direction {
            Direction::Forward => self.ranges.front_mut(),
            Direction::Reverse => self.ranges.back_mut(),
        };
        let Some(range) = range else { return Ok(ControlFlow::Continue(())) };
        let mut run = range.clone();
        if let Some(until) = until {
            match (self.kind, direction) {
                (IdKind::Strings, Direction::Forward) => {
                    tighten_end(&mut run, Bound::Included(string_key(until)))
                }
                (IdKind::Strings, Direction::Reverse) => {
                    tighten_start(&mut run, Bound::Excluded(string_key(until)))
                }
                (IdKind::ObjectIds, Direction::Forward) => {
                    tighten_end(&mut run, object_id_high(&Edge::new(until, false)));
                }
                (IdKind::ObjectIds, Direction::Reverse) => {
                    tighten_start(&mut run, object_id_low(&Edge::new(until, true)));
                }
                // Ids of other types share one position, so they are shown without interruption.
                (IdKind::Others, _) => {}
            }
        }
        // Remember the last id shown: the next call continues after it, in whatever snapshot.
        let mut last: Option<Vec<u8>> = None;
        let mut flow = ControlFlow::Continue(());
        view.documents(&run, direction, &mut |id, record| {
            flow = show(id, record);
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(id);
            flow
        })?;
        match last {
            // The head was found in this snapshot, so this cannot happen; dropping the range prevents an endless
            // loop.
            None => self.drop_range(direction),
            Some(last) => match direction {
                Direction::Forward => range.start = Bound::Excluded(last.into()),
                Direction::Reverse => range.end = Bound::Excluded(last.into()),
            },
        }
        Ok(flow)
    }
}

/// The key range of all ids of a type.
fn bounds(tag: Type) -> (Bytes, Bytes) {
    let (low, high) = key::type_bounds(tag, key::Direction::Ascending);
    (Bytes::from(low.to_vec()), Bytes::from(high.to_vec()))
}

fn encoded(value: Value<'_>) -> Bytes {
    let mut out = Vec::with_capacity(32);
    key::encode_order(&mut out, value, key::Direction::Ascending, None);
    out.into()
}

fn string_key(text: &str) -> Bytes {
    encoded(Value::String(text))
}

fn bound(edge: &Edge, key: Bytes) -> Bound<Bytes> {
    if edge.inclusive { Bound::Included(key) } else { Bound::Excluded(key) }
}

fn object_id_low(edge: &Edge) -> Bound<Bytes> {
    let ceiling = match ceiling(&edge.text) {
        Some(ceiling) => ceiling,
        None => return Bound::Included(bounds(Type::ObjectId).1),
    };
    let exact = ceiling.to_string() == edge.text;
    let key = encoded(Value::ObjectId(ceiling));
    if exact && !edge.inclusive { Bound::Excluded(key) } else { Bound::Included(key) }
}

fn object_id_high(edge: &Edge) -> Bound<Bytes> {
    let ceiling = match ceiling(&edge.text) {
        Some(ceiling) => ceiling,
        None => return Bound::Excluded(bounds(Type::ObjectId).1),
    };
    let exact = ceiling.to_string() == edge.text;
    let key = encoded(Value::ObjectId(ceiling));
    if exact && edge.inclusive { Bound::Included(key) } else { Bound::Excluded(key) }
}

/// Returns where an edge lies among strings, and the bound on ids of other types if the text is such an id. That
/// bound lies at the tilde's position; `tilde` tells whether the tilde itself is included.
fn placed(edge: &Edge, tilde: bool) -> (Edge, Option<Bound<Bytes>>) {
    let id = edge.text.strip_prefix('~').and_then(|_| json::id_from_text(&edge.text).ok());
    match id.as_ref().map(|id| id.as_value()) {
        None => (edge.clone(), None),
        Some(Value::String(text)) => (Edge::new(text, edge.inclusive), None),
        Some(id) => {
            let other = id_key(id).ok().map(|key| bound(edge, key.into()));
            (Edge::new(TILDE, tilde), other)
        }
    }
}

/// Restricts a range to the part between `low` and `high`.
fn cut(start: Bound<Bytes>, end: Bound<Bytes>, low: &Bound<Bytes>, high: &Bound<Bytes>) -> KeyRange {
    let mut range = KeyRange::new(start, end);
    tighten_start(&mut range, low.clone());
    tighten_end(&mut range, high.clone());
    range
}

fn tighten_start(range: &mut KeyRange, start: Bound<Bytes>) {
    let tighter = match (&range.start, &start) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(old) | Bound::Excluded(old), Bound::Included(new)) => new > old,
        (Bound::Included(old) | Bound::Excluded(old), Bound::Excluded(new)) => new >= old,
    };
    if tighter {
        range.start = start;
    }
}

fn tighten_end(range: &mut KeyRange, end: Bound<Bytes>) {
    let tighter = match (&range.end, &end) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(old) | Bound::Excluded(old), Bound::Included(new)) => new < old,
        (Bound::Included(old) | Bound::Excluded(old), Bound::Excluded(new)) => new <= old,
    };
    if tighter {
        range.end = end;
    }
}

/// Returns the first `ObjectId` whose hex digits are not before `text`.
fn ceiling(text: &str) -> Option<ObjectId> {
    const DIGITS: usize = 24;
    let mut digits = [0u8; DIGITS];
    let mut carry = false;
    for (at, byte) in text.bytes().enumerate() {
        // The text is longer than an id and starts with its digits, so it comes after that id.
        if at == DIGITS {
            carry = true;
            break;
        }
        match byte {
            b'0'..=b'9' => digits[at] = byte - b'0',
            b'a'..=b'f' => digits[at] = byte - b'a' + 10,
            // Before all hex digits: the rest is zeros.
            0..b'0' => break,
            // Between the digits and the letters.
            b':'..b'a' => {
                digits[at] = 10;
                break;
            }
            _ => {
                // After all hex digits: increment the previous digit.
                let before = digits[..at].iter().rposition(|&digit| digit < 15)?;
                digits[before] += 1;
                digits[before + 1..].fill(0);
                break;
            }
        }
    }
    if carry {
        let before = digits.iter().rposition(|&digit| digit < 15)?;
        digits[before] += 1;
        digits[before + 1..].fill(0);
    }
    let mut bytes = [0; 12];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(ObjectId(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;
    use diwan_store::{Namespace, Store, WriteOptions};
    use diwan_value::{DocBuf, DocBuilder, ValueBuf};
    use std::sync::Arc;

    #[test]
    fn ceiling_returns_the_next_object_id() {
        let zeros = "0".repeat(24);
        for (text, expected) in [
            ("", zeros.as_str()),
            ("A", "a00000000000000000000000"),
            ("5", "500000000000000000000000"),
            ("5g", "600000000000000000000000"),
            ("5/", "500000000000000000000000"),
            ("65a1b2c3d4e5f60718293a4b", "65a1b2c3d4e5f60718293a4b"),
            ("65a1b2c3d4e5f60718293a4b0", "65a1b2c3d4e5f60718293a4c"),
        ] {
            assert_eq!(ceiling(text).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(ceiling("g"), None);
        assert_eq!(ceiling(&"f".repeat(25)), None);
    }

    fn list(view: &ReadView, interval: &Interval, direction: Direction) -> Vec<String> {
        let mut out = Vec::new();
        let _ = Walk::new(interval)
            .go(view, direction, &mut |_, record| {
                let mut text = String::new();
                json::id_to_text(record.doc.get("_id").unwrap(), &mut text);
                out.push(text);
                ControlFlow::Continue(())
            })
            .unwrap();
        out
    }

    #[test]
    fn walk_lists_ids_in_text_order() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let collection = store.collection_or_create(&Namespace::new("a", "b").unwrap()).unwrap();
        let mut ids: Vec<ValueBuf> =
            ["_design/x", "a", "b", "5", "65b", "zed", "é", "0", "fz", "~", "~1", "~x"]
                .iter()
                .map(|text| Value::String(text).to_owned())
                .collect();
        for hex in ["000000000000000000000001", "65a1b2c3d4e5f60718293a4b", "ffffffffffffffffffffffff"] {
            ids.push(json::id_from_text(hex).unwrap());
        }
        ids.push(Value::Int32(7).to_owned());
        ids.push(Value::Boolean(true).to_owned());
        let docs: Vec<DocBuf> = ids
            .iter()
            .map(|id| {
                let mut doc = DocBuilder::new();
                doc.append("_id", id.as_value());
                doc.finish()
            })
            .collect();
        let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
        collection.insert(&docs, true, WriteOptions::default()).unwrap();
        let view = collection.view();
        let texts = |id: &ValueBuf| {
            let mut text = String::new();
            json::id_to_text(id.as_value(), &mut text);
            text
        };
        // At the tilde's position the store's order applies: numbers before booleans.
        ids.sort_by_key(|id| match id.as_value() {
            Value::String(_) | Value::ObjectId(_) => (texts(id), false),
            _ => ("~".to_owned(), true),
        });
        let sorted: Vec<String> = ids.iter().map(texts).collect();
        assert_eq!(list(&view, &Interval::default(), Direction::Forward), sorted);
        let reversed: Vec<String> = sorted.iter().rev().cloned().collect();
        assert_eq!(list(&view, &Interval::default(), Direction::Reverse), reversed);
        for low in sorted.iter().map(String::as_str).chain(["", "6", "65a1", "g", "ü"]) {
            for inclusive in [true, false] {
                let interval = Interval { low: Some(Edge::new(low, inclusive)), high: None };
                let place = |text: &str| sorted.iter().position(|other| other == text);
                let expected: Vec<String> = sorted
                    .iter()
                    .enumerate()
                    .filter(|(at, text)| match place(low) {
                        Some(low) if inclusive => *at >= low,
                        Some(low) => *at > low,
                        None => text.as_str() >= low,
                    })
                    .map(|(_, text)| text.clone())
                    .collect();
                assert_eq!(list(&view, &interval, Direction::Forward), expected, "from {low} {inclusive}");
                let above = Interval { low: None, high: Some(Edge::new(low, !inclusive)) };
                let rest: Vec<String> =
                    sorted.iter().filter(|text| !expected.contains(text)).cloned().collect();
                assert_eq!(list(&view, &above, Direction::Forward), rest, "to {low}");
            }
        }
        assert_eq!(list(&view, &Interval::prefix("_design/"), Direction::Forward), ["_design/x"]);
        let part = Interval::prefix("6").within(&Interval { low: Some(Edge::new("65b", true)), high: None });
        assert_eq!(list(&view, &part, Direction::Reverse), ["65b"]);
    }
}
