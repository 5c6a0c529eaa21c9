//! Trigonometric functions of decimals, by power series in Decimal128 arithmetic. All but the last one or two of the 34
//! digits are correct.

use diwan_value::Decimal128;
use diwan_value::decimal::Rounding;

/// π/2 in three parts. The first two have 17 digits, so their products with a quotient of 17 digits are exact.
const HALF_PI: [(u128, i32); 3] = [
    (15_707_963_267_948_966, -16),
    (19_231_321_691_639_751, -33),
    (4_420_985_846_996_875_529_104_874_722_961_539, -67),
];

/// π to 34 digits.
const PI: (u128, i32) = (3_141_592_653_589_793_238_462_643_383_279_503, -33);

/// π/180 to 34 digits.
const PI_OVER_180: (u128, i32) = (1_745_329_251_994_329_576_923_690_768_488_613, -35);

/// 180/π to 34 digits.
const OVER_PI_180: (u128, i32) = (5_729_577_951_308_232_087_679_815_481_410_517, -32);

/// A bound that no series here reaches.
const MAX_TERMS: i64 = 200;

/// Builds a constant.
fn constant((coefficient, exponent): (u128, i32)) -> Decimal128 {
    Decimal128::from_parts(false, coefficient, exponent).unwrap_or(Decimal128::NAN)
}

fn int(number: i64) -> Decimal128 {
    Decimal128::from(number)
}

fn pi() -> Decimal128 {
    constant(PI)
}

fn half_pi() -> Decimal128 {
    pi() / int(2)
}

/// The magnitude with the sign of `like`.
fn signed(magnitude: Decimal128, like: Decimal128) -> Decimal128 {
    if like.is_sign_negative() { -magnitude } else { magnitude }
}

fn magnitude_above(number: Decimal128, bound: f64) -> bool {
    number.to_f64().abs() > bound
}

/// Sums first + first·ratio(1) + first·ratio(1)·ratio(2) + … until a term no longer changes the sum.
fn series(first: Decimal128, ratio: impl Fn(i64) -> Decimal128) -> Decimal128 {
    let (mut sum, mut term) = (first, first);
    for at in 1..MAX_TERMS {
        term = term * ratio(at);
        let next = sum + term;
        if next == sum || term.is_zero() || !next.is_finite() {
            return next;
        }
        sum = next;
    }
    sum
}

/// Sine and cosine of an angle within ±π/4.
fn small(angle: Decimal128) -> (Decimal128, Decimal128) {
    let square = -(angle * angle);
    let sine = series(angle, |at| square / int(2 * at * (2 * at + 1)));
    let cosine = series(int(1), |at| square / int((2 * at - 1) * 2 * at));
    (sine, cosine)
}

