//! Aggregation expressions: parsed once into a tree, evaluated over each document.
//!
//! [`Expr::parse`] parses the expression language: field paths `"$a.b"`, variables `"$$name.path"`, objects, arrays,
//! literals and operators. Every operator is a row of [`table`]. Operators are grouped in folders by subject: `number`,
//! `string`, `array`, `object`, `logic`, `date` and `convert`; the files `accumulator` and `misc` hold the others.
//!
//! Evaluation gives a [`Value`]: a scalar, or a view of BSON bytes in the [`EvalEnv`]'s arena, in the document, or in
//! the expression (literals). `None` stands for MongoDB's *missing*, which is not null: an object expression omits
//! missing fields.
//!
//! Invariants: the parser resolves variables to slots, so evaluation looks up no names; the parser folds calls with
//! literal arguments to literals; no value is larger than 64 MiB (`env`).

mod accumulator;
mod array;
pub(crate) mod coerce;
mod convert;
mod date;
mod display;
mod env;
mod field_path;
mod logic;
mod misc;
mod named;
pub(crate) mod number;
mod object;
mod operator;
mod parse;
mod string;
mod table;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use accumulator::{Deviation, Quantiles};
pub(crate) use array::check_n;
pub use coerce::{Evaluated, is_truthy};
pub use env::{Context, EvalEnv};
pub use operator::{Args, Function, Node};
pub(crate) use parse::check_new_variable;
pub(crate) use parse::field_path;
pub use parse::{ParseEnv, Slot};

use crate::error::Result;
use diwan_value::{ArrayBuilder, DocBuilder, Path, Value, ValueBuf};
use std::sync::Arc;

/// A parsed expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Literal(ValueBuf),
    /// `$$REMOVE`: always missing.
    Missing,
    /// A variable, or the value at a path inside it. The field path `"$a"` is `$$CURRENT.a`.
    Variable {
        /// The variable.
        variable: Variable,
        /// The path inside its value.
        path: Option<Path>,
    },
    /// An object expression: its fields in order.
    Document(Vec<(String, Expr)>),
    /// An array expression. Missing values become null.
    Array(Vec<Expr>),
    /// An operator that only needs its arguments.
    Call {
        /// The operator with its `$`.
        operator: &'static str,
        /// The function that evaluates the operator.
        function: Function,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// An operator with further state.
    Node(Arc<dyn Node>),
}

/// Returns the replacement of a document path, if there is one; see [`Expr::read_from`].
pub(crate) type FieldSource<'f> = dyn FnMut(&Path, bool) -> Option<Expr> + 'f;

/// The source of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `$$ROOT`: the document.
    Root,
    /// `$$NOW`.
    Now,
    /// `$$CLUSTER_TIME`.
    ClusterTime,
    /// `$$USER_ROLES`.
    UserRoles,
    /// A variable bound by a `let`, an operator or a stage.
    Slot(Slot),
}

