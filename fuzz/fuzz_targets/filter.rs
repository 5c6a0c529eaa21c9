//! Filters from clients: parsing and matching never panic, and a serialized filter has the same meaning.
//!
//! The input is the filter as Extended JSON, a NUL, and a document as Extended JSON. The fuzzer finds the operators' names
//! more easily in JSON. Without a NUL the filter is matched against itself.

#![no_main]

use diwan_query::filter::{ArrayFilter, Filter, FilterEnv, ValueFilter, equality_fields};
use diwan_value::{Value, extjson};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (filter, document) = text.split_once('\0').unwrap_or((text, text));
    let Ok(source) = extjson::parse(filter) else { return };
    let env = FilterEnv::default();
    if let Ok(condition) = ValueFilter::parse(Value::Document(source.as_doc()), &env) {
        let _ = condition.matches(Value::Document(source.as_doc()));
    }
    let _ = ArrayFilter::parse(source.as_doc(), &env);
    let Ok(filter) = Filter::parse(source.as_doc(), &env) else { return };
    let _ = equality_fields(&filter);
    let Ok(document) = extjson::parse(document) else { return };
    let document = document.as_doc();
    let Ok(matched) = filter.matches(document) else { return };
    if has_chance(&filter) {
        return;
    }
    // The serialized filter tests its conditions in another order, so another condition may exceed the time limit.
    let Ok(position) = filter.matches_with_position(document) else { return };
    assert_eq!(position.matched, matched, "both ways of matching agree");
    if !matched {
        let _ = filter.explain_mismatch(document);
    }
    let written = filter.to_doc();
    let Ok(again) = Filter::parse(written.as_doc(), &env) else { panic!("{written:?} does not parse") };
    let Ok(matched_again) = again.matches(document) else { return };
    assert_eq!(matched_again, matched, "{written:?} means the same");
});

/// Whether a filter may give different answers for the same document.
fn has_chance(filter: &Filter) -> bool {
    let written = format!("{:?}", filter.to_doc());
    ["$sampleRate", "$rand", "$$NOW"].iter().any(|name| written.contains(name))
}
