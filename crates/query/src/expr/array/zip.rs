//! `$zip`: the transpose of an array of arrays.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{EvalEnv, Expr, Node, ParseEnv};
use diwan_value::{ArrayBuilder, Value};
use std::sync::Arc;

#[derive(Debug)]
struct Zip {
    inputs: Vec<Expr>,
    defaults: Vec<Expr>,
    use_longest: bool,
}

/// Parses `{inputs, defaults, useLongestLength}`.
pub(crate) fn parse(_: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let Value::Document(doc) = value else {
        let found = type_name(Some(value));
        let text = format!("$zip only supports an object as an argument, found {found}");
        return Err(Error::new(34460, text));
    };
    let mut zip = Zip { inputs: Vec::new(), defaults: Vec::new(), use_longest: false };
    let list = |name: &str, code, value: Value<'_>| match value {
        Value::Array(array) => array.iter().map(|item| Expr::parse(item, env)).collect::<Result<Vec<_>>>(),
        other => {
            let found = type_name(Some(other));
            Err(Error::new(code, format!("{name} must be an array of expressions, found {found}")))
        }
    };
    for argument in doc.iter() {
        match argument.key_str() {
            "inputs" => zip.inputs = list("inputs", 34461, argument.value())?,
            "defaults" => zip.defaults = list("defaults", 34462, argument.value())?,
            "useLongestLength" => {
                let found = argument.value();
                zip.use_longest = found.as_bool().ok_or_else(|| {
                    let found = type_name(Some(found));
                    Error::new(34463, format!("useLongestLength must be a bool, found {found}"))
                })?;
            }
            other => return Err(Error::new(34464, format!("$zip found an unknown argument: {other}"))),
        }
    }
    if zip.inputs.is_empty() {
        return Err(Error::new(34465, "$zip requires at least one input array"));
    }
    if !zip.defaults.is_empty() && !zip.use_longest {
        return Err(Error::new(34466, "cannot specify defaults unless useLongestLength is true"));
    }
    if !zip.defaults.is_empty() && zip.defaults.len() != zip.inputs.len() {
        return Err(Error::new(34467, "defaults and inputs must have the same length"));
    }
    Ok(Expr::Node(Arc::new(zip)))
}

impl Node for Zip {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let mut columns = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match input.eval(env)? {
                Some(Value::Array(array)) => columns.push(array.elements()),
                value if is_nullish(value) => return null(),
                other => {
                    let text = format!("$zip found a non-array expression in input: {}", Shown(other));
                    return Err(Error::new(34468, text));
                }
            }
        }
        let defaults = self
            .defaults
            .iter()
            .map(|expr| Ok(expr.eval(env)?.unwrap_or(Value::Null)))
            .collect::<Result<Vec<_>>>()?;
        let mut output = ArrayBuilder::new();
        loop {
            env.tick()?;
            let row: Vec<_> = columns.iter_mut().map(Iterator::next).collect();
            let present = row.iter().flatten().count();
            if present == 0 || (present < row.len() && !self.use_longest) {
                break;
            }
            let mut items = ArrayBuilder::new();
            for (at, element) in row.into_iter().enumerate() {
                match element {
                    Some(element) => items.push(element.raw),
                    None => items.push(defaults.get(at).copied().unwrap_or(Value::Null)),
                };
            }
            env.check_size(output.len().saturating_add(items.len()))?;
            output.push(items);
        }
        env.array(output).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        self.inputs.iter().chain(&self.defaults).collect()
    }
}
