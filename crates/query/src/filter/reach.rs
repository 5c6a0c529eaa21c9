//! Finds the values that a dotted path reaches in a document, entering arrays on the way.
//!
//! A path part names a field of a document. Applied to an array, it names that field in each document of the array
//! (implicit traversal), and, if it is a number, also the element at that index. At the end of the path an array stands
//! for its elements and for itself. A document without the field yields *missing*; an array without documents yields
//! nothing.

use crate::error::Result;
use diwan_value::{Array, Doc, Path, RawValue, Type};

/// How an array at the end of a path is visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// Its elements are visited, then the array.
    Elements,
    /// Only the array is visited.
    Whole,
}

/// One walk along a path. `visit` is called with each value reached (`None` for missing) and with the index of the
/// element through which the outermost array was entered implicitly. It ends the walk by returning true.
pub(super) struct Reach<'p, F> {
    pub path: &'p Path,
    pub at_end: AtEnd,
    pub visit: F,
}

impl<F> Reach<'_, F> {
    /// Continues from `value`, the value after the path's first `at` parts.
    pub fn walk<'d>(&mut self, value: Option<RawValue<'d>>, at: usize, index: Option<usize>) -> Result<bool>
    where
        F: FnMut(Option<RawValue<'d>>, Option<usize>) -> Result<bool>,
    {
        if at == self.path.depth() {
            return self.end(value, index);
        }
        match value {
            Some(raw) if raw.tag == Type::Document => {
                let field = Doc::trusted(raw.bytes).get_raw(self.path.name(at));
                self.walk(field, at + 1, index)
            }
            Some(raw) if raw.tag == Type::Array => self.array(Array::trusted(raw.bytes), at, index),
            _ => (self.visit)(None, index),
        }
    }

    fn end<'d>(&mut self, value: Option<RawValue<'d>>, index: Option<usize>) -> Result<bool>
    where
        F: FnMut(Option<RawValue<'d>>, Option<usize>) -> Result<bool>,
    {
        if let Some(raw) = value
            && raw.tag == Type::Array
            && self.at_end == AtEnd::Elements
        {
            for (at, element) in Array::trusted(raw.bytes).elements().enumerate() {
                if (self.visit)(Some(element.raw), index.or(Some(at)))? {
                    return Ok(true);
                }
            }
        }
        (self.visit)(value, index)
    }

    /// Enters an array before path part `at`.
    fn array<'d>(&mut self, array: Array<'d>, at: usize, index: Option<usize>) -> Result<bool>
    where
        F: FnMut(Option<RawValue<'d>>, Option<usize>) -> Result<bool>,
    {
        let wanted = self.path.index(at);
        let last = at + 1 == self.path.depth();
        for (position, element) in array.elements().enumerate() {
            let raw = element.raw;
            if raw.tag == Type::Document && self.walk(Some(raw), at, index.or(Some(position)))? {
                return Ok(true);
            }
            if wanted != Some(position) {
                continue;
            }
            let stop = match raw.tag {
                // The path selected this element by index, so an array here is visited only as a whole.
                _ if last => (self.visit)(Some(raw), index)?,
                Type::Document => self.walk(Some(raw), at + 1, index)?,
                Type::Array => self.array(Array::trusted(raw.bytes), at + 1, index)?,
                _ => false,
            };
            if stop {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
