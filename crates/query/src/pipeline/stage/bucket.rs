//! `$bucket` and `$sortByCount`, which are rewritten to other stages.

use crate::display::{Shown, ShownField};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::pipeline::PipelineEnv;
use diwan_value::{ArrayBuilder, Doc, DocBuf, Value, ValueBuf, compare_with, doc, type_rank};
use std::cmp::Ordering;

/// `$sortByCount: x` is `$group` by x with a count, and `$sort` by it.
pub(crate) fn rewrite_sort_by_count(spec: Value<'_>) -> Result<Vec<DocBuf>> {
    match spec {
        Value::Document(doc) if doc.iter().next().is_none_or(|first| !first.key.starts_with(b"$")) => {
            let text = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
            return Err(Error::new(40147, text));
        }
        Value::String(path) if !path.starts_with('$') => {
            let text = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
            return Err(Error::new(40148, text));
        }
        Value::Document(_) | Value::String(_) => {}
        _ => {
            let text = "the sortByCount field must be specified as a string or as an object";
            return Err(Error::new(40149, text));
        }
    }
    Ok(vec![doc! { "$group": { "_id": spec, "count": { "$sum": 1 } } }, doc! { "$sort": { "count": (-1) } }])
}

/// `$bucket` is `$group` by the lower boundary, and `$sort` by it.
pub(crate) fn rewrite_bucket(spec: Value<'_>, env: &PipelineEnv) -> Result<Vec<DocBuf>> {
    let bucket = Bucket::parse(spec, env)?;
    bucket.check_default(env)?;
    let mut branches = ArrayBuilder::new();
    for pair in bucket.boundaries.windows(2) {
        let [lower, upper] = pair else { continue };
        branches.push(doc! {
            "case": { "$and": [
                { "$gte": [bucket.group_by, { "$literal": lower }] },
                { "$lt": [bucket.group_by, { "$literal": upper }] },
            ] },
            "then": { "$literal": lower },
        });
    }
    let mut switch = doc! { "branches": branches };
    if let Some(default) = &bucket.default {
        let mut builder = switch.into_builder();
        builder.append("default", doc! { "$literal": default });
        switch = builder.finish();
    }
    let mut group = doc! { "_id": { "$switch": switch } }.into_builder();
    match bucket.output {
        Some(output) => group.append_all(output),
        None => group.append("count", doc! { "$sum": 1 }),
    };
    Ok(vec![doc! { "$group": (group.finish()) }, doc! { "$sort": { "_id": 1 } }])
}

/// The checked argument of `$bucket`.
struct Bucket<'a> {
    group_by: Value<'a>,
    boundaries: Vec<ValueBuf>,
    default: Option<ValueBuf>,
    output: Option<Doc<'a>>,
}

