//! The operators of the expression language, one row each.

use super::operator::{Arity, Form, Operator};

/// A row of a function of arguments.
const fn function(name: &'static str, arity: Arity, function: super::Function) -> Operator {
    Operator { name, form: Form::Function(arity, function) }
}

/// All operators. Grouped by family; names are unique.
static OPERATORS: &[Operator] = &[];

/// The operator of that name, `$` included.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name)
}
