//! Results of updates, operator by operator, and a comparison with a simple model.

use super::{Update, UpdateEnv};
use crate::error::Result;
use crate::expr::Context;
use crate::filter::{Filter, FilterEnv};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value, array, doc};

fn parse(update: &DocBuf, filters: Option<&ArrayBuilder>) -> Result<Update> {
    let bytes = filters.map(|filters| filters.clone().finish());
    let env = UpdateEnv {
        filter: &FilterEnv::default(),
        array_filters: bytes.as_deref().map(Array::trusted),
        multi: false,
    };
    Update::parse(Value::Document(update.as_doc()), &env)
}

fn context() -> Context {
    Context { now: 1_700_000_000_000, ..Context::default() }
}

fn apply(update: &DocBuf, doc: &DocBuf) -> Result<Option<DocBuf>> {
    parse(update, None)?.apply(doc.as_doc(), None, &context())
}

/// Checks `update` on `before`. `None` means no change.
#[track_caller]
fn check(update: DocBuf, before: DocBuf, after: Option<DocBuf>) {
    assert_eq!(apply(&update, &before).unwrap(), after, "{update:?} of {before:?}");
}

#[track_caller]
fn check_error(update: DocBuf, before: DocBuf, code: i32, message: &str) {
    let error = apply(&update, &before).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message), "{update:?} of {before:?}");
}

#[test]
fn set_writes_and_unset_removes_fields() {
    check(
        doc! { "$set": { "a": 2 } },
        doc! { "_id": 1, "a": 1, "b": 3 },
        Some(doc! { "_id": 1, "a": 2, "b": 3 }),
    );
    check(doc! { "$set": { "a": 1 } }, doc! { "_id": 1, "a": 1 }, None);
    check(doc! { "$set": { "a": 1i64 } }, doc! { "a": 1 }, Some(doc! { "a": 1i64 }));
    check(doc! { "$set": {} }, doc! { "a": 1 }, None);
    check(doc! { "$set": { "a.b.c": 1 } }, doc! {}, Some(doc! { "a": { "b": { "c": 1 } } }));
    check(
        doc! { "$set": { "a.b": 1, "a.c": 2 }, "$inc": { "a.a": 3 } },
        doc! { "a": { "c": 0, "z": 1 }, "y": 1 },
        Some(doc! { "a": { "c": 2, "z": 1, "a": 3, "b": 1 }, "y": 1 }),
    );
    check(doc! { "$unset": { "a": 1 } }, doc! { "a": 1, "b": 2 }, Some(doc! { "b": 2 }));
    check(doc! { "$unset": { "a.b": 1, "x.y": 1 } }, doc! { "a": 1 }, None);
    check(doc! { "$unset": { "a.1": 1 } }, doc! { "a": [1, 2, 3] }, Some(doc! { "a": [1, null, 3] }));
}

#[test]
fn new_fields_are_appended_in_name_order() {
    check(
        doc! { "$set": { "10": 1, "9": 1, "b": 1, "a": 1, "B": 1 } },
        doc! { "_id": 0 },
        Some(doc! { "_id": 0, "9": 1, "10": 1, "B": 1, "a": 1, "b": 1 }),
    );
}

#[test]
fn numeric_path_parts_change_array_elements() {
    check(doc! { "$set": { "a.1": 9 } }, doc! { "a": [1, 2] }, Some(doc! { "a": [1, 9] }));
    check(
        doc! { "$set": { "a.3.b": 9 } },
        doc! { "a": [1] },
        Some(doc! { "a": [1, null, null, { "b": 9 }] }),
    );
    check(
        doc! { "$set": { "a.2": 3, "a.10": 4 } },
        doc! { "a": [1, 2] },
        Some(doc! { "a": [1, 2, 3, null, null, null, null, null, null, null, 4] }),
    );
    check_error(
        doc! { "$set": { "a.x": 1 } },
        doc! { "a": [1] },
        28,
        "Cannot create field 'x' in element {a: [ 1 ]}",
    );
    check_error(
        doc! { "$set": { "a.2000000": 1 } },
        doc! { "a": [] },
        34,
        "can't backfill more than 1500000 elements",
    );
}

