use super::*;
use diwan_value::{array, doc, extjson};

fn schema(source: &DocBuf) -> Schema {
    Schema::parse(source.as_doc()).expect("a valid schema")
}

/// Checks a schema for the field `a` against values that satisfy it and values that fail it.
#[track_caller]
fn check(rules: DocBuf, good: &[DocBuf], bad: &[DocBuf]) {
    let schema = schema(&doc! { "properties": { "a": rules } });
    for document in good {
        assert!(schema.matches(document.as_doc()).expect("matching"), "{document:?} must satisfy {schema:?}");
    }
    for document in bad {
        assert!(!schema.matches(document.as_doc()).expect("matching"), "{document:?} must break {schema:?}");
        assert!(
            !schema
                .explain(document.as_doc())
                .expect("details")
                .as_doc()
                .get_array("schemaRulesNotSatisfied")
                .expect("rules")
                .is_empty()
        );
    }
}

#[track_caller]
fn rejected(source: DocBuf, code: i32, text: &str) {
    let error = Schema::parse(source.as_doc()).expect_err("an error");
    assert_eq!((error.code, error.message.as_str()), (code, text));
}

#[track_caller]
fn explained(source: DocBuf, document: DocBuf, details: &str) {
    let explanation = schema(&source).explain(document.as_doc()).expect("details");
    let expected = extjson::parse(details).expect("JSON");
    assert_eq!(explanation, expected, "{explanation:?}");
}

#[test]
fn type_keywords_accept_values_of_their_types() {
    check(
        doc! { "bsonType": "int" },
        &[doc! { "a": 1 }, doc! {}],
        &[doc! { "a": "x" }, doc! { "a": 1.0 }, doc! { "a": [1] }],
    );
    check(
        doc! { "type": ["number", "null"] },
        &[doc! { "a": 1.5 }, doc! { "a": null }],
        &[doc! { "a": true }],
    );
    check(doc! { "bsonType": ["objectId", "date"] }, &[doc! { "a": Value::DateTime(1) }], &[doc! { "a": 1 }]);
}

#[test]
fn number_keywords_apply_to_numbers_only() {
    check(
        doc! { "minimum": 5 },
        &[doc! { "a": 5 }, doc! { "a": "x" }, doc! { "a": 5.5 }],
        &[doc! { "a": 4i64 }, doc! { "a": f64::NAN }],
    );
    check(doc! { "minimum": 5, "exclusiveMinimum": true }, &[doc! { "a": 6 }], &[doc! { "a": 5.0 }]);
    check(doc! { "maximum": 5, "exclusiveMaximum": false }, &[doc! { "a": 5 }], &[doc! { "a": 5.1 }]);
    check(
        doc! { "multipleOf": 3 },
        &[doc! { "a": 9 }, doc! { "a": -3.0 }],
        &[doc! { "a": 10 }, doc! { "a": 4.5 }],
    );
    check(doc! { "multipleOf": 0.1 }, &[doc! { "a": 0.3 }, doc! { "a": 2 }], &[doc! { "a": 0.35 }]);
}

#[test]
fn string_keywords_apply_to_strings_only() {
    check(
        doc! { "minLength": 2, "maxLength": 3 },
        &[doc! { "a": "äö" }, doc! { "a": 1 }],
        &[doc! { "a": "ä" }, doc! { "a": "abcd" }],
    );
    check(doc! { "pattern": "^x" }, &[doc! { "a": "xy" }, doc! { "a": 5 }], &[doc! { "a": "y" }]);
    check(
        doc! { "enum": ["a", 1, { "x": 1, "y": 2 }] },
        &[doc! { "a": "a" }, doc! { "a": 1.0 }, doc! { "a": { "y": 2, "x": 1 } }],
        &[doc! { "a": "b" }, doc! { "a": ["a"] }],
    );
}