impl<'a> Bucket<'a> {
    fn parse(spec: Value<'a>, env: &PipelineEnv) -> Result<Bucket<'a>> {
        let Value::Document(doc) = spec else {
            let text = format!(
                "Argument to $bucket stage must be an object, but found type: {}.",
                spec.tag().alias()
            );
            return Err(Error::new(40201, text));
        };
        let (mut group_by, mut boundaries, mut default, mut output) = (None, None, None, None);
        for element in doc.iter() {
            let value = element.value();
            match element.key_str() {
                "groupBy" => group_by = Some(check_group_by("$bucket", 40202, value)?),
                "boundaries" => boundaries = Some(parse_boundaries(value, env)?),
                "default" => {
                    let not_constant = || {
                        let text = format!(
                            "The $bucket 'default' field must be a constant expression, but found: {}.",
                            ShownField("default", value)
                        );
                        Error::new(40195, text)
                    };
                    default = Some(constant(value, env)?.ok_or_else(not_constant)?);
                }
                "output" => output = Some(check_output("$bucket", 40196, value)?),
                other => return Err(Error::new(40197, format!("Unrecognized option to $bucket: {other}."))),
            }
        }
        match (group_by, boundaries) {
            (Some(group_by), Some(boundaries)) => Ok(Bucket { group_by, boundaries, default, output }),
            _ => Err(Error::new(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")),
        }
    }

    /// Checks that the default bucket is outside of the others.
    fn check_default(&self, env: &PipelineEnv) -> Result<()> {
        let (Some(default), [first, .., last]) = (&self.default, self.boundaries.as_slice()) else {
            return Ok(());
        };
        let compare = |a: &ValueBuf, b: &ValueBuf| {
            compare_with(a.as_value(), b.as_value(), env.context.collator.as_deref())
        };
        if compare(default, first) != Ordering::Less && compare(default, last) == Ordering::Less {
            let text = "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to \
                        the highest boundary.";
            return Err(Error::new(40199, text));
        }
        Ok(())
    }
}

/// Checks a `groupBy`: a field path, or an expression in an object.
pub(crate) fn check_group_by<'a>(stage: &str, number: i32, value: Value<'a>) -> Result<Value<'a>> {
    let expression = match value {
        Value::String(path) => path.len() > 1 && path.starts_with('$'),
        Value::Document(doc) => doc.iter().next().is_some_and(|first| first.key.starts_with(b"$")),
        _ => false,
    };
    if expression {
        return Ok(value);
    }
    let text = format!(
        "The {stage} 'groupBy' field must be defined as a $-prefixed path or an expression{}, but found: {}{}",
        if number == 40239 { " object" } else { "" },
        if number == 40239 { Shown(value).to_string() } else { ShownField("groupBy", value).to_string() },
        if number == 40239 { "" } else { "." },
    );
    Err(Error::new(number, text))
}

/// Checks an `output`: an object of accumulators.
pub(crate) fn check_output<'a>(stage: &str, number: i32, value: Value<'a>) -> Result<Doc<'a>> {
    value.as_doc().ok_or_else(|| {
        let text =
            format!("The {stage} 'output' field must be an object, but found type: {}.", value.tag().alias());
        Error::new(number, text)
    })
}

/// The value of an expression that reads no document.
fn constant(value: Value<'_>, env: &PipelineEnv) -> Result<Option<ValueBuf>> {
    Ok(Expr::parse(value, &env.scope())?.as_literal().map(ValueBuf::new))
}

fn parse_boundaries(value: Value<'_>, env: &PipelineEnv) -> Result<Vec<ValueBuf>> {
    let Value::Array(array) = value else {
        let text = format!(
            "The $bucket 'boundaries' field must be an array, but found type: {}.",
            value.tag().alias()
        );
        return Err(Error::new(40200, text));
    };
    let mut boundaries = Vec::new();
    for item in array.iter() {
        let not_constant = || {
            let text = format!(
                "The $bucket 'boundaries' field must be an array of constant values, but found value: {}.",
                Shown(item)
            );
            Error::new(40191, text)
        };
        boundaries.push(constant(item, env)?.ok_or_else(not_constant)?);
    }
    check_boundaries(&boundaries, env)?;
    Ok(boundaries)
}

fn check_boundaries(boundaries: &[ValueBuf], env: &PipelineEnv) -> Result<()> {
    if boundaries.len() < 2 {
        let text = format!(
            "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
            boundaries.len()
        );
        return Err(Error::new(40192, text));
    }
    for (at, pair) in boundaries.windows(2).enumerate() {
        let [lower, upper] = pair else { continue };
        let (lower, upper) = (lower.as_value(), upper.as_value());
        if type_rank(lower.tag()) != type_rank(upper.tag()) {
            let text = format!(
                "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types \
                 {} and {}.",
                lower.tag().alias(),
                upper.tag().alias()
            );
            return Err(Error::new(40193, text));
        }
        if compare_with(lower, upper, env.context.collator.as_deref()) != Ordering::Less {
            let text = format!(
                "The 'boundaries' option to $bucket must be sorted, but elements {at} and {} are not in ascending order \
                 ({} is not less than {}).",
                at + 1,
                Shown(lower),
                Shown(upper)
            );
            return Err(Error::new(40194, text));
        }
    }
    Ok(())
}