/// Sine and cosine of any finite angle.
fn sine_and_cosine(angle: Decimal128) -> (Decimal128, Decimal128) {
    // A quotient of more than 17 digits does not multiply exactly, so whole turns are removed first.
    let angle = if magnitude_above(angle, 1e16) { angle % (pi() * int(2)) } else { angle };
    let quarters = (angle / half_pi()).quantize(0, Rounding::HalfEven);
    let rest = HALF_PI.iter().fold(angle, |rest, part| rest - quarters * constant(*part));
    let (sine, cosine) = small(rest);
    match quarters.to_i64_exact().unwrap_or(0).rem_euclid(4) {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

pub(crate) fn sin(angle: Decimal128) -> Decimal128 {
    sine_and_cosine(angle).0
}

pub(crate) fn cos(angle: Decimal128) -> Decimal128 {
    sine_and_cosine(angle).1
}

pub(crate) fn tan(angle: Decimal128) -> Decimal128 {
    let (sine, cosine) = sine_and_cosine(angle);
    sine / cosine
}

pub(crate) fn atan(tangent: Decimal128) -> Decimal128 {
    if tangent.is_infinite() {
        return signed(half_pi(), tangent);
    }
    let magnitude = tangent.abs();
    if magnitude_above(magnitude, 1.0) {
        return signed(half_pi() - atan(int(1) / magnitude), tangent);
    }
    // Each step halves the angle. After three steps the series converges quickly.
    let mut rest = tangent;
    let mut halvings = 0;
    while magnitude_above(rest, 0.1) {
        rest = rest / (int(1) + (int(1) + rest * rest).sqrt());
        halvings += 1;
    }
    odd_series(rest, -(rest * rest)) * int(1 << halvings)
}

/// x + x·s/3 + x·s²/5 + …
fn odd_series(number: Decimal128, square: Decimal128) -> Decimal128 {
    series(number, |at| square * int(2 * at - 1) / int(2 * at + 1))
}

pub(crate) fn asin(sine: Decimal128) -> Decimal128 {
    let cosine = ((int(1) - sine) * (int(1) + sine)).sqrt();
    if cosine.is_zero() { signed(half_pi(), sine) } else { atan(sine / cosine) }
}

pub(crate) fn acos(cosine: Decimal128) -> Decimal128 {
    let below = int(1) + cosine;
    if below.is_zero() {
        return pi();
    }
    atan(((int(1) - cosine) / below).sqrt()) * int(2)
}

pub(crate) fn atan2(y: Decimal128, x: Decimal128) -> Decimal128 {
    if y.is_nan() || x.is_nan() {
        return Decimal128::NAN;
    }
    let angle = match (y.is_infinite(), x.is_infinite()) {
        (true, true) => pi() / int(4),
        _ if x.is_zero() && y.is_zero() => Decimal128::ZERO,
        _ if x.is_zero() => half_pi(),
        _ => atan((y / x).abs()),
    };
    signed(if x.is_sign_negative() { pi() - angle } else { angle }, y)
}

pub(crate) fn sinh(number: Decimal128) -> Decimal128 {
    if magnitude_above(number, 0.5) {
        return (number.exp() - (-number).exp()) / int(2);
    }
    let square = number * number;
    series(number, |at| square / int(2 * at * (2 * at + 1)))
}

pub(crate) fn cosh(number: Decimal128) -> Decimal128 {
    (number.exp() + (-number).exp()) / int(2)
}

pub(crate) fn tanh(number: Decimal128) -> Decimal128 {
    if magnitude_above(number, 100.0) { signed(int(1), number) } else { sinh(number) / cosh(number) }
}

pub(crate) fn asinh(number: Decimal128) -> Decimal128 {
    let magnitude = number.abs();
    let result = if magnitude_above(number, 1e20) {
        magnitude.ln() + int(2).ln()
    } else if magnitude_above(number, 0.1) {
        (magnitude + (magnitude * magnitude + int(1)).sqrt()).ln()
    } else {
        atanh(magnitude / (magnitude * magnitude + int(1)).sqrt())
    };
    signed(result, number)
}

pub(crate) fn acosh(number: Decimal128) -> Decimal128 {
    if magnitude_above(number, 1e20) {
        return number.ln() + int(2).ln();
    }
    (number + ((number - int(1)) * (number + int(1))).sqrt()).ln()
}

pub(crate) fn atanh(number: Decimal128) -> Decimal128 {
    let below = int(1) - number.abs();
    if below.is_zero() {
        return signed(Decimal128::INFINITY, number);
    }
    if magnitude_above(number, 0.1) {
        return signed(((int(1) + number.abs()) / below).ln() / int(2), number);
    }
    odd_series(number, number * number)
}

pub(crate) fn degrees_to_radians(degrees: Decimal128) -> Decimal128 {
    degrees * constant(PI_OVER_180)
}

pub(crate) fn radians_to_degrees(radians: Decimal128) -> Decimal128 {
    radians * constant(OVER_PI_180)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal128 {
        text.parse().unwrap()
    }

    /// Asserts that two numbers agree to 31 digits.
    fn close(found: Decimal128, expected: &str) {
        let expected = decimal(expected);
        let error = (found - expected).abs().to_f64();
        let scale = expected.abs().to_f64().max(f64::MIN_POSITIVE);
        assert!(error <= scale * 1e-31, "{found} is not {expected}");
    }

    #[test]
    fn functions_match_known_values() {
        close(sin(int(1)), "0.8414709848078965066525023216302990");
        close(cos(int(1)), "0.5403023058681397174009366074429766");
        close(tan(int(1)), "1.557407724654902230506974807458360");
        close(sin(int(100)), "-0.5063656411097587936565576104597855");
        close(cos(decimal("1e10")), "0.8731196226768560011761913453076952");
        close(atan(int(1)), "0.7853981633974483096156608458198757");
        close(atan(int(-10)), "-1.471127674303734591852875571761730");
        close(asin(decimal("0.5")), "0.5235987755982988730771072305465838");
        close(acos(decimal("-0.5")), "2.094395102393195492308428922186335");
        close(sinh(int(1)), "1.175201193643801456882381850595601");
        close(cosh(int(1)), "1.543080634815243778477905620757061");
        close(tanh(decimal("0.5")), "0.4621171572600097585023184836436725");
        close(asinh(int(1)), "0.8813735870195430252326093249797923");
        close(acosh(int(2)), "1.316957896924816708625046347307968");
        close(atanh(decimal("0.5")), "0.5493061443340548456976226184612629");
        close(atan2(int(1), int(-1)), "2.356194490192344928846982537459627");
        close(degrees_to_radians(int(180)), "3.141592653589793238462643383279503");
    }

    #[test]
    fn functions_and_their_inverses_cancel() {
        for text in ["1e-10", "0.05", "0.3", "0.7", "-0.999"] {
            let number = decimal(text);
            close(sin(asin(number)), text);
            close(tan(atan(number)), text);
            close(sinh(asinh(number)), text);
            close(tanh(atanh(number)), text);
        }
    }
}
