use super::*;
use diwan_value::{ObjectId, Timestamp};

#[test]
fn comparison_of_numbers_ignores_their_type() {
    let types = |number: i32| {
        vec![doc! { "a": number }, doc! { "a": i64::from(number) }, doc! { "a": f64::from(number) }]
    };
    for five in [doc! { "v": 5 }, doc! { "v": 5i64 }, doc! { "v": 5.0 }] {
        let five = five.as_doc().get("v").expect("v");
        check(doc! { "a": five }, &types(5), &[types(4), types(6)].concat());
        check(doc! { "a": { "$gt": five } }, &types(6), &[types(5), types(4)].concat());
        check(doc! { "a": { "$gte": five } }, &[types(5), types(6)].concat(), &types(4));
        check(doc! { "a": { "$lt": five } }, &types(4), &[types(5), types(6)].concat());
        check(doc! { "a": { "$lte": five } }, &[types(4), types(5)].concat(), &types(6));
    }
    let large = (1i64 << 53) + 1;
    check(doc! { "a": large }, &[doc! { "a": large }], &[doc! { "a": 9_007_199_254_740_992.0 }]);
    check(
        doc! { "a": { "$gt": 9_007_199_254_740_992.0 } },
        &[doc! { "a": large }],
        &[doc! { "a": large - 1 }],
    );
    check(doc! { "a": { "$lt": 1e300 } }, &[doc! { "a": i64::MAX }], &[doc! { "a": f64::INFINITY }]);
    check(doc! { "a": 0 }, &[doc! { "a": -0.0 }], &[doc! { "a": 0.5 }, doc! { "a": -0.5 }]);
    check(doc! { "a": { "$gt": 0 } }, &[doc! { "a": 0.5 }], &[doc! { "a": -0.5 }, doc! { "a": 0.0 }]);
}

#[test]
fn nan_equals_only_nan() {
    check(doc! { "a": f64::NAN }, &[doc! { "a": f64::NAN }], &[doc! { "a": 1 }]);
    check(doc! { "a": { "$gte": f64::NAN } }, &[doc! { "a": f64::NAN }], &[doc! { "a": 1 }]);
    check(doc! { "a": { "$lt": f64::NAN } }, &[], &[doc! { "a": f64::NAN }, doc! { "a": -1 }]);
    check(doc! { "a": { "$lt": 5 } }, &[doc! { "a": 1 }], &[doc! { "a": f64::NAN }]);
    check(doc! { "a": { "$lte": 5.5 } }, &[], &[doc! { "a": f64::NAN }]);
}

#[test]
fn comparison_never_matches_other_types() {
    check(
        doc! { "a": { "$gt": 5 } },
        &[doc! { "a": 6 }],
        &[
            doc! { "a": "6" },
            doc! { "a": true },
            doc! { "a": { "b": 6 } },
            doc! { "a": Value::DateTime(6) },
            doc! {},
        ],
    );
    check(
        doc! { "a": { "$lt": "m" } },
        &[doc! { "a": "a" }, doc! { "a": Value::Symbol("a") }],
        &[doc! { "a": "z" }, doc! { "a": 1 }, doc! { "a": "m" }],
    );
    check(
        doc! { "a": { "$gte": Value::DateTime(5) } },
        &[doc! { "a": Value::DateTime(5) }],
        &[
            doc! { "a": Value::DateTime(4) },
            doc! { "a": Timestamp { seconds: 9, increment: 0 } },
            doc! { "a": 9 },
        ],
    );
    check(doc! { "a": { "$lt": true } }, &[doc! { "a": false }], &[doc! { "a": true }, doc! { "a": 0 }]);
    check(
        doc! { "a": ObjectId([7; 12]) },
        &[doc! { "a": ObjectId([7; 12]) }],
        &[doc! { "a": ObjectId([8; 12]) }],
    );
    check(
        doc! { "a": { "b": 1, "c": 2 } },
        &[doc! { "a": { "b": 1, "c": 2.0 } }, doc! { "a": [{ "b": 1, "c": 2 }] }],
        &[doc! { "a": { "c": 2, "b": 1 } }, doc! { "a": { "b": 1 } }],
    );
}

