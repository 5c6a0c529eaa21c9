//! Accumulators of `$group`, `$bucket` and `$bucketAuto`. Each is parsed once and has one state per group, which is
//! updated document by document.
//!
//! [`Accumulator::add`] evaluates the argument and updates an [`AccumulatorState`]. A state can be saved as a value and
//! later absorbed by a new state of the same accumulator: `$group` uses this to spill groups to files.
//!
//! Invariant: absorbing saved states in document order gives the same result as one state over all documents.

mod collected;
mod kept;
mod ranking;
#[cfg(test)]
mod tests;

use crate::display::ShownField;
use crate::error::{Error, Result, code};
use crate::expr::number::{Number, Sum};
use crate::expr::{Context, Deviation, EvalEnv, Expr, FieldSource, ParseEnv, Quantiles, check_n};
use crate::memory::DEFAULT_MEMORY_LIMIT;
use crate::sort::Sort;
use bumpalo::Bump;
pub(crate) use collected::overlay;
use collected::{Distinct, Merged, Recent};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuilder, Path, Value};
use kept::Kept;
use ranking::{Keep, Ranking};
use std::cmp::Ordering;

/// A parsed accumulator with its argument.
#[derive(Clone, Debug)]
pub struct Accumulator {
    operator: &'static str,
    kind: Kind,
    /// The expression whose values are accumulated.
    input: Expr,
    /// How many values the operators with `n` keep.
    n: Option<Expr>,
}

#[derive(Clone, Debug)]
enum Kind {
    Sum,
    Average,
    /// `$min` keeps the smaller value, `$max` the greater.
    Extreme(Ordering),
    First,
    Last,
    Push,
    AddToSet,
    Deviation {
        sample: bool,
    },
    MergeObjects,
    FirstN,
    LastN,
    ExtremeN(Keep),
    /// `$top`, `$topN`, `$bottom`, `$bottomN`.
    Ranked {
        sort: Sort,
        keep: Keep,
        single: bool,
    },
    /// `$median` and `$percentile`: exact, computed from all numbers.
    Quantiles(Quantiles),
}

/// The accumulated state of one group.
#[derive(Clone, Debug)]
pub struct AccumulatorState(StateData);

#[derive(Clone, Debug)]
enum StateData {
    Sum(Sum),
    Average { sum: Sum, count: i64 },
    Value(Option<Kept>),
    Values { values: ArrayBuilder, n: usize },
    Distinct(Box<Distinct>),
    Deviation(Deviation),
    Merged(Merged),
    Recent(Recent),
    Ranking(Box<Ranking>),
    Numbers(Vec<f64>),
}

/// A row of the table of accumulators.
struct Row {
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &ParseEnv<'_>) -> Result<Accumulator>,
}

/// All accumulators.
static ACCUMULATORS: &[Row] = &[
    Row { name: "$sum", parse: |name, spec, scope| unary(name, Kind::Sum, spec, scope) },
    Row { name: "$avg", parse: |name, spec, scope| unary(name, Kind::Average, spec, scope) },
    Row { name: "$min", parse: |name, spec, scope| unary(name, Kind::Extreme(Ordering::Less), spec, scope) },
    Row {
        name: "$max",
        parse: |name, spec, scope| unary(name, Kind::Extreme(Ordering::Greater), spec, scope),
    },
    Row { name: "$first", parse: |name, spec, scope| unary(name, Kind::First, spec, scope) },
    Row { name: "$last", parse: |name, spec, scope| unary(name, Kind::Last, spec, scope) },
    Row { name: "$push", parse: |name, spec, scope| unary(name, Kind::Push, spec, scope) },
    Row { name: "$addToSet", parse: |name, spec, scope| unary(name, Kind::AddToSet, spec, scope) },
    Row {
        name: "$stdDevPop",
        parse: |name, spec, scope| unary(name, Kind::Deviation { sample: false }, spec, scope),
    },
    Row {
        name: "$stdDevSamp",
        parse: |name, spec, scope| unary(name, Kind::Deviation { sample: true }, spec, scope),
    },
    Row { name: "$mergeObjects", parse: |name, spec, scope| unary(name, Kind::MergeObjects, spec, scope) },
    Row { name: "$count", parse: parse_count },
    Row { name: "$firstN", parse: |name, spec, scope| with_n(name, Kind::FirstN, spec, scope) },
    Row { name: "$lastN", parse: |name, spec, scope| with_n(name, Kind::LastN, spec, scope) },
    Row { name: "$minN", parse: |name, spec, scope| with_n(name, Kind::ExtremeN(Keep::Least), spec, scope) },
    Row {
        name: "$maxN",
        parse: |name, spec, scope| with_n(name, Kind::ExtremeN(Keep::Greatest), spec, scope),
    },
    Row { name: "$top", parse: |name, spec, scope| ranked(name, Keep::Least, true, spec, scope) },
    Row { name: "$topN", parse: |name, spec, scope| ranked(name, Keep::Least, false, spec, scope) },
    Row { name: "$bottom", parse: |name, spec, scope| ranked(name, Keep::Greatest, true, spec, scope) },
    Row { name: "$bottomN", parse: |name, spec, scope| ranked(name, Keep::Greatest, false, spec, scope) },
    Row { name: "$median", parse: |name, spec, scope| parse_quantiles(name, spec, scope) },
    Row { name: "$percentile", parse: |name, spec, scope| parse_quantiles(name, spec, scope) },
    Row { name: "$accumulator", parse: not_supported },
];

