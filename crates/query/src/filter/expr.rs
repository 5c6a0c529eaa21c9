//! `$expr`: an aggregation expression as a condition.

use super::FilterEnv;
use crate::error::Result;
use crate::expr::{Context, EvalEnv, Expr, ParseEnv, is_truthy};
use bumpalo::Bump;
use diwan_value::{Doc, Path, Value, ValueBuf};
use std::fmt;
use std::sync::Arc;

/// An expression with its evaluation context.
#[derive(Clone)]
pub struct ExprFilter {
    expr: Expr,
    source: ValueBuf,
    context: Arc<Context>,
}

/// A comparison of a field with a constant that must hold if the expression is true. It follows the rules of
/// expressions: values of different types compare, arrays compare as a whole, and a missing field is below null.
#[derive(Clone, Debug)]
pub struct Comparison<'f> {
    /// The field.
    pub path: &'f Path,
    /// How the field's value must compare to the constant.
    pub relation: Relation,
    /// The constant.
    pub value: ValueBuf,
}

/// How a field must compare to a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Relation {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    fn of_operator(operator: &str) -> Option<Relation> {
        Some(match operator {
            "$eq" => Relation::Equal,
            "$lt" => Relation::Less,
            "$lte" => Relation::LessOrEqual,
            "$gt" => Relation::Greater,
            "$gte" => Relation::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The relation with its sides exchanged.
    fn reversed(self) -> Relation {
        match self {
            Relation::Equal => Relation::Equal,
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
        }
    }
}

fn add_comparisons<'f>(expr: &'f Expr, context: &Context, found: &mut Vec<Comparison<'f>>) {
    let Expr::Call { operator, args, .. } = expr else { return };
    if *operator == "$and" {
        args.iter().for_each(|arg| add_comparisons(arg, context, found));
        return;
    }
    let (Some(relation), [left, right]) = (Relation::of_operator(operator), args.as_slice()) else { return };
    let mut add = |field: &'f Expr, constant: &Expr, relation| {
        if let (Some(path), Some(value)) = (field.as_field_path(), constant.constant(context)) {
            found.push(Comparison { path, relation, value });
        }
    };
    add(left, right, relation);
    add(right, left, relation.reversed());
}

impl ExprFilter {
    pub(super) fn parse(value: Value<'_>, env: &FilterEnv<'_>) -> Result<ExprFilter> {
        let outermost;
        let scope = match env.scope {
            Some(scope) => scope,
            None => {
                outermost = ParseEnv::new().with_collator(env.context.collator.clone());
                &outermost
            }
        };
        let expr = Expr::parse(value, scope)?;
        Ok(ExprFilter { expr, source: ValueBuf::new(value), context: env.context.clone() })
    }

    /// The expression.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The comparisons of fields with constants that every matching document satisfies.
    pub fn comparisons(&self) -> Vec<Comparison<'_>> {
        let mut found = Vec::new();
        add_comparisons(&self.expr, &self.context, &mut found);
        found
    }

    /// The expression as the user wrote it.
    pub fn source(&self) -> Value<'_> {
        self.source.as_value()
    }

    /// The same expression, evaluated in `context`.
    pub(super) fn in_context(&self, context: &Arc<Context>) -> ExprFilter {
        ExprFilter { context: context.clone(), ..self.clone() }
    }

    /// Whether the expression's value for a document is true by the rules of the expression language.
    pub(super) fn test(&self, doc: Doc<'_>, context: Option<&Context>) -> Result<bool> {
        let arena = Bump::new();
        let env = EvalEnv::new(&arena, doc, context.unwrap_or(&self.context));
        Ok(is_truthy(self.expr.eval(&env)?))
    }
}

impl fmt::Debug for ExprFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