impl Expr {
    /// Evaluates the expression; `None` is missing.
    pub fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Result<Option<Value<'a>>> {
        match self {
            Expr::Literal(value) => Ok(Some(value.as_value())),
            Expr::Missing => Ok(None),
            Expr::Variable { variable, path: None } => env.variable(*variable),
            Expr::Variable { variable: Variable::Root, path: Some(path) } => {
                field_path::get(env, env.root(), path)
            }
            Expr::Variable { variable, path: Some(path) } => match env.variable(*variable)? {
                Some(value) => field_path::get_in_value(env, value, path),
                None => Ok(None),
            },
            Expr::Document(fields) => {
                let mut builder = DocBuilder::new();
                append_fields(fields, &mut builder, env)?;
                env.document(builder).map(Some)
            }
            Expr::Array(items) => {
                let mut builder = ArrayBuilder::new();
                for item in items {
                    builder.push(env.nested(item.eval(env)?)?.unwrap_or(Value::Null));
                }
                env.array(builder).map(Some)
            }
            Expr::Call { operator, function, args } => function(Args { operator, exprs: args }, env),
            Expr::Node(node) => node.eval(env),
        }
    }

    /// The constant, if the expression is one.
    pub(crate) fn as_literal(&self) -> Option<Value<'_>> {
        if let Expr::Literal(value) = self { Some(value.as_value()) } else { None }
    }

    /// The value that is the same for all documents of an operation, if the expression is a constant or a variable of
    /// `context`.
    pub fn constant(&self, context: &Context) -> Option<ValueBuf> {
        match self {
            Expr::Literal(value) => Some(value.clone()),
            Expr::Variable { variable: Variable::Root, .. } => None,
            Expr::Variable { variable: Variable::Slot(slot), .. } if slot.0 >= context.variables.len() => {
                None
            }
            Expr::Variable { .. } => {
                let arena = bumpalo::Bump::new();
                let env = EvalEnv::new(&arena, diwan_value::Doc::EMPTY, context);
                self.eval(&env).ok().flatten().map(Value::to_owned)
            }
            _ => None,
        }
    }

    /// The path, if the expression is a plain field path `"$a.b"` of the document.
    pub(crate) fn as_field_path(&self) -> Option<&Path> {
        match self {
            Expr::Variable { variable: Variable::Root, path } => path.as_ref(),
            _ => None,
        }
    }

    /// Whether the value may depend on the document.
    pub(crate) fn reads_document(&self) -> bool {
        matches!(self, Expr::Variable { variable: Variable::Root, .. })
            || self.children().into_iter().any(Expr::reads_document)
    }

    /// Adds the document paths that the value may depend on. `None` if it reads the whole document.
    pub(crate) fn read_paths<'e>(&'e self, paths: &mut Vec<&'e Path>) -> Option<()> {
        if let Expr::Variable { variable: Variable::Root, path } = self {
            paths.push(path.as_ref()?);
        }
        self.children().into_iter().try_for_each(|child| child.read_paths(paths))
    }

    /// The same expression with each document path replaced by the expression that `field` returns. `None` if `field`
    /// returns `None` or the expression reads the whole document. The second argument of `field` tells whether the path
    /// is evaluated for every document, so that an error occurs for the same documents as before.
    pub(crate) fn read_from(&self, field: &mut FieldSource<'_>, always: bool) -> Option<Expr> {
        Some(match self {
            Expr::Variable { variable: Variable::Root, path } => field(path.as_ref()?, always)?,
            Expr::Document(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, expr)| Some((name.clone(), expr.read_from(field, always)?)));
                Expr::Document(fields.collect::<Option<_>>()?)
            }
            Expr::Array(items) => {
                let items = items.iter().map(|item| item.read_from(field, always));
                Expr::Array(items.collect::<Option<_>>()?)
            }
            Expr::Call { operator, function, args } => {
                let args = args.iter().map(|arg| arg.read_from(field, false)).collect::<Option<_>>()?;
                Expr::Call { operator, function: *function, args }
            }
            Expr::Node(_) if self.reads_document() => return None,
            Expr::Literal(_) | Expr::Missing | Expr::Variable { .. } | Expr::Node(_) => self.clone(),
        })
    }

    /// Whether repeated evaluation surely gives the same value: the expression consists of functions of their
    /// arguments.
    pub(crate) fn is_repeatable(&self) -> bool {
        !matches!(self, Expr::Node(_)) && self.children().into_iter().all(Expr::is_repeatable)
    }

    /// The expressions directly inside this one.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Literal(_) | Expr::Missing | Expr::Variable { .. } => Vec::new(),
            Expr::Document(fields) => fields.iter().map(|(_, expr)| expr).collect(),
            Expr::Array(items) => items.iter().collect(),
            Expr::Call { args, .. } => args.iter().collect(),
            Expr::Node(node) => node.children(),
        }
    }
}

/// Evaluates an object expression's fields into `builder`, nested objects in place.
fn append_fields<'a>(
    fields: &'a [(String, Expr)],
    builder: &mut DocBuilder,
    env: &EvalEnv<'a>,
) -> Result<()> {
    for (name, expr) in fields {
        if let Expr::Document(inner) = expr {
            builder.begin_document(name);
            append_fields(inner, builder, env)?;
            builder.end();
        } else if let Some(value) = env.nested(expr.eval(env)?)? {
            builder.append(name, value);
            env.check_size(builder.len())?;
        }
    }
    Ok(())
}