#[test]
fn array_keywords_apply_to_arrays_only() {
    check(
        doc! { "minItems": 1, "maxItems": 2 },
        &[doc! { "a": [1] }, doc! { "a": 1 }],
        &[doc! { "a": array![] }, doc! { "a": [1, 2, 3] }],
    );
    check(
        doc! { "uniqueItems": true },
        &[doc! { "a": [1, "1", { "x": 1 }] }, doc! { "a": array![] }],
        &[doc! { "a": [1, 2, 1.0] }, doc! { "a": [{ "x": 1, "y": 2 }, { "y": 2, "x": 1 }] }],
    );
    check(
        doc! { "items": { "type": "string" } },
        &[doc! { "a": ["x"] }, doc! { "a": array![] }],
        &[doc! { "a": ["x", 1] }],
    );
    let list = doc! { "items": [{ "type": "string" }, { "type": "number" }], "additionalItems": false };
    check(
        list,
        &[doc! { "a": ["x", 1] }, doc! { "a": ["x"] }],
        &[doc! { "a": [1] }, doc! { "a": ["x", 1, 2] }],
    );
    let list = doc! { "items": [{ "type": "string" }], "additionalItems": { "type": "number" } };
    check(list, &[doc! { "a": ["x", 1, 2] }], &[doc! { "a": ["x", 1, "y"] }]);
}

#[test]
fn object_keywords_apply_to_objects_only() {
    check(
        doc! { "required": ["x", "y"] },
        &[doc! { "a": { "x": 1, "y": null } }, doc! { "a": 1 }],
        &[doc! { "a": { "x": 1 } }],
    );
    check(
        doc! { "properties": { "x": { "type": "string" } }, "additionalProperties": false },
        &[doc! { "a": { "x": "s" } }, doc! { "a": {} }],
        &[doc! { "a": { "x": 1 } }, doc! { "a": { "y": 1 } }],
    );
    check(
        doc! { "patternProperties": { "^n_": { "type": "number" } }, "additionalProperties": { "type": "string" } },
        &[doc! { "a": { "n_x": 1, "y": "s" } }],
        &[doc! { "a": { "n_x": "s" } }, doc! { "a": { "y": 1 } }],
    );
    check(
        doc! { "minProperties": 1, "maxProperties": 1 },
        &[doc! { "a": { "x": 1 } }],
        &[doc! { "a": {} }, doc! { "a": { "x": 1, "y": 1 } }],
    );
    check(
        doc! { "dependencies": { "x": ["y"], "z": { "required": ["w"] } } },
        &[doc! { "a": { "x": 1, "y": 1 } }, doc! { "a": { "y": 1 } }, doc! { "a": { "z": 1, "w": 1 } }],
        &[doc! { "a": { "x": 1 } }, doc! { "a": { "z": 1 } }],
    );
}

#[test]
fn combining_keywords_count_matching_schemas() {
    check(doc! { "allOf": [{ "minimum": 1 }, { "maximum": 3 }] }, &[doc! { "a": 2 }], &[doc! { "a": 4 }]);
    check(
        doc! { "anyOf": [{ "type": "string" }, { "maximum": 3 }] },
        &[doc! { "a": "x" }, doc! { "a": 1 }],
        &[doc! { "a": 4 }],
    );
    check(
        doc! { "oneOf": [{ "minimum": 3 }, { "maximum": 5 }] },
        &[doc! { "a": 2 }, doc! { "a": 6 }],
        &[doc! { "a": 4 }],
    );
    check(doc! { "not": { "type": "string" } }, &[doc! { "a": 1 }], &[doc! { "a": "x" }]);
}