#[test]
fn inc_mul_and_bit_compute_and_check_overflow() {
    let cases = [
        (doc! { "$inc": { "a": 2 } }, doc! { "a": 1 }, Some(doc! { "a": 3 })),
        (doc! { "$inc": { "a": 0 } }, doc! { "a": 1 }, None),
        (doc! { "$inc": { "a": 1 } }, doc! { "a": i32::MAX }, Some(doc! { "a": 2_147_483_648i64 })),
        (doc! { "$inc": { "a": 1i64 } }, doc! { "a": 1 }, Some(doc! { "a": 2i64 })),
        (doc! { "$inc": { "a": 0.5 } }, doc! { "a": 1 }, Some(doc! { "a": 1.5 })),
        (doc! { "$inc": { "a": 5i64 } }, doc! {}, Some(doc! { "a": 5i64 })),
        (doc! { "$mul": { "a": 3 } }, doc! { "a": 2 }, Some(doc! { "a": 6 })),
        (doc! { "$mul": { "a": 3.5 } }, doc! {}, Some(doc! { "a": 0.0 })),
        (doc! { "$min": { "a": 1 } }, doc! { "a": 2 }, Some(doc! { "a": 1 })),
        (doc! { "$min": { "a": 3 } }, doc! { "a": 2 }, None),
        (doc! { "$max": { "a": "x" } }, doc! { "a": 2 }, Some(doc! { "a": "x" })),
        (doc! { "$max": { "a": 2.0 } }, doc! { "a": 2 }, None),
        (doc! { "$bit": { "a": { "and": 6, "or": 1 } } }, doc! { "a": 12 }, Some(doc! { "a": 5 })),
        (doc! { "$bit": { "a": { "xor": 5i64 } } }, doc! { "a": 1 }, Some(doc! { "a": 4i64 })),
        (doc! { "$bit": { "a": { "or": 3 } } }, doc! {}, Some(doc! { "a": 3 })),
    ];
    for (update, before, after) in cases {
        check(update, before, after);
    }
    check_error(
        doc! { "$inc": { "a": 1 } },
        doc! { "_id": 7, "a": "x" },
        14,
        "Cannot apply $inc to a value of non-numeric type. {_id: 7} has the field 'a' of non-numeric type string",
    );
    check_error(
        doc! { "$inc": { "a": 1i64 } },
        doc! { "_id": 7, "a": i64::MAX },
        2,
        "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: 7}",
    );
    check_error(
        doc! { "$inc": { "a": "x" } },
        doc! {},
        14,
        "Cannot increment with non-numeric argument: {a: \"x\"}",
    );
}

#[test]
fn push_inserts_sorts_and_slices() {
    let cases = [
        (doc! { "$push": { "a": 3 } }, doc! { "a": [1] }, Some(doc! { "a": [1, 3] })),
        (doc! { "$push": { "a": [3] } }, doc! {}, Some(doc! { "a": [[3]] })),
        (doc! { "$push": { "a": { "$each": [3, 4] } } }, doc! { "a": [1] }, Some(doc! { "a": [1, 3, 4] })),
        (doc! { "$push": { "a": { "$each": [] } } }, doc! { "a": [1] }, None),
        (doc! { "$push": { "a": { "$each": [] } } }, doc! {}, Some(doc! { "a": [] })),
        (
            doc! { "$push": { "a": { "$each": [8, 9], "$position": 1 } } },
            doc! { "a": [1, 2] },
            Some(doc! { "a": [1, 8, 9, 2] }),
        ),
        (
            doc! { "$push": { "a": { "$each": [9], "$position": -1 } } },
            doc! { "a": [1, 2] },
            Some(doc! { "a": [1, 9, 2] }),
        ),
        (
            doc! { "$push": { "a": { "$each": [5, 1], "$sort": -1, "$slice": 3 } } },
            doc! { "a": [4, 2] },
            Some(doc! { "a": [5, 4, 2] }),
        ),
        (
            doc! { "$push": { "a": { "$each": [5], "$slice": -2 } } },
            doc! { "a": [4, 2] },
            Some(doc! { "a": [2, 5] }),
        ),
        (doc! { "$push": { "a": { "$each": [5], "$slice": 0 } } }, doc! { "a": [4] }, Some(doc! { "a": [] })),
        (
            doc! { "$push": { "a": { "$each": [{ "s": 1 }], "$sort": { "s": 1 } } } },
            doc! { "a": [{ "s": 3 }, { "s": 2 }] },
            Some(doc! { "a": [{ "s": 1 }, { "s": 2 }, { "s": 3 }] }),
        ),
    ];
    for (update, before, after) in cases {
        check(update, before, after);
    }
    check_error(
        doc! { "$push": { "a": 1 } },
        doc! { "_id": 7, "a": 1 },
        2,
        "The field 'a' must be an array but is of type int in document {_id: 7}",
    );
    check_error(
        doc! { "$push": { "a": { "$each": 1 } } },
        doc! {},
        2,
        "The argument to $each in $push must be an array but it was of type: int",
    );
}

