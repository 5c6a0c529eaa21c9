//! Results of projections, and projections that the parser rejects.

use super::{Projection, ProjectionEnv};
use crate::error::{Error, Result};
use crate::expr::{Context, EvalEnv, ParseEnv};
use crate::filter::FilterEnv;
use bumpalo::Bump;
use diwan_value::{DocBuf, DocBuilder, Path, Value, array, doc};

fn parse(spec: &DocBuf) -> Result<Projection> {
    let query = doc! { "list": 1, "nested.list": 2 };
    let env =
        ProjectionEnv { scope: &ParseEnv::new(), filter: &FilterEnv::default(), query: Some(query.as_doc()) };
    Projection::parse(spec.as_doc(), &env)
}

fn project(projection: &Projection, doc: &DocBuf, array_index: Option<usize>) -> Result<DocBuf> {
    let (arena, context) = (Bump::new(), Context::default());
    projection.project(doc.as_doc(), array_index, &EvalEnv::new(&arena, doc.as_doc(), &context))
}

#[track_caller]
fn check(spec: DocBuf, doc: DocBuf, expected: DocBuf) {
    let shown = project(&parse(&spec).unwrap(), &doc, Some(1)).unwrap();
    assert_eq!(shown, expected, "{spec:?} of {doc:?}");
}

fn stage(spec: &DocBuf, doc: &DocBuf) -> Result<DocBuf> {
    project(&Projection::parse_stage(Value::Document(spec.as_doc()), &ParseEnv::new())?, doc, None)
}

#[test]
fn inclusion_keeps_and_exclusion_drops_named_fields() {
    let doc =
        || doc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3 }, "e": [{ "c": 4, "f": 5 }, 6, [{ "c": 7 }]] };
    let cases = [
        (doc! {}, doc()),
        (doc! { "a": 1 }, doc! { "_id": 1, "a": 1 }),
        (doc! { "a": true, "_id": 0 }, doc! { "a": 1 }),
        (doc! { "_id": 1 }, doc! { "_id": 1 }),
        (
            doc! { "_id": 0 },
            doc! { "a": 1, "b": { "c": 2, "d": 3 }, "e": [{ "c": 4, "f": 5 }, 6, [{ "c": 7 }]] },
        ),
        (doc! { "b.c": 1, "a": 1 }, doc! { "_id": 1, "a": 1, "b": { "c": 2 } }),
        (doc! { "b": { "d": 1 } }, doc! { "_id": 1, "b": { "d": 3 } }),
        (doc! { "e.c": 1 }, doc! { "_id": 1, "e": [{ "c": 4 }, [{ "c": 7 }]] }),
        (doc! { "e.x": 1, "_id": 0 }, doc! { "e": [{}, [{}]] }),
        (doc! { "a.x": 1 }, doc! { "_id": 1 }),
        (doc! { "e": 0, "b.c": 0 }, doc! { "_id": 1, "a": 1, "b": { "d": 3 } }),
        (doc! { "e.c": 0, "b": 0, "_id": 1 }, doc! { "_id": 1, "a": 1, "e": [{ "f": 5 }, 6, [{}]] }),
    ];
    for (spec, expected) in cases {
        check(spec, doc(), expected);
    }
}

#[test]
fn computed_fields_follow_kept_fields() {
    let doc = || doc! { "_id": 1, "a": 2, "b": { "c": 3 }, "d": [{ "x": 1 }, 2] };
    let cases = [
        (doc! { "z": "$a", "b": 1 }, doc! { "_id": 1, "b": { "c": 3 }, "z": 2 }),
        (doc! { "z": { "$literal": 5 }, "y": "text" }, doc! { "_id": 1, "z": 5, "y": "text" }),
        (doc! { "z": "$missing" }, doc! { "_id": 1 }),
        (doc! { "b.e": "$a", "b.c": 1 }, doc! { "_id": 1, "b": { "c": 3, "e": 2 } }),
        (doc! { "n.m": "$a" }, doc! { "_id": 1, "n": { "m": 2 } }),
        (doc! { "d.y": "$a", "_id": 0 }, doc! { "d": [{ "y": 2 }, { "y": 2 }] }),
    ];
    for (spec, expected) in cases {
        check(spec.clone(), doc(), expected.clone());
        assert_eq!(stage(&spec, &doc()).unwrap(), expected);
    }
}

