use super::*;
use crate::sandbox::Limits;

/// Reduces the values at once, in two parts, and one by one. All results must agree.
fn reduce(reduce: &Reduce, values: &[&str]) -> Result<String> {
    let places: Vec<[u8; 2]> = (0..values.len()).map(|at| (at as u16).to_be_bytes()).collect();
    let keys: Vec<String> = (0..values.len()).map(|at| at.to_string()).collect();
    let row = |at: usize| ReduceRow { place: &places[at], key: &keys[at], id: "id", value: values[at] };
    let of = |range: std::ops::Range<usize>| reduce.rows(&mut range.map(row)).unwrap();
    let whole = reduce.finish(&of(0..values.len()));
    if values.len() > 1 {
        let (front, back) = (of(0..1), of(1..values.len()));
        let halves = reduce.finish(&reduce.merge(&[&front, &back]).unwrap());
        let each: Vec<Vec<u8>> = (0..values.len()).map(|at| of(at..at + 1)).collect();
        let parts: Vec<&[u8]> = each.iter().map(Vec::as_slice).collect();
        let single = reduce.finish(&reduce.merge(&parts).unwrap());
        if let Ok(whole) = &whole {
            assert_eq!(whole, halves.as_ref().unwrap());
            assert_eq!(whole, single.as_ref().unwrap());
        }
    }
    whole
}

fn builtin(name: &str, values: &[&str]) -> String {
    reduce(&Reduce::Builtin(Builtin::parse(name).unwrap(), ReduceLimit::default()), values).unwrap()
}

