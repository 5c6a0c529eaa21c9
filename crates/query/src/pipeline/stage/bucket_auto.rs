//! `$bucketAuto`: sorts documents by a value and splits them into a given number of buckets of about equal size.

use super::bucket::{check_group_by, check_output};
use super::granularity::Granularity;
use super::group::parse_field;
use crate::accumulator::{Accumulator, AccumulatorState};
use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::number::Number;
use crate::expr::{Context, EvalEnv, Expr, ParseEnv};
use crate::external_sort::{ExternalSorter, SortedRecords};
use crate::interrupt::Interrupt;
use crate::memory::MemoryBudget;
use crate::pipeline::{DocSource, Execution};
use bumpalo::Bump;
use diwan_value::key::{Direction, encode_order};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, ValueBuf, doc};
use std::sync::Arc;

/// A parsed `$bucketAuto`.
#[derive(Clone, Debug)]
pub struct BucketAuto {
    group_by: Expr,
    buckets: u64,
    fields: Vec<(String, Accumulator)>,
    granularity: Option<Granularity>,
}

impl BucketAuto {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<BucketAuto> {
        let Value::Document(spec) = spec else {
            let text = format!(
                "The argument to $bucketAuto must be an object, but found type: {}.",
                spec.tag().alias()
            );
            return Err(Error::new(40240, text));
        };
        let (mut group_by, mut buckets, mut output, mut granularity) = (None, None, None, None);
        for element in spec.iter() {
            let value = element.value();
            match element.key_str() {
                "groupBy" => {
                    group_by = Some(Expr::parse(check_group_by("$bucketAuto", 40239, value)?, scope)?)
                }
                "buckets" => buckets = Some(parse_buckets(value)?),
                "output" => output = Some(check_output("$bucketAuto", 40244, value)?),
                "granularity" => granularity = Some(parse_granularity(value)?),
                other => {
                    return Err(Error::new(40245, format!("Unrecognized option to $bucketAuto: {other}.")));
                }
            }
        }
        let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
            return Err(Error::new(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified."));
        };
        let counted = doc! { "count": { "$sum": 1 } };
        let mut fields = Vec::new();
        for element in output.unwrap_or(counted.as_doc()).iter() {
            let name = element.key_str();
            fields.push((name.to_owned(), parse_field(name, element.value(), scope)?));
        }
        Ok(BucketAuto { group_by, buckets, fields, granularity })
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<BucketAuto>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(BucketAutoSource {
            stage: self.clone(),
            context: execution.context.clone(),
            budget: execution.budget.clone(),
            input: Some(input),
            sorted: None,
            previous_max: None,
            number: 0,
            size: 0,
            arena: Bump::new(),
            current: DocBuf::new(),
        })
    }

    /// The value that a document is sorted by.
    fn key<'a>(&'a self, env: &EvalEnv<'a>) -> Result<Value<'a>> {
        let value = self.group_by.eval(env)?;
        if self.granularity.is_none() {
            return Ok(value.unwrap_or(Value::Null));
        }
        let Some(number) = value.and_then(Number::of) else {
            let text = format!(
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: {}",
                value.map_or("missing", |value| value.tag().alias())
            );
            return Err(Error::new(40258, text));
        };
        let double = number.to_f64();
        if double.is_nan() {
            let text =
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN";
            return Err(Error::new(40259, text));
        }
        if double < 0.0 {
            let text = "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number";
            return Err(Error::new(40260, text));
        }
        Ok(number.value())
    }
}

fn parse_buckets(value: Value<'_>) -> Result<u64> {
    let Some(number) = Number::of(value) else {
        let text = format!(
            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
            value.tag().alias()
        );
        return Err(Error::new(40241, text));
    };
    let double = number.to_f64();
    if double.trunc() != double || double < f64::from(i32::MIN) || double > f64::from(i32::MAX) {
        let text = format!(
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {}",
            ShownField("buckets", value)
        );
        return Err(Error::new(40242, text));
    }
    if double <= 0.0 {
        let text = format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {double}");
        return Err(Error::new(40243, text));
    }
    Ok(double as u64)
}

fn parse_granularity(value: Value<'_>) -> Result<Granularity> {
    let Value::String(name) = value else {
        let text = format!(
            "The $bucketAuto 'granularity' field must be a string, but found type: {}.",
            value.tag().alias()
        );
        return Err(Error::new(40261, text));
    };
    Granularity::parse(name)
        .ok_or_else(|| Error::new(40257, format!("Unknown rounding granularity '{name}'")))
}

/// The running stage.
struct BucketAutoSource {
    stage: Arc<BucketAuto>,
    context: Arc<Context>,
    budget: MemoryBudget,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
    /// The sorted documents, one document ahead of the bucket.
    sorted: Option<Ahead>,
    /// The upper boundary of the previous bucket, if there is a granularity.
    previous_max: Option<ValueBuf>,
    /// How many buckets were returned.
    number: u64,
    /// How many documents form a bucket.
    size: u64,
    arena: Bump,
    current: DocBuf,
}

/// The sorted documents with their values, and whether there is a current one.
struct Ahead {
    records: SortedRecords,
    more: bool,
}

impl Ahead {
    fn step(&mut self) -> Result<()> {
        self.more = self.records.advance()?;
        Ok(())
    }

