//! Writes BSON into one growing buffer. Nested documents are written in place, and their lengths are filled in when
//! they are closed.

use crate::element::{Element, RawValue, Type};
use crate::owned::{DocBuf, ValueBuf};
use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::view::{Array, Doc, Value};

/// Builds one document. Nested documents and arrays are opened and closed on the same buffer.
///
/// ```
/// use diwan_value::{DocBuilder, Value};
/// let mut builder = DocBuilder::new();
/// builder.append("ok", 1.0);
/// builder.begin_document("cursor");
/// builder.append("id", 0i64);
/// builder.end();
/// let doc = builder.finish();
/// assert_eq!(doc.as_doc().get("ok"), Some(Value::Double(1.0)));
/// ```
#[derive(Clone, Debug)]
pub struct DocBuilder {
    bytes: Vec<u8>,
    /// Where the document begins.
    start: usize,
    /// Where the innermost open document begins. Until a document is closed, its length field holds the distance back
    /// to the start of the enclosing document.
    open: usize,
}

impl Default for DocBuilder {
    fn default() -> DocBuilder {
        DocBuilder::new()
    }
}

impl DocBuilder {
    /// An empty document.
    pub fn new() -> DocBuilder {
        DocBuilder::with_buffer(Vec::with_capacity(128))
    }

    /// An empty document that begins at the end of `buffer`; [`DocBuilder::finish_buffer`] gives the buffer back.
    pub fn with_buffer(mut buffer: Vec<u8>) -> DocBuilder {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        DocBuilder { bytes: buffer, start, open: start }
    }

    /// Continues a finished document: further elements are appended to its bytes.
    pub(crate) fn reopen(mut bytes: Vec<u8>) -> DocBuilder {
        bytes.pop();
        DocBuilder { bytes, start: 0, open: 0 }
    }

    /// How many bytes the buffer holds, including bytes that were there before the document.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the document has no element yet. Bytes before it in the buffer do not count.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.start + 4
    }

    /// Appends one element. A key must not contain NUL: callers take keys from validated documents or literals. A key
    /// with a NUL is truncated there, so that the document stays well-formed.
    pub fn append(&mut self, key: &str, value: impl Append) -> &mut DocBuilder {
        self.header(value.tag(), key.as_bytes());
        value.write(&mut self.bytes);
        self
    }

    /// Appends an element copied from another document.
    #[inline]
    pub fn append_element(&mut self, element: Element<'_>) -> &mut DocBuilder {
        self.append_raw(element.key, element.raw)
    }

    /// Appends a value copied from another document, under `key`.
    #[inline]
    pub fn append_raw(&mut self, key: &[u8], raw: RawValue<'_>) -> &mut DocBuilder {
        self.header(raw.tag, key);
        self.bytes.extend_from_slice(raw.bytes);
        self
    }

    /// Appends an element of the open array, under its index.
    pub fn append_indexed(&mut self, index: usize, value: impl Append) -> &mut DocBuilder {
        self.header(value.tag(), itoa(index, &mut [0; 20]));
        value.write(&mut self.bytes);
        self
    }

    /// Appends all elements of `doc`.
    pub fn append_all(&mut self, doc: Doc<'_>) -> &mut DocBuilder {
        if let Some(body) = doc.as_bytes().get(4..doc.as_bytes().len().saturating_sub(1)) {
            self.bytes.extend_from_slice(body);
        }
        self
    }

    /// Appends the bytes of consecutive elements copied from another document or array.
    #[inline]
    pub fn append_span(&mut self, elements: &[u8]) -> &mut DocBuilder {
        self.bytes.extend_from_slice(elements);
        self
    }

    /// Opens a nested document under `key`. Elements go into it until [`DocBuilder::end`].
    pub fn begin_document(&mut self, key: &str) -> &mut DocBuilder {
        self.begin(Type::Document, key)
    }

    /// Opens a nested array under `key`. Its elements are appended under the keys "0", "1", …
    pub fn begin_array(&mut self, key: &str) -> &mut DocBuilder {
        self.begin(Type::Array, key)
    }

    /// Closes the innermost open document or array. [`DocBuilder::finish`] closes the outermost.
    pub fn end(&mut self) -> &mut DocBuilder {
        if self.open > self.start {
            let before =
                self.bytes[self.open..].first_chunk().map_or(0, |before| u32::from_le_bytes(*before));
            self.close();
            self.open -= before as usize;
        }
        self
    }

    /// Closes all open documents and returns the document.
    pub fn finish(self) -> DocBuf {
        DocBuf::trusted(self.finish_buffer())
    }

    /// Closes all open documents and returns the whole buffer, including the bytes before the document.
    pub fn finish_buffer(mut self) -> Vec<u8> {
        while self.open > self.start {
            self.end();
        }
        self.close();
        self.bytes
    }

    fn begin(&mut self, tag: Type, key: &str) -> &mut DocBuilder {
        self.header(tag, key.as_bytes());
        let before = (self.bytes.len() - self.open) as u32;
        self.open = self.bytes.len();
        self.bytes.extend_from_slice(&before.to_le_bytes());
        self
    }

    /// Ends the innermost open document.
    fn close(&mut self) {
        self.bytes.push(0);
        let length = (self.bytes.len() - self.open) as u32;
        self.bytes[self.open..self.open + 4].copy_from_slice(&length.to_le_bytes());
    }

    #[inline]
    fn header(&mut self, tag: Type, key: &[u8]) {
        let key = key.split(|&byte| byte == 0).next().unwrap_or_default();
        self.bytes.push(tag as u8);
        self.bytes.extend_from_slice(key);
        self.bytes.push(0);
    }
}

