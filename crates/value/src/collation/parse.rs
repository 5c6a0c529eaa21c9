//! Parses a collation document.

use super::{Alternate, CaseFirst, Collation, CollationError, MaxVariable, Strength, VERSION, locale};
use crate::view::{Doc, Value};
use std::fmt::Write;

const BAD_VALUE: i32 = 2;
const FAILED_TO_PARSE: i32 = 9;
const TYPE_MISMATCH: i32 = 14;
const INCOMPATIBLE_COLLATION_VERSION: i32 = 161;
const DUPLICATE_FIELD: i32 = 40413;
const MISSING_FIELD: i32 = 40414;
const UNKNOWN_FIELD: i32 = 40415;
const OUT_OF_RANGE: i32 = 51024;

type Result<T> = std::result::Result<T, CollationError>;

/// The fields of the document, not yet checked against each other.
#[derive(Default)]
struct Fields<'a> {
    locale: Option<&'a str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<i64>,
    numeric_ordering: Option<bool>,
    alternate: Option<Alternate>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'a str>,
}

impl Collation {
    /// Parses a collation document. The locale "simple" means byte order and gives `None`.
    pub fn parse(doc: Doc<'_>) -> Result<Option<Collation>> {
        let fields = Fields::read(doc)?;
        let Some(locale) = fields.locale else {
            return fail(MISSING_FIELD, "BSON field 'collation.locale' is missing but a required field");
        };
        if locale == "simple" {
            if doc.count() > 1 {
                let spec = display(doc);
                return fail(
                    FAILED_TO_PARSE,
                    format!("If locale=simple, no other fields should be present in: {spec}"),
                );
            }
            return Ok(None);
        }
        check_locale(locale, doc)?;
        let strength = match fields.strength {
            None | Some(3) => Strength::Tertiary,
            Some(1) => Strength::Primary,
            Some(2) => Strength::Secondary,
            Some(4) => Strength::Quaternary,
            Some(5) => Strength::Identical,
            Some(other) => {
                return fail(
                    FAILED_TO_PARSE,
                    format!("Field 'strength' must be an integer 1 through 5. Got: {other}"),
                );
            }
        };
        if let Some(version) = fields.version.filter(|version| *version != VERSION) {
            let spec = display(doc);
            return fail(
                INCOMPATIBLE_COLLATION_VERSION,
                format!(
                    "Requested collation version {version} but the only available collator version was \
                     {VERSION}. Requested collation spec: {spec}"
                ),
            );
        }
        let defaults = locale::defaults(locale)?;
        let collation = Collation {
            locale: locale.to_owned(),
            case_level: fields.case_level.unwrap_or(false),
            case_first: fields.case_first.unwrap_or(defaults.case_first),
            strength,
            numeric_ordering: fields.numeric_ordering.unwrap_or(false),
            alternate: fields.alternate.unwrap_or(defaults.alternate),
            max_variable: fields.max_variable.unwrap_or(MaxVariable::Punct),
            normalization: fields.normalization.unwrap_or(false),
            backwards: fields.backwards.unwrap_or(defaults.backwards),
        };
        collation.check_combination()?;
        // Fails if ICU cannot combine the locale with the options.
        locale::preferences(&collation.locale, collation.backwards)?;
        Ok(Some(collation))
    }

    /// Rejects options that could have no effect.
    fn check_combination(&self) -> Result<()> {
        if self.backwards && self.strength == Strength::Primary {
            let spec = display(self.to_doc().as_doc());
            return fail(BAD_VALUE, format!("'backwards' is invalid with 'strength' of 1 in: {spec}"));
        }
        if self.case_first != CaseFirst::Off && !self.case_level && self.strength <= Strength::Secondary {
            let spec = display(self.to_doc().as_doc());
            return fail(
                BAD_VALUE,
                format!(
                    "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {spec}"
                ),
            );
        }
        Ok(())
    }
}

