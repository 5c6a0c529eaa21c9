use super::*;

#[test]
fn matching_enters_arrays_at_the_end_of_a_path() {
    check(
        doc! { "a": 1 },
        &[doc! { "a": 1 }, doc! { "a": [0, 1] }, doc! { "a": 1.0 }],
        &[doc! { "a": [[1]] }, doc! { "a": [] }, doc! { "a": "1" }, doc! { "b": 1 }],
    );
    check(
        doc! { "a": [1, 2] },
        &[doc! { "a": [1, 2] }, doc! { "a": [[1, 2], 3] }],
        &[doc! { "a": [2, 1] }, doc! { "a": [1, 2, 3] }, doc! { "a": 1 }, doc! { "a": [[[1, 2]]] }],
    );
    check(
        doc! { "a": { "$gt": [1] } },
        &[doc! { "a": [1, 0] }, doc! { "a": [[2]] }],
        &[doc! { "a": 5 }, doc! { "a": [0] }],
    );
}

#[test]
fn matching_enters_arrays_along_a_path() {
    let filter = doc! { "a.b": 1 };
    check(
        filter.clone(),
        &[
            doc! { "a": { "b": 1 } },
            doc! { "a": [{ "b": 1 }, { "b": 2 }] },
            doc! { "a": [{ "b": [0, 1] }] },
            doc! { "a": [3, { "b": 1 }] },
        ],
        &[doc! { "a": [[{ "b": 1 }]] }, doc! { "a": [{ "c": 1 }] }, doc! { "a": 1 }, doc! { "a.b": 1 }],
    );
    check(
        doc! { "a.b.c": 1 },
        &[doc! { "a": [{ "b": [{ "c": 1 }] }] }, doc! { "a": { "b": [{ "c": [1] }] } }],
        &[doc! { "a": [{ "b": [[{ "c": 1 }]] }] }],
    );
}

#[test]
fn numeric_path_parts_are_indexes_and_names() {
    check(
        doc! { "a.0": 1 },
        &[
            doc! { "a": [1, 2] },
            doc! { "a": { "0": 1 } },
            doc! { "a": [{ "0": 1 }] },
            doc! { "a": [2, { "0": 1 }] },
        ],
        &[doc! { "a": [2, 1] }, doc! { "a": 1 }, doc! { "a": [] }, doc! { "a": [[1, 2]] }],
    );
    check(
        doc! { "a.1.b": 1 },
        &[doc! { "a": [0, { "b": 1 }] }, doc! { "a": [0, [{ "b": 1 }]] }, doc! { "a": { "1": { "b": 1 } } }],
        &[doc! { "a": [{ "b": 1 }, 0] }],
    );
    check(doc! { "a.0.1": 6 }, &[doc! { "a": [[5, 6]] }], &[doc! { "a": [[6, 5]] }, doc! { "a": [5, 6] }]);
    check(doc! { "a.00": 1 }, &[doc! { "a": { "00": 1 } }], &[doc! { "a": [1] }]);
    check(doc! { "0": 1 }, &[doc! { "0": 1 }], &[doc! { "a": 1 }]);
    check(doc! { "a.0": { "$exists": true } }, &[doc! { "a": [null] }], &[doc! { "a": [] }, doc! { "a": 1 }]);
}