impl Accumulator {
    /// Parses the accumulator under a field of a `$group`: `{$sum: "$x"}`.
    pub fn parse(field: &str, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Accumulator> {
        let Value::Document(doc) = spec else {
            return Err(Error::new(40234, format!("The field '{field}' must be an accumulator object")));
        };
        let mut elements = doc.iter();
        let element = match (elements.next(), elements.next()) {
            (Some(element), None) => element,
            (Some(first), Some(_)) if first.key.starts_with(b"$") => {
                return Err(Error::new(40238, format!("The field '{field}' must specify one accumulator")));
            }
            _ => return Err(Error::new(40234, format!("The field '{field}' must be an accumulator object"))),
        };
        let name = element.key_str();
        if !name.starts_with('$') {
            return Err(Error::new(40234, format!("The field '{field}' must be an accumulator object")));
        }
        let Some(row) = ACCUMULATORS.iter().find(|row| row.name == name) else {
            return Err(Error::new(15952, format!("unknown group operator '{name}'")));
        };
        (row.parse)(row.name, element.value(), scope)
    }

    /// The operator's name with its `$`.
    pub fn operator(&self) -> &'static str {
        self.operator
    }

    /// The document paths that the accumulator ranks by.
    pub(crate) fn sort_paths(&self) -> impl Iterator<Item = &Path> {
        let sort = match &self.kind {
            Kind::Ranked { sort, .. } => Some(sort),
            _ => None,
        };
        sort.into_iter().flat_map(|sort| sort.parts().iter().map(|part| &part.path))
    }