impl<'a> Fields<'a> {
    fn read(doc: Doc<'a>) -> Result<Fields<'a>> {
        let mut fields = Fields::default();
        for element in doc {
            let (name, value) = (element.key_str(), element.value());
            let duplicate = match name {
                "locale" => fields.locale.replace(string(name, value)?).is_some(),
                "caseLevel" => fields.case_level.replace(boolean(name, value)?).is_some(),
                "caseFirst" => fields.case_first.replace(named(name, value, CaseFirst::from_name)?).is_some(),
                "strength" => fields.strength.replace(strength(name, value)?).is_some(),
                "numericOrdering" => fields.numeric_ordering.replace(boolean(name, value)?).is_some(),
                "alternate" => fields.alternate.replace(named(name, value, Alternate::from_name)?).is_some(),
                "maxVariable" => {
                    fields.max_variable.replace(named(name, value, MaxVariable::from_name)?).is_some()
                }
                "normalization" => fields.normalization.replace(boolean(name, value)?).is_some(),
                "backwards" => fields.backwards.replace(boolean(name, value)?).is_some(),
                "version" => fields.version.replace(string(name, value)?).is_some(),
                _ => {
                    return fail(
                        UNKNOWN_FIELD,
                        format!("BSON field 'collation.{name}' is an unknown field."),
                    );
                }
            };
            if duplicate {
                return fail(DUPLICATE_FIELD, format!("BSON field 'collation.{name}' is a duplicate field"));
            }
        }
        Ok(fields)
    }
}

fn check_locale(locale: &str, doc: Doc<'_>) -> Result<()> {
    let spec = || display(doc);
    if locale.contains('\0') {
        return fail(
            BAD_VALUE,
            format!("Field 'locale' cannot contain null byte. Collation spec: {}", spec()),
        );
    }
    if locale.is_empty() {
        return fail(BAD_VALUE, format!("Field 'locale' cannot be the empty string in: {}", spec()));
    }
    if locale::is_known(locale) {
        return Ok(());
    }
    let mut message = format!("Field 'locale' is invalid in: {}", spec());
    if let Some(nearest) = locale::nearest(locale) {
        // Writing to a string cannot fail.
        let _ = write!(message, ". Did you mean '{nearest}'?");
    }
    fail(BAD_VALUE, message)
}

fn fail<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(CollationError { code, message: message.into() })
}

fn mismatch<T>(name: &str, value: Value<'_>, expected: &str) -> Result<T> {
    let found = value.tag().alias();
    fail(
        TYPE_MISMATCH,
        format!("BSON field 'collation.{name}' is the wrong type '{found}', expected {expected}"),
    )
}

fn string<'a>(name: &str, value: Value<'a>) -> Result<&'a str> {
    value.as_str().map_or_else(|| mismatch(name, value, "type 'string'"), Ok)
}

fn boolean(name: &str, value: Value<'_>) -> Result<bool> {
    value.as_bool().map_or_else(|| mismatch(name, value, "type 'bool'"), Ok)
}

fn named<T>(name: &str, value: Value<'_>, from_name: impl Fn(&str) -> Option<T>) -> Result<T> {
    let text = string(name, value)?;
    from_name(text).map_or_else(
        || {
            fail(
                BAD_VALUE,
                format!("Enumeration value '{text}' for field 'collation.{name}' is not a valid value."),
            )
        },
        Ok,
    )
}

/// Accepts any number and truncates it to an integer.
fn strength(name: &str, value: Value<'_>) -> Result<i64> {
    let number = match value {
        Value::Int32(number) => number.into(),
        Value::Int64(number) => number,
        Value::Double(number) => number as i64,
        Value::Decimal128(number) => number.to_f64() as i64,
        _ => return mismatch(name, value, "types '[long, int, decimal, double]'"),
    };
    let out_of_range = |relation: &str| {
        fail(OUT_OF_RANGE, format!("BSON field '{name}' value must be {relation}, actual value '{number}'"))
    };
    match number {
        ..0 => out_of_range(">= 0"),
        0..=5 => Ok(number),
        6.. => out_of_range("<= 5"),
    }
}

/// Formats a collation document for an error message.
fn display(doc: Doc<'_>) -> String {
    let mut text = String::from("{");
    for (index, element) in doc.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma} {}: ", element.key_str());
        let _ = match element.value() {
            Value::String(value) => write!(text, "\"{value}\""),
            Value::Boolean(value) => write!(text, "{value}"),
            Value::Int32(value) => write!(text, "{value}"),
            Value::Int64(value) => write!(text, "{value}"),
            Value::Double(value) => write!(text, "{value:?}"),
            other => write!(text, "{}", other.tag().alias()),
        };
    }
    text.push_str(" }");
    text
}