#[test]
fn min_key_and_max_key_compare_with_all_types() {
    check(
        doc! { "a": { "$gt": Value::MinKey } },
        &[doc! { "a": 1 }, doc! {}, doc! { "a": null }, doc! { "a": Value::MaxKey }],
        &[doc! { "a": Value::MinKey }],
    );
    check(
        doc! { "a": { "$lte": Value::MaxKey } },
        &[doc! { "a": 1 }, doc! { "a": "x" }, doc! { "a": Value::MaxKey }, doc! {}],
        &[],
    );
    check(doc! { "a": { "$lt": Value::MinKey } }, &[], &[doc! { "a": Value::MinKey }, doc! { "a": 1 }]);
    check(doc! { "a": Value::MaxKey }, &[doc! { "a": Value::MaxKey }], &[doc! { "a": 1 }, doc! {}]);
}

#[test]
fn in_matches_listed_values_and_patterns() {
    check(
        doc! { "a": { "$in": [1, "x", [2]] } },
        &[doc! { "a": 1.0 }, doc! { "a": "x" }, doc! { "a": [2] }, doc! { "a": [0, 1] }, doc! { "a": [[2]] }],
        &[doc! { "a": 2 }, doc! { "a": "y" }, doc! {}],
    );
    let many = (0..1000).map(|number| number * 2).collect::<Vec<i32>>();
    check(
        doc! { "a": { "$in": many.clone() } },
        &[doc! { "a": 0 }, doc! { "a": 1998i64 }, doc! { "a": [1, 500.0] }],
        &[doc! { "a": 1 }, doc! { "a": 1998.5 }, doc! { "a": "2" }, doc! {}, doc! { "a": Value::MaxKey }],
    );
    check(doc! { "a": { "$nin": many } }, &[doc! { "a": 1 }, doc! {}], &[doc! { "a": 2 }]);
    let strings = (0..100).map(|number| format!("s{number}")).collect::<Vec<_>>();
    check(
        doc! { "a": { "$in": strings } },
        &[doc! { "a": "s42" }],
        &[doc! { "a": "s100" }, doc! { "a": 42 }],
    );
    let mixed = array![Value::Regex { pattern: "^ab", options: "" }, 7];
    check(
        doc! { "a": { "$in": mixed } },
        &[doc! { "a": "abc" }, doc! { "a": 7 }, doc! { "a": Value::Regex { pattern: "^ab", options: "" } }],
        &[doc! { "a": "ba" }],
    );
    check(doc! { "a": { "$in": array![] } }, &[], &[doc! {}, doc! { "a": 1 }]);
}

#[test]
fn type_matches_the_listed_types() {
    check(
        doc! { "a": { "$type": "int" } },
        &[doc! { "a": 1 }, doc! { "a": ["x", 1] }],
        &[doc! { "a": 1.0 }, doc! {}],
    );
    check(doc! { "a": { "$type": 2 } }, &[doc! { "a": "x" }], &[doc! { "a": 1 }]);
    check(
        doc! { "a": { "$type": "number" } },
        &[doc! { "a": 1 }, doc! { "a": 1.5 }, doc! { "a": 1i64 }],
        &[doc! { "a": "x" }],
    );
    check(doc! { "a": { "$type": "array" } }, &[doc! { "a": [1] }, doc! { "a": [[]] }], &[doc! { "a": 1 }]);
    check(
        doc! { "a": { "$type": ["null", 3.0] } },
        &[doc! { "a": null }, doc! { "a": {} }],
        &[doc! {}, doc! { "a": 1 }],
    );
    check(doc! { "a": { "$type": -1 } }, &[doc! { "a": Value::MinKey }], &[doc! { "a": Value::MaxKey }]);
    check(doc! { "a": { "$type": 127 } }, &[doc! { "a": Value::MaxKey }], &[doc! { "a": Value::MinKey }]);
}

#[test]
fn mod_compares_the_remainder() {
    check(
        doc! { "a": { "$mod": [4, 1] } },
        &[doc! { "a": 5 }, doc! { "a": 9.9 }, doc! { "a": [2, 1] }, doc! { "a": 13i64 }],
        &[doc! { "a": 4 }, doc! { "a": -3 }, doc! { "a": "5" }, doc! { "a": f64::NAN }, doc! { "a": 1e300 }],
    );
    check(doc! { "a": { "$mod": [4.9, -3] } }, &[doc! { "a": -3 }, doc! { "a": -7 }], &[doc! { "a": 1 }]);
    check(doc! { "a": { "$mod": [-1, 0] } }, &[doc! { "a": i64::MIN }, doc! { "a": 5 }], &[]);
}