#[test]
fn add_to_set_pop_and_pull_change_arrays() {
    let cases = [
        (doc! { "$addToSet": { "a": 1 } }, doc! { "a": [1.0] }, None),
        (
            doc! { "$addToSet": { "a": { "$each": [2, 1, 2] } } },
            doc! { "a": [1] },
            Some(doc! { "a": [1, 2] }),
        ),
        (doc! { "$addToSet": { "a": 2 } }, doc! {}, Some(doc! { "a": [2] })),
        (doc! { "$pop": { "a": 1 } }, doc! { "a": [1, 2] }, Some(doc! { "a": [1] })),
        (doc! { "$pop": { "a": -1 } }, doc! { "a": [1, 2] }, Some(doc! { "a": [2] })),
        (doc! { "$pop": { "a": -1 } }, doc! { "a": [] }, None),
        (doc! { "$pop": { "b": 1 } }, doc! { "a": [] }, None),
        (doc! { "$pull": { "a": 1 } }, doc! { "a": [1, 2, 1.0, 3] }, Some(doc! { "a": [2, 3] })),
        (doc! { "$pull": { "a": { "$gt": 1 } } }, doc! { "a": [1, 2, "x", 3] }, Some(doc! { "a": [1, "x"] })),
        (
            doc! { "$pull": { "a": { "b": 1 } } },
            doc! { "a": [{ "b": 1, "c": 2 }, { "b": 2 }, 1] },
            Some(doc! { "a": [{ "b": 2 }, 1] }),
        ),
        (doc! { "$pullAll": { "a": [1, 3] } }, doc! { "a": [1, 2, 3] }, Some(doc! { "a": [2] })),
        (doc! { "$pullAll": { "a": [9] } }, doc! { "a": [1, 2, 3] }, None),
    ];
    for (update, before, after) in cases {
        check(update, before, after);
    }
    check_error(doc! { "$pull": { "a": 1 } }, doc! { "a": 5 }, 2, "Cannot apply $pull to a non-array value");
    check_error(
        doc! { "$pop": { "a.b": 1 } },
        doc! { "a": 5 },
        28,
        "Cannot use the part (a) of (a.b) to traverse the element ({a: 5})",
    );
    check_error(doc! { "$pop": { "a": 2 } }, doc! {}, 9, "$pop expects 1 or -1, found: 2");
    check_error(
        doc! { "$pop": { "a": 1 } },
        doc! { "a": 5 },
        14,
        "Path 'a' contains an element of non-array type 'int'",
    );
}

#[test]
fn rename_moves_a_field() {
    check(doc! { "$rename": { "a": "b" } }, doc! { "a": 1, "c": 2 }, Some(doc! { "c": 2, "b": 1 }));
    check(doc! { "$rename": { "a": "c" } }, doc! { "a": 1, "c": 2 }, Some(doc! { "c": 1 }));
    check(
        doc! { "$rename": { "a.x": "d.y" } },
        doc! { "a": { "x": 1 } },
        Some(doc! { "a": {}, "d": { "y": 1 } }),
    );
    check(doc! { "$rename": { "zz": "b.c" } }, doc! { "b": 1 }, None);
    check_error(
        doc! { "$rename": { "a": "a" } },
        doc! {},
        2,
        "The source and target field for $rename must differ: a: \"a\"",
    );
    check_error(
        doc! { "$rename": { "a": "a.b" } },
        doc! {},
        2,
        "The source and target field for $rename must not be on the same path: a: \"a.b\"",
    );
    check_error(
        doc! { "$rename": { "a": 1 } },
        doc! {},
        2,
        "The 'to' field for $rename must be a string: a: 1",
    );
    check_error(
        doc! { "$rename": { "a.0": "b" } },
        doc! { "_id": 1, "a": [1] },
        2,
        "The source field cannot be an array element, 'a.0' in doc with _id: 1 has an array field called 'a'",
    );
    check_error(
        doc! { "$rename": { "b": "a.0" } },
        doc! { "_id": 1, "a": [1], "b": 1 },
        2,
        "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an array field called 'a'",
    );
}

