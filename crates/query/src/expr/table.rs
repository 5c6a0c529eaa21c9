//! The table of operators. Each row has a name, an arity or a parser, and for functions the evaluator.

use super::array::{iteration, set, sort, zip};
use super::logic::{boolean, comparison, conditional};
use super::number::{arithmetic, bitwise, round, trigonometry};
use super::object::array_object;
use super::operator::Arity::{Any, Between, Exactly};
use super::operator::{Arity, Function, Operator, OperatorForm, OperatorParser};
use super::string::{regex, search};
use super::{accumulator, array, convert, date, misc, object, string};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A row for a function of its arguments.
const fn function(name: &'static str, arity: Arity, function: Function) -> Operator {
    Operator { name, form: OperatorForm::Function(arity, function) }
}

/// A row for an operator with its own syntax.
const fn syntax(name: &'static str, parser: OperatorParser) -> Operator {
    Operator { name, form: OperatorForm::Syntax(parser) }
}

/// All operators, grouped by subject. Names are unique.
#[rustfmt::skip]
static OPERATORS: &[Operator] = &[
    // Arithmetic
    function("$abs", Exactly(1), arithmetic::abs),
    function("$add", Any, arithmetic::add),
    function("$ceil", Exactly(1), round::ceil),
    function("$divide", Exactly(2), arithmetic::divide),
    function("$exp", Exactly(1), arithmetic::exp),
    function("$floor", Exactly(1), round::floor),
    function("$ln", Exactly(1), arithmetic::ln),
    function("$log", Exactly(2), arithmetic::log),
    function("$log10", Exactly(1), arithmetic::log10),
    function("$mod", Exactly(2), arithmetic::modulo),
    function("$multiply", Any, arithmetic::multiply),
    function("$pow", Exactly(2), arithmetic::pow),
    function("$round", Between(1, 2), round::round),
    function("$sigmoid", Exactly(1), arithmetic::sigmoid),
    function("$sqrt", Exactly(1), arithmetic::sqrt),
    function("$subtract", Exactly(2), arithmetic::subtract),
    function("$trunc", Between(1, 2), round::trunc),
    syntax("$rand", misc::parse_rand),

    // Trigonometry
    function("$acos", Exactly(1), trigonometry::acos),
    function("$acosh", Exactly(1), trigonometry::acosh),
    function("$asin", Exactly(1), trigonometry::asin),
    function("$asinh", Exactly(1), trigonometry::asinh),
    function("$atan", Exactly(1), trigonometry::atan),
    function("$atan2", Exactly(2), trigonometry::atan2),
    function("$atanh", Exactly(1), trigonometry::atanh),
    function("$cos", Exactly(1), trigonometry::cos),
    function("$cosh", Exactly(1), trigonometry::cosh),
    function("$degreesToRadians", Exactly(1), trigonometry::degrees_to_radians),
    function("$radiansToDegrees", Exactly(1), trigonometry::radians_to_degrees),
    function("$sin", Exactly(1), trigonometry::sin),
    function("$sinh", Exactly(1), trigonometry::sinh),
    function("$tan", Exactly(1), trigonometry::tan),
    function("$tanh", Exactly(1), trigonometry::tanh),

    // Bitwise
    function("$bitAnd", Any, bitwise::and),
    function("$bitNot", Exactly(1), bitwise::not),
    function("$bitOr", Any, bitwise::or),
    function("$bitXor", Any, bitwise::xor),

    // Arrays
    function("$arrayElemAt", Exactly(2), array::array_elem_at),
    function("$arrayToObject", Exactly(1), array_object::array_to_object),
    function("$concatArrays", Any, array::concat_arrays),
    function("$first", Exactly(1), array::first),
    function("$in", Exactly(2), array::contains),
    function("$indexOfArray", Between(2, 4), array::index_of_array),
    function("$isArray", Exactly(1), array::is_array),
    function("$last", Exactly(1), array::last),
    function("$objectToArray", Exactly(1), array_object::object_to_array),
    function("$range", Between(2, 3), array::range),
    function("$reverseArray", Exactly(1), array::reverse_array),
    function("$size", Exactly(1), array::size),
    function("$slice", Between(2, 3), array::slice),
    syntax("$filter", iteration::parse_filter),
    syntax("$firstN", sort::parse_n),
    syntax("$lastN", sort::parse_n),
    syntax("$map", iteration::parse_map),
    syntax("$maxN", sort::parse_n),
    syntax("$minN", sort::parse_n),
    syntax("$reduce", iteration::parse_reduce),
    syntax("$sortArray", sort::parse_sort),
    syntax("$zip", zip::parse),

    // Booleans
    function("$allElementsTrue", Exactly(1), boolean::all_elements_true),
    function("$and", Any, boolean::and),
    function("$anyElementTrue", Exactly(1), boolean::any_element_true),
    function("$not", Exactly(1), boolean::not),
    function("$or", Any, boolean::or),

    // Comparison
    function("$cmp", Exactly(2), comparison::cmp),
    function("$eq", Exactly(2), comparison::eq),
    function("$gt", Exactly(2), comparison::gt),
    function("$gte", Exactly(2), comparison::gte),
    function("$lt", Exactly(2), comparison::lt),
    function("$lte", Exactly(2), comparison::lte),
    function("$ne", Exactly(2), comparison::ne),

    // Conditionals
    syntax("$cond", conditional::parse_cond),
    syntax("$ifNull", conditional::parse_if_null),
    syntax("$switch", conditional::parse_switch),

    // Objects
    function("$mergeObjects", Any, object::merge_objects),
    syntax("$getField", object::parse_get_field),
    syntax("$setField", object::parse_set_field),
    syntax("$unsetField", object::parse_unset_field),

    // Sets
    function("$setDifference", Exactly(2), set::difference),
    function("$setIntersection", Any, set::intersection),
    function("$setIsSubset", Exactly(2), set::is_subset),
    function("$setUnion", Any, set::union),
    syntax("$setEquals", set::parse_equals),

    // Accumulators over arguments or an array
    function("$avg", Any, accumulator::avg),
    function("$max", Any, accumulator::max),
    function("$min", Any, accumulator::min),
    function("$stdDevPop", Any, accumulator::std_dev_pop),
    function("$stdDevSamp", Any, accumulator::std_dev_samp),
    function("$sum", Any, accumulator::sum),
    syntax("$median", accumulator::parse_quantiles),
    syntax("$percentile", accumulator::parse_quantiles),

    // Strings
    function("$concat", Any, string::concat),
    function("$indexOfBytes", Between(2, 4), search::index_of_bytes),
    function("$indexOfCP", Between(2, 4), search::index_of_cp),
    function("$split", Exactly(2), string::split),
    function("$strcasecmp", Exactly(2), string::strcasecmp),
    function("$strLenBytes", Exactly(1), string::str_len_bytes),
    function("$strLenCP", Exactly(1), string::str_len_cp),
    function("$substr", Exactly(3), string::substr_bytes),
    function("$substrBytes", Exactly(3), string::substr_bytes),
    function("$substrCP", Exactly(3), string::substr_cp),
    function("$toLower", Exactly(1), string::to_lower),
    function("$toUpper", Exactly(1), string::to_upper),
    syntax("$ltrim", search::parse_trim),
    syntax("$regexFind", regex::parse_regex),
    syntax("$regexFindAll", regex::parse_regex),
    syntax("$regexMatch", regex::parse_regex),
    syntax("$replaceAll", search::parse_replace),
    syntax("$replaceOne", search::parse_replace),
    syntax("$rtrim", search::parse_trim),
    syntax("$trim", search::parse_trim),

    // Dates
    function("$tsIncrement", Exactly(1), date::ts_increment),
    function("$tsSecond", Exactly(1), date::ts_second),
    syntax("$dateAdd", date::parse_add),
    syntax("$dateDiff", date::parse_diff),
    syntax("$dateFromParts", date::parse_from_parts),
    syntax("$dateFromString", date::parse_from_string),
    syntax("$dateSubtract", date::parse_add),
    syntax("$dateToParts", date::parse_to_parts),
    syntax("$dateToString", date::parse_to_string),
    syntax("$dateTrunc", date::parse_trunc),
    syntax("$dayOfMonth", date::parse_part),
    syntax("$dayOfWeek", date::parse_part),
    syntax("$dayOfYear", date::parse_part),
    syntax("$hour", date::parse_part),
    syntax("$isoDayOfWeek", date::parse_part),
    syntax("$isoWeek", date::parse_part),
    syntax("$isoWeekYear", date::parse_part),
    syntax("$millisecond", date::parse_part),
    syntax("$minute", date::parse_part),
    syntax("$month", date::parse_part),
    syntax("$second", date::parse_part),
    syntax("$week", date::parse_part),
    syntax("$year", date::parse_part),

    // Type conversion
    function("$isNumber", Exactly(1), convert::is_number),
    function("$type", Exactly(1), convert::type_of),
    syntax("$convert", convert::parse_convert),
    function("$toBool", Exactly(1), convert::to_bool),
    function("$toDate", Exactly(1), convert::to_date),
    function("$toDecimal", Exactly(1), convert::to_decimal),
    function("$toDouble", Exactly(1), convert::to_double),
    function("$toInt", Exactly(1), convert::to_int),
    function("$toLong", Exactly(1), convert::to_long),
    function("$toObjectId", Exactly(1), convert::to_object_id),
    function("$toString", Exactly(1), convert::to_string),
    function("$toUUID", Exactly(1), convert::to_uuid),

    // Variables, literals, sizes, metadata
    function("$binarySize", Exactly(1), misc::binary_size),
    function("$bsonSize", Exactly(1), misc::bson_size),
    function("$toHashedIndexKey", Exactly(1), misc::to_hashed_index_key),
    syntax("$const", misc::parse_literal),
    syntax("$function", misc::parse_function),
    syntax("$let", iteration::parse_let),
    syntax("$literal", misc::parse_literal),
    syntax("$meta", misc::parse_meta),
];

