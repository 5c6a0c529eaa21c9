//! The settings of `failCommand`: when it fires, for which commands, and what it does.

use super::Failure;
use crate::error::{CommandError, Result, code};
use crate::request::fields::int64;
use diwan_value::{Doc, Value};
use std::time::Duration;

/// The longest delay.
const LONGEST_DELAY_MS: i64 = 600_000;

/// What the fail point does.
pub(super) type Effect = Failure;

/// When a fail point fires.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Mode {
    #[default]
    Off,
    AlwaysOn,
    /// So many times, then it is off.
    Times(i64),
    /// Not so many times, then always.
    Skip(i64),
    /// With this probability.
    Random(f64),
}

impl Mode {
    pub(super) fn parse(mode: Value<'_>) -> Result<Mode> {
        let wrong = || {
            CommandError::bad_value(
                "'mode' must be \"off\", \"alwaysOn\", {times: <number>}, {skip: <number>} or \
                 {activationProbability: <number>}",
            )
        };
        match mode {
            Value::String("off") => Ok(Mode::Off),
            Value::String("alwaysOn") => Ok(Mode::AlwaysOn),
            Value::Document(doc) => {
                let element = doc.iter().next().ok_or_else(wrong)?;
                let number = || int64(element.value()).filter(|number| *number >= 0).ok_or_else(wrong);
                match element.key_str() {
                    "times" => number().map(Mode::Times),
                    "skip" => number().map(Mode::Skip),
                    "activationProbability" => match element.value() {
                        Value::Double(probability) if (0.0..=1.0).contains(&probability) => {
                            Ok(Mode::Random(probability))
                        }
                        Value::Int32(0) => Ok(Mode::Off),
                        Value::Int32(1) => Ok(Mode::AlwaysOn),
                        _ => Err(wrong()),
                    },
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }

    /// Whether it fires now. Each call is a command that it could make fail.
    pub(super) fn fires(&mut self) -> bool {
        match self {
            Mode::Off => false,
            Mode::AlwaysOn => true,
            Mode::Random(probability) => fastrand::f64() < *probability,
            Mode::Times(left) => {
                let fires = *left > 0;
                *left -= 1;
                if *left <= 0 {
                    *self = Mode::Off;
                }
                fires
            }
            Mode::Skip(left) => {
                if *left == 0 {
                    *self = Mode::AlwaysOn;
                    return true;
                }
                *left -= 1;
                false
            }
        }
    }
}

/// Which commands fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    commands: Vec<String>,
    application: Option<String>,
    namespace: Option<String>,
}

impl Selection {
    pub(super) fn includes(&self, command: &str, application: Option<&str>, namespace: &str) -> bool {
        self.commands.iter().any(|name| name == command || is_alias(name, command))
            && self.application.as_deref().is_none_or(|wanted| Some(wanted) == application)
            && self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }
}

/// Commands that have two spellings.
fn is_alias(a: &str, b: &str) -> bool {
    const SPELLINGS: [&str; 3] = ["isMaster", "findAndModify", "buildInfo"];
    a.eq_ignore_ascii_case(b) && SPELLINGS.iter().any(|name| name.eq_ignore_ascii_case(a))
}

/// Parses the `data` of `configureFailPoint`. As in MongoDB, unknown fields are ignored.
pub(super) fn parse(data: Doc<'_>) -> Result<(Selection, Effect)> {
    let mut selection = Selection::default();
    let mut effect = Effect::default();
    let (mut blocks, mut delay) = (false, 0);
    for element in data {
        let (key, value) = (element.key_str(), element.value());
        let wrong = |kind: &str| {
            CommandError::new(
                code::TYPE_MISMATCH,
                format!("the field '{key}' of the fail point must be {kind}"),
            )
        };
        match key {
            "failCommands" => {
                selection.commands = texts(value).ok_or_else(|| wrong("an array of strings"))?
            }
            "appName" => selection.application = Some(text(value).ok_or_else(|| wrong("a string"))?),
            "namespace" => selection.namespace = Some(text(value).ok_or_else(|| wrong("a string"))?),
            "closeConnection" => effect.closes = value.as_bool().ok_or_else(|| wrong("a boolean"))?,
            "errorCode" => {
                let number = int64(value).and_then(|number| i32::try_from(number).ok());
                effect.code = Some(number.ok_or_else(|| wrong("a number"))?);
            }
            "errorLabels" => effect.labels = Some(texts(value).ok_or_else(|| wrong("an array of strings"))?),
            "writeConcernError" => match value {
                Value::Document(doc) => effect.concern_error = Some(doc.to_owned()),
                _ => return Err(wrong("an object")),
            },
            "blockConnection" => blocks = value.as_bool().ok_or_else(|| wrong("a boolean"))?,
            "blockTimeMS" => {
                delay = int64(value)
                    .filter(|millis| (0..=LONGEST_DELAY_MS).contains(millis))
                    .ok_or_else(|| wrong("a number of milliseconds, at most 600000"))?;
            }
            _ => {}
        }
    }
    if blocks {
        effect.delay = Some(Duration::from_millis(delay.unsigned_abs()));
    }
    Ok((selection, effect))
}

fn text(value: Value<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: Value<'_>) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(item)).collect(),
        _ => None,
    }
}