#[test]
fn regex_follows_pcre() {
    let regex = |pattern: &str, options: &str| doc! { "a": { "$regex": pattern, "$options": options } };
    check(
        regex("^ab+c$", ""),
        &[doc! { "a": "abbc" }, doc! { "a": ["x", "abc"] }, doc! { "a": "abc\n" }],
        &[doc! { "a": "ac" }, doc! { "a": "xabc" }, doc! { "a": "abc\nd" }, doc! { "a": 1 }, doc! {}],
    );
    check(regex("ÄB", "i"), &[doc! { "a": "xäb" }], &[doc! { "a": "ab" }]);
    check(regex("^b$", "m"), &[doc! { "a": "a\nb\nc" }], &[doc! { "a": "ab" }]);
    check(regex("a.b", "s"), &[doc! { "a": "a\nb" }], &[doc! { "a": "ab" }]);
    check(regex("a.b", ""), &[doc! { "a": "axb" }], &[doc! { "a": "a\nb" }]);
    check(regex("a b # comment", "x"), &[doc! { "a": "ab" }], &[doc! { "a": "a b" }]);
    check(regex("(?i)ab(?-i)c", ""), &[doc! { "a": "ABc" }], &[doc! { "a": "ABC" }]);
    check(regex("(\\w)\\1", ""), &[doc! { "a": "aa" }], &[doc! { "a": "ab" }]);
    check(regex("a(?!b)", ""), &[doc! { "a": "ac" }], &[doc! { "a": "ab" }]);
    check(regex("(?<=x)a", ""), &[doc! { "a": "xa" }], &[doc! { "a": "ya" }]);
    check(regex("^\\w+$", ""), &[doc! { "a": "abc_1" }], &[doc! { "a": "é" }]);
    check(regex("^\\d$", ""), &[doc! { "a": "7" }], &[doc! { "a": "٧" }]);
    check(regex("^[^\\d\\s]$", ""), &[doc! { "a": "x" }], &[doc! { "a": "7" }, doc! { "a": " " }]);
    check(regex("^[\\D]$", ""), &[doc! { "a": "x" }], &[doc! { "a": "7" }]);
    check(regex("^[[a&&b]+$", ""), &[doc! { "a": "[a&b" }], &[doc! { "a": "c" }]);
    check(regex("^[[:alpha:]_]+$", ""), &[doc! { "a": "ab_" }], &[doc! { "a": "a1" }]);
    check(regex("^[]x]+$", ""), &[doc! { "a": "]x" }], &[doc! { "a": "y" }]);
    check(regex("^{a}$", ""), &[doc! { "a": "{a}" }], &[doc! { "a": "a" }]);
    check(regex("^a{2,3}$", ""), &[doc! { "a": "aaa" }], &[doc! { "a": "a" }]);
    check(regex("^\\Qa.b\\E$", ""), &[doc! { "a": "a.b" }], &[doc! { "a": "axb" }]);
    check(regex("a\\/b\\-c\\<", ""), &[doc! { "a": "a/b-c<" }], &[doc! { "a": "a/b-c" }]);
    check(regex("", ""), &[doc! { "a": "" }, doc! { "a": "x" }], &[doc! { "a": 1 }]);
    let stored = Value::Regex { pattern: "^x", options: "i" };
    check(
        doc! { "a": stored },
        &[doc! { "a": "Xy" }, doc! { "a": stored }],
        &[doc! { "a": Value::Regex { pattern: "^x", options: "" } }, doc! { "a": "y" }],
    );
    check(doc! { "a": { "$eq": stored } }, &[doc! { "a": stored }], &[doc! { "a": "xy" }]);
    check(
        doc! { "a": { "$not": stored } },
        &[doc! { "a": "y" }, doc! {}, doc! { "a": 1 }],
        &[doc! { "a": "xy" }],
    );
    check(doc! { "a": { "$regex": stored } }, &[doc! { "a": "XY" }], &[doc! { "a": "y" }]);
    check(
        doc! { "a": { "$options": "i", "$regex": "^x", "$ne": "xx" } },
        &[doc! { "a": "Xy" }],
        &[doc! { "a": "xx" }],
    );
}

