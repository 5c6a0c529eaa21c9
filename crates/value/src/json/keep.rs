//! Keeps number types that JSON cannot express across an edit.
//!
//! A JavaScript client parses `2.0` and writes `2`; a small `Int64` comes back as an `Int32`. Where a number in the new
//! document equals the number at the same place in the old document, `keep_types` gives it the old type, so numbers
//! that the client did not edit do not change.

use crate::builder::DocBuilder;
use crate::compare::compare;
use crate::element::{Element, RawValue, Type};
use crate::owned::DocBuf;
use crate::view::Doc;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Returns `new` with the old types of those numbers that equal the number at the same place in `old` (members are
/// matched by name, array elements by index); `None` if no type changes.
pub fn keep_types(old: Doc<'_>, new: Doc<'_>) -> Option<DocBuf> {
    if old == new {
        return None;
    }
    let mut out = DocBuilder::new();
    let changed = members(old, new, &mut out);
    changed.then(|| out.finish())
}

/// Appends the members of `new`. Returns whether any type changed.
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

/// Appends an element whose old value was `old`. Returns whether a type changed.
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

/// The types that have one common form in JSON.
fn is_number(tag: Type) -> bool {
    matches!(tag, Type::Int32 | Type::Int64 | Type::Double)
}

fn may_change(tag: Type) -> bool {
    is_number(tag) || matches!(tag, Type::Document | Type::Array)
}

/// Finds members by name. Searching in document order is fastest.
struct Lookup<'a> {
    doc: Doc<'a>,
    rest: crate::element::Elements<'a>,
    /// Built when a name is not found among the next few members.
    all: Option<HashMap<&'a [u8], RawValue<'a>>>,
}

/// How many members are compared before the index of all members is built.
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
            // Where a name occurs twice, the first member counts, as in [`Doc::get`].
            let mut all = HashMap::new();
            for element in doc {
                all.entry(element.key).or_insert(element.raw);
            }
            all
        });
        all.get(name).copied()
    }
}
