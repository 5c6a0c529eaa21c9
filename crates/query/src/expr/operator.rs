//! What an operator is: a row of the table, a function of arguments, or a node of its own.

use super::{EvalEnv, Expr, ParseEnv};
use crate::error::{Error, Result};
use diwan_value::Value;
use std::fmt;

/// Evaluates an operator over its arguments, which it evaluates itself, in its own order.
pub type Function = for<'a> fn(Args<'a>, &EvalEnv<'a>) -> Result<Option<Value<'a>>>;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// The operator with its `$`, for messages.
    pub operator: &'static str,
    /// The arguments, as many as the operator's arity allows.
    pub exprs: &'a [Expr],
}

impl<'a> Args<'a> {
    /// Evaluates argument `at`; an argument that was not given is missing.
    pub fn eval(&self, at: usize, env: &EvalEnv<'a>) -> Result<Option<Value<'a>>> {
        self.exprs.get(at).map_or(Ok(None), |expr| expr.eval(env))
    }

    /// Whether no argument was given.
    pub fn is_empty(&self) -> bool {
        self.exprs.is_empty()
    }

    /// How many arguments were given.
    pub fn len(&self) -> usize {
        self.exprs.len()
    }
}

/// An operator that keeps more than its arguments: slots of variables, compiled patterns.
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
    pub form: Form,
}

/// How an operator is parsed.
pub(crate) enum Form {
    /// A list of arguments, or a single argument without brackets.
    Function(Arity, Function),
    /// A syntax of its own; the parser gets the operator's name and what stands under it.
    Syntax(Parser),
}

/// Parses an operator with a syntax of its own.
pub(crate) type Parser = for<'p> fn(&'static str, Value<'_>, &ParseEnv<'p>) -> Result<Expr>;

/// How many arguments a function takes.
#[derive(Clone, Copy)]
pub(crate) enum Arity {
    /// So many.
    Exactly(usize),
    /// From so many to so many.
    Between(usize, usize),
    /// Any number.
    Any,
}

impl Arity {
    /// MongoDB's refusal of `count` arguments.
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
