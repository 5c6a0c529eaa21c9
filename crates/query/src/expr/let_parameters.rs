//! A command's `let`: variables that are computed once, before any document is read.

use super::parse::check_new_variable;
use super::{Context, EvalEnv, Expr, ParseEnv};
use crate::error::{Error, Result};
use bumpalo::Bump;
use diwan_value::{Doc, ValueBuf};

/// Evaluates the variables of `doc` into `context`, a later one with those before it in scope, and gives the scope that
/// names them.
pub fn bind_let(doc: Doc<'_>, context: &mut Context) -> Result<ParseEnv<'static>> {
    let mut env = ParseEnv::new().with_collator(context.collator.clone());
    for element in doc.iter() {
        let name = element.key_str();
        check_new_variable(name)?;
        let expr = Expr::parse(element.value(), &env)?;
        if expr.reads_document() {
            let text = "Command let Expression tried to access a field, but this is not allowed because Command let \
                        Expressions run before the query examines any documents.";
            return Err(Error::new(4890500, text));
        }
        let arena = Bump::new();
        let value = expr.eval(&EvalEnv::new(&arena, Doc::EMPTY, context))?.map(ValueBuf::new);
        context.variables.push(value);
        env.variable(name);
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{Value, doc};

    #[test]
    fn later_variables_see_earlier_ones() {
        let mut context = Context::default();
        let spec = doc! { "one": 1, "two": { "$add": ["$$one", 1] }, "gone": "$$REMOVE" };
        let env = bind_let(spec.as_doc(), &mut context).unwrap();
        let values: Vec<_> =
            context.variables.iter().map(|value| value.as_ref().map(ValueBuf::as_value)).collect();
        assert_eq!(values, [Some(Value::Int32(1)), Some(Value::Int32(2)), None]);
        assert!(Expr::parse(Value::String("$$two"), &env).is_ok());
    }

    #[test]
    fn documents_are_out_of_reach() {
        for spec in [doc! { "x": "$a" }, doc! { "x": { "$add": [1, "$$ROOT.a"] } }] {
            assert_eq!(bind_let(spec.as_doc(), &mut Context::default()).err().map(|e| e.code), Some(4890500));
        }
        assert_eq!(
            bind_let(doc! { "Big": 1 }.as_doc(), &mut Context::default()).err().map(|e| e.code),
            Some(9)
        );
    }
}