#[test]
fn regex_fails_when_it_backtracks_too_much() {
    let filter = parse(&doc! { "a": { "$regex": "^(a|a|b\\1)*$(?!x)" } });
    let document = doc! { "a": format!("{}c", "a".repeat(64)) };
    assert_eq!(filter.matches(document.as_doc()).expect_err("an error").code, 51156);
}

#[test]
fn literal_prefix_of_anchored_patterns_is_found() {
    let prefix =
        |source: &str, options: &str| Pattern::new(source, options).expect("a pattern").literal_prefix();
    assert_eq!(prefix("^abc", ""), Some(("abc".to_owned(), true)));
    assert_eq!(prefix("^abc.*", ""), Some(("abc".to_owned(), true)));
    assert_eq!(prefix("\\Aa\\.b", ""), Some(("a.b".to_owned(), true)));
    assert_eq!(prefix("^abc?d", ""), Some(("ab".to_owned(), false)));
    assert_eq!(prefix("^ab+", ""), Some(("ab".to_owned(), false)));
    assert_eq!(prefix("^ab\\d", ""), Some(("ab".to_owned(), false)));
    assert_eq!(prefix("^ab$", ""), Some(("ab".to_owned(), false)));
    assert_eq!(prefix("^a*", ""), None);
    assert_eq!(prefix("^a|b", ""), None);
    assert_eq!(prefix("abc", ""), None);
    assert_eq!(prefix("^abc", "i"), None);
    assert_eq!(prefix("^abc", "m"), None);
}

#[test]
fn bit_operators_test_integers_and_binaries() {
    let document = |value: i64| doc! { "a": value };
    check(
        doc! { "a": { "$bitsAllSet": [1, 4] } },
        &[document(0b10010), doc! { "a": 18.0 }],
        &[document(2), document(0), doc! { "a": "x" }, doc! { "a": 18.5 }],
    );
    check(doc! { "a": { "$bitsAllClear": 0b101 } }, &[document(0b1010)], &[document(1), document(0b101)]);
    check(doc! { "a": { "$bitsAnySet": [0, 2] } }, &[document(1), document(4)], &[document(0b1010)]);
    check(doc! { "a": { "$bitsAnyClear": 3i64 } }, &[document(1), document(0)], &[document(3), document(7)]);
    // Beyond 64 bits, an integer is extended by its sign.
    check(doc! { "a": { "$bitsAllSet": [200] } }, &[document(-1)], &[document(1)]);
    let binary = Value::Binary { subtype: 0, bytes: &[0b10010, 1] };
    check(
        doc! { "a": { "$bitsAllSet": [1, 4, 8] } },
        &[doc! { "a": binary }],
        &[doc! { "a": Value::Binary { subtype: 0, bytes: &[0b10010] } }],
    );
    check(doc! { "a": { "$bitsAnySet": binary } }, &[document(256), document(2)], &[document(1)]);
    check(doc! { "a": { "$bitsAllSet": array![] } }, &[document(0)], &[doc! { "a": "x" }, doc! {}]);
}

#[test]
fn logical_operators_combine_filters() {
    let or = doc! { "$or": [{ "a": 1 }, { "b": { "$gt": 5 } }] };
    check(or, &[doc! { "a": 1 }, doc! { "b": 6 }], &[doc! { "a": 2 }, doc! {}]);
    check(
        doc! { "$nor": [{ "a": 1 }, { "b": 2 }] },
        &[doc! { "a": 2 }],
        &[doc! { "a": 1 }, doc! { "b": 2, "a": 5 }],
    );
    check(
        doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": 1 }, { "b": 2 }] }] },
        &[doc! { "a": 1, "b": 2 }],
        &[doc! { "a": 1 }],
    );
    check(doc! {}, &[doc! {}, doc! { "a": 1 }], &[]);
    check(doc! { "$alwaysFalse": 1 }, &[], &[doc! {}]);
    check(doc! { "$alwaysTrue": 1.0, "$comment": { "any": "thing" } }, &[doc! {}], &[]);
    check(doc! { "$sampleRate": 1.0 }, &[doc! {}], &[]);
    check(doc! { "$sampleRate": 0 }, &[], &[doc! {}]);
}