/// Builds an array value by value.
#[derive(Clone, Debug, Default)]
pub struct ArrayBuilder {
    inner: DocBuilder,
    count: usize,
}

impl ArrayBuilder {
    /// An empty array.
    pub fn new() -> ArrayBuilder {
        ArrayBuilder::default()
    }

    /// Appends a value.
    pub fn push(&mut self, value: impl Append) -> &mut ArrayBuilder {
        self.inner.header(value.tag(), itoa(self.count, &mut [0; 20]));
        value.write(&mut self.inner.bytes);
        self.count += 1;
        self
    }

    /// How many values were appended.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many bytes the array takes so far.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The array's bytes, for [`Array::trusted`].
    pub fn finish(self) -> Vec<u8> {
        self.inner.finish_buffer()
    }
}

/// Writes the decimal digits of `number` to the end of `buffer` and returns them.
fn itoa(mut number: usize, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// A Rust type that has one obvious BSON type and can be appended to a document.
pub trait Append {
    /// The BSON type of the value.
    fn tag(&self) -> Type;
    /// Writes the value's bytes, without type and key.
    fn write(&self, out: &mut Vec<u8>);
}

/// Writes a string with its length and NUL.
fn write_str(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Writes a value's bytes, without type and key.
pub(crate) fn write_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::String(text) | Value::JavaScript(text) | Value::Symbol(text) => write_str(out, text),
        Value::Document(doc) => out.extend_from_slice(doc.as_bytes()),
        Value::Array(array) => out.extend_from_slice(array.as_bytes()),
        Value::Binary { subtype, bytes } => {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        Value::Undefined | Value::Null | Value::MinKey | Value::MaxKey => {}
        Value::ObjectId(id) => out.extend_from_slice(&id.0),
        Value::Boolean(flag) => out.push(flag.into()),
        Value::DateTime(millis) => out.extend_from_slice(&millis.to_le_bytes()),
        Value::Regex { pattern, options } => {
            for text in [pattern, options] {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
        }
        Value::DbPointer { namespace, id } => {
            write_str(out, namespace);
            out.extend_from_slice(&id.0);
        }
        Value::JavaScriptWithScope { code, scope } => {
            let length = 4 + 4 + code.len() + 1 + scope.as_bytes().len();
            out.extend_from_slice(&(length as u32).to_le_bytes());
            write_str(out, code);
            out.extend_from_slice(scope.as_bytes());
        }
        Value::Int32(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Timestamp(timestamp) => out.extend_from_slice(&timestamp.to_bits().to_le_bytes()),
        Value::Int64(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Decimal128(decimal) => out.extend_from_slice(&decimal.0),
    }
}

impl Append for Value<'_> {
    fn tag(&self) -> Type {
        Value::tag(self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_value(out, *self);
    }
}

impl Append for RawValue<'_> {
    fn tag(&self) -> Type {
        self.tag
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes);
    }
}

/// Implements [`Append`] for a type by converting it to a [`Value`].
macro_rules! append_as {
    ($($type:ty, |$this:ident| $value:expr;)*) => {$(
        impl Append for $type {
            fn tag(&self) -> Type {
                let $this = self;
                $value.tag()
            }

            fn write(&self, out: &mut Vec<u8>) {
                let $this = self;
                write_value(out, $value);
            }
        }
    )*};
}

append_as! {
    bool, |this| Value::Boolean(*this);
    i32, |this| Value::Int32(*this);
    i64, |this| Value::Int64(*this);
    f64, |this| Value::Double(*this);
    str, |this| Value::String(this);
    String, |this| Value::String(this);
    ObjectId, |this| Value::ObjectId(*this);
    Timestamp, |this| Value::Timestamp(*this);
    Decimal128, |this| Value::Decimal128(*this);
    Doc<'_>, |this| Value::Document(*this);
    Array<'_>, |this| Value::Array(*this);
    DocBuf, |this| Value::Document(this.as_doc());
    ValueBuf, |this| this.as_value();
    ArrayBuilder, |this| Value::Array(Array::trusted(&this.clone().finish()));
}

impl<T: Append> Append for Vec<T> {
    fn tag(&self) -> Type {
        Type::Array
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut array = ArrayBuilder::new();
        for value in self {
            array.push(value);
        }
        out.extend_from_slice(&array.finish());
    }
}

impl<T: Append> Append for Option<T> {
    fn tag(&self) -> Type {
        self.as_ref().map_or(Type::Null, Append::tag)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
}

impl<T: Append + ?Sized> Append for &T {
    fn tag(&self) -> Type {
        (**self).tag()
    }

    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrayBuilder, DocBuilder};
    use crate::{Array, Doc, Value, array, doc};

    #[test]
    fn end_fills_in_the_lengths_of_nested_documents() {
        let mut builder = DocBuilder::new();
        builder.append("a", 1);
        builder.begin_document("b").append("c", "text");
        builder.begin_array("d").append("0", true).end();
        builder.end();
        builder.append("e", Option::<i32>::None);
        let built = builder.finish();
        assert!(Doc::validate(built.as_doc().as_bytes()).is_ok());
        let literal = doc! { "a": 1, "b": { "c": "text", "d": [true] }, "e": null };
        assert_eq!(built, literal);
    }

    #[test]
    fn finish_closes_documents_left_open() {
        let mut builder = DocBuilder::new();
        builder.begin_document("a").begin_array("b");
        assert_eq!(builder.finish(), doc! { "a": { "b": [] } });
        let mut builder = DocBuilder::new();
        builder.append("a", 1).end().append("b", 2);
        assert_eq!(builder.finish(), doc! { "a": 1, "b": 2 });
    }

    #[test]
    fn with_buffer_keeps_the_bytes_before_the_document() {
        let mut builder = DocBuilder::with_buffer(b"head".to_vec());
        assert!(builder.is_empty());
        builder.append("a", 1);
        assert!(!builder.is_empty());
        let bytes = builder.finish_buffer();
        assert_eq!(&bytes[..4], b"head");
        assert_eq!(Doc::validate(&bytes[4..]).map(Doc::to_owned), Ok(doc! { "a": 1 }));
    }

    #[test]
    fn into_builder_appends_to_a_finished_document() {
        let mut builder = doc! { "a": 1 }.into_builder();
        assert!(!builder.is_empty());
        builder.append_all(doc! { "b": 2, "c": 3 }.as_doc());
        builder.append_all(Doc::EMPTY);
        assert_eq!(builder.finish(), doc! { "a": 1, "b": 2, "c": 3 });
    }

    #[test]
    fn append_truncates_a_key_at_nul() {
        let mut builder = DocBuilder::new();
        builder.append("a\0b", 1);
        assert_eq!(builder.finish(), doc! { "a": 1 });
    }

    #[test]
    fn array_elements_get_decimal_keys() {
        let mut builder = ArrayBuilder::new();
        for number in 0..12 {
            builder.push(number);
        }
        assert_eq!(builder.count(), 12);
        let bytes = builder.finish();
        let array = Array::trusted(&bytes);
        assert!(array.elements().enumerate().all(|(index, element)| element.key_str() == index.to_string()));
        assert_eq!(array.get(11), Some(Value::Int32(11)));
        let mixed = array![1, "two", { "three": 3 }, [4], null].finish();
        assert_eq!(Array::trusted(&mixed).count(), 5);
    }
}
