//! Fail points: commands that fail on purpose, for those who test their programs against the server. They exist with
//! `--test-commands` only.
//!
//! There is one fail point, `failCommand`, with the settings that MongoDB's drivers use in their own tests.

mod settings;

use crate::error::{CommandError, Result};
use diwan_value::{Doc, DocBuf};
use parking_lot::Mutex;
use settings::{Effect, Mode, Selection};
use std::time::Duration;

/// The name of the fail point.
const FAIL_COMMAND: &str = "failCommand";
/// `FailPointSetFailed`.
const SET_FAILED: i32 = 249;

/// The fail points of a server.
#[derive(Debug, Default)]
pub(crate) struct FailPoints {
    fail_command: Mutex<FailCommand>,
}

#[derive(Debug, Default)]
struct FailCommand {
    mode: Mode,
    selection: Selection,
    effect: Effect,
    /// How often commands have failed since the server started.
    count: i64,
}

/// What happens to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    /// The command waits this long first.
    pub delay: Option<Duration>,
    /// The connection is closed without a reply.
    pub closes: bool,
    /// The command fails with this code instead of running.
    pub code: Option<i32>,
    /// The command runs, and its reply has this write concern error.
    pub concern_error: Option<DocBuf>,
    /// The labels of the reply. Without them it has those that belong to the error.
    pub labels: Option<Vec<String>>,
}

impl Failure {
    /// The error of a command that fails.
    pub(crate) fn error(&self) -> Option<CommandError> {
        self.code.map(|code| CommandError::new(code, "Failing command via 'failCommand' failpoint"))
    }
}

impl FailPoints {
    /// Changes the fail point and returns how often it has been triggered.
    pub(crate) fn set(&self, name: &str, mode: diwan_value::Value<'_>, data: Doc<'_>) -> Result<i64> {
        if name != FAIL_COMMAND {
            return Err(CommandError::new(SET_FAILED, format!("{name} not found")));
        }
        let mode = Mode::parse(mode)?;
        let (selection, effect) = settings::parse(data)?;
        let mut point = self.fail_command.lock();
        point.mode = mode;
        point.selection = selection;
        point.effect = effect;
        Ok(point.count)
    }

    /// Decides whether this command of a client fails.
    pub(crate) fn strike(
        &self,
        command: &str,
        application: Option<&str>,
        namespace: &str,
    ) -> Option<Failure> {
        let mut point = self.fail_command.lock();
        // The way out must stay open.
        if command == "configureFailPoint"
            || matches!(point.mode, Mode::Off)
            || !point.selection.includes(command, application, namespace)
            || !point.mode.fires()
        {
            return None;
        }
        point.count += 1;
        Some(point.effect.clone())
    }
}

#[cfg(test)]
mod tests;