#[test]
fn current_date_writes_the_operation_time() {
    let now = Value::DateTime(1_700_000_000_000);
    check(doc! { "$currentDate": { "a": true } }, doc! {}, Some(doc! { "a": now }));
    let changed =
        apply(&doc! { "$currentDate": { "a": { "$type": "timestamp" } } }, &doc! { "a": 1 }).unwrap();
    assert!(matches!(changed.unwrap().as_doc().get("a"), Some(Value::Timestamp(_))));
    check_error(
        doc! { "$currentDate": { "a": { "$type": "x" } } },
        doc! {},
        2,
        "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
    );
}

#[test]
fn positional_operator_changes_the_matched_element() {
    let run =
        |update: DocBuf, doc: DocBuf, index| parse(&update, None)?.apply(doc.as_doc(), index, &context());
    let before = || doc! { "a": [{ "b": 1 }, { "b": 2 }] };
    assert_eq!(
        run(doc! { "$set": { "a.$.b": 9 } }, before(), Some(1)).unwrap(),
        Some(doc! { "a": [{ "b": 1 }, { "b": 9 }] })
    );
    assert_eq!(
        run(doc! { "$set": { "a.$.b": 9, "a.1.c": 8, "a.0.b": 7 } }, before(), Some(1)).unwrap(),
        Some(doc! { "a": [{ "b": 7 }, { "b": 9, "c": 8 }] })
    );
    let conflict = run(doc! { "$set": { "a.$.b": 9, "a.1.b": 8 } }, before(), Some(1)).unwrap_err();
    assert_eq!((conflict.code, conflict.message.as_str()), (40, "Update created a conflict at 'a.1.b'"));
    let unmatched = run(doc! { "$set": { "a.$": 9 } }, before(), None).unwrap_err();
    assert_eq!(unmatched.message, "The positional operator did not find the match needed from the query.");
    assert!(parse(&doc! { "$set": { "a.$": 9 } }, None).unwrap().needs_array_index());
}

#[test]
fn array_filters_select_elements() {
    let run = |update: DocBuf, filters: Option<ArrayBuilder>, doc: DocBuf| {
        parse(&update, filters.as_ref())?.apply(doc.as_doc(), None, &context())
    };
    assert_eq!(
        run(doc! { "$inc": { "a.$[]": 1 } }, None, doc! { "a": [1, 2] }).unwrap(),
        Some(doc! { "a": [2, 3] })
    );
    assert_eq!(
        run(
            doc! { "$set": { "a.$[x].b": 9 }, "$unset": { "a.$[].c": 1 } },
            Some(array![{ "x.b": { "$gt": 1 } }]),
            doc! { "a": [{ "b": 1, "c": 1 }, { "b": 2, "c": 1 }] }
        )
        .unwrap(),
        Some(doc! { "a": [{ "b": 1 }, { "b": 9 }] })
    );
    assert_eq!(
        run(
            doc! { "$set": { "a.$[].b.$[y]": 0 } },
            Some(array![{ "y": { "$lt": 3 } }]),
            doc! { "a": [{ "b": [1, 5] }, { "b": [2, 3] }] }
        )
        .unwrap(),
        Some(doc! { "a": [{ "b": [0, 5] }, { "b": [0, 3] }] })
    );
    let code = |result: Result<Option<DocBuf>>| {
        let error = result.unwrap_err();
        (error.code, error.message)
    };
    assert_eq!(
        code(run(doc! { "$set": { "a.$[x]": 1 } }, None, doc! {})),
        (2, "No array filter found for identifier 'x' in path 'a.$[x]'".to_owned())
    );
    assert_eq!(
        code(run(doc! { "$set": { "a": 1 } }, Some(array![{ "x": 1 }]), doc! {})),
        (9, "The array filter for identifier 'x' was not used in the update { $set: { a: 1 } }".to_owned())
    );
    assert_eq!(
        code(run(doc! { "$set": { "a.$[]": 1 } }, None, doc! { "a": 1 })),
        (2, "Cannot apply array updates to non-array element a: 1".to_owned())
    );
    assert_eq!(
        code(run(doc! { "$set": { "a.$[].b": 1 } }, None, doc! {})),
        (2, "The path 'a' must exist in the document in order to apply array updates.".to_owned())
    );
}

