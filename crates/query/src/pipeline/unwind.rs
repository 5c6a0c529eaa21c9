//! `$unwind`: one document for every element of an array.

use super::DocSource;
use super::set_path::set_path;
use crate::error::{Error, Result};
use crate::expr::field_path;
use crate::interrupt::Interrupt;
use diwan_value::{Doc, DocBuf, Path, Value};
use std::sync::Arc;

/// A parsed `$unwind`.
#[derive(Clone, Debug)]
pub struct Unwind {
    path: Path,
    /// Where the element's index is put.
    index: Option<Path>,
    /// Whether a document without elements passes.
    preserve: bool,
}

impl Unwind {
    /// Parses the stage's argument.
    pub(super) fn parse(spec: Value<'_>) -> Result<Unwind> {
        let mut path = "";
        let mut index = None;
        let mut preserve = false;
        match spec {
            Value::String(text) => path = text,
            Value::Document(doc) => {
                for element in doc.iter() {
                    let value = element.value();
                    let found = value.tag().alias();
                    match (element.key_str(), value) {
                        ("path", Value::String(text)) => path = text,
                        ("path", _) => {
                            let text =
                                format!("expected a string as the path for $unwind stage, got {found}");
                            return Err(Error::new(28808, text));
                        }
                        ("preserveNullAndEmptyArrays", Value::Boolean(flag)) => preserve = flag,
                        ("preserveNullAndEmptyArrays", _) => {
                            let text = format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got \
                                 {found}"
                            );
                            return Err(Error::new(28809, text));
                        }
                        ("includeArrayIndex", Value::String(text)) if !text.is_empty() => index = Some(text),
                        ("includeArrayIndex", _) => {
                            let text = format!(
                                "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got \
                                 {found}"
                            );
                            return Err(Error::new(28810, text));
                        }
                        (other, _) => {
                            let text = format!("unrecognized option to $unwind stage: {other}");
                            return Err(Error::new(28811, text));
                        }
                    }
                }
            }
            other => {
                let text = format!(
                    "expected either a string or an object as specification for $unwind stage, got {}",
                    other.tag().alias()
                );
                return Err(Error::new(15981, text));
            }
        }
        if let Some(index) = index.filter(|index| index.starts_with('$')) {
            let text = format!(
                "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {index}"
            );
            return Err(Error::new(28822, text));
        }
        if path.is_empty() {
            return Err(Error::new(28812, "no path specified to $unwind stage"));
        }
        let Some(name) = path.strip_prefix('$') else {
            let text = format!("path option to $unwind stage should be prefixed with a '$': {path}");
            return Err(Error::new(28818, text));
        };
        Ok(Unwind { path: field_path(name)?, index: index.map(field_path).transpose()?, preserve })
    }

    /// The path of the array.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the stage over `input`.
    pub(super) fn open(self: &Arc<Unwind>, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
        Box::new(Unwinding {
            unwind: self.clone(),
            input,
            element: None,
            held: None,
            current: Current::Input,
        })
    }

    /// Writes `doc` with `value` in the array's place and `index` where it belongs.
    fn write(&self, doc: Doc<'_>, value: Option<Value<'_>>, index: Value<'_>, out: &mut Vec<u8>) {
        out.clear();
        *out = set_path(doc, &self.path, value, std::mem::take(out));
        if let Some(path) = &self.index {
            let with_index =
                set_path(Doc::trusted(out), path, Some(index), Vec::with_capacity(out.len() + 32));
            *out = with_index;
        }
    }
}

/// The running stage.
struct Unwinding {
    unwind: Arc<Unwind>,
    input: Box<dyn DocSource>,
    /// The next element of the input's current document: its number and where it begins in the array's bytes.
    element: Option<(i64, usize)>,
    /// That document, if the input was suspended since.
    held: Option<DocBuf>,
    current: Current,
}

/// What the stage's current document is.
enum Current {
    /// The input's.
    Input,
    /// One made of it.
    Made(Vec<u8>),
}

impl Unwinding {
    /// The buffer of made documents.
    fn buffer(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.current, Current::Input) {
            Current::Made(buffer) => buffer,
            Current::Input => Vec::new(),
        }
    }

    /// Makes the document of the array's next element; false if there is none.
    fn next_element(&mut self) -> bool {
        let Some((number, offset)) = self.element else { return false };
        let mut out = self.buffer();
        let doc = self.held.as_ref().map_or_else(|| self.input.current(), DocBuf::as_doc);
        let Some(Value::Array(array)) = self.unwind.path.get(doc) else { return false };
        // A view of the array that begins at the next element.
        let rest = Doc::trusted(array.as_bytes().get(offset..).unwrap_or_default());
        let Some(element) = rest.iter().next() else {
            self.element = None;
            self.held = None;
            self.current = Current::Made(out);
            return false;
        };
        self.unwind.write(doc, Some(element.value()), Value::Int64(number), &mut out);
        self.element = Some((number + 1, offset + 1 + element.key.len() + 1 + element.raw.bytes.len()));
        self.current = Current::Made(out);
        true
    }

    /// Looks at a new document; true if it gives a document itself.
    fn begin(&mut self) -> bool {
        let unwind = self.unwind.clone();
        let doc = self.input.current();
        let (passes, removes) = match unwind.path.get(doc) {
            Some(Value::Array(array)) if !array.is_empty() => {
                self.element = Some((0, 0));
                return self.next_element();
            }
            Some(Value::Array(_)) => (unwind.preserve, true),
            None | Some(Value::Null | Value::Undefined) => (unwind.preserve, false),
            Some(_) => (true, false),
        };
        if !passes {
            return false;
        }
        if removes || unwind.index.is_some() {
            let mut out = self.buffer();
            let doc = self.input.current();
            let value = if removes { None } else { unwind.path.get(doc) };
            unwind.write(doc, value, Value::Null, &mut out);
            self.current = Current::Made(out);
        } else {
            self.current = Current::Input;
        }
        true
    }
}

impl DocSource for Unwinding {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if self.next_element() {
            return Ok(true);
        }
        while self.input.advance(interrupt)? {
            if self.begin() {
                return Ok(true);
            }
        }
        self.current = Current::Made(Vec::new());
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        match &self.current {
            Current::Input => self.input.current(),
            Current::Made(bytes) => Doc::trusted(bytes),
        }
    }

    fn suspend(&mut self) {
        // The rest of an array is read from the input's current document, which goes away.
        if self.element.is_some() && self.held.is_none() {
            self.held = Some(self.input.current().to_owned());
        }
        self.input.suspend();
    }
}
