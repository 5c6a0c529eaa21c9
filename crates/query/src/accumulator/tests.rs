//! Results of accumulators.

use super::*;
use diwan_value::{Decimal128, DocBuf, doc};

/// The result of one accumulator over some documents.
fn accumulate(spec: &DocBuf, docs: &[DocBuf]) -> Result<DocBuf> {
    let context = Context::default();
    let arena = Bump::new();
    let accumulator = Accumulator::parse("x", Value::Document(spec.as_doc()), &ParseEnv::new())?;
    let mut state = accumulator.start(&EvalEnv::new(&arena, Doc::EMPTY, &context))?;
    for doc in docs {
        accumulator.add(&mut state, &EvalEnv::new(&arena, doc.as_doc(), &context))?;
    }
    let mut out = DocBuilder::new();
    accumulator.append(state, "x", &mut out)?;
    Ok(out.finish())
}

/// Like [`accumulate`], but each document has its own state, which is saved and absorbed.
fn accumulate_in_parts(spec: &DocBuf, docs: &[DocBuf]) -> Result<DocBuf> {
    let context = Context::default();
    let arena = Bump::new();
    let accumulator = Accumulator::parse("x", Value::Document(spec.as_doc()), &ParseEnv::new())?;
    let env = EvalEnv::new(&arena, Doc::EMPTY, &context);
    let mut whole = accumulator.start(&env)?;
    for doc in docs {
        let mut part = accumulator.start(&env)?;
        accumulator.add(&mut part, &EvalEnv::new(&arena, doc.as_doc(), &context))?;
        let mut saved = ArrayBuilder::new();
        accumulator.save(part, &mut saved);
        let saved = saved.finish();
        accumulator.absorb(&mut whole, Array::trusted(&saved).get(0).unwrap_or(Value::Null), &env)?;
    }
    let mut out = DocBuilder::new();
    accumulator.append(whole, "x", &mut out)?;
    Ok(out.finish())
}

#[test]
fn accumulators_give_the_same_result_in_one_state_and_in_saved_parts() {
    let docs = [
        doc! { "a": 3, "s": "c", "d": { "p": 1 } },
        doc! { "a": null, "s": "a" },
        doc! { "s": "b", "d": { "p": 2, "q": 1 } },
        doc! { "a": 1, "s": "b", "d": null },
        doc! { "a": 8, "s": "a" },
    ];
    let cases = [
        (doc! { "$sum": "$a" }, doc! { "x": 12 }),
        (doc! { "$sum": 1 }, doc! { "x": 5 }),
        (doc! { "$sum": "$s" }, doc! { "x": 0 }),
        (doc! { "$avg": "$a" }, doc! { "x": 4.0 }),
        (doc! { "$avg": "$s" }, doc! { "x": null }),
        (doc! { "$min": "$a" }, doc! { "x": 1 }),
        (doc! { "$max": "$s" }, doc! { "x": "c" }),
        (doc! { "$max": "$none" }, doc! { "x": null }),
        (doc! { "$first": "$a" }, doc! { "x": 3 }),
        (doc! { "$first": "$none" }, doc! { "x": null }),
        (doc! { "$last": "$a" }, doc! { "x": 8 }),
        (doc! { "$push": "$a" }, doc! { "x": [3, null, 1, 8] }),
        (doc! { "$addToSet": "$s" }, doc! { "x": ["c", "a", "b"] }),
        (doc! { "$mergeObjects": "$d" }, doc! { "x": { "p": 2, "q": 1 } }),
        (doc! { "$count": {} }, doc! { "x": 5 }),
        (doc! { "$firstN": { "n": 3, "input": "$a" } }, doc! { "x": [3, null, null] }),
        (doc! { "$lastN": { "n": 2, "input": "$a" } }, doc! { "x": [1, 8] }),
        (doc! { "$minN": { "n": 2, "input": "$a" } }, doc! { "x": [1, 3] }),
        (doc! { "$maxN": { "n": 2, "input": "$a" } }, doc! { "x": [8, 3] }),
        (doc! { "$maxN": { "n": 9, "input": "$a" } }, doc! { "x": [8, 3, 1] }),
        (doc! { "$top": { "sortBy": { "s": 1 }, "output": "$a" } }, doc! { "x": null }),
        (doc! { "$bottom": { "sortBy": { "s": 1 }, "output": ["$s", "$a"] } }, doc! { "x": ["c", 3] }),
        (
            doc! { "$topN": { "n": 3, "sortBy": { "s": 1, "a": -1 }, "output": ["$s", "$a"] } },
            doc! { "x": [["a", 8], ["a", null], ["b", 1]] },
        ),
        (doc! { "$bottomN": { "n": 2, "sortBy": { "a": 1 }, "output": "$a" } }, doc! { "x": [3, 8] }),
        (doc! { "$median": { "input": "$a", "method": "approximate" } }, doc! { "x": 3.0 }),
        (
            doc! { "$percentile": { "input": "$a", "p": [0.0, 0.9], "method": "approximate" } },
            doc! { "x": [1.0, 8.0] },
        ),
        (
            doc! { "$percentile": { "input": "$s", "p": [0.5], "method": "approximate" } },
            doc! { "x": [null] },
        ),
        (doc! { "$stdDevSamp": "$s" }, doc! { "x": null }),
    ];
    for (spec, expected) in cases {
        assert_eq!(accumulate(&spec, &docs).unwrap(), expected, "{spec:?}");
        assert_eq!(accumulate_in_parts(&spec, &docs).unwrap(), expected, "{spec:?} in parts");
    }
}

