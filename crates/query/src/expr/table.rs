//! The operators of the expression language, one row each: name, arity or own syntax, and what evaluates or parses it.

use super::operator::Arity::{Any, Between, Exactly};
use super::operator::{Arity, Form, Function, Operator, Parser};
use super::{
    accumulator, arithmetic, array, array_object, array_sort, bitwise, boolean, comparison, conditional,
    iteration, misc, object, round, set, trigonometry, zip,
};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A row of a function of arguments.
const fn function(name: &'static str, arity: Arity, function: Function) -> Operator {
    Operator { name, form: Form::Function(arity, function) }
}

/// A row of an operator with a syntax of its own.
const fn syntax(name: &'static str, parser: Parser) -> Operator {
    Operator { name, form: Form::Syntax(parser) }
}

/// All operators, by family. Names are unique.
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
    syntax("$firstN", array_sort::parse_n),
    syntax("$lastN", array_sort::parse_n),
    syntax("$map", iteration::parse_map),
    syntax("$maxN", array_sort::parse_n),
    syntax("$minN", array_sort::parse_n),
    syntax("$reduce", iteration::parse_reduce),
    syntax("$sortArray", array_sort::parse_sort),
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

    // Dates

    // Type conversion

    // Variables, literals, sizes, metadata
    function("$binarySize", Exactly(1), misc::binary_size),
    function("$bsonSize", Exactly(1), misc::bson_size),
    function("$toHashedIndexKey", Exactly(1), misc::to_hashed_index_key),
    syntax("$const", misc::parse_literal),
    syntax("$let", iteration::parse_let),
    syntax("$literal", misc::parse_literal),
    syntax("$meta", misc::parse_meta),
];

/// The operators by name.
static BY_NAME: LazyLock<HashMap<&str, &Operator>> =
    LazyLock::new(|| OPERATORS.iter().map(|operator| (operator.name, operator)).collect());

/// The operator of that name, `$` included.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        assert_eq!(BY_NAME.len(), OPERATORS.len());
    }
}