/// The operators by name.
static BY_NAME: LazyLock<HashMap<&str, &Operator>> =
    LazyLock::new(|| OPERATORS.iter().map(|operator| (operator.name, operator)).collect());

/// Finds an operator by its name, including the `$`.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::super::{Args, Context, EvalEnv, Expr};
    use super::*;
    use bumpalo::Bump;
    use diwan_value::{Array, Decimal128, Doc, Value, ValueBuf, array, doc};

    #[test]
    fn names_are_unique() {
        assert_eq!(BY_NAME.len(), OPERATORS.len());
    }

    /// Values at the limits of their types.
    fn odd_values() -> Vec<ValueBuf> {
        let mut values = vec![ValueBuf::from(doc! {}), ValueBuf::from(doc! { "k": "\u{0}", "v": 1 })];
        let scalars = [
            Value::Null,
            Value::Undefined,
            Value::MinKey,
            Value::Int32(i32::MIN),
            Value::Int64(i64::MIN),
            Value::Int64(i64::MAX),
            Value::Double(f64::NAN),
            Value::Double(f64::NEG_INFINITY),
            Value::Double(1e300),
            Value::Double(-0.0),
            Value::Decimal128(Decimal128::NAN),
            Value::Decimal128(Decimal128::INFINITY),
            Value::Decimal128("-9.99E+6144".parse().unwrap()),
            Value::Decimal128("1E-6176".parse().unwrap()),
            Value::DateTime(i64::MIN),
            Value::DateTime(i64::MAX),
            Value::String(""),
            Value::String("\u{10ffff}\u{e9}"),
            Value::Binary { subtype: 0, bytes: &[] },
            Value::Regex { pattern: "(", options: "q" },
            Value::Array(Array::EMPTY),
        ];
        values.extend(scalars.map(ValueBuf::new));
        for array in
            [array![[], []], array![[1, 2], { "k": "x", "v": 0 }], array![(i64::MAX), (f64::NAN), "a"]]
        {
            values.push(ValueBuf::new(Value::Array(Array::trusted(&array.finish()))));
        }
        values
    }

    #[test]
    fn evaluating_unusual_arguments_does_not_panic() {
        let values = odd_values();
        let (context, mut arena, mut answers) = (Context::default(), Bump::new(), 0);
        let mut run = |operator: &'static str, function: Function, args: &[&ValueBuf]| {
            let exprs: Vec<_> = args.iter().map(|value| Expr::Literal((*value).clone())).collect();
            let env = EvalEnv::new(&arena, Doc::EMPTY, &context);
            answers += usize::from(function(Args { operator, exprs: &exprs }, &env).is_ok());
            arena.reset();
        };
        for operator in OPERATORS {
            let OperatorForm::Function(arity, function) = operator.form else { continue };
            let (least, most) = match arity {
                Exactly(count) => (count, count),
                Between(least, most) => (least, most),
                Any => (0, 2),
            };
            for count in least..=most.min(3) {
                for at in 0..values.len().pow(count as u32) {
                    let places = (0..count as u32).map(|place| at / values.len().pow(place) % values.len());
                    let args: Vec<_> = places.map(|place| &values[place]).collect();
                    run(operator.name, function, &args);
                }
            }
        }
        assert!(answers > 1000);
    }
}
