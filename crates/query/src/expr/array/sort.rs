//! `$sortArray`, and the operators that take `n` elements: `$firstN`, `$lastN`, `$minN`, `$maxN`.

use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, as_i64, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{EvalEnv, Expr, Node, ParseEnv};
use diwan_value::{Array, ArrayBuilder, Doc, Path, Value};
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug)]
struct SortArray {
    input: Expr,
    order: ElementKeys,
}

/// The keys that elements are compared by.
#[derive(Debug)]
enum ElementKeys {
    /// The element itself.
    Whole { descending: bool },
    /// Fields of the element, most significant first.
    Fields(Vec<(Path, bool)>),
}

/// Parses `{input, sortBy}`.
pub(crate) fn parse_sort(_: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let Value::Document(doc) = value else {
        let found = type_name(Some(value));
        let text = format!("$sortArray requires an object as an argument, found: {found}");
        return Err(Error::new(2942500, text));
    };
    let (mut input, mut order) = (None, None);
    for argument in doc.iter() {
        match argument.key_str() {
            "input" => input = Some(Expr::parse(argument.value(), env)?),
            "sortBy" => order = Some(parse_order(argument.value())?),
            other => {
                return Err(Error::new(2942501, format!("$sortArray found an unknown argument: {other}")));
            }
        }
    }
    let input = input.ok_or_else(|| Error::new(2942502, "$sortArray requires 'input' to be specified"))?;
    let order = order.ok_or_else(|| Error::new(2942503, "$sortArray requires 'sortBy' to be specified"))?;
    Ok(Expr::Node(Arc::new(SortArray { input, order })))
}

fn parse_order(value: Value<'_>) -> Result<ElementKeys> {
    match value {
        Value::Document(doc) if doc.is_empty() => {
            Err(Error::bad_value("The sort pattern is empty when it should be a set of fields."))
        }
        Value::Document(doc) => {
            doc.iter().map(sort_field).collect::<Result<Vec<_>>>().map(ElementKeys::Fields)
        }
        whole => {
            let descending = descending(whole).ok_or_else(|| {
                Error::new(2942507, "The sort must be either an object, or a number equal to 1 or -1")
            })?;
            Ok(ElementKeys::Whole { descending })
        }
    }
}

fn sort_field(element: diwan_value::Element<'_>) -> Result<(Path, bool)> {
    let name = element.key_str();
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(Error::bad_value("The sort pattern has an empty field name"));
    }
    if name.starts_with('$') || name.contains(".$") {
        return Err(Error::bad_value("FieldPath field names may not start with '$'."));
    }
    let descending = descending(element.value())
        .ok_or_else(|| Error::bad_value("The sort element value must be either 1 or -1"))?;
    Ok((Path::new(name), descending))
}

/// Whether a direction is -1; `None` if it is neither 1 nor -1.
fn descending(value: Value<'_>) -> Option<bool> {
    match as_i64(Some(value))? {
        1 => Some(false),
        -1 => Some(true),
        _ => None,
    }
}

/// The value of a sort path in an element. A number in the path indexes an array.
fn sort_key<'a>(value: Value<'a>, path: &Path) -> Value<'a> {
    let mut value = value;
    for name in path.names() {
        let inner = match value {
            Value::Document(doc) => doc.get(name),
            Value::Array(array) => Doc::trusted(array.as_bytes()).get(name),
            _ => None,
        };
        let Some(inner) = inner else { return Value::Null };
        value = inner;
    }
    value
}

fn directed(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

impl Node for SortArray {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let array = match self.input.eval(env)? {
            Some(Value::Array(array)) => array,
            value if is_nullish(value) => return null(),
            other => {
                let found = type_name(other);
                let text =
                    format!("The input argument to $sortArray must be an array, but was of type: {found}");
                return Err(Error::new(2942504, text));
            }
        };
        let mut output = ArrayBuilder::new();
        match &self.order {
            ElementKeys::Whole { descending } => {
                for value in sorted(array, *descending, env) {
                    output.push(value);
                }
            }
            ElementKeys::Fields(fields) => {
                let keyed = array.iter().map(|value| {
                    let keys = fields.iter().map(|(path, _)| sort_key(value, path));
                    (keys.collect::<Vec<_>>(), value)
                });
                let mut keyed: Vec<_> = keyed.collect();
                keyed.sort_by(|(left, _), (right, _)| {
                    let pairs = left.iter().zip(right).zip(fields);
                    pairs
                        .map(|((left, right), (_, descending))| {
                            directed(env.compare(*left, *right), *descending)
                        })
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                });
                for (_, value) in keyed {
                    output.push(value);
                }
            }
        }
        env.array(output).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.input]
    }
}

/// The values of an array, sorted ascending or descending.
fn sorted<'a>(array: Array<'a>, descending: bool, env: &EvalEnv<'a>) -> Vec<Value<'a>> {
    let mut values: Vec<_> = array.iter().collect();
    values.sort_by(|left, right| directed(env.compare(*left, *right), descending));
    values
}

/// `$firstN`, `$lastN`, `$minN` or `$maxN`.
#[derive(Debug)]
struct TakeN {
    operator: &'static str,
    n: Expr,
    input: Expr,
}

/// Parses `{n, input}`.
pub(crate) fn parse_n(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let Value::Document(doc) = value else {
        let text = format!("specification must be an object; found {}", ShownField(operator, value));
        return Err(Error::new(5787900, text));
    };
    let (mut n, mut input) = (None, None);
    for argument in doc.iter() {
        match argument.key_str() {
            "n" => n = Some(Expr::parse(argument.value(), env)?),
            "input" => input = Some(Expr::parse(argument.value(), env)?),
            other => {
                return Err(Error::new(5787901, format!("Unknown argument for 'n' operator: {other}")));
            }
        }
    }
    let n = n.ok_or_else(|| Error::new(5787906, "Missing value for 'n'"))?;
    let input = input.ok_or_else(|| Error::new(5787907, "Missing value for 'input'"))?;
    Ok(Expr::Node(Arc::new(TakeN { operator, n, input })))
}

/// Checks the `n` of an operator or accumulator.
pub(crate) fn check_n(value: Option<Value<'_>>) -> Result<usize> {
    let not_integral = |code| {
        Error::new(code, format!("Value for 'n' must be of integral type, but found {}", Shown(value)))
    };
    if !value.is_some_and(|value| value.is_number()) {
        return Err(not_integral(5787902));
    }
    let n = as_i64(value).ok_or_else(|| not_integral(5787903))?;
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Error::new(5787908, format!("'n' must be greater than 0, found {n}"))),
    }
}

impl Node for TakeN {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let n = check_n(self.n.eval(env)?)?;
        let Some(Value::Array(array)) = self.input.eval(env)? else {
            return Err(Error::new(5788200, "Input must be an array"));
        };
        let values: Vec<_> = match self.operator {
            "$firstN" => array.iter().take(n).collect(),
            "$lastN" => array.iter().skip(array.count().saturating_sub(n)).collect(),
            extreme => {
                let all = sorted(array, extreme == "$maxN", env);
                all.into_iter().filter(|value| !value.is_nullish()).take(n).collect()
            }
        };
        let mut output = ArrayBuilder::new();
        for value in values {
            output.push(value);
        }
        env.array(output).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.n, &self.input]
    }
}
