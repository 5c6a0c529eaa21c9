//! Helpers for tests that compare expressions with expected results.

use super::{Context, EvalEnv, Expr, ParseEnv};
use crate::error::Error;
use bumpalo::Bump;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, Value, ValueBuf};

/// The expected result of an expression.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    /// This value; `None` is missing.
    Value(Option<ValueBuf>),
    /// An error with this code.
    Code(i32),
    /// An error with this code and message.
    Error(i32, &'static str),
}

impl From<i32> for Expected {
    fn from(code: i32) -> Expected {
        Expected::Code(code)
    }
}

impl From<(i32, &'static str)> for Expected {
    fn from((code, text): (i32, &'static str)) -> Expected {
        Expected::Error(code, text)
    }
}

impl From<Value<'_>> for Expected {
    fn from(value: Value<'_>) -> Expected {
        Expected::Value(Some(ValueBuf::new(value)))
    }
}

impl From<&str> for Expected {
    fn from(text: &str) -> Expected {
        Expected::from(Value::String(text))
    }
}

impl From<ArrayBuilder> for Expected {
    fn from(array: ArrayBuilder) -> Expected {
        Expected::from(Value::Array(Array::trusted(&array.finish())))
    }
}

/// Checks the result of an expression over an empty document.
pub(crate) fn check(expression: DocBuf, expected: impl Into<Expected>) {
    check_over(Doc::EMPTY, expression, expected);
}

/// Checks the result of an expression over `root`.
pub(crate) fn check_over(root: Doc<'_>, expression: DocBuf, expected: impl Into<Expected>) {
    let (context, arena) = (Context::default(), Bump::new());
    let parsed = Expr::parse_document(expression.as_doc(), &ParseEnv::new());
    let result: Result<Option<ValueBuf>, Error> = parsed.and_then(|expr| {
        let value = expr.eval(&EvalEnv::new(&arena, root, &context))?;
        Ok(value.map(ValueBuf::new))
    });
    let expression = expression.as_doc();
    match expected.into() {
        Expected::Value(expected) => {
            let found = result.unwrap_or_else(|error| panic!("{expression:?}: {} {error}", error.code));
            let (found, expected) =
                (found.as_ref().map(ValueBuf::as_value), expected.as_ref().map(ValueBuf::as_value));
            assert_eq!(found, expected, "{expression:?}");
        }
        Expected::Code(code) => {
            let error = result.expect_err(&format!("{expression:?} gives no error {code}"));
            assert_eq!(error.code, code, "{expression:?}: {error}");
        }
        Expected::Error(code, text) => {
            let error = result.expect_err(&format!("{expression:?} gives no error {code}"));
            assert_eq!((error.code, error.message.as_str()), (code, text), "{expression:?}");
        }
    }
}
