//! The reader: text to BSON in one pass.
//!
//! The reader writes an element with an empty type byte and fills it in when the value is parsed, and the same for a
//! document's length. Checks that need a whole object (duplicate names, type wrappers) run on its BSON when the object
//! ends.

use super::scan::{fingerprint, plain_length};
use super::write::{Mode, write_value};
use super::{Dialect, ErrorKind, JsonError, Limits, number, wrapper};
use crate::element::Type;
use crate::view::{Doc, Value};
use std::collections::HashMap;

/// How much deeper the text may nest than its values: a wrapper inside a wrapper, and its object.
const WRAPPER_LEVELS: usize = 3;

/// Up to this number, names are compared pairwise to find duplicates.
const FEW_NAMES: usize = 16;

/// The reader of one text.
pub(super) struct Reader<'t> {
    text: &'t [u8],
    /// The offset of the next byte to read.
    pub at: usize,
    /// The BSON written so far.
    pub out: Vec<u8>,
    /// Fingerprints of the names in all open objects.
    names: Vec<u64>,
    limits: Limits,
    dialect: Dialect,
    /// Whether the current object lies within a possible wrapper, which is checked as a whole when it ends.
    within_wrapper: bool,
    /// The deepest nesting so far.
    deepest: usize,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t [u8], limits: Limits, dialect: Dialect) -> Result<Reader<'t>, JsonError> {
        if let Err(error) = std::str::from_utf8(text) {
            return Err(JsonError::new(ErrorKind::Syntax, error.valid_up_to(), "invalid UTF-8"));
        }
        let out = Vec::with_capacity((text.len() + 32).min(limits.bytes));
        Ok(Reader { text, at: 0, out, names: Vec::new(), limits, dialect, within_wrapper: false, deepest: 0 })
    }

    /// Returns the BSON.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Parses text that is exactly one object and not a type wrapper.
    pub fn whole_document(&mut self) -> Result<(), JsonError> {
        match self.whole_value()? {
            Type::Document => Ok(()),
            _ => Err(JsonError::new(ErrorKind::Syntax, 0, "expected an object")),
        }
    }

    /// Parses text that is exactly one value.
    pub fn whole_value(&mut self) -> Result<Type, JsonError> {
        self.skip_space();
        let tag = self.value(1)?;
        self.end_of_text()?;
        self.check_limits(tag)?;
        Ok(tag)
    }

    /// Checks that only white space follows.
    pub fn end_of_text(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        if self.at < self.text.len() { Err(self.syntax("unexpected text after the value")) } else { Ok(()) }
    }

    /// Checks the size of the BSON, and its nesting if the text nests too deep.
    pub fn check_limits(&self, tag: Type) -> Result<(), JsonError> {
        if self.out.len() > self.limits.bytes {
            return Err(self.too_large());
        }
        let nested = matches!(tag, Type::Document | Type::Array);
        if nested && self.deepest > self.limits.depth && depth_of(Doc::trusted(&self.out)) > self.limits.depth
        {
            return Err(self.too_deep());
        }
        Ok(())
    }

    /// Parses the value at the current offset and writes it without type and name. `depth` is its nesting if it is an
    /// object or array.
    #[inline]
    pub fn value(&mut self, depth: usize) -> Result<Type, JsonError> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                let start = self.out.len();
                self.out.extend_from_slice(&[0; 4]);
                self.string()?;
                self.out.push(0);
                let length = (self.out.len() - start - 4) as u32;
                self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
                Ok(Type::String)
            }
            Some(b'-' | b'0'..=b'9') => {
                let (value, end) = number::read(self.text, self.at)?;
                self.at = end;
                match value {
                    Value::Int32(number) => self.out.extend_from_slice(&number.to_le_bytes()),
                    Value::Int64(number) => self.out.extend_from_slice(&number.to_le_bytes()),
                    other => crate::builder::write_value(&mut self.out, other),
                }
                Ok(value.tag())
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b't') => self.word(b"true").map(|()| self.boolean(true)),
            Some(b'f') => self.word(b"false").map(|()| self.boolean(false)),
            Some(b'n') => self.word(b"null").map(|()| Type::Null),
            _ => Err(self.syntax("expected a value")),
        }
    }

    fn boolean(&mut self, flag: bool) -> Type {
        self.out.push(flag.into());
        Type::Boolean
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.syntax("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<Type, JsonError> {
        let position = self.at;
        let start = self.begin(depth)?;
        let names = self.names.len();
        let within = self.within_wrapper;
        let mut more = !self.ends_at_once(b'}');
        while more {
            let (element, _) = self.name()?;
            if self.dialect == Dialect::Replicated && element == start + 4 {
                self.within_wrapper |= wrapper::is_name(&self.out[element + 1..self.out.len() - 1]);
            }
            self.out[element] = self.value(depth + 1)? as u8;
            more = self.another_follows(b'}')?;
        }
        self.close(start, names);
        self.within_wrapper = within;
        if self.out.get(start + 5) == Some(&b'$') {
            return if self.dialect == Dialect::Replicated {
                self.unwrap_replicated(start, position)
            } else {
                self.unwrap(start, position)
            };
        }
        Ok(Type::Document)
    }

    /// Begins an object or array: checks the depth and writes a length to be filled in.
    pub fn begin(&mut self, depth: usize) -> Result<usize, JsonError> {
        self.deepest = self.deepest.max(depth);
        if depth > self.limits.depth + WRAPPER_LEVELS {
            return Err(self.too_deep());
        }
        self.at += 1;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        Ok(start)
    }

    /// Skips the end of an empty object or array. Returns whether there was one.
    #[inline]
    pub fn ends_at_once(&mut self, end: u8) -> bool {
        self.skip_space();
        let empty = self.peek() == Some(end);
        self.at += usize::from(empty);
        empty
    }

    /// Parses a member's name and the colon, and writes the element's head. Returns the offset of the type byte and
    /// that of the name in the text.
    #[inline]
    pub fn name(&mut self) -> Result<(usize, usize), JsonError> {
        self.skip_space();
        let position = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.syntax("expected a name in quotes"));
        }
        self.at += 1;
        let element = self.out.len();
        self.out.push(0);
        let escaped = self.string()?;
        let name = &self.out[element + 1..];
        self.names.push(fingerprint(name));
        // Only an escape can produce a NUL.
        if escaped && name.contains(&0) {
            let message = "a name must not contain a null character";
            return Err(JsonError::new(ErrorKind::Unstorable, position, message));
        }
        self.out.push(0);
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.syntax("expected a colon"));
        }
        self.at += 1;
        self.skip_space();
        Ok((element, position))
    }

    /// Removes the last parsed name, and everything that was written from its element on.
    pub fn remove_last(&mut self, element: usize) {
        self.out.truncate(element);
        self.names.pop();
    }

    /// Parses the separator after a value in an object or array. Returns whether another value follows.
    #[inline]
    pub fn another_follows(&mut self, end: u8) -> Result<bool, JsonError> {
        // A wrapper may become a smaller value, so this check allows twice the limit; `check_limits` measures the
        // result.
        if self.out.len() / 2 > self.limits.bytes {
            return Err(self.too_large());
        }
        self.skip_space();
        let next = self.peek();
        if next == Some(b',') {
            self.at += 1;
            Ok(true)
        } else if next == Some(end) {
            self.at += 1;
            Ok(false)
        } else {
            Err(self.syntax(if end == b'}' { "expected , or }" } else { "expected , or ]" }))
        }
    }

    /// Ends the object that begins at `start`. The fingerprints of its names begin at `names`.
    pub fn close(&mut self, start: usize, names: usize) {
        let mut twice = false;
        let mut open = &self.names[names..];
        if open.len() <= FEW_NAMES {
            while let Some((first, rest)) = open.split_first() {
                twice |= rest.contains(first);
                open = rest;
            }
        } else {
            let open = &mut self.names[names..];
            open.sort_unstable();
            twice = open.windows(2).any(|pair| pair[0] == pair[1]);
        }
        self.names.truncate(names);
        self.fill_length(start);
        if twice && self.dialect != Dialect::Extended {
            self.keep_last(start);
        }
    }

    fn fill_length(&mut self, start: usize) {
        self.out.push(0);
        let length = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// For each name that occurs more than once in the document at `start`, moves the last value to the place of the
    /// first.
    #[cold]
    fn keep_last(&mut self, start: usize) {
        let doc = Doc::trusted(&self.out[start..]);
        let mut places = HashMap::new();
        let mut elements = Vec::new();
        for element in doc {
            match places.get(element.key) {
                Some(&place) => elements[place] = element,
                None => {
                    places.insert(element.key, elements.len());
                    elements.push(element);
                }
            }
        }
        let mut builder = crate::DocBuilder::new();
        for element in elements {
            builder.append_element(element);
        }
        let kept = builder.finish().into_bytes();
        self.out.truncate(start);
        self.out.extend_from_slice(&kept);
    }

    /// Replaces the document at `start` by the value that it wraps.
    #[cold]
    fn unwrap(&mut self, start: usize, position: usize) -> Result<Type, JsonError> {
        let doc = Doc::trusted(&self.out[start..]);
        match wrapper::unwrap(doc) {
            wrapper::Unwrapped::Value(value) => {
                let raw = value.as_raw();
                self.out.truncate(start);
                self.out.extend_from_slice(raw.bytes);
                Ok(raw.tag)
            }
            wrapper::Unwrapped::Invalid(message) if self.dialect == Dialect::Extended => {
                Err(JsonError::new(ErrorKind::Syntax, position, message))
            }
            _ => Ok(Type::Document),
        }
    }

    /// Replaces the document at `start` by the value that it wraps if the text, from `position` on, is exactly what
    /// `write_value` would write for that value. Objects inside it were not unwrapped.
    #[cold]
    fn unwrap_replicated(&mut self, start: usize, position: usize) -> Result<Type, JsonError> {
        let text = &self.text[position..self.at];
        let first = Doc::trusted(&self.out[start..]).iter().next();
        if self.within_wrapper || !first.is_some_and(|first| wrapper::is_name(first.key)) {
            return Ok(Type::Document);
        }
        let Ok(value) = super::parse_value(text, self.limits) else { return Ok(Type::Document) };
        let raw = value.as_raw();
        if raw.tag != Type::Document {
            let mut written = Vec::with_capacity(text.len());
            write_value(&mut written, value.as_value(), Mode::Exchange);
            if is_same_text(text, &written) {
                self.out.truncate(start);
                self.out.extend_from_slice(raw.bytes);
                return Ok(raw.tag);
            }
        }
        Ok(Type::Document)
    }

    fn array(&mut self, depth: usize) -> Result<Type, JsonError> {
        let start = self.begin(depth)?;
        let mut index = Index::ZERO;
        let mut more = !self.ends_at_once(b']');
        while more {
            self.skip_space();
            let element = self.out.len();
            self.out.push(0);
            self.out.extend_from_slice(index.digits());
            self.out.push(0);
            self.out[element] = self.value(depth + 1)? as u8;
            index.increment();
            more = self.another_follows(b']')?;
        }
        self.fill_length(start);
        Ok(Type::Array)
    }

    /// Parses a string from after its opening quote to after its closing quote, and writes its text. Returns whether it
    /// had an escape.
    #[inline]
    pub fn string(&mut self) -> Result<bool, JsonError> {
        let mut escaped = false;
        loop {
            let rest = &self.text[self.at..];
            let length = plain_length(rest);
            self.out.extend_from_slice(&rest[..length]);
            self.at += length;
            match rest.get(length) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    let char = self.escape()?;
                    self.out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(_) => return Err(self.syntax("control character in a string")),
                None => return Err(self.syntax("unfinished string")),
            }
        }
    }

    /// Parses an escape, starting at its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let position = self.at;
        let invalid = |message| Err(JsonError::new(ErrorKind::Syntax, position, message));
        self.at += 2;
        Ok(match self.text.get(position + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let Some(first) = self.hex() else { return invalid("invalid escape") };
                let code = match first {
                    0xD800..0xDC00 => {
                        let second = self.text[self.at..].starts_with(b"\\u").then(|| {
                            self.at += 2;
                            self.hex()
                        });
                        match second.flatten() {
                            Some(second @ 0xDC00..0xE000) => {
                                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                            }
                            _ => return invalid("a surrogate without its pair"),
                        }
                    }
                    code => code,
                };
                match char::from_u32(code) {
                    Some(char) => char,
                    None => return invalid("a surrogate without its pair"),
                }
            }
            _ => return invalid("invalid escape"),
        })
    }

    /// Parses four hexadecimal digits.
    fn hex(&mut self) -> Option<u32> {
        let digits: &[u8; 4] = self.text.get(self.at..)?.first_chunk()?;
        self.at += 4;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }

    /// Parses a value without writing it and returns its text. Only nesting is limited.
    pub fn skip_value(&mut self, depth: usize) -> Result<&'t [u8], JsonError> {
        let start = self.at;
        match self.peek() {
            Some(open @ (b'{' | b'[')) => {
                if depth > self.limits.depth {
                    return Err(self.too_deep());
                }
                self.at += 1;
                let end = if open == b'{' { b'}' } else { b']' };
                let mut more = !self.ends_at_once(end);
                while more {
                    self.skip_space();
                    if open == b'{' {
                        let (element, _) = self.name()?;
                        self.remove_last(element);
                    }
                    self.skip_value(depth + 1)?;
                    more = self.another_follows(end)?;
                }
            }
            Some(b'"') => {
                self.at += 1;
                loop {
                    self.at += plain_length(&self.text[self.at..]);
                    match self.peek() {
                        Some(b'"') => break,
                        Some(b'\\') => self.escape().map(|_| ())?,
                        Some(_) => return Err(self.syntax("control character in a string")),
                        None => return Err(self.syntax("unfinished string")),
                    }
                }
                self.at += 1;
            }
            _ => {
                let end = self.out.len();
                self.value(depth)?;
                self.out.truncate(end);
            }
        }
        Ok(&self.text[start..self.at])
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[cold]
    pub fn syntax(&self, message: &str) -> JsonError {
        let message = if self.at >= self.text.len() { "unexpected end of text" } else { message };
        JsonError::new(ErrorKind::Syntax, self.at.min(self.text.len()), message)
    }

    #[cold]
    fn too_deep(&self) -> JsonError {
        let message = format!("nesting depth exceeds the limit of {} levels", self.limits.depth);
        JsonError::new(ErrorKind::Depth, self.at, message)
    }

    #[cold]
    fn too_large(&self) -> JsonError {
        JsonError::new(ErrorKind::Size, self.at, format!("more than {} bytes", self.limits.bytes))
    }
}

