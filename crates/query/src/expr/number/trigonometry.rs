//! Trigonometric operators: doubles use the standard library, decimals use power series with full precision.

use super::decimal_trigonometry as decimals;
use crate::error::Error;
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::number::arithmetic::{decimal_number, number, single};
use crate::expr::number::{Number, Width};
use crate::expr::{Args, EvalEnv};
use diwan_value::{Decimal128, compare};

/// The domain of a function: its bounds, and the interval as the error message writes it.
struct Domain {
    least: f64,
    most: f64,
    /// Whether the bounds belong to the domain.
    closed: bool,
    text: &'static str,
}

/// All finite numbers.
const FINITE: Domain =
    Domain { least: f64::NEG_INFINITY, most: f64::INFINITY, closed: false, text: "(-inf,inf)" };

/// The domain of arc sine and arc cosine.
const UNIT: Domain = Domain { least: -1.0, most: 1.0, closed: true, text: "[-1,1]" };

/// The domain of the hyperbolic arc cosine.
const FROM_ONE: Domain = Domain { least: 1.0, most: f64::INFINITY, closed: true, text: "[1,inf]" };

/// Evaluates a function of one number. Without a domain, it accepts all numbers.
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
                crate::expr::display::Shown(Some(operand.value())),
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

/// Defines operators with one argument.
macro_rules! functions {
    ($($name:ident: $domain:expr, $double:path, $decimal:path;)*) => {$(
        pub(crate) fn $name<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
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

pub(crate) fn atan2<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
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