#[test]
fn parsing_rejects_invalid_paths() {
    let cases = [
        (doc! { "$set": { "": 1 } }, 56, "An empty update path is not valid."),
        (
            doc! { "$set": { "a..b": 1 } },
            56,
            "The update path 'a..b' contains an empty field name, which is not allowed.",
        ),
        (doc! { "$set": { "a.b": 1, "a": 2 } }, 40, "Updating the path 'a' would create a conflict at 'a'"),
        (doc! { "$set": { "a": 1, "a.b": 2 } }, 40, "Updating the path 'a.b' would create a conflict at 'a'"),
        (
            doc! { "$set": { "a.b": 1 }, "$inc": { "a.b": 2 } },
            40,
            "Updating the path 'a.b' would create a conflict at 'a.b'",
        ),
        (
            doc! { "$set": { "a.$.b.$": 1 } },
            2,
            "Too many positional (i.e. '$') elements found in path 'a.$.b.$'",
        ),
        (
            doc! { "$set": { "$": 1 } },
            2,
            "Cannot have positional (i.e. '$') element in the first position in path '$'",
        ),
        (
            doc! { "$foo": { "a": 1 } },
            9,
            "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update specified as an array",
        ),
        (
            doc! { "$set": 1 },
            9,
            "Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} not \
             {$set: 1}",
        ),
        (doc! { "$set": { "a.b": 1 } }, 28, "Cannot create field 'b' in element {a: 5}"),
        (
            doc! { "$set": { "_id": 2 } },
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            doc! { "$unset": { "_id": 2 } },
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            doc! { "$set": { "$x": 2 } },
            52,
            "The dollar ($) prefixed field '$x' in '$x' is not allowed in the context of an update's replacement \
             document. Consider using an aggregation pipeline with $replaceWith.",
        ),
    ];
    for (update, code, message) in cases {
        check_error(update, doc! { "_id": 1, "a": 5 }, code, message);
    }
    check(doc! { "$set": { "_id": 1, "b": 1 } }, doc! { "_id": 1 }, Some(doc! { "_id": 1, "b": 1 }));
    check(doc! { "$set": { "a.$x": 1 } }, doc! { "a": {} }, Some(doc! { "a": { "$x": 1 } }));
}

#[test]
fn updates_reject_documents_that_nest_too_deep() {
    let deep = vec!["a"; 99].join(".");
    let mut set = DocBuilder::new();
    set.append(&deep, doc! {});
    check(doc! { "$unset": { "b": 1 } }, doc! {}, None);
    let fits = apply(&doc! { "$set": set.finish() }, &doc! {}).unwrap().unwrap();
    assert!(Doc::validate(fits.as_doc().as_bytes()).is_ok());
    let mut set = DocBuilder::new();
    set.append(&deep, doc! { "b": {} });
    let error = apply(&doc! { "$set": set.finish() }, &doc! {}).unwrap_err();
    assert_eq!(error.code, 15);
    let mut set = DocBuilder::new();
    set.append(&vec!["a"; 100_000].join("."), 1);
    assert_eq!(apply(&doc! { "$set": set.finish() }, &doc! {}).unwrap_err().code, 15);
}

