//! Applies a projection to a document's bytes.

use super::{Branch, FieldProjection, Slice};
use crate::error::{Error, Result};
use crate::expr::EvalEnv;
use diwan_value::{Array, Doc, DocBuilder, Element, Value, doc};

/// One application of a projection to a document.
pub(super) struct Projector<'r, 'a> {
    /// The array index for the positional `$`.
    pub array_index: Option<usize>,
    /// Whether an outer array was already reduced to its matching element: arrays inside it are kept whole.
    pub chosen: bool,
    /// The environment for expressions.
    pub env: &'r EvalEnv<'a>,
}

/// How a branch treats fields that it does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Include,
    Exclude,
}

impl<'a> Projector<'_, 'a> {
    /// Appends the fields of `doc` that `branch` names, then the fields that it computes.
    pub fn include(&self, doc: Doc<'_>, branch: &'a Branch, out: &mut DocBuilder) -> Result<()> {
        if !branch.computed {
            // When all fields have been found, the rest of the document can be skipped.
            let mut left = branch.fields.len();
            for element in doc {
                let Some(entry) = find(branch, element.key) else { continue };
                match entry {
                    FieldProjection::Keep => {
                        out.append_element(element);
                    }
                    FieldProjection::Drop => {}
                    entry => self.field(element, entry, Mode::Include, out)?,
                }
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            return Ok(());
        }
        for element in doc {
            if let Some(entry) = find(branch, element.key) {
                self.field(element, entry, Mode::Include, out)?;
            }
        }
        // Computed fields follow the kept ones, in the order of the projection.
        for (name, entry) in &branch.fields {
            match entry {
                FieldProjection::Branch(inner) if inner.computed && doc.get(name).is_none() => {
                    self.computed_document(name, inner, out)?
                }
                FieldProjection::Computed(expr) => {
                    if let Some(value) = self.env.nested(expr.eval(self.env)?)? {
                        out.append(name, value);
                    }
                }
                FieldProjection::ElemMatch(filter) => {
                    if let Some(value) = doc.get(name)
                        && let Some(matching) = first_match(name, value, filter)?
                    {
                        append_array(name, std::iter::once(matching), out);
                    }
                }
                _ => {}
            }
        }
        self.env.check_size(out.len())
    }

    /// Appends the fields of `doc` except those that `branch` drops.
    pub fn exclude(&self, doc: Doc<'_>, branch: &'a Branch, out: &mut DocBuilder) -> Result<()> {
        let bytes = doc.as_bytes();
        // The elements from `copied` to `at` are kept and not yet copied.
        let (mut copied, mut at) = (4, 4);
        for element in doc {
            let end = at + element.key.len() + element.raw.bytes.len() + 2;
            if let Some(entry) = find(branch, element.key) {
                out.append_span(bytes.get(copied..at).unwrap_or_default());
                copied = end;
                self.field(element, entry, Mode::Exclude, out)?;
            }
            at = end;
        }
        out.append_span(bytes.get(copied..at).unwrap_or_default());
        Ok(())
    }

    /// Appends the projection of one field that the projection names. Computed fields follow later.
    fn field(
        &self,
        element: Element<'_>,
        entry: &'a FieldProjection,
        mode: Mode,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let name = element.key_str();
        match entry {
            FieldProjection::Keep => {
                out.append_element(element);
            }
            FieldProjection::Drop | FieldProjection::Computed(_) => {}
            FieldProjection::Branch(branch) => self.branch(element, branch, mode, out)?,
            FieldProjection::Slice(slice) => match element.value() {
                Value::Array(array) => slice.append(name, array, out),
                _ => {
                    out.append_element(element);
                }
            },
            FieldProjection::Positional => match element.value() {
                Value::Array(array) if !self.chosen => {
                    let matched = self.matched(array.iter())?;
                    append_array(name, std::iter::once(matched), out);
                }
                _ => {
                    out.append_element(element);
                }
            },
            FieldProjection::ElemMatch(filter) if mode == Mode::Exclude => {
                if let Some(matching) = first_match(name, element.value(), filter)? {
                    append_array(name, std::iter::once(matching), out);
                }
            }
            FieldProjection::ElemMatch(_) => {}
        }
        Ok(())
    }

    /// Appends a field whose inner fields are projected.
    fn branch(
        &self,
        element: Element<'_>,
        branch: &'a Branch,
        mode: Mode,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let name = element.key_str();
        match element.value() {
            Value::Document(doc) => {
                out.begin_document(name);
                self.document(doc, branch, mode, out)?;
                out.end();
            }
            Value::Array(array) => {
                out.begin_array(name);
                if branch.positional && !self.chosen {
                    // The index of the match counts only the elements that remain after the projection.
                    let stays = |value: &Value<'_>| {
                        let has_fields = matches!(value, Value::Document(_) | Value::Array(_));
                        has_fields || branch.computed || mode == Mode::Exclude
                    };
                    let matched = self.matched(array.iter().filter(stays))?;
                    let inside = Projector { chosen: true, ..*self };
                    inside.elements(std::iter::once(matched), branch, mode, out)?;
                } else {
                    self.elements(array.iter(), branch, mode, out)?;
                }
                out.end();
            }
            _ if mode == Mode::Exclude => {
                out.append_element(element);
            }
            _ if branch.computed => self.computed_document(name, branch, out)?,
            _ => {}
        }
        Ok(())
    }

    fn document(&self, doc: Doc<'_>, branch: &'a Branch, mode: Mode, out: &mut DocBuilder) -> Result<()> {
        match mode {
            Mode::Include => self.include(doc, branch, out),
            Mode::Exclude => self.exclude(doc, branch, out),
        }
    }

    /// Appends the projected elements of an array to the open array.
    fn elements<'v>(
        &self,
        values: impl Iterator<Item = Value<'v>>,
        branch: &'a Branch,
        mode: Mode,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let mut count = 0usize;
        for value in values {
            let key = count.to_string();
            match value {
                Value::Document(doc) => {
                    out.begin_document(&key);
                    self.document(doc, branch, mode, out)?;
                    out.end();
                }
                Value::Array(array) => {
                    out.begin_array(&key);
                    let inner: Vec<Value<'_>> = array.iter().collect();
                    self.nested_elements(&inner, branch, mode, out)?;
                    out.end();
                }
                scalar if mode == Mode::Exclude => {
                    out.append(&key, scalar);
                }
                _ if branch.computed => self.computed_document(&key, branch, out)?,
                _ => continue,
            }
            count += 1;
        }
        Ok(())
    }

    /// Like `elements`, for an array inside an array.
    fn nested_elements(
        &self,
        values: &[Value<'_>],
        branch: &'a Branch,
        mode: Mode,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let values: &mut dyn Iterator<Item = Value<'_>> = &mut values.iter().copied();
        self.elements(values, branch, mode, out)
    }

    /// Appends a document with only the computed fields.
    fn computed_document(&self, name: &str, branch: &'a Branch, out: &mut DocBuilder) -> Result<()> {
        out.begin_document(name);
        self.include(Doc::EMPTY, branch, out)?;
        out.end();
        Ok(())
    }

    /// The array element that the query matched.
    fn matched<'v>(&self, mut elements: impl Iterator<Item = Value<'v>>) -> Result<Value<'v>> {
        let Some(index) = self.array_index else {
            let text = "positional operator '.$' couldn't find a matching element in the array";
            return Err(Error::new(51246, text));
        };
        let mismatch = || Error::new(51247, "positional operator '.$' element mismatch");
        elements.nth(index).ok_or_else(mismatch)
    }
}

