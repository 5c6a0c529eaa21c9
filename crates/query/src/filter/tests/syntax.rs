use super::*;

#[test]
fn unknown_operators() {
    refused(doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo");
    refused(doc! { "a": { "$gt": 1, "b": 1 } }, 2, "unknown operator: b");
    refused(
        doc! { "$foo": 1 },
        2,
        "unknown top level operator: $foo. If you have a field name that starts with a '$' symbol, consider using \
         $getField or $setField.",
    );
    refused(doc! { "a": { "$ref": 1 } }, 2, "unknown operator: $ref");
    refused(doc! { "a": { "$where": "x" } }, 2, "$where cannot be applied to a field");
    // A document that begins otherwise is a value.
    check(doc! { "a": { "b": 1, "$gt": 1 } }, &[doc! { "a": { "b": 1, "$gt": 1 } }], &[doc! { "a": 2 }]);
}

#[test]
fn logical_operators() {
    refused(doc! { "$and": 1 }, 2, "$and must be an array");
    refused(doc! { "$or": array![] }, 2, "$and/$or/$nor must be a nonempty array");
    refused(doc! { "$nor": [1] }, 2, "$or/$and/$nor entries need to be full objects");
    refused(doc! { "a": { "$not": 1 } }, 2, "$not needs a regex or a document");
    refused(doc! { "a": { "$not": {} } }, 2, "$not cannot be empty");
    refused(doc! { "a": { "$not": { "b": 1 } } }, 2, "unknown operator: b");
    refused(doc! { "$alwaysTrue": 2 }, 9, "$alwaysTrue must be an integer value of 1");
    refused(doc! { "$sampleRate": "x" }, 2, "argument to $sampleRate must be a numeric type");
    refused(doc! { "$sampleRate": 1.5 }, 2, "numeric argument to $sampleRate must be in [0, 1]");
}

#[test]
fn comparison_operators() {
    let regex = Value::Regex { pattern: "x", options: "" };
    refused(doc! { "a": { "$gt": regex } }, 2, "Can't have RegEx as arg to predicate over field 'a'.");
    refused(doc! { "a": { "$ne": regex } }, 2, "Can't have regex as arg to $ne.");
    refused(doc! { "a": Value::Undefined }, 2, "cannot compare to undefined");
    refused(doc! { "a": { "$in": 5 } }, 2, "$in needs an array");
    refused(doc! { "a": { "$nin": {} } }, 2, "$nin needs an array");
    refused(doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "cannot nest $ under $in");
    refused(doc! { "a": { "$in": [Value::Undefined] } }, 2, "InMatchExpression equality cannot be undefined");
}

#[test]
fn array_operators() {
    refused(doc! { "a": { "$all": 1 } }, 2, "$all needs an array");
    refused(doc! { "a": { "$all": [{ "$elemMatch": {} }, 1] } }, 2, "$all/$elemMatch has to be consistent");
    refused(doc! { "a": { "$all": [1, { "$gt": 1 }] } }, 2, "no $ expressions in $all");
    refused(doc! { "a": { "$elemMatch": 1 } }, 2, "$elemMatch needs an Object");
    refused(
        doc! { "a": { "$elemMatch": { "$expr": true } } },
        2,
        "$expr can only be applied to the top-level document",
    );
    refused(doc! { "a": { "$elemMatch": { "b": { "$foo": 1 } } } }, 2, "unknown operator: $foo");
    refused(doc! { "a": { "$size": "x" } }, 2, "Failed to parse $size. Expected a number in: $size: \"x\"");
    refused(doc! { "a": { "$size": 1.5 } }, 2, "Failed to parse $size. Expected an integer: $size: 1.5");
    refused(
        doc! { "a": { "$size": -1 } },
        2,
        "Failed to parse $size. Expected a non-negative number in: $size: -1",
    );
}

#[test]
fn element_operators() {
    refused(doc! { "a": { "$type": "foo" } }, 2, "Unknown type name alias: foo");
    refused(doc! { "a": { "$type": 100 } }, 2, "Invalid numerical type code: 100");
    refused(doc! { "a": { "$type": 0 } }, 2, "Invalid numerical type code: 0. Instead use {$exists:false}.");
    refused(doc! { "a": { "$type": {} } }, 14, "type must be represented as a number or a string");
    refused(doc! { "a": { "$type": array![] } }, 9, "a must match at least one type");
    refused(doc! { "a": { "$mod": 1 } }, 2, "malformed mod, needs to be an array");
    refused(doc! { "a": { "$mod": [1] } }, 2, "malformed mod, not enough elements");
    refused(doc! { "a": { "$mod": [1, 2, 3] } }, 2, "malformed mod, too many elements");
    refused(doc! { "a": { "$mod": ["x", 2] } }, 2, "malformed mod, divisor not a number");
    refused(doc! { "a": { "$mod": [1, "x"] } }, 2, "malformed mod, remainder not a number");
    refused(doc! { "a": { "$mod": [0.5, 1] } }, 2, "divisor cannot be 0");
    refused(
        doc! { "a": { "$mod": [f64::NAN, 1] } },
        2,
        "malformed mod, divisor value is invalid :: caused by :: Unable to coerce NaN/Inf to integral type",
    );
    refused(
        doc! { "a": { "$mod": [1, 1e300] } },
        2,
        "malformed mod, remainder value is invalid :: caused by :: Out of bounds coercing to integral value",
    );
    refused(
        doc! { "a": { "$bitsAllSet": "x" } },
        2,
        "a takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\"",
    );
    refused(doc! { "a": { "$bitsAllSet": -1 } }, 9, "Expected a non-negative number in: $bitsAllSet: -1");
    refused(doc! { "a": { "$bitsAllSet": [-1] } }, 2, "bit positions must be >= 0 but got: 0: -1");
    refused(doc! { "a": { "$bitsAllSet": [0.5] } }, 2, "bit positions must be an integer but got: 0: 0.5");
}

#[test]
fn regular_expressions() {
    refused(doc! { "a": { "$regex": 1 } }, 2, "$regex has to be a string");
    refused(doc! { "a": { "$regex": "x", "$options": 1 } }, 2, "$options has to be a string");
    refused(doc! { "a": { "$options": "i" } }, 2, "$options needs a $regex");
    refused(doc! { "a": { "$regex": "x", "$options": "g" } }, 51108, "invalid flag in regex options: g");
    refused(
        doc! { "a": { "$regex": "(" } },
        51091,
        "Regular expression is invalid: missing closing parenthesis",
    );
    refused(
        doc! { "a": { "$regex": "[a" } },
        51091,
        "Regular expression is invalid: missing terminating ] for character class",
    );
    refused(
        doc! { "a": { "$regex": "*" } },
        51091,
        "Regular expression is invalid: quantifier does not follow a repeatable item",
    );
    let flagged = Value::Regex { pattern: "x", options: "i" };
    refused(
        doc! { "a": { "$regex": flagged, "$options": "s" } },
        51075,
        "options set in both $regex and $options",
    );
    refused(
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
fn operators_that_are_not_supported() {
    refused(doc! { "$text": { "$search": "x" } }, 27, "text index required for $text query");
    refused(doc! { "$where": "true" }, 2, "no globalScriptEngine in $where parsing");
    refused(doc! { "a": { "$near": [0, 0] } }, 291, "unable to find index for $geoNear query");
    refused(doc! { "a": { "$geoWithin": {} } }, 238, "$geoWithin is not supported");
}

#[test]
fn depth_is_limited() {
    let mut filter = doc! { "a": 1 };
    for _ in 0..300 {
        filter = doc! { "$and": [filter] };
    }
    refused(filter, 15, "Filter nesting depth exceeds the limit of 200");
    let path = vec!["a"; 300].join(".");
    let mut builder = diwan_value::DocBuilder::new();
    builder.append(&path, 1);
    assert!(Filter::parse(builder.finish().as_doc(), &FilterEnv::default()).is_err());
}