#[test]
fn replacement_keeps_the_id() {
    check(doc! { "b": 1 }, doc! { "_id": 1, "a": 1 }, Some(doc! { "_id": 1, "b": 1 }));
    check(doc! {}, doc! { "_id": 1, "a": 1 }, Some(doc! { "_id": 1 }));
    check(doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }, None);
    check(doc! { "b": 1, "_id": 1 }, doc! { "_id": 1, "a": 1 }, Some(doc! { "_id": 1, "b": 1 }));
    check_error(
        doc! { "_id": 2 },
        doc! { "_id": 1 },
        66,
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
    );
    assert_eq!(apply(&doc! { "a": 1, "$b": 1 }, &doc! {}).unwrap_err().code, 52);
    let zero = Value::Timestamp(diwan_value::Timestamp { seconds: 0, increment: 0 });
    let changed = apply(&doc! { "t": zero }, &doc! { "_id": 1 }).unwrap().unwrap();
    assert_ne!(changed.as_doc().get("t"), Some(zero));
}

#[test]
fn pipeline_updates_transform_the_document() {
    let run = |stages: ArrayBuilder, doc: DocBuf| {
        let bytes = stages.finish();
        let env = UpdateEnv { filter: &FilterEnv::default(), array_filters: None, multi: true };
        Update::parse(Value::Array(Array::trusted(&bytes)), &env)?.apply(doc.as_doc(), None, &context())
    };
    assert_eq!(
        run(array![{ "$set": { "b": { "$add": ["$a", 1] } } }, { "$unset": "a" }], doc! { "_id": 1, "a": 1 })
            .unwrap(),
        Some(doc! { "_id": 1, "b": 2 })
    );
    assert_eq!(
        run(array![{ "$replaceWith": { "x": "$a" } }], doc! { "_id": 1, "a": 1 }).unwrap(),
        Some(doc! { "_id": 1, "x": 1 })
    );
    assert_eq!(run(array![{ "$set": { "a": 1 } }], doc! { "_id": 1, "a": 1 }).unwrap(), None);
    let error = run(array![{ "$match": {} }], doc! {}).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (72, "$match is not allowed to be used within an update")
    );
    assert_eq!(run(array![{ "$nope": {} }], doc! {}).unwrap_err().code, 40324);
    assert_eq!(run(array![{ "$replaceWith": 1 }], doc! { "_id": 1 }).unwrap_err().code, 40228);
}

#[test]
fn upsert_starts_from_the_querys_equalities() {
    let run = |query: DocBuf, update: DocBuf| {
        let filter = Filter::parse(query.as_doc(), &FilterEnv::default())?;
        parse(&update, None)?.upsert_document(&filter, &context())
    };
    let cases = [
        (
            doc! { "_id": 1, "b.c": 2, "a": { "$gt": 1 }, "d": { "$eq": 4 } },
            doc! { "$set": { "x": 1 } },
            doc! { "_id": 1, "b": { "c": 2 }, "d": 4, "x": 1 },
        ),
        (
            doc! { "$and": [{ "_id": 1 }, { "z": 3 }], "$or": [{ "y": 1 }] },
            doc! { "$setOnInsert": { "k": 1 }, "$inc": { "z": 1 } },
            doc! { "_id": 1, "y": 1, "z": 4, "k": 1 },
        ),
        (doc! { "_id": 1, "q": 3 }, doc! { "a": 1 }, doc! { "_id": 1, "a": 1 }),
    ];
    for (query, update, expected) in cases {
        assert_eq!(run(query, update).unwrap(), expected);
    }
    let generated = run(doc! { "a": 1 }, doc! { "$set": { "b": 1 } }).unwrap();
    let first = generated.as_doc().iter().next().unwrap();
    assert!(first.key == b"_id" && matches!(first.value(), Value::ObjectId(_)));
    assert_eq!(run(doc! { "_id": 1 }, doc! { "$set": { "_id": 2 } }).unwrap_err().code, 66);
    assert_eq!(run(doc! {}, doc! { "$set": { "_id": [1] } }).unwrap_err().code, 53);
    assert_eq!(run(doc! { "$expr": true }, doc! { "$set": { "a": 1 } }).unwrap_err().code, 224);
    check(doc! { "$setOnInsert": { "k": 1 } }, doc! { "_id": 1 }, None);
}

