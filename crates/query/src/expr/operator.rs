//! The forms of operators: rows of the table, functions of arguments, and nodes with their own state.

use super::{EvalEnv, Expr, ParseEnv};
use crate::error::{Error, Result};
use diwan_value::Value;
use std::fmt;

/// Evaluates an operator. The function evaluates the arguments itself, in its own order.
pub type Function = for<'a> fn(Args<'a>, &EvalEnv<'a>) -> Result<Option<Value<'a>>>;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// The operator with its `$`, for messages.
    pub operator: &'static str,
    /// The arguments. Their number satisfies the operator's arity.
    pub exprs: &'a [Expr],
}

impl<'a> Args<'a> {
    /// Evaluates argument `at`. An omitted argument is missing.
    pub fn eval(&self, at: usize, env: &EvalEnv<'a>) -> Result<Option<Value<'a>>> {
        self.exprs.get(at).map_or(Ok(None), |expr| expr.eval(env))
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.exprs.is_empty()
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.exprs.len()
    }
}

/// An operator with state beyond its arguments, such as slots of variables or compiled patterns.
pub trait Node: fmt::Debug + Send + Sync {
    /// Evaluates the operator.
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Result<Option<Value<'a>>>;

    /// The expressions inside.
    fn children(&self) -> Vec<&Expr>;
}

/// A row of the table.
pub(crate) struct Operator {
    /// The name with its `$`.
    pub name: &'static str,
    /// How it is parsed.
    pub form: OperatorForm,
}

/// How an operator is parsed.
pub(crate) enum OperatorForm {
    /// A list of arguments, or a single argument without brackets.
    Function(Arity, Function),
    /// Its own syntax. The parser gets the operator's name and its argument.
    Syntax(OperatorParser),
}

/// Parses an operator with its own syntax.
pub(crate) type OperatorParser = for<'p> fn(&'static str, Value<'_>, &ParseEnv<'p>) -> Result<Expr>;

/// How many arguments a function takes.
#[derive(Clone, Copy)]
pub(crate) enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// From the first number to the second.
    Between(usize, usize),
    /// Any number.
    Any,
}

impl Arity {
    /// MongoDB's error for a wrong number of arguments.
    pub fn check(self, operator: &str, count: usize) -> Result<()> {
        match self {
            Arity::Exactly(expected) if count != expected => Err(Error::new(
                16020,
                format!("Expression {operator} takes exactly {expected} arguments. {count} were passed in."),
            )),
            Arity::Between(least, most) if count < least || count > most => Err(Error::new(
                28667,
                format!(
                    "Expression {operator} takes at least {least} arguments, and at most {most}, but {count} were \
                     passed in."
                ),
            )),
            _ => Ok(()),
        }
    }
}
