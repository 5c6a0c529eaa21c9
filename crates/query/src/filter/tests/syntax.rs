use super::*;

#[test]
fn parsing_rejects_unknown_operators() {
    rejected(doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo");
    rejected(doc! { "a": { "$gt": 1, "b": 1 } }, 2, "unknown operator: b");
    rejected(
        doc! { "$foo": 1 },
        2,
        "unknown top level operator: $foo. If you have a field name that starts with a '$' symbol, consider using \
         $getField or $setField.",
    );
    rejected(doc! { "a": { "$ref": 1 } }, 2, "unknown operator: $ref");
    rejected(doc! { "a": { "$where": "x" } }, 2, "$where cannot be applied to a field");
    // A document whose first name is not an operator is a constant.
    check(doc! { "a": { "b": 1, "$gt": 1 } }, &[doc! { "a": { "b": 1, "$gt": 1 } }], &[doc! { "a": 2 }]);
}

#[test]
fn parsing_checks_logical_operators() {
    rejected(doc! { "$and": 1 }, 2, "$and must be an array");
    rejected(doc! { "$or": array![] }, 2, "$and/$or/$nor must be a nonempty array");
    rejected(doc! { "$nor": [1] }, 2, "$or/$and/$nor entries need to be full objects");
    rejected(doc! { "a": { "$not": 1 } }, 2, "$not needs a regex or a document");
    rejected(doc! { "a": { "$not": {} } }, 2, "$not cannot be empty");
    rejected(doc! { "a": { "$not": { "b": 1 } } }, 2, "unknown operator: b");
    rejected(doc! { "$alwaysTrue": 2 }, 9, "$alwaysTrue must be an integer value of 1");
    rejected(doc! { "$sampleRate": "x" }, 2, "argument to $sampleRate must be a numeric type");
    rejected(doc! { "$sampleRate": 1.5 }, 2, "numeric argument to $sampleRate must be in [0, 1]");
}

#[test]
fn parsing_checks_comparison_operators() {
    let regex = Value::Regex { pattern: "x", options: "" };
    rejected(doc! { "a": { "$gt": regex } }, 2, "Can't have RegEx as arg to predicate over field 'a'.");
    rejected(doc! { "a": { "$ne": regex } }, 2, "Can't have regex as arg to $ne.");
    rejected(doc! { "a": Value::Undefined }, 2, "cannot compare to undefined");
    rejected(doc! { "a": { "$in": 5 } }, 2, "$in needs an array");
    rejected(doc! { "a": { "$nin": {} } }, 2, "$nin needs an array");
    rejected(doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "cannot nest $ under $in");
    rejected(
        doc! { "a": { "$in": [Value::Undefined] } },
        2,
        "InMatchExpression equality cannot be undefined",
    );
}

#[test]
fn parsing_checks_array_operators() {
    rejected(doc! { "a": { "$all": 1 } }, 2, "$all needs an array");
    rejected(doc! { "a": { "$all": [{ "$elemMatch": {} }, 1] } }, 2, "$all/$elemMatch has to be consistent");
    rejected(doc! { "a": { "$all": [1, { "$gt": 1 }] } }, 2, "no $ expressions in $all");
    rejected(doc! { "a": { "$elemMatch": 1 } }, 2, "$elemMatch needs an Object");
    rejected(
        doc! { "a": { "$elemMatch": { "$expr": true } } },
        2,
        "$expr can only be applied to the top-level document",
    );
    rejected(doc! { "a": { "$elemMatch": { "b": { "$foo": 1 } } } }, 2, "unknown operator: $foo");
    rejected(doc! { "a": { "$size": "x" } }, 2, "Failed to parse $size. Expected a number in: $size: \"x\"");
    rejected(doc! { "a": { "$size": 1.5 } }, 2, "Failed to parse $size. Expected an integer: $size: 1.5");
    rejected(
        doc! { "a": { "$size": -1 } },
        2,
        "Failed to parse $size. Expected a non-negative number in: $size: -1",
    );
}

#[test]
fn parsing_checks_element_operators() {
    rejected(doc! { "a": { "$type": "foo" } }, 2, "Unknown type name alias: foo");
    rejected(doc! { "a": { "$type": 100 } }, 2, "Invalid numerical type code: 100");
    rejected(doc! { "a": { "$type": 0 } }, 2, "Invalid numerical type code: 0. Instead use {$exists:false}.");
    rejected(doc! { "a": { "$type": {} } }, 14, "type must be represented as a number or a string");
    rejected(doc! { "a": { "$type": array![] } }, 9, "a must match at least one type");
    rejected(doc! { "a": { "$mod": 1 } }, 2, "malformed mod, needs to be an array");
    rejected(doc! { "a": { "$mod": [1] } }, 2, "malformed mod, not enough elements");
    rejected(doc! { "a": { "$mod": [1, 2, 3] } }, 2, "malformed mod, too many elements");
    rejected(doc! { "a": { "$mod": ["x", 2] } }, 2, "malformed mod, divisor not a number");
    rejected(doc! { "a": { "$mod": [1, "x"] } }, 2, "malformed mod, remainder not a number");
    rejected(doc! { "a": { "$mod": [0.5, 1] } }, 2, "divisor cannot be 0");
    rejected(
        doc! { "a": { "$mod": [f64::NAN, 1] } },
        2,
        "malformed mod, divisor value is invalid :: caused by :: Unable to coerce NaN/Inf to integral type",
    );
    rejected(
        doc! { "a": { "$mod": [1, 1e300] } },
        2,
        "malformed mod, remainder value is invalid :: caused by :: Out of bounds coercing to integral value",
    );
    rejected(
        doc! { "a": { "$bitsAllSet": "x" } },
        2,
        "a takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\"",
    );
    rejected(doc! { "a": { "$bitsAllSet": -1 } }, 9, "Expected a non-negative number in: $bitsAllSet: -1");
    rejected(doc! { "a": { "$bitsAllSet": [-1] } }, 2, "bit positions must be >= 0 but got: 0: -1");
    rejected(doc! { "a": { "$bitsAllSet": [0.5] } }, 2, "bit positions must be an integer but got: 0: 0.5");
}

#[test]
fn parsing_checks_regular_expressions() {
    rejected(doc! { "a": { "$regex": 1 } }, 2, "$regex has to be a string");
    rejected(doc! { "a": { "$regex": "x", "$options": 1 } }, 2, "$options has to be a string");
    rejected(doc! { "a": { "$options": "i" } }, 2, "$options needs a $regex");
    rejected(doc! { "a": { "$regex": "x", "$options": "g" } }, 51108, "invalid flag in regex options: g");
    rejected(
        doc! { "a": { "$regex": "(" } },
        51091,
        "Regular expression is invalid: missing closing parenthesis",
    );
    rejected(
        doc! { "a": { "$regex": "[a" } },
        51091,
        "Regular expression is invalid: missing terminating ] for character class",
    );
    rejected(
        doc! { "a": { "$regex": "*" } },
        51091,
        "Regular expression is invalid: quantifier does not follow a repeatable item",
    );
    let flagged = Value::Regex { pattern: "x", options: "i" };
    rejected(
        doc! { "a": { "$regex": flagged, "$options": "s" } },
        51075,
        "options set in both $regex and $options",
    );
    rejected(
        doc! { "a": { "$options": "s", "$regex": flagged } },
        51074,
        "options set in both $regex and $options",
    );
    let large = "a".repeat(40_000);
    assert_eq!(
        Filter::parse(doc! { "a": { "$regex": large } }.as_doc(), &FilterEnv::default())
            .expect_err("large")
            .code,
        51091
    );
    assert_eq!(
        Filter::parse(doc! { "a": { "$regex": "((a{1000}){1000}){1000}" } }.as_doc(), &FilterEnv::default())
            .expect_err("a large program")
            .code,
        51091
    );
}

#[test]
fn parsing_rejects_unsupported_operators() {
    rejected(doc! { "$text": { "$search": "x" } }, 27, "text index required for $text query");
    rejected(doc! { "$where": "true" }, 2, "no globalScriptEngine in $where parsing");
    rejected(doc! { "a": { "$near": [0, 0] } }, 291, "unable to find index for $geoNear query");
    rejected(doc! { "a": { "$geoWithin": {} } }, 238, "$geoWithin is not supported");
}

#[test]
fn parsing_limits_depth() {
    let mut filter = doc! { "a": 1 };
    for _ in 0..300 {
        filter = doc! { "$and": [filter] };
    }
    rejected(filter, 15, "Filter nesting depth exceeds the limit of 200");
    let path = vec!["a"; 300].join(".");
    let mut builder = diwan_value::DocBuilder::new();
    builder.append(&path, 1);
    assert!(Filter::parse(builder.finish().as_doc(), &FilterEnv::default()).is_err());
}
