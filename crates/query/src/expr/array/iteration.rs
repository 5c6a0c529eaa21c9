//! `$map`, `$filter` and `$reduce`, which bind variables for each element of an array, and `$let`, which binds
//! variables once.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, as_i32, is_nullish, is_truthy, null, type_name};
use crate::expr::display::Shown;
use crate::expr::parse::check_new_variable;
use crate::expr::{EvalEnv, Expr, Node, ParseEnv, Slot};
use bumpalo::Bump;
use diwan_value::{Array, ArrayBuilder, Doc, Value, ValueBuf};
use std::sync::Arc;

/// The document of named arguments of an operator.
fn arguments<'v>(value: Value<'v>, code: i32, operator: &str) -> Result<Doc<'v>> {
    value
        .as_doc()
        .ok_or_else(|| Error::new(code, format!("{operator} only supports an object as its argument")))
}

/// A required argument.
fn required<'v>(argument: Option<Value<'v>>, code: i32, operator: &str, name: &str) -> Result<Value<'v>> {
    argument.ok_or_else(|| Error::new(code, format!("Missing '{name}' parameter to {operator}")))
}

/// Adds the element variable to a scope: the name in `as`, or `this`.
fn element_variable(name: Option<Value<'_>>, scope: &mut ParseEnv<'_>) -> Result<Slot> {
    let Some(value) = name else { return Ok(scope.variable("this")) };
    let name = value.as_str().unwrap_or_default();
    check_new_variable(name)?;
    Ok(scope.variable(name))
}

/// The array to iterate over; `None` if it is null.
fn input<'a>(value: Option<Value<'a>>, code: i32, operator: &str) -> Result<Option<Array<'a>>> {
    match value {
        Some(Value::Array(array)) => Ok(Some(array)),
        value if is_nullish(value) => Ok(None),
        other => {
            let found = type_name(other);
            Err(Error::new(code, format!("input to {operator} must be an array not {found}")))
        }
    }
}

/// `$let`.
#[derive(Debug)]
struct Let {
    /// Each variable with its value. The values see only the variables of the outer scope.
    variables: Vec<(Slot, Expr)>,
    inner: Expr,
}

/// Parses `{vars: {name: value, …}, in}`.
pub(crate) fn parse_let(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let doc = arguments(value, 16874, operator)?;
    let (mut vars, mut inner) = (None, None);
    for element in doc.iter() {
        match element.key_str() {
            "vars" => vars = Some(element.value()),
            "in" => inner = Some(element.value()),
            other => return Err(Error::new(16875, format!("Unrecognized parameter to $let: {other}"))),
        }
    }
    let vars = required(vars, 16876, operator, "vars")?;
    let inner = required(inner, 16877, operator, "in")?;
    let Value::Document(vars) = vars else {
        return Err(Error::new(10065, "invalid parameter: expected an object (vars)"));
    };
    let mut scope = env.inner();
    let mut variables = Vec::new();
    for element in vars.iter() {
        check_new_variable(element.key_str())?;
        let value = Expr::parse(element.value(), env)?;
        variables.push((scope.variable(element.key_str()), value));
    }
    let inner = Expr::parse(inner, &scope)?;
    Ok(Expr::Node(Arc::new(Let { variables, inner })))
}

impl Node for Let {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        // The value expressions may use the same slots for their own variables, so all values are computed before any
        // is bound.
        let values = self
            .variables
            .iter()
            .map(|(slot, expr)| Ok((*slot, expr.eval(env)?)))
            .collect::<Result<Vec<_>>>()?;
        for (slot, value) in values {
            env.bind(slot, value);
        }
        self.inner.eval(env)
    }

    fn children(&self) -> Vec<&Expr> {
        self.variables.iter().map(|(_, expr)| expr).chain([&self.inner]).collect()
    }
}

/// `$map`.
#[derive(Debug)]
struct Map {
    input: Expr,
    element: Slot,
    each: Expr,
}

/// Parses `{input, as, in}`.
pub(crate) fn parse_map(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let doc = arguments(value, 16878, operator)?;
    let (mut input, mut name, mut each) = (None, None, None);
    for element in doc.iter() {
        match element.key_str() {
            "input" => input = Some(element.value()),
            "as" => name = Some(element.value()),
            "in" => each = Some(element.value()),
            other => return Err(Error::new(16879, format!("Unrecognized parameter to $map: {other}"))),
        }
    }
    let input = Expr::parse(required(input, 16880, operator, "input")?, env)?;
    let each = required(each, 16882, operator, "in")?;
    let mut scope = env.inner();
    let element = element_variable(name, &mut scope)?;
    let each = Expr::parse(each, &scope)?;
    Ok(Expr::Node(Arc::new(Map { input, element, each })))
}

impl Node for Map {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let Some(array) = input(self.input.eval(env)?, 16883, "$map")? else { return null() };
        let mut output = ArrayBuilder::new();
        for value in array.iter() {
            env.tick()?;
            env.bind(self.element, Some(value));
            output.push(env.nested(self.each.eval(env)?)?.unwrap_or(Value::Null));
            env.check_size(output.len())?;
        }
        env.array(output).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.input, &self.each]
    }
}

