//! Accumulators used as expressions, over their arguments or over the elements of one array argument.

use super::coerce::{Evaluated, is_nullish, null, type_name};
use super::display::Shown;
use super::number::arithmetic::number;
use super::number::{Number, Sum};
use super::{Args, EvalEnv, Expr, Node, ParseEnv};
use crate::display::ShownField;
use crate::error::{Error, Result, code};
use diwan_value::{Array, ArrayBuilder, Value};
use std::cmp::Ordering;
use std::sync::Arc;

/// Calls `visit` with every value to accumulate.
fn for_each<'a>(args: Args<'a>, env: &EvalEnv<'a>, mut visit: impl FnMut(Option<Value<'a>>)) -> Result<()> {
    match args.exprs {
        [single] => match single.eval(env)? {
            Some(Value::Array(array)) => array.iter().for_each(|value| visit(Some(value))),
            value => visit(value),
        },
        several => {
            for expr in several {
                visit(expr.eval(env)?);
            }
        }
    }
    Ok(())
}

/// The sum of the numbers among the values, and their count.
fn total<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Result<(Sum, i64)> {
    let (mut sum, mut count) = (Sum::default(), 0);
    for_each(args, env, |value| {
        if let Some(number) = value.and_then(Number::of) {
            sum.add(number);
            count += 1;
        }
    })?;
    Ok((sum, count))
}

pub(super) fn sum<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    number(total(args, env)?.0.total())
}

pub(super) fn avg<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (sum, count) = total(args, env)?;
    if count == 0 { null() } else { number(sum.mean(count)) }
}

pub(super) fn min<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    extreme(args, env, Ordering::Less)
}

pub(super) fn max<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    extreme(args, env, Ordering::Greater)
}

/// The first of the smallest or greatest values, skipping null and missing ones.
fn extreme<'a>(args: Args<'a>, env: &EvalEnv<'a>, wanted: Ordering) -> Evaluated<'a> {
    let mut best: Option<Value<'a>> = None;
    for_each(args, env, |value| {
        if let Some(value) = value
            && !value.is_nullish()
            && best.is_none_or(|best| env.compare(value, best) == wanted)
        {
            best = Some(value);
        }
    })?;
    Ok(Some(best.unwrap_or(Value::Null)))
}

/// Mean and variance of numbers, updated incrementally (Welford's method).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviation {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        self.count += 1;
        let delta = number - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (number - self.mean);
    }

    /// Merges the numbers of another state (the method of Chan, Golub and LeVeque).
    pub(crate) fn merge(&mut self, other: Deviation) {
        if other.count == 0 {
            return;
        }
        let total = self.count + other.count;
        let share = other.count as f64 / total as f64;
        let delta = other.mean - self.mean;
        self.squares += other.squares + delta * delta * self.count as f64 * share;
        self.mean += delta * share;
        self.count = total;
    }

    /// The state as values for [`Deviation::restore`].
    pub(crate) fn save(&self) -> ArrayBuilder {
        let mut parts = ArrayBuilder::new();
        parts.push(self.count).push(self.mean).push(self.squares);
        parts
    }

    /// Restores a saved state.
    pub(crate) fn restore(saved: Array<'_>) -> Deviation {
        let mut parts = saved.iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Value::Int64(count)), Some(Value::Double(mean)), Some(Value::Double(squares))) => {
                Deviation { count, mean, squares }
            }
            _ => Deviation::default(),
        }
    }

    /// The population standard deviation; `None` without numbers.
    pub(crate) fn population(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// The sample standard deviation; `None` for fewer than two numbers.
    pub fn sample(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

fn deviation<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Result<Deviation> {
    let mut deviation = Deviation::default();
    for_each(args, env, |value| {
        if let Some(number) = value.and_then(Number::of) {
            deviation.add(number.to_f64());
        }
    })?;
    Ok(deviation)
}

pub(super) fn std_dev_pop<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(deviation(args, env)?.population().map_or(Value::Null, Value::Double)))
}

pub(super) fn std_dev_samp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(deviation(args, env)?.sample().map_or(Value::Null, Value::Double)))
}