    /// The expressions inside.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        std::iter::once(&self.input).chain(&self.n)
    }

    /// The accumulator with each document path replaced by the expression that `field` returns: see
    /// [`Expr::read_from`].
    pub(crate) fn read_from(&self, field: &mut FieldSource<'_>) -> Option<Accumulator> {
        let always = match self.kind {
            // These accumulators do not evaluate their argument for later documents.
            Kind::First | Kind::FirstN => false,
            Kind::Ranked { .. } => return None,
            _ => true,
        };
        Some(Accumulator { input: self.input.read_from(field, always)?, ..self.clone() })
    }

    /// A new state. The document of `env` is the group's `_id`, or empty if that is not a document.
    pub fn start<'a>(&'a self, env: &EvalEnv<'a>) -> Result<AccumulatorState> {
        let n = match &self.n {
            Some(n) => check_n(n.eval(env)?)?,
            None => 1,
        };
        Ok(AccumulatorState(match &self.kind {
            Kind::Sum => StateData::Sum(Sum::default()),
            Kind::Average => StateData::Average { sum: Sum::default(), count: 0 },
            Kind::Extreme(_) | Kind::First | Kind::Last => StateData::Value(None),
            Kind::Push => StateData::Values { values: ArrayBuilder::new(), n: usize::MAX },
            Kind::FirstN => StateData::Values { values: ArrayBuilder::new(), n },
            Kind::LastN => StateData::Recent(Recent::new(n)),
            Kind::AddToSet => StateData::Distinct(Box::default()),
            Kind::Deviation { .. } => StateData::Deviation(Deviation::default()),
            Kind::MergeObjects => StateData::Merged(Merged::default()),
            Kind::ExtremeN(keep) | Kind::Ranked { keep, .. } => {
                StateData::Ranking(Box::new(Ranking::new(*keep, n)))
            }
            Kind::Quantiles(_) => StateData::Numbers(Vec::new()),
        }))
    }

    /// Adds the document of `env` to `state`.
    pub fn add<'a>(&'a self, state: &mut AccumulatorState, env: &EvalEnv<'a>) -> Result<()> {
        match (&mut state.0, &self.kind) {
            (StateData::Value(Some(_)), Kind::First) => return Ok(()),
            (StateData::Values { values, n }, _) if values.count() >= *n => return Ok(()),
            _ => {}
        }
        let value = self.input.eval(env)?;
        let collator = env.context().collator.as_deref();
        match (&mut state.0, &self.kind) {
            (StateData::Sum(sum), _) => {
                if let Some(number) = value.and_then(Number::of) {
                    sum.add(number);
                }
                return Ok(());
            }
            (StateData::Average { sum, count }, _) => {
                if let Some(number) = value.and_then(Number::of) {
                    sum.add(number);
                    *count += 1;
                }
                return Ok(());
            }
            (StateData::Value(kept), Kind::Extreme(wanted)) => {
                if let Some(value) = value.filter(|value| !value.is_nullish()) {
                    Kept::keep_extreme(kept, value, *wanted, collator);
                }
            }
            (StateData::Value(kept), _) => Kept::keep(kept, value.unwrap_or(Value::Null)),
            (StateData::Values { values, .. }, Kind::Push) => {
                if let Some(value) = env.nested(value)? {
                    values.push(value);
                }
            }
            (StateData::Values { values, .. }, _) => {
                values.push(value.unwrap_or(Value::Null));
            }
            (StateData::Recent(recent), _) => recent.add(value.unwrap_or(Value::Null)),
            (StateData::Distinct(distinct), _) => {
                if let Some(value) = env.nested(value)? {
                    distinct.add(value, collator);
                }
            }
            (StateData::Deviation(deviation), _) => {
                if let Some(number) = value.and_then(Number::of) {
                    deviation.add(number.to_f64());
                }
            }
            (StateData::Merged(merged), _) => merged.add(value)?,
            (StateData::Ranking(ranking), Kind::Ranked { sort, .. }) => {
                let mut key = Vec::new();
                sort.key(env.root(), collator, &mut key)?;
                ranking.add(&key, value.unwrap_or(Value::Null));
            }
            (StateData::Ranking(ranking), _) => {
                if let Some(value) = value.filter(|value| !value.is_nullish()) {
                    ranking.add_value(value, collator);
                }
            }
            (StateData::Numbers(numbers), _) => {
                numbers.extend(value.and_then(Number::of).map(Number::to_f64))
            }
        }
        self.check_memory(state)
    }

    /// Appends the result of the state under `name`.
    pub fn append(&self, state: AccumulatorState, name: &str, out: &mut DocBuilder) -> Result<()> {
        match state.0 {
            StateData::Sum(sum) => append(out, name, sum.total().value()),
            StateData::Average { count: 0, .. } => append(out, name, Value::Null),
            StateData::Average { sum, count } => append(out, name, sum.mean(count).value()),
            StateData::Value(kept) => append(out, name, kept.as_ref().map_or(Value::Null, Kept::value)),
            StateData::Values { values, .. } => append_array(out, name, values),
            StateData::Distinct(distinct) => append_array(out, name, distinct.into_values()),
            StateData::Deviation(deviation) => {
                let sample = matches!(self.kind, Kind::Deviation { sample: true });
                let result = if sample { deviation.sample() } else { deviation.population() };
                append(out, name, result.map_or(Value::Null, Value::Double));
            }
            StateData::Merged(merged) => append(out, name, Value::Document(merged.doc())),
            StateData::Recent(recent) => append_array(out, name, recent.into_values()),
            StateData::Ranking(ranking) => match self.kind {
                Kind::Ranked { single: true, .. } => {
                    append(out, name, ranking.first().unwrap_or(Value::Null))
                }
                Kind::ExtremeN(Keep::Greatest) => append_array(out, name, array_of(ranking.values().rev())),
                _ => append_array(out, name, array_of(ranking.values())),
            },
            StateData::Numbers(mut numbers) => {
                if let Kind::Quantiles(quantiles) = &self.kind {
                    let (arena, context) = (Bump::new(), Context::default());
                    let found = quantiles.of(&mut numbers, &EvalEnv::new(&arena, Doc::EMPTY, &context))?;
                    append(out, name, found.unwrap_or(Value::Null));
                }
            }
        }
        Ok(())
    }

    /// Saves the state as a value for [`Accumulator::absorb`].
    pub fn save(&self, state: AccumulatorState, out: &mut ArrayBuilder) {
        match state.0 {
            StateData::Sum(sum) => out.push(sum.save()),
            StateData::Average { sum, count } => {
                let mut parts = ArrayBuilder::new();
                parts.push(sum.save()).push(count);
                out.push(parts)
            }
            StateData::Value(kept) => {
                let mut parts = ArrayBuilder::new();
                if let Some(kept) = &kept {
                    parts.push(kept.value());
                }
                out.push(parts)
            }
            StateData::Values { values, .. } => out.push(values),
            StateData::Distinct(distinct) => out.push(distinct.into_values()),
            StateData::Deviation(deviation) => out.push(deviation.save()),
            StateData::Merged(merged) => out.push(merged.doc()),
            StateData::Recent(recent) => out.push(recent.into_values()),
            StateData::Ranking(ranking) => out.push(ranking.save()),
            StateData::Numbers(numbers) => out.push(numbers),
        };
    }

    /// Merges into `state` what another state of this accumulator saved. The documents of that state came later.
    pub(crate) fn absorb(
        &self,
        state: &mut AccumulatorState,
        saved: Value<'_>,
        env: &EvalEnv<'_>,
    ) -> Result<()> {
        let collator = env.context().collator.as_deref();
        let items = saved.as_array().unwrap_or(Array::EMPTY);
        match (&mut state.0, &self.kind) {
            (StateData::Sum(sum), _) => sum.merge(&Sum::restore(items)),
            (StateData::Average { sum, count }, _) => {
                let mut parts = items.iter();
                sum.merge(&Sum::restore(parts.next().and_then(Value::as_array).unwrap_or(Array::EMPTY)));
                *count += parts.next().and_then(Value::as_i64_exact).unwrap_or(0);
            }
            (StateData::Value(kept), Kind::Extreme(wanted)) => {
                for value in items.iter() {
                    Kept::keep_extreme(kept, value, *wanted, collator);
                }
            }
            // States are absorbed in document order, so a first value stays and a last value is replaced.
            (StateData::Value(kept), kind) => {
                if let Some(value) = items.get(0)
                    && (kept.is_none() || matches!(kind, Kind::Last))
                {
                    Kept::keep(kept, value);
                }
            }
            (StateData::Values { values, n }, _) => {
                for value in items.iter().take(n.saturating_sub(values.count())) {
                    values.push(value);
                }
            }
            (StateData::Distinct(distinct), _) => {
                items.iter().for_each(|value| distinct.add(value, collator))
            }
            (StateData::Deviation(deviation), _) => deviation.merge(Deviation::restore(items)),
            (StateData::Merged(merged), _) => merged.add(Some(saved))?,
            (StateData::Recent(recent), _) => items.iter().for_each(|value| recent.add(value)),
            (StateData::Ranking(ranking), _) => ranking.absorb(items),
            (StateData::Numbers(numbers), _) => {
                numbers.extend(items.iter().filter_map(Number::of).map(Number::to_f64));
            }
        }
        self.check_memory(state)
    }

    /// Fails if the state of a single group exceeds the memory limit: spilling cannot help.
    fn check_memory(&self, state: &AccumulatorState) -> Result<()> {
        if state.memory() <= DEFAULT_MEMORY_LIMIT {
            return Ok(());
        }
        let text = format!(
            "{} used too much memory and cannot spill to disk. Memory limit: {DEFAULT_MEMORY_LIMIT} bytes",
            self.operator
        );
        Err(Error::new(code::EXCEEDED_MEMORY_LIMIT, text))
    }
}