#[test]
fn dbrefs_are_compared_as_values() {
    let reference = doc! { "$ref": "c", "$id": 5 };
    check(
        doc! { "a": reference.clone() },
        &[doc! { "a": reference.clone() }],
        &[doc! { "a": { "$ref": "c", "$id": 6 } }],
    );
    check(
        doc! { "a": { "$in": [{ "$ref": "c", "$id": 5 }] } },
        &[doc! { "a": reference }],
        &[doc! { "a": 5 }],
    );
}

#[test]
fn expr_matches_by_truth() {
    check(
        doc! { "$expr": { "$gt": ["$a", "$b"] } },
        &[doc! { "a": 2, "b": 1 }, doc! { "a": 1 }],
        &[doc! { "a": 1, "b": 2 }, doc! { "a": 1, "b": 1 }],
    );
    check(
        doc! { "$expr": "$a", "b": 1 },
        &[doc! { "a": true, "b": 1 }],
        &[doc! { "a": 0, "b": 1 }, doc! { "b": 1 }],
    );
    let context = crate::expr::Context {
        variables: vec![Some(diwan_value::ValueBuf::new(Value::Int32(5)))],
        ..Default::default()
    };
    let scope = crate::expr::ParseEnv::with_let(["limit"]);
    let env = FilterEnv { context: Arc::new(context), scope: Some(&scope) };
    let filter = doc! { "$expr": { "$lt": ["$a", "$$limit"] } };
    let filter = Filter::parse(filter.as_doc(), &env).expect("a filter");
    assert!(filter.matches(doc! { "a": 4 }.as_doc()).expect("matching"));
    assert!(!filter.matches(doc! { "a": 5 }.as_doc()).expect("matching"));
    let other = crate::expr::Context {
        variables: vec![Some(diwan_value::ValueBuf::new(Value::Int32(6)))],
        ..Default::default()
    };
    assert!(filter.matches_in(doc! { "a": 5 }.as_doc(), &other).expect("matching"));
    let bound = Filter::and(vec![filter, Filter::AlwaysTrue]).in_context(&Arc::new(other));
    assert!(bound.matches(doc! { "a": 5 }.as_doc()).expect("matching"));
    assert!(!bound.matches(doc! { "a": 6 }.as_doc()).expect("matching"));
}

#[test]
fn json_schema_matches_valid_documents() {
    let schema =
        doc! { "$jsonSchema": { "required": ["a"], "properties": { "a": { "bsonType": "string" } } } };
    check(schema, &[doc! { "a": "x" }], &[doc! { "a": 1 }, doc! {}]);
    rejected(doc! { "$jsonSchema": 1 }, 14, "$jsonSchema must be an object");
}

#[test]
fn collation_applies_to_string_comparison() {
    let spec = doc! { "locale": "en", "strength": 2 };
    let collation = diwan_value::Collation::parse(spec.as_doc()).expect("a collation").expect("not simple");
    let collator = Arc::new(diwan_value::Collator::new(&collation).expect("a collator"));
    let env = FilterEnv::with_collator(Some(collator));
    for (filter, document, expected) in [
        (doc! { "a": "X" }, doc! { "a": "x" }, true),
        (doc! { "a": { "$in": ["B", "A"] } }, doc! { "a": "b" }, true),
        (doc! { "a": { "$in": ["B", "A"] } }, doc! { "a": "c" }, false),
        (doc! { "a": { "$lt": "B" } }, doc! { "a": "a" }, true),
        (doc! { "a": { "$gt": "B" } }, doc! { "a": "b" }, false),
        (doc! { "a": { "b": "X" } }, doc! { "a": { "b": "x" } }, true),
        (doc! { "a": { "$regex": "X" } }, doc! { "a": "x" }, false),
    ] {
        let parsed = Filter::parse(filter.as_doc(), &env).expect("a filter");
        assert_eq!(parsed.matches(document.as_doc()), Ok(expected), "{filter:?} on {document:?}");
    }
}
