//! Aggregation expressions: parsed once into a tree, evaluated over each document.
//!
//! [`Expr::parse`] reads the expression language's syntax: field paths `"$a.b"`, variables `"$$name.path"`, objects,
//! arrays, literals and operators. Every operator is a row of [`table`]; a family of operators is a file.
//!
//! A value that evaluation computes is a [`Value`] again: a scalar, or a view of BSON bytes that live in the
//! [`EvalEnv`]'s arena, in the document, or in the expression (literals). `None` stands for MongoDB's *missing*, which
//! is not null: a missing field of an object expression is left out.
//!
//! Invariants: variables are resolved to slots by the parser, so evaluation looks up no names; calls whose arguments
//! are literals were folded to literals; no value grows beyond [`env::MAX_VALUE_BYTES`].

mod accumulator;
mod arithmetic;
mod array;
mod array_object;
mod array_sort;
mod bitwise;
mod boolean;
pub(crate) mod coerce;
mod comparison;
mod conditional;
mod convert;
mod date;
mod decimal_trigonometry;
mod display;
mod env;
mod field_path;
mod iteration;
mod let_parameters;
mod misc;
mod named;
pub mod number;
mod object;
mod operator;
mod parse;
mod regex;
mod round;
mod set;
mod string;
mod string_search;
mod table;
mod trigonometry;
mod zip;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use accumulator::Deviation;
pub(crate) use accumulator::Quantiles;
pub(crate) use array_sort::check_n;
pub use coerce::{Evaluated, is_truthy};
pub use env::{Context, EvalEnv, MAX_VALUE_BYTES};
pub use let_parameters::bind_let;
pub use operator::{Args, Function, Node};
pub(crate) use parse::check_new_variable;
pub(crate) use parse::field_path;
pub use parse::{ParseEnv, Slot};

use crate::error::Result;
use diwan_value::{ArrayBuilder, DocBuilder, Path, Value, ValueBuf};
use std::sync::Arc;

/// An expression, ready to be evaluated.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Literal(ValueBuf),
    /// `$$REMOVE`: always missing.
    Missing,
    /// A variable, or what a path reaches inside it; a field path `"$a"` is `$$CURRENT.a`.
    Variable {
        /// The variable.
        variable: Variable,
        /// The path inside its value.
        path: Option<Path>,
    },
    /// An object expression: its fields in their order.
    Document(Vec<(String, Expr)>),
    /// An array expression: missing values become null.
    Array(Vec<Expr>),
    /// An operator that is a function of its arguments.
    Call {
        /// The operator with its `$`.
        operator: &'static str,
        /// What evaluates it.
        function: Function,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// An operator that keeps more than its arguments.
    Node(Arc<dyn Node>),
}

/// What stands for a path of the document, if anything does; see [`Expr::read_from`].
pub(crate) type FieldSource<'f> = dyn FnMut(&Path, bool) -> Option<Expr> + 'f;

/// Where a variable's value comes from.
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
    /// A variable that a `let`, an operator or a stage binds.
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

    /// The constant that the expression is, if it is one.
    pub fn as_literal(&self) -> Option<Value<'_>> {
        if let Expr::Literal(value) = self { Some(value.as_value()) } else { None }
    }

    /// The value that the expression has for every document of an operation, where that shows at once: a constant, or a
    /// variable that `context` binds.
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

    /// The path of a plain field path `"$a.b"` of the document.
    pub fn as_field_path(&self) -> Option<&Path> {
        match self {
            Expr::Variable { variable: Variable::Root, path } => path.as_ref(),
            _ => None,
        }
    }

    /// Whether the value may depend on the document.
    pub fn reads_document(&self) -> bool {
        matches!(self, Expr::Variable { variable: Variable::Root, .. })
            || self.children().into_iter().any(Expr::reads_document)
    }

    /// Adds the paths of the document that the value may depend on; `None` if it reads the whole document.
    pub fn read_paths<'e>(&'e self, paths: &mut Vec<&'e Path>) -> Option<()> {
        if let Expr::Variable { variable: Variable::Root, path } = self {
            paths.push(path.as_ref()?);
        }
        self.children().into_iter().try_for_each(|child| child.read_paths(paths))
    }

    /// The same expression with what `field` gives in the place of each path of the document; `None` if it gives nothing for
    /// one, or if the whole document is read. `field` is told, too, whether the value is asked for whatever the document, so
    /// that what may fail does so wherever it did before.
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

    /// Whether it surely gives the same again: functions of their arguments alone.
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
