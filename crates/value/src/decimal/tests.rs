use super::{ParseDecimalError, Rounding};
use crate::Decimal128;
use fastrand::Rng;

fn d(text: &str) -> Decimal128 {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn canonical_text_survives_a_round_trip() {
    for text in [
        "0",
        "-0",
        "0E+3",
        "0.00",
        "1",
        "-1.50",
        "12345.678",
        "0.000001",
        "1E-7",
        "0.001234",
        "1.23E-8",
        "1E+3",
        "1.2E+10",
        "9.999999999999999999999999999999999E+6144",
        "1E-6176",
        "-1E-6176",
        "NaN",
        "Infinity",
        "-Infinity",
        "1234567890123456789012345678901234",
        "1.000000000000000000000000000000000",
    ] {
        assert_eq!(d(text).to_string(), text);
    }
}

#[test]
fn parsing_accepts_every_spelling() {
    for (text, expected) in [
        ("+1", "1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1E+3"),
        ("inf", "Infinity"),
        ("-INFINITY", "-Infinity"),
        ("nan", "NaN"),
        ("-NaN", "NaN"),
        ("007", "7"),
        // 35 digits are rounded half to even.
        ("12345678901234567890123456789012345", "1.234567890123456789012345678901234E+34"),
        ("12345678901234567890123456789012355", "1.234567890123456789012345678901236E+34"),
        // An exponent beyond the largest is folded into zeros.
        ("1E+6144", "1.000000000000000000000000000000000E+6144"),
    ] {
        assert_eq!(d(text).to_string(), expected, "{text}");
    }
    for text in ["", "-", "e5", "1e", "1.2.3", " 1", "1 ", "0x10", "NaN1", "sNaN", "Infinit", "--1", "1\0"] {
        assert_eq!(text.parse::<Decimal128>(), Err(ParseDecimalError::Syntax), "{text:?}");
    }
    assert_eq!("1E+6145".parse::<Decimal128>(), Err(ParseDecimalError::Overflow));
    assert_eq!("1E-6177".parse::<Decimal128>(), Err(ParseDecimalError::Underflow));
}

#[test]
fn arithmetic_matches_known_results() {
    for (result, expected) in [
        (d("0.1") + d("0.2"), "0.3"),
        (d("1.10") + d("-1.1"), "0.00"),
        (d("-0") + d("-0"), "-0"),
        (d("1E+40") + d("1"), "1.000000000000000000000000000000000E+40"),
        (d("9999999999999999999999999999999999") + d("1"), "1.000000000000000000000000000000000E+34"),
        (d("1") - d("0.9"), "0.1"),
        (d("1.20") * d("3"), "3.60"),
        (d("9E+6144") * d("10"), "Infinity"),
        (d("1") / d("3"), "0.3333333333333333333333333333333333"),
        (d("2") / d("-3"), "-0.6666666666666666666666666666666667"),
        (d("6") / d("2"), "3"),
        (d("1") / d("0"), "Infinity"),
        (d("0") / d("0"), "NaN"),
        (d("Infinity") - d("Infinity"), "NaN"),
        (d("7") % d("3"), "1"),
        (d("-7.5") % d("2"), "-1.5"),
        (d("1") % d("0"), "NaN"),
        (d("5") % d("Infinity"), "5"),
        // 10^40 = 1 modulo 3, and 10^6000 = 4 modulo 7.
        (d("1E+40") % d("3"), "1"),
        (d("1E+6000") % d("7"), "1"),
        (d("1E+6002") % d("7"), "2"),
        (d("2").sqrt(), "1.414213562373095048801688724209698"),
        (d("-1").sqrt(), "NaN"),
        (d("1").exp(), "2.718281828459045235360287471352662"),
        (d("10").ln(), "2.302585092994045684017991454684364"),
        (d("1000").log10(), "3"),
        (d("2").pow(d("10")), "1024"),
        (d("2").pow(d("0.5")), "1.414213562373095048801688724209698"),
        (-d("1.5"), "-1.5"),
        (d("-1.5").abs(), "1.5"),
    ] {
        assert_eq!(result.to_string(), expected);
    }
}

#[test]
fn rounding_follows_its_mode() {
    let modes =
        [Rounding::HalfEven, Rounding::HalfUp, Rounding::TowardZero, Rounding::Ceiling, Rounding::Floor];
    for (number, expected) in [
        ("2.5", ["2", "3", "2", "3", "2"]),
        ("-2.5", ["-2", "-3", "-2", "-2", "-3"]),
        ("1.26", ["1", "1", "1", "2", "1"]),
        ("7E+5", ["7E+5"; 5]),
        ("Infinity", ["Infinity"; 5]),
    ] {
        assert_eq!(modes.map(|mode| d(number).round_to_integer(mode).to_string()), expected, "{number}");
    }
    assert_eq!(d("1.25").quantize(-1, Rounding::HalfEven).to_string(), "1.2");
    assert_eq!(d("1234").quantize(2, Rounding::TowardZero).to_string(), "1.2E+3");
    assert_eq!(d("1").quantize(-40, Rounding::HalfEven).to_string(), "NaN");
    assert_eq!(d("-Infinity").quantize(0, Rounding::HalfEven).to_string(), "-Infinity");
}

#[test]
fn decimals_convert_from_and_to_other_numbers() {
    assert_eq!(Decimal128::from(i64::MIN).to_string(), "-9223372036854775808");
    assert_eq!(Decimal128::from_f64(2.5).to_string(), "2.50000000000000");
    assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.100000000000000");
    assert_eq!(Decimal128::from_f64(-0.0).to_string(), "-0");
    assert_eq!(Decimal128::from_f64(1e300).to_string(), "1.00000000000000E+300");
    assert_eq!(Decimal128::from_f64(f64::NEG_INFINITY).to_string(), "-Infinity");
    assert_eq!(d("0.1").to_f64(), 0.1);
    assert_eq!(d("1E+400").to_f64(), f64::INFINITY);
    assert_eq!(d("9223372036854775807.9").to_i64(Rounding::TowardZero), Some(i64::MAX));
    assert_eq!(d("9223372036854775808").to_i64(Rounding::TowardZero), None);
    assert_eq!(d("-9223372036854775808").to_i64_exact(), Some(i64::MIN));
    assert_eq!(d("0E+6111").to_i64_exact(), Some(0));
    assert_eq!(d("1E+6000").to_i64_exact(), None);
    assert_eq!(d("12E+1").to_i64_exact(), Some(120));
    assert_eq!(d("1.5").to_i64_exact(), None);
    assert_eq!(d("NaN").to_i64_exact(), None);
}

/// Compares the exact shortcuts with libdecnumber: (a + b) - b = a where no digit is lost, and a × b / b = a.
#[test]
fn addition_and_multiplication_can_be_undone() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..2_000 {
        let [a, b] = std::array::from_fn(|_| {
            let exponent = rng.i32(-6..6);
            let coefficient = u128::from(rng.u64(1..1_000_000_000));
            Decimal128::from_parts(rng.bool(), coefficient, exponent).unwrap_or(Decimal128::NAN)
        });
        assert!(crate::number::decimals((a + b) - b, a).is_eq(), "{a} + {b}");
        assert!(crate::number::decimals((a * b) / b, a).is_eq(), "{a} * {b}");
    }
}
