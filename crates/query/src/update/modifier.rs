//! The update operators. Each is a row in [`OPERATORS`] and is parsed to a [`Modifier`], which changes one value.
//!
//! [`super::arithmetic`] has the operators on numbers, [`super::array`] those on arrays.

use super::arithmetic::{self, Arithmetic, BitOperation};
use super::array::{PullCondition, Push};
use super::scope::{Outcome, Scope};
use super::{UpdateEnv, array};
use crate::display::ShownField;
use crate::error::{Error, Result, code};
use diwan_value::{Array, Doc, DocBuilder, Path, RawValue, Value, ValueBuf, compare_with};

/// A change of one value.
#[derive(Debug)]
pub(super) enum Modifier {
    /// `$set`.
    Set(ValueBuf),
    /// `$setOnInsert`.
    SetOnInsert(ValueBuf),
    /// `$unset`, and the source of a `$rename`.
    Unset,
    /// `$inc` and `$mul`.
    Arithmetic(Arithmetic, ValueBuf),
    /// `$bit`.
    Bit(Vec<BitOperation>),
    /// `$min`.
    Min(ValueBuf),
    /// `$max`.
    Max(ValueBuf),
    /// `$currentDate` with a date.
    CurrentDate,
    /// `$currentDate` with a timestamp.
    CurrentTimestamp,
    /// `$push`.
    Push(Push),
    /// `$addToSet`.
    AddToSet(Vec<ValueBuf>),
    /// `$pop`.
    Pop {
        /// Whether to remove the first element instead of the last one.
        first: bool,
    },
    /// `$pull` and `$pullAll`.
    Pull(PullCondition),
    /// The target of a `$rename`, which receives the value at this path.
    RenameFrom(Path),
}

/// Parses an operator's argument for one path.
type ModifierParser = fn(&str, Value<'_>, &UpdateEnv<'_>) -> Result<Modifier>;

/// The operators. `$rename` changes two paths, so the builder of the tree handles it: its parser here returns the
/// modifier of the source.
const OPERATORS: &[(&str, ModifierParser)] = &[
    ("$addToSet", |_, value, env| array::parse_add_to_set(value, env).map(Modifier::AddToSet)),
    ("$bit", |_, value, _| arithmetic::parse_bit(value).map(Modifier::Bit)),
    ("$currentDate", parse_current_date),
    ("$inc", |path, value, _| parse_arithmetic(Arithmetic::Add, path, value)),
    ("$max", |_, value, _| Ok(Modifier::Max(ValueBuf::new(value)))),
    ("$min", |_, value, _| Ok(Modifier::Min(ValueBuf::new(value)))),
    ("$mul", |path, value, _| parse_arithmetic(Arithmetic::Multiply, path, value)),
    ("$pop", |path, value, _| array::parse_pop(path, value).map(|first| Modifier::Pop { first })),
    ("$pull", |_, value, env| array::parse_pull(value, env).map(Modifier::Pull)),
    ("$pullAll", |_, value, _| array::parse_pull_all(value).map(Modifier::Pull)),
    ("$push", |_, value, _| array::parse_push(value).map(Modifier::Push)),
    ("$rename", |_, _, _| Ok(Modifier::Unset)),
    ("$set", |_, value, _| Ok(Modifier::Set(ValueBuf::new(value)))),
    ("$setOnInsert", |_, value, _| Ok(Modifier::SetOnInsert(ValueBuf::new(value)))),
    ("$unset", |_, _, _| Ok(Modifier::Unset)),
];

/// Rejects a name that is not an operator.
pub(super) fn check_name(name: &str) -> Result<()> {
    find(name).map(|_| ())
}

/// Parses the argument of operator `name` for `path`.
pub(super) fn parse(name: &str, path: &str, value: Value<'_>, env: &UpdateEnv<'_>) -> Result<Modifier> {
    find(name)?(path, value, env)
}

fn find(name: &str) -> Result<ModifierParser> {
    OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, parser)| *parser).ok_or_else(|| {
        Error::failed_to_parse(format!(
            "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
        ))
    })
}

fn parse_arithmetic(operation: Arithmetic, path: &str, value: Value<'_>) -> Result<Modifier> {
    arithmetic::parse(operation, path, value).map(|operand| Modifier::Arithmetic(operation, operand))
}