    /// The current document and its value.
    fn current(&self) -> (Value<'_>, Doc<'_>) {
        let mut fields = Doc::trusted(self.records.payload()).iter();
        let value = fields.next().map_or(Value::Null, |field| field.value());
        (value, fields.next().and_then(|field| field.value().as_doc()).unwrap_or(Doc::EMPTY))
    }
}

impl BucketAutoSource {
    fn sort(&mut self, input: &mut dyn DocSource, interrupt: &Interrupt) -> Result<()> {
        let mut sorter = ExternalSorter::for_sort(self.budget.clone(), None);
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        let mut count: u64 = 0;
        while input.advance(interrupt)? {
            self.arena.reset();
            let env = EvalEnv::new(&self.arena, input.current(), &self.context);
            let value = self.stage.key(&env)?;
            key.clear();
            encode_order(&mut key, value, Direction::Ascending, self.context.collator.as_deref());
            payload.clear();
            let mut builder = DocBuilder::with_buffer(std::mem::take(&mut payload));
            builder.append("value", value).append("doc", input.current());
            payload = builder.finish_buffer();
            sorter.add(&key, &payload)?;
            count += 1;
        }
        self.size = ((count as f64 / self.stage.buckets as f64).round() as u64).max(1);
        let mut sorted = Ahead { records: sorter.finish()?, more: false };
        sorted.step()?;
        self.sorted = Some(sorted);
        Ok(())
    }

    /// Makes the next bucket; false if no document remains.
    fn next_bucket(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let stage = self.stage.clone();
        let Some(sorted) = &mut self.sorted else { return Ok(false) };
        if !sorted.more || self.number == stage.buckets {
            return Ok(false);
        }
        self.number += 1;
        let last = self.number == stage.buckets;
        let first = sorted.current().0.to_owned();
        let mut bucket = Bucket { max: first.clone(), states: Vec::new() };
        // Without a granularity, a bucket begins at its first value. With one, it begins where the previous bucket
        // ended, so that the buckets have no gaps.
        let min = match &stage.granularity {
            None => first,
            Some(granularity) => match self.previous_max.take() {
                Some(max) => max,
                None => round(&first, |number| granularity.round_down(number)),
            },
        };
        let env = EvalEnv::new(&self.arena, Doc::EMPTY, &self.context);
        for (_, accumulator) in &stage.fields {
            bucket.states.push(accumulator.start(&env)?);
        }
        let mut count = 0;
        let mut boundary = None;
        while sorted.more {
            interrupt.check()?;
            if count >= self.size && !last {
                // Equal values stay together, and with a granularity all values below the rounded boundary.
                let max = boundary.get_or_insert_with(|| match &stage.granularity {
                    None => bucket.max.clone(),
                    Some(granularity) => round(&bucket.max, |number| granularity.round_up(number)),
                });
                let next = sorted.current().0;
                let compare = |a: &ValueBuf| {
                    diwan_value::compare_with(next, a.as_value(), self.context.collator.as_deref())
                };
                let inside =
                    compare(&bucket.max).is_eq() || (stage.granularity.is_some() && compare(max).is_lt());
                if !inside {
                    break;
                }
            }
            self.arena.reset();
            bucket.add(&stage, sorted, &self.arena, &self.context)?;
            sorted.step()?;
            count += 1;
        }
        // Without a granularity, the upper boundary is the first value of the next bucket, which is exclusive; only the
        // last bucket includes its maximum.
        let max = match &stage.granularity {
            None if sorted.more => sorted.current().0.to_owned(),
            None => bucket.max,
            Some(granularity) => {
                let max = round(&bucket.max, |number| granularity.round_up(number));
                // Zero cannot be rounded up, so the boundary comes from the next bucket's first value instead.
                let zero = Number::of(max.as_value()).is_some_and(|number| number.to_f64() == 0.0);
                let max = if zero && sorted.more {
                    round(&sorted.current().0.to_owned(), |number| granularity.round_down(number))
                } else {
                    max
                };
                self.previous_max = Some(max.clone());
                max
            }
        };
        let mut out = doc! { "_id": { "min": min, "max": max } }.into_builder();
        for ((name, accumulator), state) in stage.fields.iter().zip(bucket.states) {
            accumulator.append(state, name, &mut out)?;
        }
        self.current = out.finish();
        Ok(true)
    }
}

/// A bucket under construction.
struct Bucket {
    /// The greatest value in the bucket.
    max: ValueBuf,
    states: Vec<AccumulatorState>,
}

impl Bucket {
    fn add(&mut self, stage: &BucketAuto, sorted: &Ahead, arena: &Bump, context: &Context) -> Result<()> {
        let (value, doc) = sorted.current();
        self.max = value.to_owned();
        let env = EvalEnv::new(arena, doc, context);
        for ((_, accumulator), state) in stage.fields.iter().zip(&mut self.states) {
            accumulator.add(state, &env)?;
        }
        Ok(())
    }
}

/// Rounds a number as a double. Zero is returned unchanged.
fn round(value: &ValueBuf, rounding: impl Fn(f64) -> f64) -> ValueBuf {
    match Number::of(value.as_value()).map(Number::to_f64) {
        Some(number) if number != 0.0 => ValueBuf::new(Value::Double(rounding(number))),
        _ => value.clone(),
    }
}

impl DocSource for BucketAutoSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let Some(mut input) = self.input.take() {
            self.sort(input.as_mut(), interrupt)?;
        }
        let found = self.next_bucket(interrupt)?;
        if !found {
            self.sorted = None;
            self.current = DocBuf::new();
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}