#[test]
fn standard_deviations_match_known_results() {
    let docs: Vec<DocBuf> = [2, 4, 4, 4, 5, 5, 7, 9].iter().map(|n| doc! { "a": (*n) }).collect();
    assert_eq!(accumulate(&doc! { "$stdDevPop": "$a" }, &docs).unwrap(), doc! { "x": 2.0 });
    assert_eq!(accumulate_in_parts(&doc! { "$stdDevPop": "$a" }, &docs).unwrap(), doc! { "x": 2.0 });
    assert_eq!(accumulate(&doc! { "$stdDevSamp": "$a" }, &docs[..1]).unwrap(), doc! { "x": null });
}

#[test]
fn sum_widens_its_type_on_overflow() {
    let decimal = Decimal128::from(1);
    let cases = [
        (vec![doc! { "a": (i32::MAX) }, doc! { "a": 1 }], doc! { "x": (1i64 << 31) }),
        (vec![doc! { "a": (i64::MAX) }, doc! { "a": 1 }, doc! { "a": (-1) }], doc! { "x": (i64::MAX) }),
        (vec![doc! { "a": (i64::MAX) }, doc! { "a": 1 }], doc! { "x": 9_223_372_036_854_775_808.0 }),
        (vec![doc! { "a": 1 }, doc! { "a": 0.5 }], doc! { "x": 1.5 }),
        (vec![doc! { "a": 1 }, doc! { "a": (decimal) }], doc! { "x": (Decimal128::from(2)) }),
        (vec![doc! { "a": 1 }, doc! { "a": 2i64 }], doc! { "x": 3i64 }),
    ];
    for (docs, expected) in cases {
        assert_eq!(accumulate(&doc! { "$sum": "$a" }, &docs).unwrap(), expected);
        assert_eq!(accumulate_in_parts(&doc! { "$sum": "$a" }, &docs).unwrap(), expected);
    }
}

#[test]
fn n_may_depend_on_the_group_id() {
    let context = Context::default();
    let arena = Bump::new();
    let spec = doc! { "$firstN": { "n": "$k", "input": "$a" } };
    let accumulator = Accumulator::parse("x", Value::Document(spec.as_doc()), &ParseEnv::new()).unwrap();
    let id = doc! { "k": 2 };
    let mut state = accumulator
        .start(&EvalEnv::new(&arena, id_document(Value::Document(id.as_doc())), &context))
        .unwrap();
    for n in 0..5 {
        let doc = doc! { "a": n };
        let (arena, doc) = (Bump::new(), doc.as_doc());
        let env = EvalEnv::new(&arena, doc, &context);
        accumulator.add(&mut state, &env).unwrap();
    }
    let mut out = DocBuilder::new();
    accumulator.append(state, "x", &mut out).unwrap();
    assert_eq!(out.finish(), doc! { "x": [0, 1] });
}