impl AccumulatorState {
    /// Takes the state and leaves an empty one in its place.
    pub fn take(&mut self) -> AccumulatorState {
        std::mem::replace(self, AccumulatorState(StateData::Value(None)))
    }

    /// How many bytes the state holds on the heap.
    #[inline]
    pub fn memory(&self) -> usize {
        match &self.0 {
            StateData::Sum(_) | StateData::Average { .. } | StateData::Deviation(_) => 0,
            StateData::Value(kept) => kept.as_ref().map_or(0, Kept::memory),
            StateData::Values { values, .. } => values.len(),
            StateData::Distinct(distinct) => distinct.memory(),
            StateData::Merged(merged) => merged.doc().as_bytes().len(),
            StateData::Recent(recent) => recent.memory(),
            StateData::Ranking(ranking) => ranking.memory(),
            StateData::Numbers(numbers) => numbers.len() * size_of::<f64>(),
        }
    }
}

fn append(out: &mut DocBuilder, name: &str, value: Value<'_>) {
    out.append(name, value);
}

fn append_array(out: &mut DocBuilder, name: &str, values: ArrayBuilder) {
    out.append(name, Array::trusted(&values.finish()));
}

fn array_of<'a>(values: impl Iterator<Item = Value<'a>>) -> ArrayBuilder {
    let mut array = ArrayBuilder::new();
    values.for_each(|value| {
        array.push(value);
    });
    array
}