#[test]
fn updates_handle_many_paths_and_limit_the_size() {
    let (mut set, mut expected) = (DocBuilder::new(), DocBuilder::new());
    for at in 0..1000 {
        set.append(&format!("f{:04}", (at * 7) % 1000), 1);
        expected.append(&format!("f{at:04}"), 1);
    }
    check(doc! { "$set": set.finish() }, doc! {}, Some(expected.finish()));
    let text = "x".repeat(1 << 20);
    let before = doc! { "a": (0..100).collect::<Vec<i32>>() };
    check_error(
        doc! { "$set": { "a.$[]": text } },
        before,
        17419,
        "Resulting document after update is larger than 16777216",
    );
}

#[test]
fn upserting_with_a_pipeline_keeps_the_querys_fields_first() {
    let stages = array![{ "$set": { "b": 1 } }, { "$unset": ["c", "d.e"] }].finish();
    let env = UpdateEnv { filter: &FilterEnv::default(), array_filters: None, multi: true };
    let update = Update::parse(Value::Array(Array::trusted(&stages)), &env).unwrap();
    let filter = Filter::parse(doc! { "a": 1 }.as_doc(), &FilterEnv::default()).unwrap();
    let new = update.upsert_document(&filter, &context()).unwrap();
    let keys: Vec<&str> = new.as_doc().iter().map(|element| element.key_str()).collect();
    assert_eq!(keys, ["_id", "a", "b"]);
}

/// A document as a simple tree.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Leaf(i32),
    Fields(Vec<(String, Model)>),
}

impl Model {
    fn set(&mut self, path: &[&str], value: i32) -> bool {
        let Some((name, rest)) = path.split_first() else {
            *self = Model::Leaf(value);
            return true;
        };
        let Model::Fields(fields) = self else { return false };
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, inner)) => inner.set(rest, value),
            None => {
                let mut inner = if rest.is_empty() { Model::Leaf(0) } else { Model::Fields(Vec::new()) };
                inner.set(rest, value);
                fields.push(((*name).to_owned(), inner));
                true
            }
        }
    }

    fn unset(&mut self, path: &[&str]) {
        let Model::Fields(fields) = self else { return };
        match path {
            [] => {}
            [name] => fields.retain(|(known, _)| known != name),
            [name, rest @ ..] => {
                if let Some((_, inner)) = fields.iter_mut().find(|(known, _)| known == name) {
                    inner.unset(rest);
                }
            }
        }
    }

    fn write(&self, builder: &mut DocBuilder) {
        let Model::Fields(fields) = self else { return };
        for (name, value) in fields {
            match value {
                Model::Leaf(number) => {
                    builder.append(name, *number);
                }
                Model::Fields(_) => {
                    builder.begin_document(name);
                    value.write(builder);
                    builder.end();
                }
            }
        }
    }

    fn to_doc(&self) -> DocBuf {
        let mut builder = DocBuilder::new();
        self.write(&mut builder);
        builder.finish()
    }
}

#[test]
fn random_updates_agree_with_the_model() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let names = ["a", "b", "c", "d"];
    let mut model = Model::Fields(Vec::new());
    let mut rejected = 0;
    for round in 0..20_000 {
        if round % 50 == 0 {
            model = Model::Fields(Vec::new());
        }
        let path: Vec<&str> = (0..=random(3)).map(|_| names[random(4) as usize]).collect();
        let (value, unset) = (random(5) as i32, random(4) == 0);
        let before = model.to_doc();
        let mut fields = DocBuilder::new();
        fields.append(&path.join("."), value);
        let operator = if unset { "$unset" } else { "$set" };
        let mut update = DocBuilder::new();
        update.append(operator, fields.finish());
        let after = apply(&update.finish(), &before);
        let mut expected = model.clone();
        let possible = if unset {
            expected.unset(&path);
            true
        } else {
            expected.set(&path, value)
        };
        if !possible {
            assert_eq!(after.unwrap_err().code, 28);
            rejected += 1;
            continue;
        }
        let changed = (expected != model).then(|| expected.to_doc());
        assert_eq!(after.unwrap(), changed, "{operator} {path:?} {value} of {before:?}");
        model = expected;
    }
    assert!(rejected > 100, "paths through scalars must have come up");
}