#[test]
fn null_matches_missing_fields() {
    let a = doc! { "a": null };
    check(
        a,
        &[doc! { "a": null }, doc! {}, doc! { "a": [1, null] }],
        &[doc! { "a": 0 }, doc! { "a": [] }, doc! { "a": Value::Undefined }, doc! { "a": [1] }],
    );
    check(
        doc! { "a.b": null },
        &[
            doc! { "a": { "b": null } },
            doc! { "a": {} },
            doc! {},
            doc! { "a": 1 },
            doc! { "a": [{ "b": 1 }, { "c": 1 }] },
        ],
        &[doc! { "a": [] }, doc! { "a": [1, 2] }, doc! { "a": [{ "b": 1 }] }, doc! { "a": { "b": [] } }],
    );
    check(
        doc! { "a": { "$ne": null } },
        &[doc! { "a": 1 }, doc! { "a": [] }],
        &[doc! {}, doc! { "a": null }, doc! { "a": [null, 1] }],
    );
    check(doc! { "a": { "$gte": null } }, &[doc! {}, doc! { "a": null }], &[doc! { "a": 1 }]);
    check(doc! { "a": { "$lte": null } }, &[doc! {}, doc! { "a": null }], &[doc! { "a": 1 }]);
    check(doc! { "a": { "$gt": null } }, &[], &[doc! {}, doc! { "a": null }, doc! { "a": 1 }]);
    check(
        doc! { "a": { "$in": [null, 5] } },
        &[doc! {}, doc! { "a": null }, doc! { "a": [5] }],
        &[doc! { "a": 1 }, doc! { "a": Value::Undefined }],
    );
    check(doc! { "a": { "$nin": [null] } }, &[doc! { "a": 1 }], &[doc! {}, doc! { "a": null }]);
}

#[test]
fn exists_matches_present_fields() {
    check(
        doc! { "a.b": { "$exists": true } },
        &[doc! { "a": { "b": null } }, doc! { "a": [{ "c": 1 }, { "b": 1 }] }, doc! { "a": { "b": [] } }],
        &[doc! { "a": {} }, doc! { "a": [] }, doc! { "a": [1] }, doc! {}],
    );
    check(
        doc! { "a": { "$exists": false } },
        &[doc! {}, doc! { "b": 1 }],
        &[doc! { "a": null }, doc! { "a": [] }],
    );
    check(
        doc! { "a.b": { "$exists": 0 } },
        &[doc! { "a": [1] }, doc! { "a": [] }],
        &[doc! { "a": { "b": 1 } }],
    );
}

#[test]
fn negation_applies_to_the_whole_path() {
    check(
        doc! { "a": { "$ne": 1 } },
        &[doc! { "a": [0, 2] }, doc! {}],
        &[doc! { "a": [0, 1] }, doc! { "a": 1 }],
    );
    check(
        doc! { "a": { "$not": { "$gt": 1, "$lt": 5 } } },
        &[doc! { "a": 5 }, doc! { "a": [0] }, doc! {}, doc! { "a": "x" }],
        // Each of the two conditions holds through a different element.
        &[doc! { "a": 3 }, doc! { "a": [0, 9] }],
    );
    check(
        doc! { "a.b": { "$nin": [1, 2] } },
        &[doc! { "a": [{ "b": 3 }] }],
        &[doc! { "a": [{ "b": 3 }, { "b": 2 }] }],
    );
    check(
        doc! { "a": { "$not": { "$not": { "$gt": 5 } } } },
        &[doc! { "a": 6 }, doc! { "a": [1, 6] }],
        &[doc! { "a": [1] }, doc! {}],
    );
    check(
        doc! { "a": { "$not": { "$size": 2 } } },
        &[doc! { "a": [1] }, doc! { "a": 1 }],
        &[doc! { "a": [1, 2] }],
    );
}