/// Parses an accumulator with one expression.
fn unary(operator: &'static str, kind: Kind, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Accumulator> {
    if let Value::Array(_) = spec {
        return Err(Error::new(40237, format!("The {operator} accumulator is a unary operator")));
    }
    Ok(Accumulator { operator, kind, input: Expr::parse(spec, scope)?, n: None })
}

/// Parses `$count: {}`: the sum of ones.
fn parse_count(operator: &'static str, spec: Value<'_>, _: &ParseEnv<'_>) -> Result<Accumulator> {
    if spec.as_doc().is_none_or(|doc| !doc.is_empty()) {
        let text = "$count takes no arguments, i.e. $count:{}";
        return Err(Error::type_mismatch(text));
    }
    Ok(Accumulator { operator, kind: Kind::Sum, input: Expr::Literal(Value::Int32(1).into()), n: None })
}

fn not_supported(operator: &'static str, _: Value<'_>, _: &ParseEnv<'_>) -> Result<Accumulator> {
    let text = format!("The {operator} accumulator needs server-side JavaScript, which is not supported");
    Err(Error::new(code::NOT_IMPLEMENTED, text))
}

/// Parses `{n: …, input: …}`.
fn with_n(operator: &'static str, kind: Kind, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Accumulator> {
    let Value::Document(doc) = spec else {
        let shown = ShownField(operator, spec);
        let number = if matches!(kind, Kind::FirstN | Kind::LastN) { 5787801 } else { 5787900 };
        return Err(Error::new(number, format!("specification must be an object; found {shown}")));
    };
    let (mut n, mut input) = (None, None);
    for element in doc.iter() {
        let place = match element.key_str() {
            "n" => &mut n,
            "input" => &mut input,
            other => {
                return Err(Error::new(5787901, format!("Unknown argument for 'n' operator: {other}")));
            }
        };
        *place = Some(Expr::parse(element.value(), scope)?);
    }
    if n.is_none() {
        return Err(Error::new(5787906, "Missing value for 'n'"));
    }
    let input = input.ok_or_else(|| Error::new(5787907, "Missing value for 'input'"))?;
    Ok(Accumulator { operator, kind, input, n })
}

/// Parses `{sortBy: …, output: …}`, with an `n` unless `single`.
fn ranked(
    operator: &'static str,
    keep: Keep,
    single: bool,
    spec: Value<'_>,
    scope: &ParseEnv<'_>,
) -> Result<Accumulator> {
    let Value::Document(doc) = spec else {
        let shown = ShownField(operator, spec);
        return Err(Error::new(5788001, format!("specification must be an object; found {shown}")));
    };
    let (mut n, mut output, mut sort) = (None, None, None);
    for element in doc.iter() {
        match (element.key_str(), element.value()) {
            ("n", value) if !single => n = Some(Expr::parse(value, scope)?),
            ("output", value) => output = Some(Expr::parse(value, scope)?),
            ("sortBy", Value::Document(by)) => sort = Some(Sort::parse_stage(Value::Document(by))?),
            ("sortBy", other) => {
                let text =
                    format!("invalid parameter: expected an object (sortBy), found {}", other.tag().alias());
                return Err(Error::new(10065, text));
            }
            (other, _) => {
                return Err(Error::new(5788002, format!("Unknown argument to {operator} '{other}'")));
            }
        }
    }
    if n.is_none() && !single {
        return Err(Error::new(5788003, "Missing value for 'n'"));
    }
    let input = output.ok_or_else(|| Error::new(5788004, "Missing value for 'output'"))?;
    let sort = sort.ok_or_else(|| Error::new(5788005, "Missing value for 'sortBy'"))?;
    Ok(Accumulator { operator, kind: Kind::Ranked { sort, keep, single }, input, n })
}

/// Parses `$median` and `$percentile`.
fn parse_quantiles(operator: &'static str, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Accumulator> {
    let quantiles = Quantiles::parse(operator, spec, scope)?;
    Ok(Accumulator { operator, input: quantiles.input.clone(), kind: Kind::Quantiles(quantiles), n: None })
}

/// The document in which the `n` of a group is evaluated.
pub(crate) fn id_document(id: Value<'_>) -> Doc<'_> {
    id.as_doc().unwrap_or(Doc::EMPTY)
}
