use super::{Collation, Collator};
use crate::key::{Direction, encode_order};
use crate::{DocBuf, Value, compare_with, doc};
use fastrand::Rng;
use std::cmp::Ordering;

fn collator(spec: DocBuf) -> Collator {
    match Collation::parse(spec.as_doc()) {
        Ok(Some(collation)) => Collator::new(&collation).unwrap_or_else(|error| panic!("{spec:?}: {error}")),
        other => panic!("{spec:?}: {other:?}"),
    }
}

/// Checks comparison and sort keys of strings given in ascending order. Strings joined by `=` are equal.
fn ascending(spec: DocBuf, groups: &str) {
    let collator = collator(spec);
    let groups: Vec<Vec<&str>> = groups.split(" < ").map(|group| group.split(" = ").collect()).collect();
    for (i, group) in groups.iter().enumerate() {
        for (j, other) in groups.iter().enumerate() {
            for a in group {
                for b in other {
                    assert_eq!(collator.compare(a, b), i.cmp(&j), "{a} and {b} by {collator:?}");
                    assert_eq!(collator.sort_key(a).cmp(&collator.sort_key(b)), i.cmp(&j), "{a} and {b}");
                }
            }
        }
    }
}

#[test]
fn collator_follows_the_options() {
    ascending(doc! { "locale": "en" }, "a < A < á < b < B");
    ascending(doc! { "locale": "en", "strength": 1 }, "a = A = á < b = B");
    ascending(doc! { "locale": "en", "strength": 2 }, "cafe = Cafe < café = CAFÉ");
    ascending(doc! { "locale": "en", "strength": 1, "caseLevel": true }, "a = á < A = Á < b");
    ascending(doc! { "locale": "en", "caseFirst": "upper" }, "A < a < B < b");
    ascending(doc! { "locale": "en", "numericOrdering": true }, "a2 < a10 < a100");
    ascending(doc! { "locale": "en" }, "a10 < a100 < a2");
    ascending(doc! { "locale": "en", "alternate": "shifted" }, "ab = a-b = a b < ac");
    ascending(doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" }, "a-b < ab = a b < ac");
    ascending(doc! { "locale": "en", "alternate": "shifted", "strength": 4 }, "a b < a-b < ab < ac");
    ascending(doc! { "locale": "fr" }, "cote < coté < côte < côté");
    ascending(doc! { "locale": "fr_CA" }, "cote < côte < coté < côté");
    ascending(doc! { "locale": "fr", "backwards": true }, "cote < côte < coté < côté");
    ascending(doc! { "locale": "fr_CA", "backwards": false }, "cote < coté < côte < côté");
}

#[test]
fn collator_follows_the_language() {
    ascending(doc! { "locale": "sv" }, "z < å < ä < ö");
    ascending(doc! { "locale": "de" }, "Ad < Äd < Ae < Af");
    ascending(doc! { "locale": "de@collation=phonebook" }, "Ad < Ae < Äd < Af");
    ascending(doc! { "locale": "es@collation=traditional" }, "cz < ch < d");
    ascending(doc! { "locale": "da" }, "A < a < Z < z < Å < å");
    ascending(doc! { "locale": "cs" }, "h < ch < i");
}

#[test]
fn encoded_keys_sort_as_the_collator_compares() {
    let mut rng = Rng::with_seed(1);
    for spec in [
        doc! { "locale": "en" },
        doc! { "locale": "en", "strength": 1, "alternate": "shifted" },
        doc! { "locale": "sv", "strength": 5, "numericOrdering": true },
        doc! { "locale": "fr_CA", "caseLevel": true, "strength": 4 },
    ] {
        let collator = collator(spec);
        for _ in 0..3_000 {
            let [a, b] = std::array::from_fn(|_| {
                let letters =
                    ['a', 'A', 'á', 'å', '1', '2', '0', ' ', '-', '\0', '\u{301}', 'ß', '中', 'c', 'h'];
                (0..rng.usize(..6)).map(|_| letters[rng.usize(..letters.len())]).collect::<String>()
            });
            let key = |text: &str| {
                let mut out = Vec::new();
                encode_order(&mut out, Value::String(text), Direction::Ascending, Some(&collator));
                out
            };
            let expected = compare_with(Value::String(&a), Value::String(&b), Some(&collator));
            assert_eq!(key(&a).cmp(&key(&b)), expected, "{a:?} and {b:?} by {collator:?}");
        }
    }
}

#[test]
fn keys_collate_strings_inside_documents() {
    let collator = collator(doc! { "locale": "en", "strength": 2 });
    let (a, b) = (doc! { "x": ["ABC"] }, doc! { "x": ["abc"] });
    let (a, b) = (Value::Document(a.as_doc()), Value::Document(b.as_doc()));
    assert_eq!(compare_with(a, b, Some(&collator)), Ordering::Equal);
    assert_eq!(compare_with(a, b, None), Ordering::Less);
}

#[test]
fn to_doc_fills_in_the_locale_defaults() {
    let full = |spec: DocBuf| collator(spec).collation().to_doc();
    let english = doc! {
        "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 2, "numericOrdering": false,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
        "version": "57.1",
    };
    assert_eq!(full(doc! { "locale": "en", "strength": 2.0 }), english);
    assert_eq!(full(english.clone()), english);
    let danish = full(doc! { "locale": "da" });
    assert_eq!(danish.as_doc().get_str("caseFirst"), Some("upper"));
    assert_eq!(full(doc! { "locale": "fr_CA" }).as_doc().get("backwards"), Some(Value::Boolean(true)));
    assert_eq!(full(doc! { "locale": "th" }).as_doc().get_str("alternate"), Some("shifted"));
}

#[test]
fn parsing_the_simple_locale_gives_none() {
    assert_eq!(Collation::parse(doc! { "locale": "simple" }.as_doc()), Ok(None));
}

#[test]
fn parsing_reports_mongodb_errors() {
    for (spec, code, message) in [
        (doc! {}, 40414, "BSON field 'collation.locale' is missing but a required field"),
        (
            doc! { "locale": 1 },
            14,
            "BSON field 'collation.locale' is the wrong type 'int', expected type 'string'",
        ),
        (doc! { "locale": "en", "foo": 1 }, 40415, "BSON field 'collation.foo' is an unknown field."),
        (
            doc! { "locale": "simple", "strength": 1 },
            9,
            "If locale=simple, no other fields should be present in: { locale: \"simple\", strength: 1 }",
        ),
        (
            doc! { "locale": "en_GB" },
            2,
            "Field 'locale' is invalid in: { locale: \"en_GB\" }. Did you mean 'en'?",
        ),
        (doc! { "locale": "xx" }, 2, "Field 'locale' is invalid in: { locale: \"xx\" }"),
        (doc! { "locale": "" }, 2, "Field 'locale' cannot be the empty string in: { locale: \"\" }"),
        (
            doc! { "locale": "en", "strength": 0 },
            9,
            "Field 'strength' must be an integer 1 through 5. Got: 0",
        ),
        (
            doc! { "locale": "en", "strength": 6 },
            51024,
            "BSON field 'strength' value must be <= 5, actual value '6'",
        ),
        (
            doc! { "locale": "en", "strength": "1" },
            14,
            "BSON field 'collation.strength' is the wrong type 'string', expected types '[long, int, decimal, \
             double]'",
        ),
        (
            doc! { "locale": "en", "caseFirst": "both" },
            2,
            "Enumeration value 'both' for field 'collation.caseFirst' is not a valid value.",
        ),
        (
            doc! { "locale": "en", "caseLevel": 1 },
            14,
            "BSON field 'collation.caseLevel' is the wrong type 'int', expected type 'bool'",
        ),
    ] {
        match Collation::parse(spec.as_doc()) {
            Err(error) => assert_eq!((error.code, error.message.as_str()), (code, message)),
            other => panic!("{spec:?}: {other:?}"),
        }
    }
    for (spec, code, start) in [
        (
            doc! { "locale": "fr", "backwards": true, "strength": 1 },
            2,
            "'backwards' is invalid with 'strength' of 1 in: { locale: \"fr\", caseLevel: false,",
        ),
        (
            doc! { "locale": "en", "caseFirst": "upper", "strength": 2 },
            2,
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {",
        ),
        (doc! { "locale": "en", "version": "1" }, 161, "Requested collation version 1 but the only"),
    ] {
        match Collation::parse(spec.as_doc()) {
            Err(error) => {
                assert_eq!(error.code, code);
                assert!(error.message.starts_with(start), "{error}");
            }
            other => panic!("{spec:?}: {other:?}"),
        }
    }
}
