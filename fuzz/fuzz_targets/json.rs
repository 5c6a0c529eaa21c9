//! JSON from clients: reading never panics and gives valid BSON within its limits, and written JSON can be read back.
//!
//! The input is a JSON text. The target reads it as a document, as Extended JSON, as a CouchDB document and as an id, and
//! splits it as the body of a bulk request, in pieces of the length given by its first byte.

#![no_main]

use diwan_value::json::{self, ArraySplitter, Dialect, Limits, Mode};
use diwan_value::{Doc, compare, compare_docs};
use libfuzzer_sys::fuzz_target;
use std::cmp::Ordering;

const LIMITS: Limits = Limits { depth: 100, bytes: 64 * 1024 };

fuzz_target!(|data: &[u8]| {
    if let Ok(doc) = json::parse_document(data, LIMITS) {
        let doc = doc.as_doc();
        Doc::validate(doc.as_bytes()).expect("parsed JSON is valid BSON");
        let mut text = Vec::new();
        json::write_document(&mut text, doc, Mode::Exchange);
        // A wrapper inside an object that only looked like a wrapper becomes one when it is read again.
        let again = json::parse_document(&text, LIMITS).expect("written JSON can be parsed");
        assert_eq!(compare_docs(doc, again.as_doc(), None), Ordering::Equal);
        if let Some(kept) = json::keep_types(doc, again.as_doc()) {
            Doc::validate(kept.as_doc().as_bytes()).expect("types are kept in a valid document");
        }
    }
    if let Ok(value) = json::parse_value_with(data, LIMITS, Dialect::Extended) {
        let mut text = Vec::new();
        json::write_value(&mut text, value.as_value(), Mode::Canonical);
        let again = json::parse_value_with(&text, LIMITS, Dialect::Extended);
        let again = again.expect("the canonical form is read");
        assert_eq!(compare(value.as_value(), again.as_value()), Ordering::Equal);
        let mut id = String::new();
        json::id_to_text(value.as_value(), &mut id);
        if id.len() < 100_000 {
            let back = json::id_from_text(&id).expect("an id's text is an id");
            assert_eq!(compare(value.as_value(), back.as_value()), Ordering::Equal);
        }
    }
    for dialect in [Dialect::Plain, Dialect::Replicated] {
        let Ok(document) = json::parse_couch(data, LIMITS, dialect) else { continue };
        Doc::validate(document.body.as_doc().as_bytes()).expect("parsed JSON is valid BSON");
        let mut text = b"{".to_vec();
        json::write_couch_members(&mut text, document.body.as_doc());
        text.push(b'}');
        let again = json::parse_couch(&text, LIMITS, dialect).expect("written JSON can be parsed");
        assert_eq!(compare_docs(document.body.as_doc(), again.body.as_doc(), None), Ordering::Equal);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(id) = json::id_from_text(text)
    {
        let mut again = String::new();
        json::id_to_text(id.as_value(), &mut again);
        assert_eq!(again, text);
    }
    split(data);
});

/// Splits a body in pieces and as a whole; both must give the same elements.
fn split(data: &[u8]) {
    let Some((&length, body)) = data.split_first() else { return };
    let parts = |length: usize| {
        let mut splitter = ArraySplitter::new("docs", 1024);
        let mut elements = Vec::new();
        for piece in body.chunks(length.max(1)) {
            splitter.feed(piece);
            while let Some(element) = splitter.next_element().ok()? {
                elements.push(element.to_vec());
            }
        }
        splitter.finish().ok().map(|others| (elements, others))
    };
    assert_eq!(parts(length.into()), parts(body.len()));
}
