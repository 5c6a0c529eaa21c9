//! Expressions as clients write them, and their results over one document.

use super::*;
use crate::error::Error;
use bumpalo::Bump;
use diwan_value::{Collation, Collator, Decimal128, DocBuf, Timestamp, compare, doc};

/// The document that the expressions read.
fn root() -> DocBuf {
    doc! {
        "_id": 7,
        "a": { "b": 1, "c": [10, 20] },
        "list": [{ "x": 1 }, { "x": 2, "y": [3, 4] }, 5, { "z": 0 }, [{ "x": 9 }]],
        "n": [3, 1, 2],
        "text": "word",
        "date": Value::DateTime(1000),
        "nothing": null,
        "big": i64::MAX,
        "dec": Value::Decimal128("1.5".parse().unwrap()),
    }
}

/// Evaluates `{e: expression}` over [`root`]. The result is `{v: value}`, or empty for missing.
fn evaluate(spec: &DocBuf, env: &ParseEnv<'_>, context: &Context) -> Result<DocBuf> {
    let expr = Expr::parse(spec.as_doc().get("e").unwrap(), env)?;
    let (arena, root) = (Bump::new(), root());
    let value = expr.eval(&EvalEnv::new(&arena, root.as_doc(), context))?;
    let mut result = DocBuilder::new();
    if let Some(value) = value {
        result.append("v", value);
    }
    Ok(result.finish())
}

fn run(spec: &DocBuf) -> Result<DocBuf> {
    evaluate(spec, &ParseEnv::new(), &Context::default())
}

/// Checks that expressions give values with the same type and content.
macro_rules! gives {
    ($({ $($expr:tt)* } => $value:tt;)*) => {$(
        let spec = doc! { "e": { $($expr)* } };
        assert_eq!(run(&spec), Ok(doc! { "v": $value }), "{spec:?}");
    )*};
}

/// Checks that the parser or the evaluation fails with this code and message.
macro_rules! fails {
    ($({ $($expr:tt)* } => $code:expr, $text:expr;)*) => {$(
        let spec = doc! { "e": { $($expr)* } };
        assert_eq!(run(&spec), Err(Error::new($code, $text)), "{spec:?}");
    )*};
}

/// Checks that expressions evaluate to missing.
macro_rules! missing {
    ($({ $($expr:tt)* };)*) => {$(
        let spec = doc! { "e": { $($expr)* } };
        assert_eq!(run(&spec), Ok(DocBuf::new()), "{spec:?}");
    )*};
}

