//! `$expr`: an aggregation expression as a condition.

use super::FilterEnv;
use crate::error::Result;
use crate::expr::{Context, EvalEnv, Expr, ParseEnv, is_truthy};
use bumpalo::Bump;
use diwan_value::{Doc, Value, ValueBuf};
use std::fmt;
use std::sync::Arc;

/// An expression with what it is evaluated in.
#[derive(Clone)]
pub struct ExprFilter {
    expr: Expr,
    source: ValueBuf,
    context: Arc<Context>,
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

    /// The expression as it was written.
    pub fn source(&self) -> Value<'_> {
        self.source.as_value()
    }

    /// The same expression, evaluated in `context`.
    pub(super) fn in_context(&self, context: &Arc<Context>) -> ExprFilter {
        ExprFilter { context: context.clone(), ..self.clone() }
    }

    /// Whether the expression's value for a document is true, as the expression language sees truth.
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
