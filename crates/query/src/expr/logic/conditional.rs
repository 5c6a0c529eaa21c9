//! `$cond`, `$ifNull` and `$switch`. Only the selected branch is evaluated.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, is_truthy, null, type_name};
use crate::expr::parse::parse_arguments;
use crate::expr::{Args, EvalEnv, Expr, Node, ParseEnv};
use diwan_value::{Doc, Value};
use std::sync::Arc;

/// Parses `[if, then, else]`, or an object with those fields.
pub(crate) fn parse_cond(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let args = match value {
        Value::Document(doc) => cond_fields(doc, env)?,
        other => parse_arguments(other, env)?,
    };
    crate::expr::operator::Arity::Exactly(3).check(operator, args.len())?;
    Ok(env.fold(Expr::Call { operator, function: cond, args }))
}

fn cond_fields(doc: Doc<'_>, env: &ParseEnv<'_>) -> Result<Vec<Expr>> {
    let names = ["if", "then", "else"];
    let mut parts: [Option<Expr>; 3] = [None, None, None];
    for element in doc.iter() {
        let name = element.key_str();
        let Some(at) = names.iter().position(|known| *known == name) else {
            return Err(Error::new(17083, format!("Unrecognized parameter to $cond: {name}")));
        };
        parts[at] = Some(Expr::parse(element.value(), env)?);
    }
    let codes = [17080, 17081, 17082];
    let named = parts.into_iter().zip(names).zip(codes);
    named
        .map(|((part, name), code)| {
            part.ok_or_else(|| Error::new(code, format!("Missing '{name}' parameter to $cond")))
        })
        .collect()
}

fn cond<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    args.eval(if is_truthy(args.eval(0, env)?) { 1 } else { 2 }, env)
}

/// Parses two or more alternatives.
pub(crate) fn parse_if_null(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let args = parse_arguments(value, env)?;
    if args.len() < 2 {
        return Err(Error::new(
            1257300,
            format!("$ifNull needs at least two arguments, had: {}", args.len()),
        ));
    }
    Ok(env.fold(Expr::Call { operator, function: if_null, args }))
}

fn if_null<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((last, leading)) = args.exprs.split_last() else { return null() };
    for expr in leading {
        let value = expr.eval(env)?;
        if !is_nullish(value) {
            return Ok(value);
        }
    }
    last.eval(env)
}

/// `$switch`.
#[derive(Debug)]
struct Switch {
    /// Each case with its result.
    branches: Vec<(Expr, Expr)>,
    default: Option<Expr>,
}

/// Parses `{branches: [{case, then}, …], default}`.
pub(crate) fn parse_switch(_: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let Value::Document(doc) = value else {
        let found = type_name(Some(value));
        return Err(Error::new(40060, format!("$switch requires an object as an argument, found: {found}")));
    };
    let mut switch = Switch { branches: Vec::new(), default: None };
    for element in doc.iter() {
        match (element.key_str(), element.value()) {
            ("branches", Value::Array(branches)) => {
                for branch in branches.iter() {
                    switch.branches.push(parse_branch(branch, env)?);
                }
            }
            ("branches", other) => {
                let found = type_name(Some(other));
                let text = format!("$switch expected an array for 'branches', found: {found}");
                return Err(Error::new(40061, text));
            }
            ("default", value) => switch.default = Some(Expr::parse(value, env)?),
            (other, _) => {
                return Err(Error::new(40067, format!("$switch found an unknown argument: {other}")));
            }
        }
    }
    if switch.branches.is_empty() {
        return Err(Error::new(40068, "$switch requires at least one branch."));
    }
    Ok(Expr::Node(Arc::new(switch)))
}

fn parse_branch(value: Value<'_>, env: &ParseEnv<'_>) -> Result<(Expr, Expr)> {
    let Value::Document(branch) = value else {
        let found = type_name(Some(value));
        let text = format!("$switch expected each branch to be an object, found: {found}");
        return Err(Error::new(40062, text));
    };
    let (mut case, mut then) = (None, None);
    for element in branch.iter() {
        match element.key_str() {
            "case" => case = Some(Expr::parse(element.value(), env)?),
            "then" => then = Some(Expr::parse(element.value(), env)?),
            other => {
                let text = format!("$switch found an unknown argument to a branch: {other}");
                return Err(Error::new(40063, text));
            }
        }
    }
    let case =
        case.ok_or_else(|| Error::new(40064, "$switch requires each branch have a 'case' expression"))?;
    let then =
        then.ok_or_else(|| Error::new(40065, "$switch requires each branch have a 'then' expression."))?;
    Ok((case, then))
}

impl Node for Switch {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        for (case, then) in &self.branches {
            if is_truthy(case.eval(env)?) {
                return then.eval(env);
            }
        }
        match &self.default {
            Some(default) => default.eval(env),
            None => {
                let text =
                    "$switch could not find a matching branch for an input, and no default was specified.";
                Err(Error::new(40066, text))
            }
        }
    }

    fn children(&self) -> Vec<&Expr> {
        self.branches.iter().flat_map(|(case, then)| [case, then]).chain(&self.default).collect()
    }
}
