//! Operators whose arguments have names: `{$dateAdd: {startDate: …, unit: …, amount: …}}`.
//!
//! Such a call becomes a plain [`Expr::Call`]: the names' places are the arguments' positions, an argument that was
//! left out is its default, and what may be left out without one comes last.

use super::{Expr, ParseEnv};
use crate::error::{Error, Result};
use diwan_value::{Value, ValueBuf};

/// Parses the arguments; gives them in the order of `names`, `None` where one was left out.
pub(super) fn parse<const N: usize>(
    value: Value<'_>,
    names: [&str; N],
    env: &ParseEnv<'_>,
    not_an_object: impl FnOnce() -> Error,
    unknown: impl FnOnce(&str) -> Error,
) -> Result<[Option<Expr>; N]> {
    let Value::Document(doc) = value else { return Err(not_an_object()) };
    let mut parts = [const { None }; N];
    for element in doc.iter() {
        let name = element.key_str();
        let Some(at) = names.iter().position(|known| *known == name) else { return Err(unknown(name)) };
        parts[at] = Some(Expr::parse(element.value(), env)?);
    }
    Ok(parts)
}

/// The argument, or a constant in its place.
pub(super) fn or(argument: Option<Expr>, default: Value<'_>) -> Expr {
    argument.unwrap_or_else(|| Expr::Literal(ValueBuf::new(default)))
}