fn dec(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

/// Evaluates an operand.
fn operand(text: &str) -> Result<DocBuf> {
    run(&doc! { "e": text })
}

#[test]
fn field_paths_map_over_arrays_and_never_index() {
    assert_eq!(operand("$a.b"), Ok(doc! { "v": 1 }));
    assert_eq!(operand("$a.c"), Ok(doc! { "v": [10, 20] }));
    assert_eq!(operand("$list.x"), Ok(doc! { "v": [1, 2] }));
    assert_eq!(operand("$list.y"), Ok(doc! { "v": [[3, 4]] }));
    assert_eq!(operand("$a.c.0"), Ok(doc! { "v": [] }));
    assert_eq!(operand("$a.b.c"), Ok(doc! {}));
    assert_eq!(operand("$none"), Ok(doc! {}));
    assert_eq!(operand("$$ROOT.a.b"), Ok(doc! { "v": 1 }));
    assert_eq!(operand("$$CURRENT.text"), Ok(doc! { "v": "word" }));
    assert_eq!(operand("$$REMOVE"), Ok(doc! {}));
    assert_eq!(operand("plain"), Ok(doc! { "v": "plain" }));
}

#[test]
fn parsing_rejects_invalid_paths_and_names() {
    let code = |text: &str| operand(text).unwrap_err().code;
    assert_eq!(code("$"), 16872);
    assert_eq!(code("$$"), 9);
    assert_eq!(code("$a."), 40353);
    assert_eq!(code("$a..b"), 15998);
    assert_eq!(code("$a.$b"), 16410);
    assert_eq!(code("$$9x"), 9);
    assert_eq!(operand("$$nobody.x"), Err(Error::new(17276, "Use of undefined variable: nobody")));
    fails! {
        { "$foo": 1 } => 168, "Unrecognized expression '$foo'";
        { "$abs": [1, 2] } => 16020, "Expression $abs takes exactly 1 arguments. 2 were passed in.";
        { "$round": [1, 2, 3] } => 28667,
            "Expression $round takes at least 1 arguments, and at most 2, but 3 were passed in.";
        { "a.b": 1 } => 16412, "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
        { "a": 1, "$b": 1 } => 16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
        { "$let": { "vars": { "Big": 1 }, "in": 1 } } => 9,
            "'Big' starts with an invalid character for a user variable name";
        { "$let": { "vars": { "a-b": 1 }, "in": 1 } } => 9,
            "'a-b' contains an invalid character for a variable name: '-'";
    }
    assert_eq!(run(&doc! { "e": { "$add": 1, "$sum": 2 } }).unwrap_err().code, 15983);
}

#[test]
fn missing_values_are_omitted_in_objects_and_null_in_arrays() {
    gives! {
        { "x": "$a.b", "y": "$none", "z": { "deep": "$text", "gone": "$$REMOVE" } }
            => { "x": 1, "z": { "deep": "word" } };
        { "list": ["$none", "$a.b", { "q": "$nothing" }] } => { "list": [null, 1, { "q": null }] };
        { "$literal": { "$add": [1, "$a"] } } => { "$add": [1, "$a"] };
    }
}

#[test]
fn folding_replaces_constants_and_defers_errors() {
    let env = ParseEnv::new();
    let parse = |spec: DocBuf| Expr::parse(spec.as_doc().get("e").unwrap(), &env).unwrap();
    assert!(parse(doc! { "e": { "$add": [1, { "$multiply": [2, 3] }] } }).as_literal().is_some());
    assert!(parse(doc! { "e": { "$divide": [1, 0] } }).as_literal().is_none());
    assert!(parse(doc! { "e": { "$rand": {} } }).as_literal().is_none());
    assert!(parse(doc! { "e": { "$range": [0, 100_000] } }).as_literal().is_none());
}

#[test]
fn parsing_and_evaluation_limit_depth() {
    let mut spec = doc! { "e": 1 };
    for _ in 0..300 {
        spec = doc! { "e": { "$abs": (spec.as_doc().get("e").unwrap()) } };
    }
    assert_eq!(run(&spec).unwrap_err().code, 15);
    let nested = doc! { "e": { "$reduce": {
        "input": { "$range": [0, 1000] }, "initialValue": "$a", "in": { "deeper": "$$value" }
    } } };
    assert_eq!(run(&nested).unwrap_err().code, 15);
}

#[test]
fn evaluation_limits_the_size_of_values() {
    let doubling = doc! { "e": { "$reduce": {
        "input": { "$range": [0, 40] },
        "initialValue": [1],
        "in": { "$concatArrays": ["$$value", "$$value"] }
    } } };
    assert_eq!(run(&doubling).unwrap_err().code, 10334);
    fails! {
        { "$range": [0, 2_000_000_000] } => 146,
            "$range would use too much memory (48000000048 bytes) and cannot spill to disk. Memory limit: 104857600 \
             bytes";
    }
}

#[test]
fn interrupt_stops_evaluation_loops() {
    let context = Context::default();
    context.interrupt.kill();
    let spec = doc! { "e": { "$range": [0, "$big_enough"] } };
    assert_eq!(run(&spec).unwrap_err().code, 34445);
    let spec = doc! { "e": { "$size": { "$range": ["$a.b", 10_000] } } };
    assert_eq!(evaluate(&spec, &ParseEnv::new(), &context).unwrap_err().code, 11601);
}

#[test]
fn operation_variables_are_resolved() {
    let env = ParseEnv::with_let(["limit", "gone"]);
    let context = Context {
        now: 5,
        cluster_time: Some(Timestamp { seconds: 3, increment: 1 }),
        variables: vec![Some(ValueBuf::new(Value::Document(doc! { "max": 9 }.as_doc()))), None],
        ..Context::default()
    };
    let eval = |spec: DocBuf| evaluate(&spec, &env, &context);
    assert_eq!(eval(doc! { "e": "$$limit.max" }), Ok(doc! { "v": 9 }));
    assert_eq!(eval(doc! { "e": "$$gone" }), Ok(doc! {}));
    assert_eq!(eval(doc! { "e": "$$NOW" }), Ok(doc! { "v": Value::DateTime(5) }));
    assert_eq!(
        eval(
            doc! { "e": { "$let": { "vars": { "more": { "$add": ["$$limit.max", 1] } }, "in": "$$more" } } }
        ),
        Ok(doc! { "v": 10 })
    );
    assert_eq!(run(&doc! { "e": "$$CLUSTER_TIME" }).unwrap_err().code, 51144);
}

#[test]
fn nested_scopes_keep_their_variables() {
    gives! {
        { "$let": { "vars": { "x": 1, "y": { "$let": { "vars": { "z": 5 }, "in": "$$z" } } },
            "in": ["$$x", "$$y"] } } => [1, 5];
        { "$map": { "input": [1, 2], "as": "o", "in": { "$map": { "input": [10, 20], "in": {
            "$add": ["$$o", "$$this"] } } } } } => [[11, 21], [12, 22]];
        { "$map": { "input": [1, 2], "in": { "$reduce": { "input": [1, 2, "$$this"], "initialValue": 0, "in": {
            "$add": ["$$value", "$$this"] } } } } } => [4, 5];
        { "$let": { "vars": { "CURRENT": "$a" }, "in": ["$b", "$$ROOT._id"] } } => [1, 7];
    }
    fails! {
        { "$let": { "vars": { "x": 1, "y": "$$x" }, "in": "$$y" } } => 17276, "Use of undefined variable: x";
        { "$map": { "input": "$n", "as": "n", "in": "$$this" } } => 17276, "Use of undefined variable: this";
    }
}

#[test]
fn add_and_multiply_promote_types() {
    gives! {
        { "$add": [] } => 0;
        { "$add": [1, 2] } => 3;
        { "$add": [i32::MAX, 1] } => (1i64 << 31);
        { "$add": [1, 2i64] } => 3i64;
        { "$add": [1, 0.5] } => 1.5;
        { "$add": ["$big", 1] } => 9223372036854775808.0;
        { "$add": ["$dec", 1] } => (dec("2.5"));
        { "$add": ["$date", 5, 2.6] } => (Value::DateTime(1008));
        { "$add": ["$nothing", 1] } => null;
        { "$add": ["$none", 1] } => null;
        { "$subtract": [1, 3] } => (-2);
        { "$subtract": ["$date", 400] } => (Value::DateTime(600));
        { "$subtract": ["$date", "$date"] } => 0i64;
        { "$multiply": [3, "$dec"] } => (dec("4.5"));
        { "$multiply": [1 << 20, 1 << 20] } => (1i64 << 40);
        { "$multiply": ["$big", 2] } => 18446744073709551616.0;
        { "$divide": [1, 4] } => 0.25;
        { "$divide": [dec("1"), 4] } => (dec("0.25"));
        { "$mod": [-7, 3] } => (-1);
        { "$mod": [7i64, 3] } => 1i64;
        { "$mod": [7.5, 2] } => 1.5;
        { "$mod": [i64::MIN, -1] } => 0i64;
        { "$abs": (-3) } => 3;
        { "$abs": (i32::MIN) } => (1i64 << 31);
    }
    fails! {
        { "$add": [1, "x"] } => 14, "$add only supports numeric or date types, not string";
        { "$add": ["$date", "$date"] } => 16612, "only one date allowed in an $add expression";
        { "$add": ["$date", "$big"] } => 15, "date overflow";
        { "$subtract": [1, "x"] } => 14, "can't $subtract string from int";
        { "$subtract": ["$date", true] } => 14, "can't $subtract bool from Date";
        { "$multiply": [1, "x"] } => 14, "$multiply only supports numeric types, not string";
        { "$divide": [1, 0] } => 2, "can't $divide by zero";
        { "$divide": [1, "x"] } => 14, "$divide only supports numeric types, not int and string";
        { "$mod": [1, 0] } => 16610, "can't $mod by zero";
        { "$abs": "x" } => 28765, "$abs only supports numeric types, not string";
        { "$abs": (i64::MIN) } => 28680, "can't take $abs of long long min";
    }
}

#[test]
fn powers_and_logarithms_match_known_results() {
    gives! {
        { "$pow": [2, 10] } => 1024;
        { "$pow": [2, 40] } => (1i64 << 40);
        { "$pow": [2, 64] } => 18446744073709551616.0;
        { "$pow": [2, -1] } => 0.5;
        { "$pow": [-1, 5] } => (-1);
        { "$pow": [0, 0] } => 1;
        { "$pow": [2.0, 3] } => 8.0;
        { "$pow": [dec("2"), 3] } => (dec("8"));
        { "$sqrt": 25 } => 5.0;
        { "$sqrt": null } => null;
        { "$exp": 0 } => 1.0;
        { "$ln": 1 } => 0.0;
        { "$log10": 1000 } => 3.0;
        { "$log10": (dec("100")) } => (dec("2"));
        { "$log": [8, 2] } => 3.0;
        { "$sigmoid": 0 } => 0.5;
    }
    fails! {
        { "$pow": [0, -1] } => 28764, "$pow cannot take a base of 0 and a negative exponent";
        { "$sqrt": (-1) } => 28714, "$sqrt's argument must be greater than or equal to 0";
        { "$ln": 0 } => 28766, "$ln's argument must be a positive number, but is 0";
        { "$log": [1, 1] } => 28759, "$log's base must be a positive number not equal to 1, but is 1";
        { "$log": ["x", 1] } => 28756, "$log's argument must be numeric, not string";
    }
}

#[test]
fn rounding_ties_go_to_even() {
    gives! {
        { "$round": 2.5 } => 2.0;
        { "$round": 3.5 } => 4.0;
        { "$round": [1234.5678, 2] } => 1234.57;
        { "$round": [1250, -2] } => 1200;
        { "$round": [7i64, 3] } => 7i64;
        { "$round": [dec("1.25"), 1] } => (dec("1.2"));
        { "$trunc": [-1.78, 1] } => (-1.7);
        { "$trunc": 7.9 } => 7.0;
        { "$ceil": 1.2 } => 2.0;
        { "$floor": (dec("-1.2")) } => (dec("-2"));
        { "$floor": 3 } => 3;
        { "$round": [i32::MAX, -1] } => (2_147_483_650i64);
    }
    fails! {
        { "$round": "x" } => 51081, "$round only supports numeric types, not string";
        { "$round": [1.5, 0.5] } => 51082, "precision argument to  $round must be a integral value";
        { "$trunc": [1, 101] } => 51083,
            "cannot apply $trunc with precision value 101 value must be in [-20, 100]";
        { "$round": [i64::MAX, -1] } => 51080,
            "invalid conversion from Decimal128 result in $round resulting from arguments: [9223372036854775807, -1]";
    }
}

#[test]
fn trigonometry_and_bit_operators_match_known_results() {
    gives! {
        { "$sin": 0 } => 0.0;
        { "$cos": 0.0 } => 1.0;
        { "$atan2": [0, 1] } => 0.0;
        { "$acosh": 1 } => 0.0;
        { "$degreesToRadians": 180 } => (std::f64::consts::PI);
        { "$bitAnd": [12, 10] } => 8;
        { "$bitOr": [1, 1i64 << 40] } => (1i64 << 40 | 1);
        { "$bitXor": [-1, 1] } => (-2);
        { "$bitAnd": [] } => (-1);
        { "$bitNot": 5 } => (-6);
        { "$bitOr": [1, null] } => null;
    }
    fails! {
        { "$acos": 2 } => 50989, "cannot apply $acos to 2, value must be in [-1,1]";
        { "$sin": (f64::INFINITY) } => 50989, "cannot apply $sin to inf, value must be in (-inf,inf)";
        { "$bitAnd": [1, 1.5] } => 14, "$bitAnd only supports int and long operands.";
        { "$bitNot": 1.5 } => 14, "$bitNot only supports int and long, not: double.";
    }
}

#[test]
fn boolean_and_comparison_operators_give_booleans() {
    gives! {
        { "$and": [] } => true;
        { "$and": [1, "x", []] } => true;
        { "$and": [0, { "$divide": [1, 0] }] } => false;
        { "$or": [null, "$none", 0.0] } => false;
        { "$or": [1, { "$divide": [1, 0] }] } => true;
        { "$not": [null] } => true;
        { "$not": "$a" } => false;
        { "$allElementsTrue": [[1, true]] } => true;
        { "$anyElementTrue": [[0, false, null]] } => false;
        { "$eq": [1, 1.0] } => true;
        { "$ne": [1, "1"] } => true;
        { "$gt": ["a", 5] } => true;
        { "$lt": ["$none", null] } => true;
        { "$gte": [{ "x": 2 }, { "x": 1 }] } => true;
        { "$lte": [[1, 2], [1]] } => false;
        { "$cmp": [1, 2] } => (-1);
    }
    fails! {
        { "$allElementsTrue": [1] } => 17040, "$allElementsTrue's argument must be an array, but is int";
        { "$eq": [1] } => 16020, "Expression $eq takes exactly 2 arguments. 1 were passed in.";
    }
}

#[test]
fn comparisons_follow_the_collation() {
    let collation = Collation::parse(doc! { "locale": "en", "strength": 2 }.as_doc()).unwrap().unwrap();
    let collator = Some(Arc::new(Collator::new(&collation).unwrap()));
    let env = ParseEnv::new().with_collator(collator.clone());
    let context = Context { collator, ..Context::default() };
    for (spec, expected) in [
        (doc! { "e": { "$eq": ["WORD", "$text"] } }, doc! { "v": true }),
        (doc! { "e": { "$eq": ["A", "a"] } }, doc! { "v": true }),
        (doc! { "e": { "$in": ["A", ["b", "a"]] } }, doc! { "v": true }),
        (doc! { "e": { "$size": { "$setUnion": [["a"], ["A"]] } } }, doc! { "v": 1 }),
    ] {
        assert_eq!(evaluate(&spec, &env, &context), Ok(expected), "{spec:?}");
    }
}

#[test]
fn conditionals_evaluate_one_branch() {
    gives! {
        { "$cond": [true, 1, { "$divide": [1, 0] }] } => 1;
        { "$cond": { "if": "$none", "then": 1, "else": 2 } } => 2;
        { "$ifNull": ["$none", "$nothing", 3] } => 3;
        { "$ifNull": ["$a.b", 3] } => 1;
        { "$switch": { "branches": [{ "case": false, "then": 1 }, { "case": 1, "then": 2 }] } } => 2;
        { "$switch": { "branches": [{ "case": false, "then": 1 }], "default": "d" } } => "d";
    }
    fails! {
        { "$cond": { "if": 1, "then": 2 } } => 17082, "Missing 'else' parameter to $cond";
        { "$cond": { "if": 1, "otherwise": 2 } } => 17083, "Unrecognized parameter to $cond: otherwise";
        { "$ifNull": [1] } => 1257300, "$ifNull needs at least two arguments, had: 1";
        { "$switch": { "branches": [] } } => 40068, "$switch requires at least one branch.";
        { "$switch": { "branches": [{ "case": false, "then": 1 }] } } => 40066,
            "$switch could not find a matching branch for an input, and no default was specified.";
        { "$switch": { "branches": [{ "then": 1 }] } } => 40064,
            "$switch requires each branch have a 'case' expression";
    }
}

#[test]
fn array_operators_give_expected_results() {
    gives! {
        { "$arrayElemAt": ["$n", 0] } => 3;
        { "$arrayElemAt": ["$n", -1] } => 2;
        { "$arrayElemAt": ["$nothing", 0] } => null;
        { "$first": "$n" } => 3;
        { "$last": "$n" } => 2;
        { "$concatArrays": [[1], "$n", []] } => [1, 3, 1, 2];
        { "$concatArrays": [[1], "$none"] } => null;
        { "$in": [2.0, "$n"] } => true;
        { "$indexOfArray": ["$n", 1] } => 1;
        { "$indexOfArray": ["$n", 3, 1] } => (-1);
        { "$indexOfArray": ["$n", 2, 1, 2] } => (-1);
        { "$isArray": ["$n"] } => true;
        { "$isArray": "$a" } => false;
        { "$reverseArray": "$n" } => [2, 1, 3];
        { "$size": "$n" } => 3;
        { "$slice": ["$n", 2] } => [3, 1];
        { "$slice": ["$n", -2] } => [1, 2];
        { "$slice": ["$n", 1, 1] } => [1];
        { "$slice": ["$n", -9, 2] } => [3, 1];
        { "$slice": ["$n", i32::MIN] } => [3, 1, 2];
        { "$range": [0, 10, 4] } => [0, 4, 8];
        { "$range": [3, 0, -1] } => [3, 2, 1];
        { "$range": [5, 7, -1] } => [];
        { "$filter": { "input": "$n", "cond": { "$gt": ["$$this", 1] } } } => [3, 2];
        { "$filter": { "input": "$n", "as": "v", "cond": true, "limit": 1 } } => [3];
        { "$map": { "input": "$n", "in": { "$multiply": ["$$this", 2] } } } => [6, 2, 4];
        { "$map": { "input": "$n", "in": "$none" } } => [null, null, null];
        { "$reduce": { "input": "$n", "initialValue": [], "in": { "$concatArrays": ["$$value", ["$$this"]] } } }
            => [3, 1, 2];
        { "$zip": { "inputs": [[1, 2], ["a"]] } } => [[1, "a"]];
        { "$zip": { "inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "z"] } }
            => [[1, "a"], [2, "z"]];
        { "$sortArray": { "input": "$n", "sortBy": -1 } } => [3, 2, 1];
        { "$sortArray": { "input": [{ "a": 2, "b": 1 }, { "a": 1 }, { "a": 2, "b": 0 }], "sortBy": { "a": -1, "b": 1 } } }
            => [{ "a": 2, "b": 0 }, { "a": 2, "b": 1 }, { "a": 1 }];
        { "$firstN": { "n": 2, "input": "$n" } } => [3, 1];
        { "$lastN": { "n": 2, "input": "$n" } } => [1, 2];
        { "$minN": { "n": 2, "input": [3, null, 1, 2] } } => [1, 2];
        { "$maxN": { "n": 9, "input": "$n" } } => [3, 2, 1];
    }
    missing! {
        { "$arrayElemAt": ["$n", 9] };
        { "$arrayElemAt": ["$n", -9] };
        { "$first": [[]] };
    }
    fails! {
        { "$arrayElemAt": ["x", 0] } => 28689, "$arrayElemAt's first argument must be an array, but is string";
        { "$arrayElemAt": ["$n", "x"] } => 28690,
            "$arrayElemAt's second argument must be a numeric value, but is string";
        { "$arrayElemAt": ["$n", 1.5] } => 28691,
            "$arrayElemAt's second argument must be representable as a 32-bit integer: 1.5";
        { "$first": "x" } => 28689, "$first's argument must be an array, but is string";
        { "$concatArrays": [1] } => 28664, "$concatArrays only supports arrays, not int";
        { "$in": [1, 1] } => 40081, "$in requires an array as a second argument, found: int";
        { "$size": "$none" } => 17124, "The argument to $size must be an array, but was of type: missing";
        { "$slice": ["$n", 1, 0] } => 28729, "Third argument to $slice must be positive: 0";
        { "$range": [0, 1, 0] } => 34449, "$range requires a non-zero step value";
        { "$map": { "input": "x", "in": 1 } } => 16883, "input to $map must be an array not string";
        { "$map": { "input": [] } } => 16882, "Missing 'in' parameter to $map";
        { "$filter": { "input": [], "cond": 1, "limit": 0 } } => 327392,
            "$filter: limit must be greater than 0: 0";
        { "$reduce": { "input": 5, "initialValue": 0, "in": 0 } } => 40080,
            "$reduce requires that 'input' be an array, found: 5";
        { "$zip": { "inputs": [] } } => 34465, "$zip requires at least one input array";
        { "$zip": { "inputs": [[1], 2] } } => 34468, "$zip found a non-array expression in input: 2";
        { "$firstN": { "n": 0, "input": [] } } => 5787908, "'n' must be greater than 0, found 0";
        { "$firstN": { "n": 1, "input": 5 } } => 5788200, "Input must be an array";
        { "$sortArray": { "input": 1, "sortBy": 1 } } => 2942504,
            "The input argument to $sortArray must be an array, but was of type: int";
    }
}

#[test]
fn object_operators_give_expected_results() {
    gives! {
        { "$objectToArray": { "x": 1, "y": "$text" } } => [{ "k": "x", "v": 1 }, { "k": "y", "v": "word" }];
        { "$arrayToObject": [[["x", 1], ["y", 2], ["x", 3]]] } => { "x": 3, "y": 2 };
        { "$arrayToObject": [[{ "k": "x", "v": 1 }]] } => { "x": 1 };
        { "$arrayToObject": [[]] } => {};
        { "$mergeObjects": [{ "x": 1, "y": 1 }, null, { "x": 2 }] } => { "x": 2, "y": 1 };
        { "$mergeObjects": [[{ "x": 1 }, { "z": 2 }]] } => { "x": 1, "z": 2 };
        { "$getField": "text" } => "word";
        { "$getField": { "field": "b", "input": "$a" } } => 1;
        { "$getField": { "field": { "$literal": "$p" }, "input": { "$literal": { "$p": 1 } } } } => 1;
        { "$getField": { "field": "b", "input": "$nothing" } } => null;
        { "$setField": { "field": "b", "input": "$a", "value": 5 } } => { "b": 5, "c": [10, 20] };
        { "$setField": { "field": "x.y", "input": { "q": 1 }, "value": 5 } } => { "q": 1, "x.y": 5 };
        { "$setField": { "field": "b", "input": "$a", "value": "$$REMOVE" } } => { "c": [10, 20] };
        { "$unsetField": { "field": "c", "input": "$a" } } => { "b": 1 };
    }
    missing! {
        { "$getField": "nope" };
        { "$getField": { "field": "b", "input": 5 } };
    }
    fails! {
        { "$objectToArray": 1 } => 40390, "$objectToArray requires a document input, found: int";
        { "$arrayToObject": [[1]] } => 40398, "Unrecognised input type format for $arrayToObject: int";
        { "$arrayToObject": [[["x", 1, 2]]] } => 40397,
            "$arrayToObject requires an array of size 2 arrays,found array of size: 3";
        { "$mergeObjects": [1] } => 40400, "$mergeObjects requires object inputs, but input 1 is of type int";
        { "$getField": 5 } => 3041704, "$getField requires 'field' to evaluate to type String, but got int";
        { "$setField": { "field": "$text", "input": {}, "value": 1 } } => 4161106,
            "$setField requires 'field' to evaluate to a constant, but got a non-constant argument";
    }
}

#[test]
fn set_operators_give_expected_results() {
    gives! {
        { "$setUnion": [[3, 1], [2, 3]] } => [1, 2, 3];
        { "$setIntersection": [[3, 1, 2], [2, 3, 9]] } => [2, 3];
        { "$setIntersection": [] } => [];
        { "$setDifference": [[3, 1, 3, 2], [1]] } => [3, 2];
        { "$setEquals": [[1, 2, 2], [2.0, 1]] } => true;
        { "$setIsSubset": [[1, 1], [2, 1]] } => true;
        { "$setIsSubset": [[5], [2, 1]] } => false;
        { "$setUnion": [[1], "$none"] } => null;
    }
    fails! {
        { "$setUnion": [1] } => 17043, "All operands of $setUnion must be arrays. One argument is of type: int";
        { "$setEquals": [[1], 2] } => 5887502, "All operands of $setEquals must be arrays. 2-th argument is of type: int";
        { "$setEquals": [[1], "$text"] } => 17044,
            "All operands of $setEquals must be arrays. 2-th argument is of type: string";
        { "$setEquals": [[1]] } => 17045, "$setEquals needs at least two arguments had: 1";
        { "$setDifference": [[], 5] } => 17049,
            "both operands of $setDifference must be arrays. Second argument is of type: int";
    }
}

#[test]
fn accumulator_expressions_reduce_arguments_or_one_array() {
    gives! {
        { "$sum": "$n" } => 6;
        { "$sum": ["$n", 4, "x"] } => 4;
        { "$sum": [0.1, 0.2, 0.3] } => 0.6;
        { "$sum": "$text" } => 0;
        { "$avg": "$n" } => 2.0;
        { "$avg": ["$dec", 0] } => (dec("0.75"));
        { "$avg": "$none" } => null;
        { "$min": "$n" } => 1;
        { "$max": [1, null, "a"] } => "a";
        { "$min": [null] } => null;
        { "$stdDevPop": [[1, 3]] } => 1.0;
        { "$stdDevSamp": [[1]] } => null;
        { "$median": { "input": "$n", "method": "approximate" } } => 2.0;
        { "$percentile": { "input": "$n", "p": [0, 0.5, 1], "method": "approximate" } } => [1.0, 2.0, 3.0];
        { "$percentile": { "input": [], "p": [0.5], "method": "approximate" } } => [null];
    }
    fails! {
        { "$median": { "input": 1, "method": "exact" } } => 2,
            "Currently only 'approximate' can be used as percentile 'method'.";
        { "$percentile": { "input": 1, "p": [2], "method": "approximate" } } => 7750303,
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: 2";
    }
}

#[test]
fn size_hash_and_metadata_operators_give_expected_results() {
    gives! {
        { "$bsonSize": { "$literal": {} } } => 5;
        { "$bsonSize": "$nothing" } => null;
        { "$binarySize": "h\u{e9}" } => 3;
        { "$let": { "vars": { "r": { "$rand": {} } }, "in": { "$and": [{ "$gte": ["$$r", 0] }, { "$lt": ["$$r", 1] }] } } }
            => true;
    }
    let hash = |spec| run(&spec).unwrap().as_doc().get("v").unwrap().to_owned();
    let (int, double) =
        (hash(doc! { "e": { "$toHashedIndexKey": 1 } }), hash(doc! { "e": { "$toHashedIndexKey": 1.0 } }));
    assert!(compare(int.as_value(), double.as_value()).is_eq());
    fails! {
        { "$bsonSize": 5 } => 31393, "$bsonSize requires a document input, found: int";
        { "$meta": "textScore" } => 40218, "query requires text score metadata, but it is not available";
        { "$meta": "nonsense" } => 17308, "Unsupported argument to $meta: nonsense";
        { "$rand": { "x": 1 } } => 3040501, "$rand does not currently accept arguments";
    }
}