#[test]
fn parsing_rejects_invalid_keywords() {
    rejected(doc! { "foo": 1 }, 9, "Unknown $jsonSchema keyword: foo");
    rejected(doc! { "format": "email" }, 9, "$jsonSchema keyword 'format' is not currently supported");
    rejected(
        doc! { "type": "string", "bsonType": "string" },
        9,
        "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
    );
    rejected(doc! { "type": "int" }, 2, "Unknown type name alias: int");
    rejected(doc! { "type": "integer" }, 9, "$jsonSchema type 'integer' is not currently supported.");
    rejected(
        doc! { "bsonType": 1 },
        14,
        "$jsonSchema keyword 'bsonType' must be either a string or an array of strings",
    );
    rejected(doc! { "bsonType": array![] }, 9, "$jsonSchema keyword 'bsonType' must name at least one type");
    rejected(doc! { "minimum": "x" }, 14, "$jsonSchema keyword 'minimum' must be a number");
    rejected(
        doc! { "exclusiveMinimum": true },
        9,
        "$jsonSchema keyword 'minimum' must be a present if exclusiveMinimum is present",
    );
    rejected(
        doc! { "minimum": 1, "exclusiveMinimum": 1 },
        14,
        "$jsonSchema keyword 'exclusiveMinimum' must be a boolean",
    );
    rejected(doc! { "multipleOf": 0 }, 9, "$jsonSchema keyword 'multipleOf' must have a positive value");
    rejected(doc! { "minLength": -1 }, 9, "Expected a non-negative number in: minLength: -1");
    rejected(doc! { "required": array![] }, 9, "$jsonSchema keyword 'required' cannot be an empty array");
    rejected(
        doc! { "required": ["a", "a"] },
        9,
        "$jsonSchema keyword 'required' array cannot contain duplicate values",
    );
    rejected(
        doc! { "required": [1] },
        14,
        "$jsonSchema keyword 'required' must be an array of strings, but found an element of type: int",
    );
    rejected(
        doc! { "properties": { "a": 1 } },
        14,
        "Nested schema for $jsonSchema property 'a' must be an object",
    );
    rejected(doc! { "enum": array![] }, 9, "$jsonSchema keyword 'enum' cannot be an empty array");
    rejected(
        doc! { "enum": [1, 1.0] },
        9,
        "$jsonSchema keyword 'enum' array cannot contain duplicate values.",
    );
    rejected(doc! { "allOf": array![] }, 2, "$jsonSchema keyword 'allOf' must be a non-empty array");
    rejected(doc! { "title": 1 }, 14, "$jsonSchema keyword 'title' must be of type string");
    rejected(doc! { "pattern": "(" }, 51091, "Regular expression is invalid: missing closing parenthesis");
}

#[test]
fn explain_reports_the_failed_rules() {
    explained(
        doc! { "bsonType": "object", "required": ["name", "age"], "properties": {
            "name": { "bsonType": "string", "description": "must be a string" },
            "age": { "minimum": 18 },
        } },
        doc! { "name": 5, "age": 17 },
        r#"{"operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [
            {"operatorName": "properties", "propertiesNotSatisfied": [
                {"propertyName": "name", "description": "must be a string", "details": [
                    {"operatorName": "bsonType", "specifiedAs": {"bsonType": "string"}, "reason": "type did not match",
                     "consideredValue": 5, "consideredType": "int"}]},
                {"propertyName": "age", "details": [
                    {"operatorName": "minimum", "specifiedAs": {"minimum": 18}, "reason": "comparison failed",
                     "consideredValue": 17}]}]}]}"#,
    );
    explained(
        doc! { "title": "T", "required": ["name", "age"], "additionalProperties": false, "properties": { "age": {} } },
        doc! { "age": 1, "other": 2 },
        r#"{"operatorName": "$jsonSchema", "title": "T", "schemaRulesNotSatisfied": [
            {"operatorName": "additionalProperties", "specifiedAs": {"additionalProperties": false},
             "additionalProperties": ["other"]},
            {"operatorName": "required", "specifiedAs": {"required": ["name", "age"]}, "missingProperties": ["name"]}]}"#,
    );
    explained(
        doc! { "properties": { "a": { "items": { "type": "string" } } }, "oneOf": [{}, {}] },
        doc! { "a": ["x", 1] },
        r#"{"operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [
            {"operatorName": "properties", "propertiesNotSatisfied": [{"propertyName": "a", "details": [
                {"operatorName": "items", "reason": "At least one item did not match the sub-schema", "itemIndex": 1,
                 "details": [{"operatorName": "type", "specifiedAs": {"type": "string"}, "reason": "type did not match",
                   "consideredValue": 1, "consideredType": "int"}]}]}]},
            {"operatorName": "oneOf", "reason": "more than one subschema matched", "matchingSchemaIndexes": [0, 1]}]}"#,
    );
}
