//! Trigonometric operators: doubles by the processor's functions, decimals to their full precision by series.

use super::arithmetic::{decimal_number, number, single};
use super::coerce::{Evaluated, is_nullish, null, type_name};
use super::number::{Number, Width};
use super::{Args, EvalEnv, decimal_trigonometry as decimals};
use crate::error::Error;
use diwan_value::{Decimal128, compare};

/// Where a function is defined: the bounds, and how the refusal writes the interval.
struct Domain {
    least: f64,
    most: f64,
    /// Whether the bounds themselves belong to it.
    closed: bool,
    text: &'static str,
}

/// All finite numbers.
const FINITE: Domain =
    Domain { least: f64::NEG_INFINITY, most: f64::INFINITY, closed: false, text: "(-inf,inf)" };

/// Arguments of arc sine and arc cosine.
const UNIT: Domain = Domain { least: -1.0, most: 1.0, closed: true, text: "[-1,1]" };

/// Arguments of the hyperbolic arc cosine.
const FROM_ONE: Domain = Domain { least: 1.0, most: f64::INFINITY, closed: true, text: "[1,inf]" };

/// Evaluates a function of one number. Without a domain it takes all numbers.
fn apply<'a>(
    args: Args<'a>,
    env: &EvalEnv<'a>,
    domain: Option<&Domain>,
    doubles: fn(f64) -> f64,
    decimals: fn(Decimal128) -> Decimal128,
) -> Evaluated<'a> {
    let Some(operand) = single(args, env)? else { return null() };
    let is_nan = operand.to_f64().is_nan();
    if let Some(domain) = domain
        && !is_nan
    {
        let bound = |bound: f64| compare(operand.value(), diwan_value::Value::Double(bound));
        let (low, high) = (bound(domain.least), bound(domain.most));
        let inside = if domain.closed { low.is_ge() && high.is_le() } else { low.is_gt() && high.is_lt() };
        if !inside {
            let text = format!(
                "cannot apply {} to {}, value must be in {}",
                args.operator,
                super::display::Shown(Some(operand.value())),
                domain.text
            );
            return Err(Error::new(50989, text));
        }
    }
    match operand {
        Number::Decimal(operand) if is_nan => decimal_number(operand),
        Number::Decimal(operand) => decimal_number(decimals(operand)),
        operand => number(Number::Double(doubles(operand.to_f64()))),
    }
}

/// Defines operators of one number.
macro_rules! functions {
    ($($name:ident: $domain:expr, $double:path, $decimal:path;)*) => {$(
        pub(super) fn $name<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
            apply(args, env, $domain, $double, $decimal)
        }
    )*};
}

functions! {
    sin: Some(&FINITE), f64::sin, decimals::sin;
    cos: Some(&FINITE), f64::cos, decimals::cos;
    tan: Some(&FINITE), f64::tan, decimals::tan;
    asin: Some(&UNIT), f64::asin, decimals::asin;
    acos: Some(&UNIT), f64::acos, decimals::acos;
    atan: None, f64::atan, decimals::atan;
    sinh: None, f64::sinh, decimals::sinh;
    cosh: None, f64::cosh, decimals::cosh;
    tanh: None, f64::tanh, decimals::tanh;
    asinh: None, f64::asinh, decimals::asinh;
    acosh: Some(&FROM_ONE), f64::acosh, decimals::acosh;
    atanh: Some(&UNIT), f64::atanh, decimals::atanh;
    degrees_to_radians: None, degrees, decimals::degrees_to_radians;
    radians_to_degrees: None, radians, decimals::radians_to_degrees;
}

fn degrees(operand: f64) -> f64 {
    operand * (std::f64::consts::PI / 180.0)
}

fn radians(operand: f64) -> f64 {
    operand * (180.0 / std::f64::consts::PI)
}

pub(super) fn atan2<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut operands = [Number::Int(0); 2];
    for (at, (operand, code)) in operands.iter_mut().zip([51044, 51045]).enumerate() {
        let value = args.eval(at, env)?;
        if is_nullish(value) {
            return null();
        }
        *operand = value.and_then(Number::of).ok_or_else(|| {
            Error::new(code, format!("$atan2 only supports numeric types, not {}", type_name(value)))
        })?;
    }
    let [y, x] = operands;
    if y.width().max(x.width()) == Width::Decimal {
        decimal_number(decimals::atan2(y.to_decimal(), x.to_decimal()))
    } else {
        number(Number::Double(y.to_f64().atan2(x.to_f64())))
    }
}