#[test]
fn projection_applies_to_documents_in_arrays() {
    let doc =
        || doc! { "_id": 1, "list": [1, 2, 3, 4], "nested": { "list": [{ "x": 1 }, { "x": 2, "y": 3 }] } };
    let shown = |list| doc! { "_id": 1, "list": list };
    let cases = [
        (doc! { "list": { "$slice": 2 }, "_id": 1 }, shown(array![1, 2])),
        (doc! { "list": { "$slice": -1 }, "_id": 1 }, shown(array![4])),
        (doc! { "list": { "$slice": [1, 2] }, "_id": 1 }, shown(array![2, 3])),
        (doc! { "list": { "$slice": [-3, 2] }, "nested": 0 }, shown(array![2, 3])),
        (doc! { "list": { "$slice": ["$list", 1] } }, shown(array![1])),
        (doc! { "list": { "$elemMatch": { "$gt": 2 } } }, shown(array![3])),
        (doc! { "list": { "$elemMatch": { "$gt": 9 } } }, doc! { "_id": 1 }),
        (doc! { "list.$": 1 }, shown(array![2])),
        (doc! { "nested.list.$": 1 }, doc! { "_id": 1, "nested": { "list": [{ "x": 2, "y": 3 }] } }),
        (
            doc! { "list": { "$slice": 1 } },
            doc! { "_id": 1, "list": [1], "nested": { "list": [{ "x": 1 }, { "x": 2, "y": 3 }] } },
        ),
    ];
    for (spec, expected) in cases {
        check(spec, doc(), expected);
    }
    let positional = parse(&doc! { "list.$": 1 }).unwrap();
    assert!(positional.needs_array_index());
    assert_eq!(project(&positional, &doc(), None).unwrap_err().code, 51246);
    assert_eq!(project(&positional, &doc(), Some(9)).unwrap_err().code, 51247);
}

#[test]
fn positional_reduces_only_the_first_array_of_the_path() {
    let doc = doc! { "_id": 1, "list": [1, { "b": [7, 8] }, { "b": [9], "c": 2 }], "n": 5 };
    let inner = parse(&doc! { "list.b.$": 1 }).unwrap();
    // The number has no field `b`, so it does not count for the index.
    let shown = project(&inner, &doc, Some(1)).unwrap();
    assert_eq!(shown, doc! { "_id": 1, "list": [{ "b": [9] }] });
    assert_eq!(project(&inner, &doc, Some(2)).unwrap_err().code, 51247);
    assert_eq!(project(&inner, &doc, None).unwrap_err().code, 51246);
    // Without an array the value is kept, without an error.
    let scalar = parse(&doc! { "n.$": 1 }).unwrap();
    assert_eq!(project(&scalar, &doc, None).unwrap(), doc! { "_id": 1, "n": 5 });
}

