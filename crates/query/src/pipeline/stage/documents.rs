//! `$documents`: documents from an expression instead of a collection.

use crate::display::Shown;
use crate::error::{Error, Result};
use crate::expr::{EvalEnv, Expr, ParseEnv};
use crate::pipeline::{DocList, DocSource, Execution};
use bumpalo::Bump;
use diwan_value::{Doc, Value};

/// A parsed `$documents`.
#[derive(Clone, Debug)]
pub struct Documents(Expr);

impl Documents {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Documents> {
        Expr::parse(spec, scope).map(Documents)
    }

    /// Runs the stage.
    pub(crate) fn open(&self, execution: &Execution) -> Result<Box<dyn DocSource>> {
        let arena = Bump::new();
        let env = EvalEnv::new(&arena, Doc::EMPTY, &execution.context);
        let Some(Value::Array(items)) = self.0.eval(&env)? else {
            return Err(Error::new(5858203, "an array is expected"));
        };
        let mut docs = Vec::new();
        for item in items.iter() {
            let Value::Document(doc) = item else {
                let text = format!(
                    "'newRoot' expression  must evaluate to an object, but resulting value was: {}. Type of resulting \
                     value: '{}'.",
                    Shown(item),
                    item.tag().alias()
                );
                return Err(Error::new(40228, text));
            };
            docs.push(doc.to_owned());
        }
        Ok(Box::new(DocList::new(docs)))
    }
}
