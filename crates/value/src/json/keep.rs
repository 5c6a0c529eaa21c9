//! Types that JSON cannot tell apart, kept through an edit.
//!
//! A client in JavaScript reads `2.0` and writes `2`; an `Int64` that is small comes back as an `Int32`. Where the new
//! document has a number that is equal to the one at the same place of the old document, the old one's type is kept:
//! what was not edited does not change.

use crate::builder::DocBuilder;
use crate::compare::compare;
use crate::element::{Element, RawValue, Type};
use crate::owned::DocBuf;
use crate::view::Doc;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Gives `new` with the types of those numbers that are equal to the ones of `old` at the same place (members by name,
/// elements of arrays by index); `None` if that changes nothing.
pub fn keep_types(old: Doc<'_>, new: Doc<'_>) -> Option<DocBuf> {
    if old == new {
        return None;
    }
    let mut out = DocBuilder::new();
    let changed = members(old, new, &mut out);
    changed.then(|| out.finish())
}

/// Appends the members of `new`; whether the type of any was changed.
fn members(old: Doc<'_>, new: Doc<'_>, out: &mut DocBuilder) -> bool {
    let mut old = Lookup::new(old);
    let mut changed = false;
    for element in new {
        let kept = may_change(element.raw.tag).then(|| old.find(element.key)).flatten();
        match kept {
            Some(kept) => changed |= append(kept, element, out),
            None => {
                out.append_element(element);
            }
        }
    }
    changed
}

/// Appends an element that had the value `old` before; whether its type was changed.
fn append(old: RawValue<'_>, new: Element<'_>, out: &mut DocBuilder) -> bool {
    let nested = |bytes| Doc::trusted(bytes);
    match (old.tag, new.raw.tag) {
        (Type::Document, Type::Document) | (Type::Array, Type::Array) if old.bytes != new.raw.bytes => {
            if new.raw.tag == Type::Array {
                out.begin_array(new.key_str());
            } else {
                out.begin_document(new.key_str());
            }
            let changed = members(nested(old.bytes), nested(new.raw.bytes), out);
            out.end();
            changed
        }
        (before, now) if before != now && is_number(before) && is_number(now) => {
            let equal = match (old.decode(), new.raw.decode()) {
                (Some(before), Some(now)) => compare(before, now) == Ordering::Equal,
                _ => false,
            };
            out.append_raw(new.key, if equal { old } else { new.raw });
            equal
        }
        _ => {
            out.append_element(new);
            false
        }
    }
}

/// The types that text of JSON has one form for.
fn is_number(tag: Type) -> bool {
    matches!(tag, Type::Int32 | Type::Int64 | Type::Double)
}

fn may_change(tag: Type) -> bool {
    is_number(tag) || matches!(tag, Type::Document | Type::Array)
}

/// Finds members by name, fastest in the order in which they lie.
struct Lookup<'a> {
    doc: Doc<'a>,
    rest: crate::element::Elements<'a>,
    /// Made when a name is not found among the next few.
    all: Option<HashMap<&'a [u8], RawValue<'a>>>,
}

/// How many members are looked at before all are noted.
const AHEAD: usize = 8;

impl<'a> Lookup<'a> {
    fn new(doc: Doc<'a>) -> Lookup<'a> {
        Lookup { doc, rest: doc.iter(), all: None }
    }

    fn find(&mut self, name: &[u8]) -> Option<RawValue<'a>> {
        if self.all.is_none() {
            let mut ahead = self.rest.clone();
            if let Some(found) = ahead.by_ref().take(AHEAD).find(|element| element.key == name) {
                self.rest = ahead;
                return Some(found.raw);
            }
        }
        let doc = self.doc;
        let all = self.all.get_or_insert_with(|| {
            // Of names that occur twice the first counts, as everywhere.
            let mut all = HashMap::new();
            for element in doc {
                all.entry(element.key).or_insert(element.raw);
            }
            all
        });
        all.get(name).copied()
    }
}