#[test]
fn parsing_rejects_invalid_projections() {
    let cases = [
        (doc! { "a": 1, "b": 0 }, 31254, "Cannot do exclusion on field b in inclusion projection"),
        (doc! { "a": 0, "b": 1 }, 31253, "Cannot do inclusion on field b in exclusion projection"),
        (doc! { "a": 1, "a.b": 1 }, 31249, "Path collision at a.b remaining portion b"),
        (doc! { "a.b": 1, "a": 1 }, 31250, "Path collision at a"),
        (doc! { "a": 0, "b": "$c" }, 31310, "Cannot use an expression b: \"$c\" in an exclusion projection"),
        (
            doc! { "a": 0, "b": { "$add": [1, 2] } },
            31252,
            "Cannot use expression other than $meta in exclusion projection",
        ),
        (doc! { "a": {} }, 51270, "An empty sub-projection is not a valid value. Found empty object at path"),
        (doc! { "a": { "$nope": 1 } }, 31325, "Unknown expression $nope"),
        (
            doc! { "s": { "$meta": "textScore" } },
            40218,
            "query requires text score metadata, but it is not available",
        ),
        (
            doc! { "list.$": 1, "nested.list.$": 1 },
            31276,
            "Cannot specify more than one positional projection per query.",
        ),
        (
            doc! { "list.$.x": 1 },
            31394,
            "As of 4.4, it's illegal to specify positional operator in the middle of a path.Positional projection may only \
             be used at the end, for example: a.b.$. If the query previously used a form like a.b.$.d, remove the parts \
             following the '$' and the results will be equivalent.",
        ),
        (doc! { "list.$": 0 }, 31395, "positional projection cannot be used with exclusion"),
        (doc! { "list.$": "x" }, 31308, "positional projection cannot be used with a literal"),
        (doc! { ".$": 1 }, 5392900, "Projection on field .$ is invalid"),
        (doc! { "list..$": 1 }, 40353, "FieldPath must not end with a '.'."),
        (
            doc! { "$": 1 },
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        ),
        (
            doc! { "$.list.$": 1 },
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        ),
        (doc! { "list": { "$elemMatch": { "$expr": true } } }, 224, "$expr is not allowed in this context"),
        (
            doc! { "list.$": 1, "b": { "$elemMatch": {} } },
            31255,
            "Cannot specify positional operator and $elemMatch.",
        ),
        (doc! { "b.c": { "$elemMatch": {} } }, 31275, "Cannot use $elemMatch projection on a nested field."),
        (
            doc! { "b": { "$elemMatch": 1 } },
            31274,
            "elemMatch: Invalid argument, object required, but got int",
        ),
        (
            doc! { "list.$": { "x": 1 } },
            31271,
            "positional projection cannot be used with an expression or sub object",
        ),
    ];
    for (spec, code, message) in cases {
        assert_eq!(parse(&spec).unwrap_err(), Error::new(code, message), "{spec:?}");
    }
    let code = |spec: DocBuf| stage(&spec, &doc! {}).unwrap_err().code;
    assert_eq!(code(doc! {}), 51272);
    assert_eq!(code(doc! { "a.$": 1 }), 31324);
    assert_eq!(code(doc! { "a": { "$elemMatch": {} } }), 168);
    assert_eq!(
        stage(&doc! { "a": 1, "b": 0 }, &doc! {}).unwrap_err().message,
        "Invalid $project :: caused by :: Cannot do exclusion on field b in inclusion projection"
    );
}

#[test]
fn unset_drops_fields() {
    let run = |spec: Value<'_>| {
        project(&Projection::parse_unset(spec)?, &doc! { "a": 1, "b": { "c": 2, "d": 3 } }, None)
    };
    assert_eq!(run(Value::String("a")).unwrap(), doc! { "b": { "c": 2, "d": 3 } });
    let several = doc! { "x": ["a", "b.c"] };
    assert_eq!(run(several.as_doc().get("x").unwrap()).unwrap(), doc! { "b": { "d": 3 } });
    assert_eq!(run(Value::Int32(1)).unwrap_err().code, 31002);
    let empty = doc! { "x": [] };
    assert_eq!(run(empty.as_doc().get("x").unwrap()).unwrap_err().code, 31119);
}

#[test]
fn needed_paths_lists_the_paths_read() {
    let projection = parse(&doc! { "a": 1, "b.c": 1, "_id": 0 }).unwrap();
    assert_eq!(projection.covered_paths(), Some(vec![Path::new("a"), Path::new("b.c")]));
    assert!(projection.changes("b") && projection.changes("x") && !projection.changes("a"));
    let needed = |spec: &DocBuf| parse(spec).unwrap().needed_paths(None);
    assert_eq!(
        needed(&doc! { "x": { "$add": ["$p.q", "$r"] } }),
        Some(vec![Path::new("p.q"), Path::new("r"), Path::new("_id")])
    );
    assert_eq!(needed(&doc! { "x": "$$ROOT" }), None);
    assert_eq!(parse(&doc! { "a": 0 }).unwrap().covered_paths(), None);
    assert!(parse(&doc! {}).unwrap().is_identity());
}

#[test]
fn projection_handles_many_fields() {
    let (mut spec, mut before, mut kept) = (DocBuilder::new(), DocBuilder::new(), DocBuilder::new());
    for at in 0..100 {
        let name = format!("field{at}");
        before.append(&name, at);
        if at % 3 == 0 {
            spec.append(&name, 1);
            kept.append(&name, at);
        }
    }
    spec.append("_id", 0);
    check(spec.finish(), before.finish(), kept.finish());
}