/// Whether `text` equals `written` apart from white space between tokens. `written` has no such space.
fn is_same_text(text: &[u8], written: &[u8]) -> bool {
    let (mut string, mut escape) = (false, false);
    let dense = text.iter().filter(|&&byte| {
        let space = !string && matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        (string, escape) = match byte {
            _ if escape => (string, false),
            b'"' => (!string, false),
            b'\\' => (string, true),
            _ => (string, false),
        };
        !space
    });
    dense.eq(written)
}

/// How many levels of documents, arrays and scopes nest.
#[cold]
fn depth_of(doc: Doc<'_>) -> usize {
    let inner = doc.iter().map(|element| match element.value() {
        Value::Document(doc) | Value::JavaScriptWithScope { scope: doc, .. } => depth_of(doc),
        Value::Array(array) => depth_of(Doc::trusted(array.as_bytes())),
        _ => 0,
    });
    1 + inner.max().unwrap_or(0)
}

/// The key of an array element, incremented in decimal.
struct Index {
    digits: [u8; 12],
    start: usize,
}

impl Index {
    const ZERO: Index = Index { digits: [b'0'; 12], start: 11 };

    #[inline]
    fn digits(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    #[inline]
    fn increment(&mut self) {
        for (place, digit) in self.digits.iter_mut().enumerate().rev() {
            if *digit < b'9' {
                *digit += 1;
                self.start = self.start.min(place);
                return;
            }
            *digit = b'0';
        }
    }
}