#[test]
fn elem_match_needs_one_element_for_all_conditions() {
    check(
        doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } },
        &[doc! { "a": [{ "b": 1, "c": 2 }] }, doc! { "a": [0, { "b": [1], "c": 2 }] }],
        &[doc! { "a": [{ "b": 1 }, { "c": 2 }] }, doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": [1] }],
    );
    check(
        doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 5 } } },
        &[doc! { "a": [0, 3, 9] }],
        &[doc! { "a": [0, 9] }, doc! { "a": 3 }, doc! { "a": [[3]] }],
    );
    check(
        doc! { "a": { "$elemMatch": { "$elemMatch": { "$gt": 1 } } } },
        &[doc! { "a": [[0], [2]] }],
        &[doc! { "a": [2] }, doc! { "a": [[1]] }],
    );
    check(
        doc! { "a.b": { "$elemMatch": { "c": 1 } } },
        &[doc! { "a": [{ "b": [{ "c": 1 }] }] }, doc! { "a": { "b": [{ "c": 1 }] } }],
        &[doc! { "a": [{ "b": { "c": 1 } }] }],
    );
    check(
        doc! { "a": { "$elemMatch": { "$or": [{ "b": 1 }, { "c": 1 }] } } },
        &[doc! { "a": [{ "c": 1 }] }],
        &[doc! { "a": [{ "c": 2 }] }],
    );
    check(doc! { "a": { "$elemMatch": { "0": 7 } } }, &[doc! { "a": [[7, 8]] }], &[doc! { "a": [7] }]);
    check(
        doc! { "a": { "$elemMatch": { "$not": { "$gt": 1 } } } },
        &[doc! { "a": [5, 1] }],
        &[doc! { "a": [5] }, doc! { "a": [] }],
    );
    check(doc! { "a": { "$elemMatch": { "$in": [1, 2] } } }, &[doc! { "a": [2] }], &[doc! { "a": 2 }]);
    check(
        doc! { "a": { "$elemMatch": {} } },
        &[doc! { "a": [{}] }, doc! { "a": [[]] }],
        &[doc! { "a": [1] }, doc! { "a": [] }],
    );
    check(
        doc! { "a": { "$elemMatch": { "$ref": "c", "$id": 1 } } },
        &[doc! { "a": [{ "$ref": "c", "$id": 1, "more": 2 }] }],
        &[doc! { "a": [{ "$ref": "d", "$id": 1 }] }],
    );
}

#[test]
fn all_needs_every_listed_value() {
    check(
        doc! { "a": { "$all": [1, 2] } },
        &[doc! { "a": [2, 1, 3] }, doc! { "a": [1, 2] }],
        &[doc! { "a": [1] }, doc! { "a": 1 }, doc! {}],
    );
    check(doc! { "a": { "$all": [1] } }, &[doc! { "a": 1 }, doc! { "a": [1] }], &[doc! { "a": 2 }]);
    check(
        doc! { "a": { "$all": [[1, 2]] } },
        &[doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }],
        &[doc! { "a": [2, 1] }],
    );
    check(with_all(array![]), &[], &[doc! { "a": [] }, doc! {}, doc! { "a": 1 }]);
    check(
        with_all(array![{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }]),
        &[doc! { "a": [{ "b": 2 }, { "b": 1 }] }],
        &[doc! { "a": [{ "b": 1 }] }],
    );
    check(
        doc! { "a.b": { "$all": [1, 2] } },
        &[doc! { "a": [{ "b": 1 }, { "b": 2 }] }],
        &[doc! { "a": [{ "b": 1 }] }],
    );
    check(
        with_all(array![Value::Regex { pattern: "^x", options: "" }, "b"]),
        &[doc! { "a": ["xy", "b"] }],
        &[doc! { "a": ["y", "b"] }],
    );
}

fn with_all(list: diwan_value::ArrayBuilder) -> DocBuf {
    doc! { "a": { "$all": list } }
}

#[test]
fn size_counts_array_elements() {
    let empty = with_array("a", array![]);
    check(
        doc! { "a": { "$size": 2 } },
        &[doc! { "a": [1, [2]] }],
        &[doc! { "a": [[1, 2]] }, doc! { "a": 2 }, empty.clone()],
    );
    check(doc! { "a": { "$size": 0.0 } }, &[empty], &[doc! {}, doc! { "a": [1] }]);
    check(doc! { "a.b": { "$size": 1 } }, &[doc! { "a": [{ "b": [9] }] }], &[doc! { "a": [{ "b": 9 }] }]);
}
