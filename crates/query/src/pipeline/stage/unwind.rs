//! `$unwind`: one document for each element of an array.

use super::set_path::set_path;
use crate::error::{Error, Result};
use crate::expr::field_path;
use crate::interrupt::Interrupt;
use crate::pipeline::DocSource;
use diwan_value::{Doc, DocBuf, Path, Value};
use std::sync::Arc;

/// A parsed `$unwind`.
#[derive(Clone, Debug)]
pub struct Unwind {
    path: Path,
    /// The path for the element's index.
    index: Option<Path>,
    /// Whether a document without elements is passed on.
    preserve: bool,
}

impl Unwind {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>) -> Result<Unwind> {
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
    pub(crate) fn open(self: &Arc<Unwind>, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
        Box::new(UnwindSource {
            unwind: self.clone(),
            input,
            element: None,
            held: None,
            current: CurrentDocument::Input,
        })
    }

    /// Writes `doc` with `value` in place of the array and `index` at its path.
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
struct UnwindSource {
    unwind: Arc<Unwind>,
    input: Box<dyn DocSource>,
    /// The next element of the input's current document: its index and its offset in the array's bytes.
    element: Option<(i64, usize)>,
    /// A copy of that document, if the input was suspended.
    held: Option<DocBuf>,
    current: CurrentDocument,
}

/// Where the stage's current document is.
enum CurrentDocument {
    /// The document of the input.
    Input,
    /// A document built from it.
    Made(Vec<u8>),
}

impl UnwindSource {
    /// The buffer for a document.
    fn buffer(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.current, CurrentDocument::Input) {
            CurrentDocument::Made(buffer) => buffer,
            CurrentDocument::Input => Vec::new(),
        }
    }

    /// Builds the document for the array's next element; false if there is none.
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
            self.current = CurrentDocument::Made(out);
            return false;
        };
        self.unwind.write(doc, Some(element.value()), Value::Int64(number), &mut out);
        self.element = Some((number + 1, offset + 1 + element.key.len() + 1 + element.raw.bytes.len()));
        self.current = CurrentDocument::Made(out);
        true
    }

    /// Inspects a new document; true if it yields a document itself.
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
            self.current = CurrentDocument::Made(out);
        } else {
            self.current = CurrentDocument::Input;
        }
        true
    }
}

impl DocSource for UnwindSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if self.next_element() {
            return Ok(true);
        }
        while self.input.advance(interrupt)? {
            if self.begin() {
                return Ok(true);
            }
        }
        self.current = CurrentDocument::Made(Vec::new());
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        match &self.current {
            CurrentDocument::Input => self.input.current(),
            CurrentDocument::Made(bytes) => Doc::trusted(bytes),
        }
    }

    fn suspend(&mut self) {
        // The remaining elements are read from the input's current document, which becomes invalid when the input is
        // suspended.
        if self.element.is_some() && self.held.is_none() {
            self.held = Some(self.input.current().to_owned());
        }
        self.input.suspend();
    }
}