fn parse_current_date(_: &str, value: Value<'_>, _: &UpdateEnv<'_>) -> Result<Modifier> {
    match value {
        Value::Boolean(_) => Ok(Modifier::CurrentDate),
        Value::Document(doc) => {
            let mut found = None;
            for element in doc {
                match (element.key, element.value()) {
                    (b"$type", Value::String("date")) => found = Some(Modifier::CurrentDate),
                    (b"$type", Value::String("timestamp")) => found = Some(Modifier::CurrentTimestamp),
                    (b"$type", _) => {}
                    _ => {
                        let name = element.key_str();
                        return Err(Error::bad_value(format!("Unrecognized $currentDate option: {name}")));
                    }
                }
            }
            found.ok_or_else(|| {
                Error::bad_value(
                    "The '$type' string field is required to be 'date' or 'timestamp': \
                     {$currentDate: {field : {$type: 'date'}}}",
                )
            })
        }
        other => Err(Error::bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
             ({{$type: 'timestamp/date'}}).",
            other.tag().alias()
        ))),
    }
}

/// Checks a `$rename` from `from` and returns the target path.
pub(super) fn parse_rename<'v>(from: &str, value: Value<'v>) -> Result<&'v str> {
    let shown = || ShownField(from, value).to_string();
    let Value::String(to) = value else {
        return Err(Error::bad_value(format!("The 'to' field for $rename must be a string: {}", shown())));
    };
    if to.contains('\0') {
        return Err(Error::bad_value("The 'to' field for $rename cannot contain an embedded null byte"));
    }
    Ok(to)
}

/// Checks the two paths of a `$rename` against each other. Each was checked to be a valid path.
pub(super) fn check_rename(from: &str, to: &str) -> Result<()> {
    let shown = ShownField(from, Value::String(to));
    if from == to {
        let text = format!("The source and target field for $rename must differ: {shown}");
        return Err(Error::bad_value(text));
    }
    let (source, target) = (Path::new(from), Path::new(to));
    if source.starts_with(&target) || target.starts_with(&source) {
        let text = format!("The source and target field for $rename must not be on the same path: {shown}");
        return Err(Error::bad_value(text));
    }
    if source.names().any(super::path::is_dynamic) {
        return Err(Error::bad_value(format!("The source field for $rename may not be dynamic: {from}")));
    }
    if target.names().any(super::path::is_dynamic) {
        return Err(Error::bad_value(format!("The destination field for $rename may not be dynamic: {to}")));
    }
    Ok(())
}

impl Modifier {
    /// How many levels the value that the modifier writes has.
    pub fn value_depth(&self) -> usize {
        match self {
            Modifier::Set(value)
            | Modifier::SetOnInsert(value)
            | Modifier::Min(value)
            | Modifier::Max(value) => depth(value.as_value()),
            Modifier::Push(push) => 1 + depth_of_all(&push.values),
            Modifier::AddToSet(values) => 1 + depth_of_all(values),
            _ => 0,
        }
    }

    /// Whether the modifier creates a missing field.
    pub fn creates(&self, scope: &Scope<'_>) -> Result<bool> {
        Ok(match self {
            Modifier::Unset | Modifier::Pop { .. } | Modifier::Pull(_) => false,
            Modifier::SetOnInsert(_) => scope.insert,
            Modifier::RenameFrom(from) => rename_source(scope, from)?.is_some(),
            _ => true,
        })
    }

    /// Whether an impossible path is an error although the modifier does not create fields.
    pub fn needs_viable_path(&self) -> bool {
        matches!(self, Modifier::Pop { .. } | Modifier::Pull(_))
    }

    /// Writes the new value of the existing field `key`, unless it does not change.
    pub fn modify(
        &self,
        key: &str,
        current: RawValue<'_>,
        scope: &Scope<'_>,
        out: &mut DocBuilder,
    ) -> Result<Outcome> {
        let value = || current.decode().unwrap_or(Value::Null);
        match self {
            Modifier::Set(new) => Ok(replace(key, current, new.as_raw(), out)),
            Modifier::SetOnInsert(new) if scope.insert => Ok(replace(key, current, new.as_raw(), out)),
            Modifier::SetOnInsert(_) => Ok(Outcome::Untouched),
            Modifier::Unset => Ok(Outcome::Removed),
            Modifier::Arithmetic(operation, operand) => {
                let new = arithmetic::apply(*operation, value(), operand.as_value(), key, scope)?;
                Ok(replace_number(key, value(), new, out))
            }
            Modifier::Bit(operations) => {
                let new = arithmetic::apply_bits(operations, value(), key, scope)?;
                Ok(replace_number(key, value(), new, out))
            }
            Modifier::Min(new) if compare_with(new.as_value(), value(), scope.collator()).is_lt() => {
                out.append(key, new);
                Ok(Outcome::Changed)
            }
            Modifier::Max(new) if compare_with(new.as_value(), value(), scope.collator()).is_gt() => {
                out.append(key, new);
                Ok(Outcome::Changed)
            }
            Modifier::Min(_) | Modifier::Max(_) => Ok(Outcome::Untouched),
            Modifier::CurrentDate => {
                out.append(key, Value::DateTime(scope.context.now));
                Ok(Outcome::Changed)
            }
            Modifier::CurrentTimestamp => {
                out.append(key, scope.timestamp());
                Ok(Outcome::Changed)
            }
            Modifier::Push(push) => push.apply(key, value(), scope, out),
            Modifier::AddToSet(values) => array::add_to_set(values, key, value(), scope, out),
            Modifier::Pop { first } => array::pop(*first, key, value(), scope, out),
            Modifier::Pull(condition) => condition.apply(key, value(), scope, out),
            Modifier::RenameFrom(from) => match rename_source(scope, from)? {
                Some(new) => {
                    out.append_raw(key.as_bytes(), new);
                    Ok(Outcome::Changed)
                }
                None => Ok(Outcome::Untouched),
            },
        }
    }