#[test]
fn sum_adds_numbers_arrays_and_objects() {
    assert_eq!(builtin("_sum", &["1", "2", "3"]), "6");
    assert_eq!(builtin("_sum", &["1", "0.5"]), "1.5");
    assert_eq!(builtin("_sum", &["9007199254740993", "9007199254740993"]), "18014398509481986");
    assert_eq!(builtin("_sum", &["[1,2]", "3", "[1,1,1]"]), "[5,3,1]");
    assert_eq!(
        builtin("_sum", &[r#"{"a":1,"b":[1,2],"c":{"d":3}}"#, r#"{"a":2,"b":3,"c":{"e":5},"f":1}"#]),
        r#"{"a":3,"b":[4,2],"c":{"d":3,"e":5},"f":1}"#
    );
    for values in
        [&["1", r#""text""#][..], &["null"], &["true", "1"], &["[1]", r#"["x"]"#], &[r#"{"a":1}"#, "2"]]
    {
        let error = builtin("_sum", values);
        assert!(
            error.starts_with(r#"{"error":"builtin_reduce_error","reason":"The _sum function requires"#),
            "{error}"
        );
    }
    let wide = format!("[{}]", vec!["1"; 5000].join(","));
    assert!(builtin("_sum", &[&wide]).contains("Reduce output must shrink more rapidly"));
}

#[test]
fn count_and_stats_reduce_values() {
    assert_eq!(builtin("_count", &["null", "1", "{}"]), "3");
    assert_eq!(builtin("_stats", &["2", "4", "-1"]), r#"{"sum":5,"count":3,"min":-1,"max":4,"sumsqr":21}"#);
    assert_eq!(
        builtin("_stats", &["[1,2]", "[3,4]"]),
        r#"[{"sum":4,"count":2,"min":1,"max":3,"sumsqr":10},{"sum":6,"count":2,"min":2,"max":4,"sumsqr":20}]"#
    );
    assert_eq!(
        builtin("_stats", &["2", r#"{"sum":3,"count":2,"min":1,"max":2,"sumsqr":5}"#]),
        r#"{"sum":5,"count":3,"min":1,"max":2,"sumsqr":9}"#
    );
    let stats = Reduce::Builtin(Builtin::Stats, ReduceLimit::default());
    let rejected = |values: &[&str]| reduce(&stats, values).unwrap_err().reason();
    assert_eq!(
        rejected(&["1", r#""a""#]),
        r#"The _stats function requires that map values be numbers or arrays of numbers, not '<<"a">>'"#
    );
    assert_eq!(rejected(&["null"]), "non-numeric _stats input: null");
    assert!(rejected(&[r#"{"sum":1}"#]).starts_with("user _stats input missing required field count"));
}

#[test]
fn sums_of_large_integers_are_exact() {
    let long = |whole: i64| format!("{{\"$numberLong\":\"{whole}\"}}");
    let (one, two) = (long((1 << 53) + 1), long(i64::MAX));
    assert_eq!(builtin("_sum", &[&one, "1", &one]), "18014398509481987");
    assert_eq!(builtin("_sum", &[&two, &two, &two]), "27670116110564327421");
    assert_eq!(builtin("_sum", &[&format!("[1,{one}]"), &two]), "[9223372036854775808,9007199254740993]");
    assert_eq!(builtin("_sum", &[&format!("{{\"a\":{one}}}"), "{\"a\":1}"]), r#"{"a":9007199254740994}"#);
    assert_eq!(
        builtin("_stats", &["9007199254740992", &one]),
        "{\"sum\":18014398509481985,\"count\":2,\"min\":9007199254740992,\"max\":9007199254740993,\
         \"sumsqr\":162259276829213381405976519770113}"
    );
    // An integer beyond 128 bits becomes a double.
    let top = "170141183460469231731687303715884105727";
    assert_eq!(builtin("_sum", &[top, top]), "3.402823669209385e38");
    // Other objects that look similar are not numbers.
    for other in [r#"{"$numberLong":"x"}"#, r#"{"$numberLong":"1","b":2}"#] {
        assert!(builtin("_sum", &[other]).contains("builtin_reduce_error"), "{other}");
    }
}

#[test]
fn approx_count_distinct_estimates_distinct_keys() {
    let distinct = Reduce::Builtin(Builtin::Distinct, ReduceLimit::default());
    for (total, repeats) in [(1, 1), (10, 3), (1000, 2), (50_000, 1)] {
        let keys: Vec<String> = (0..total).map(|at| format!("\"key {at}\"")).collect();
        fn row(key: &String) -> ReduceRow<'_> {
            ReduceRow { place: &[], key, id: "", value: "" }
        }
        let parts: Vec<Vec<u8>> = (0..repeats)
            .flat_map(|_| keys.chunks(997).map(|chunk| distinct.rows(&mut chunk.iter().map(row)).unwrap()))
            .collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let estimate: f64 = distinct.finish(&distinct.merge(&parts).unwrap()).unwrap().parse().unwrap();
        let error = (estimate - f64::from(total)).abs() / f64::from(total);
        assert!(error < 0.05, "{total}: {estimate}");
    }
}

#[test]
fn first_last_top_and_bottom_select_values() {
    let values = [r#""b""#, "3", r#""a""#, "3", "null", "7"];
    assert_eq!(builtin("_first", &values), r#""b""#);
    assert_eq!(builtin("_last", &values), "7");
    assert_eq!(builtin("_top_2", &values), r#"["b","a"]"#);
    assert_eq!(builtin("_bottom_3", &values), "[null,3,7]");
    assert_eq!(Builtin::parse("_bottom_100").unwrap(), Builtin::Bottom(100));
    assert_eq!(Builtin::parse("_first_of_all").unwrap(), Builtin::First);
    let out_of_range = "rank value must be between 1 and 100";
    for (name, reason) in [
        ("_top_0", out_of_range),
        ("_bottom_-1", out_of_range),
        ("_top_101", out_of_range),
        ("_top_x", "invalid rank reducer"),
        ("_top_", "invalid rank reducer"),
        ("_median", "`_median` is not a supported reduce function."),
    ] {
        assert_eq!(Builtin::parse(name).unwrap_err().reason(), reason, "{name}");
    }
}

#[test]
fn script_functions_reduce_and_rereduce() {
    let reducer = Arc::new(Reducer::new(Limits::default()).unwrap());
    reducer.add("v", "function (keys, values, rereduce) { return sum(values); }").unwrap();
    reducer.add("v", "(keys, values, rereduce) => rereduce ? values : values[0]").unwrap();
    reducer.add("v", "function () { throw 'never'; }").unwrap();
    reducer.add("v", "function (k, v, r) { return r ? v.join('') : k[0][1] + k[0][0]; }").unwrap();
    let script = |function| Reduce::Script(reducer.clone(), function);
    assert_eq!(reduce(&script(0), &["1", "2", "3"]).unwrap(), "6");
    assert_eq!(reduce(&script(2), &["1"]).unwrap(), "null");
    assert_eq!(reduce(&script(3), &["1"]).unwrap(), r#""id0""#);
    let long = format!("\"{}\"", "x".repeat(5000));
    let grown = reduce(&script(1), &[&long]).unwrap();
    assert!(
        grown
            .starts_with(r#"{"reduce_overflow_error":"Reduce output must shrink more rapidly: input size: "#)
    );
    assert!(reducer.add("v", "function (").is_err());
}