/// The parsed arguments of `$percentile` and `$median`, as expressions and as accumulators.
#[derive(Clone, Debug)]
pub(crate) struct Quantiles {
    /// The expression that yields the numbers.
    pub input: Expr,
    /// The requested fractions, each from 0 to 1.
    pub fractions: Vec<f64>,
    /// Whether the result is an array of all quantiles instead of a single one.
    pub many: bool,
}

impl Quantiles {
    /// Parses `{input, method, p}`, with `p` only for `$percentile`.
    pub fn parse(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Quantiles> {
        let Value::Document(doc) = value else {
            let code = if operator == "$median" { 7436100 } else { 7429703 };
            let text = format!("specification must be an object; found {}", ShownField(operator, value));
            return Err(Error::new(code, text));
        };
        let many = operator == "$percentile";
        let (mut input, mut fractions, mut method) = (None, None, None);
        for argument in doc.iter() {
            match argument.key_str() {
                "input" => input = Some(Expr::parse(argument.value(), env)?),
                "p" if many => fractions = Some(Expr::parse(argument.value(), env)?),
                "method" => method = Some(argument.value()),
                other => {
                    let text = format!("BSON field '{operator}.{other}' is an unknown field.");
                    return Err(Error::new(40415, text));
                }
            }
        }
        let missing = |name| {
            Error::new(40414, format!("BSON field '{operator}.{name}' is missing but a required field"))
        };
        let input = input.ok_or_else(|| missing("input"))?;
        if many && fractions.is_none() {
            return Err(missing("p"));
        }
        match method.ok_or_else(|| missing("method"))? {
            Value::String("approximate") => {}
            Value::String(_) => {
                let text = "Currently only 'approximate' can be used as percentile 'method'.";
                return Err(Error::bad_value(text));
            }
            other => {
                let text = format!(
                    "BSON field '{operator}.method' is the wrong type '{}', expected type 'string'",
                    type_name(Some(other))
                );
                return Err(Error::new(code::TYPE_MISMATCH, text));
            }
        }
        let fractions = match &fractions {
            Some(expr) => parse_fractions(expr)?,
            None => vec![0.5],
        };
        Ok(Quantiles { input, fractions, many })
    }

    /// The quantiles of `numbers`, which are sorted in place with NaN first. Null if there are no numbers.
    pub fn of<'a>(&self, numbers: &mut [f64], env: &EvalEnv<'a>) -> Evaluated<'a> {
        numbers.sort_by(|left, right| {
            left.partial_cmp(right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
        });
        let quantile = |fraction: f64| {
            let rank = (numbers.len() as f64 * fraction).ceil().max(1.0) as usize - 1;
            numbers.get(rank.min(numbers.len().saturating_sub(1))).copied().map_or(Value::Null, Value::Double)
        };
        if !self.many {
            return Ok(self.fractions.first().map(|fraction| quantile(*fraction)));
        }
        let mut output = ArrayBuilder::new();
        for fraction in &self.fractions {
            output.push(quantile(*fraction));
        }
        env.array(output).map(Some)
    }
}

/// Parses `p`: a constant array of numbers from 0 to 1.
fn parse_fractions(expr: &Expr) -> Result<Vec<f64>> {
    let wrong = |code, found: Option<Value<'_>>| {
        let text = format!(
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {}",
            Shown(found)
        );
        Error::new(code, text)
    };
    let constant = expr.as_literal();
    let Some(Value::Array(array)) = constant else { return Err(wrong(7750300, constant)) };
    if array.is_empty() {
        return Err(wrong(7750301, constant));
    }
    let fraction = |value: Value<'_>| {
        let number = Number::of(value).ok_or_else(|| wrong(7750302, Some(value)))?.to_f64();
        if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(wrong(7750303, Some(value))) }
    };
    array.iter().map(fraction).collect()
}

/// Parses `$percentile` or `$median` as an expression.
pub(super) fn parse_quantiles(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    Ok(Expr::Node(Arc::new(Quantiles::parse(operator, value, env)?)))
}

impl Node for Quantiles {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let input = self.input.eval(env)?;
        let mut numbers: Vec<f64> = match input {
            Some(Value::Array(array)) => array.iter().filter_map(Number::of).map(Number::to_f64).collect(),
            value if is_nullish(value) => Vec::new(),
            value => value.and_then(Number::of).map(Number::to_f64).into_iter().collect(),
        };
        self.of(&mut numbers, env)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.input]
    }
}