    /// Writes the missing field `key`. Only called if [`Modifier::creates`] is true.
    pub fn create(&self, key: &str, scope: &Scope<'_>, out: &mut DocBuilder) -> Result<()> {
        match self {
            Modifier::Set(value)
            | Modifier::SetOnInsert(value)
            | Modifier::Min(value)
            | Modifier::Max(value) => out.append(key, value),
            Modifier::Arithmetic(operation, operand) => {
                out.append(key, arithmetic::initial(*operation, operand.as_value()))
            }
            Modifier::Bit(operations) => {
                out.append(key, arithmetic::apply_bits(operations, Value::Int32(0), key, scope)?)
            }
            Modifier::CurrentDate => out.append(key, Value::DateTime(scope.context.now)),
            Modifier::CurrentTimestamp => out.append(key, scope.timestamp()),
            Modifier::Push(push) => {
                push.apply(key, Value::Array(Array::EMPTY), scope, out)?;
                return Ok(());
            }
            Modifier::AddToSet(values) => out.append(key, array::of_values(values)),
            Modifier::RenameFrom(from) => {
                if let Some(value) = rename_source(scope, from)? {
                    out.append_raw(key.as_bytes(), value);
                }
                return Ok(());
            }
            Modifier::Unset | Modifier::Pop { .. } | Modifier::Pull(_) => return Ok(()),
        };
        Ok(())
    }
}

/// Writes `new` unless it is bitwise equal to the current value.
fn replace(key: &str, current: RawValue<'_>, new: RawValue<'_>, out: &mut DocBuilder) -> Outcome {
    if current == new {
        return Outcome::Untouched;
    }
    out.append_raw(key.as_bytes(), new);
    Outcome::Changed
}

/// Writes `new` unless it is the current number in the same type.
fn replace_number(key: &str, current: Value<'_>, new: Value<'_>, out: &mut DocBuilder) -> Outcome {
    if current == new {
        return Outcome::Untouched;
    }
    out.append(key, new);
    Outcome::Changed
}

/// How many levels a value has; a scalar has none.
pub(super) fn depth(value: Value<'_>) -> usize {
    let nested = |elements: Doc<'_>| 1 + elements.iter().map(|inner| depth(inner.value())).max().unwrap_or(0);
    match value {
        Value::Document(doc) => nested(doc),
        Value::Array(array) => nested(Doc::trusted(array.as_bytes())),
        _ => 0,
    }
}

fn depth_of_all(values: &[ValueBuf]) -> usize {
    values.iter().map(|value| depth(value.as_value())).max().unwrap_or(0)
}

/// The value that a `$rename` moves: the value at `from`, through documents only.
fn rename_source<'s>(scope: &Scope<'s>, from: &Path) -> Result<Option<RawValue<'s>>> {
    let last = from.depth() - 1;
    let mut doc = scope.root;
    for at in 0..last {
        let Some(raw) = doc.get_raw(from.name(at)) else { return Ok(None) };
        let value = raw.decode().unwrap_or(Value::Null);
        match value {
            Value::Document(inner) => doc = inner,
            Value::Array(_) if from.index(at + 1).is_some() => {
                return Err(Error::bad_value(format!(
                    "The source field cannot be an array element, '{from}' in doc with {} has an array field \
                     called '{}'",
                    scope.shown_id(),
                    from.name(at)
                )));
            }
            other => {
                let text = format!(
                    "cannot use the part ({} of {from}) to traverse the element ({{{}}})",
                    from.name(at),
                    ShownField(from.name(at), other)
                );
                return Err(Error::new(code::PATH_NOT_VIABLE, text));
            }
        }
    }
    Ok(doc.get_raw(from.name(last)))
}