/// The entry for the field `key`.
#[inline]
fn find<'b>(branch: &'b Branch, key: &[u8]) -> Option<&'b FieldProjection> {
    branch.position(key).map(|at| &branch.fields[at].1)
}

/// The first element of the array `value`, the field `name`, that matches `filter`.
fn first_match<'v>(
    name: &str,
    value: Value<'v>,
    filter: &crate::filter::Filter,
) -> Result<Option<Value<'v>>> {
    let Value::Array(array) = value else { return Ok(None) };
    let found = filter.matches_with_position(doc! { name: value }.as_doc())?;
    Ok(found.array_index.filter(|_| found.matched).and_then(|index| array.get(index)))
}

fn append_array<'v>(name: &str, values: impl Iterator<Item = Value<'v>>, out: &mut DocBuilder) {
    out.begin_array(name);
    for (at, value) in values.enumerate() {
        out.append_indexed(at, value);
    }
    out.end();
}

impl Slice {
    /// Appends the selected part of `array`.
    fn append(self, name: &str, array: Array<'_>, out: &mut DocBuilder) {
        let (skip, limit) = match self {
            Slice::First(limit) => (0, limit),
            Slice::Last(limit) => (array.count().saturating_sub(limit), limit),
            Slice::From(skip, limit) => (skip, limit),
            Slice::FromEnd(back, limit) => (array.count().saturating_sub(back), limit),
        };
        append_array(name, array.iter().skip(skip).take(limit), out);
    }
}