/// `$filter`.
#[derive(Debug)]
struct Filter {
    input: Expr,
    element: Slot,
    condition: Expr,
    limit: Option<Expr>,
}

/// Parses `{input, as, cond, limit}`.
pub(crate) fn parse_filter(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let doc = arguments(value, 28646, operator)?;
    let (mut input, mut name, mut condition, mut limit) = (None, None, None, None);
    for element in doc.iter() {
        match element.key_str() {
            "input" => input = Some(element.value()),
            "as" => name = Some(element.value()),
            "cond" => condition = Some(element.value()),
            "limit" => limit = Some(Expr::parse(element.value(), env)?),
            other => return Err(Error::new(28647, format!("Unrecognized parameter to $filter: {other}"))),
        }
    }
    let input = Expr::parse(required(input, 28648, operator, "input")?, env)?;
    let condition = required(condition, 28650, operator, "cond")?;
    let mut scope = env.inner();
    let element = element_variable(name, &mut scope)?;
    let condition = Expr::parse(condition, &scope)?;
    Ok(Expr::Node(Arc::new(Filter { input, element, condition, limit })))
}

impl Filter {
    /// The maximum number of elements in the result.
    fn limit<'a>(&'a self, env: &EvalEnv<'a>) -> Result<usize> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        let value = limit.eval(env)?;
        if is_nullish(value) {
            return Ok(usize::MAX);
        }
        let Some(limit) = as_i32(value) else {
            let text =
                format!("$filter: limit must be represented as a 32-bit integral value: {}", Shown(value));
            return Err(Error::new(327391, text));
        };
        match usize::try_from(limit) {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => Err(Error::new(327392, format!("$filter: limit must be greater than 0: {limit}"))),
        }
    }
}

impl Node for Filter {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let Some(array) = input(self.input.eval(env)?, 28651, "$filter")? else { return null() };
        let limit = self.limit(env)?;
        let mut output = ArrayBuilder::new();
        for element in array.elements() {
            env.tick()?;
            env.bind(self.element, Some(element.value()));
            if is_truthy(self.condition.eval(env)?) {
                output.push(element.raw);
                if output.count() >= limit {
                    break;
                }
            }
        }
        env.array(output).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        [&self.input, &self.condition].into_iter().chain(&self.limit).collect()
    }
}

/// `$reduce`.
#[derive(Debug)]
struct Reduce {
    input: Expr,
    initial: Expr,
    element: Slot,
    accumulated: Slot,
    step: Expr,
}

/// Parses `{input, initialValue, in}`.
pub(crate) fn parse_reduce(_: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let Value::Document(doc) = value else {
        let found = type_name(Some(value));
        return Err(Error::new(40075, format!("$reduce requires an object as an argument, found: {found}")));
    };
    let mut scope = env.inner();
    let (element, accumulated) = (scope.variable("this"), scope.variable("value"));
    let (mut input, mut initial, mut step) = (None, None, None);
    for argument in doc.iter() {
        match argument.key_str() {
            "input" => input = Some(Expr::parse(argument.value(), env)?),
            "initialValue" => initial = Some(Expr::parse(argument.value(), env)?),
            "in" => step = Some(Expr::parse(argument.value(), &scope)?),
            other => return Err(Error::new(40076, format!("$reduce found an unknown argument: {other}"))),
        }
    }
    let missing = |code, name| Error::new(code, format!("$reduce requires '{name}' to be specified"));
    let input = input.ok_or_else(|| missing(40077, "input"))?;
    let initial = initial.ok_or_else(|| missing(40078, "initialValue"))?;
    let step = step.ok_or_else(|| missing(40079, "in"))?;
    Ok(Expr::Node(Arc::new(Reduce { input, initial, element, accumulated, step })))
}

impl Node for Reduce {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let array = match self.input.eval(env)? {
            Some(Value::Array(array)) => array,
            value if is_nullish(value) => return null(),
            other => {
                let text = format!("$reduce requires that 'input' be an array, found: {}", Shown(other));
                return Err(Error::new(40080, text));
            }
        };
        let mut accumulated = self.initial.eval(env)?.map(ValueBuf::new);
        // Each step gets its own arena. In one arena, the intermediate results would take memory quadratic in the final
        // size.
        let mut arena = Bump::new();
        for value in array.iter() {
            env.tick()?;
            accumulated = {
                let step = env.scoped(&arena);
                step.bind(self.element, Some(value));
                step.bind(self.accumulated, accumulated.as_ref().map(ValueBuf::as_value));
                step.nested(self.step.eval(&step)?)?.map(ValueBuf::new)
            };
            arena.reset();
        }
        accumulated.map(|value| env.keep(value.as_value())).transpose()
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.input, &self.initial, &self.step]
    }
}
