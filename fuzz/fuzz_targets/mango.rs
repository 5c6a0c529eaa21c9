//! CouchDB selectors: parsing and matching never panic, all matchers agree, and a serialized selector has the same
//! meaning.
//!
//! The input is a selector, a NUL and a document, both as JSON. Without a NUL the selector is matched against itself.
//! The target also reads the selector as a sort and as a list of fields.

#![no_main]

use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::mango::{Fields, Selector, parse_sort};
use diwan_value::Value;
use diwan_value::json::{Limits, parse_document, parse_value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::default();
    let end = data.iter().position(|&byte| byte == 0);
    let (selector, document) = end.map_or((data, data), |end| (&data[..end], &data[end + 1..]));
    let Ok(value) = parse_value(selector, limits) else { return };
    let value = value.as_value();
    _ = parse_sort(value);
    let document = parse_document(document, limits).unwrap_or_default();
    let document = document.as_doc();
    if let Ok(Some(fields)) = Fields::parse(value) {
        let projected = fields.project(document);
        assert_eq!(fields.project(projected.as_doc()).as_doc().count(), projected.as_doc().count());
    }
    let Value::Document(_) = value else { return };
    let Ok(selector) = Selector::parse_value(value) else { return };
    let Ok(matched) = selector.filter().matches(document) else { return };
    if matched {
        assert_eq!(selector.stored().matches(document), Ok(true), "less is asked of a stored document");
    }
    let Ok(position) = selector.filter().matches_with_position(document) else { return };
    assert_eq!(position.matched, matched, "both ways of matching agree");
    if selector.names_metadata() {
        return;
    }
    let written = selector.filter().to_doc();
    let again = Filter::parse(written.as_doc(), &FilterEnv::default());
    let again = again.unwrap_or_else(|error| panic!("{written:?}: {error}"));
    let Ok(matched_again) = again.matches(document) else { return };
    assert_eq!(matched_again, matched, "{written:?} means the same");
});
