//! The password arguments of `createUser` and `updateUser`.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use diwan_access::{Credentials, Password};
use diwan_auth::Mechanism;

/// The arguments, as they come.
#[derive(Default)]
pub(crate) struct PasswordArguments<'a> {
    password: Option<&'a str>,
    digest: Option<bool>,
    mechanisms: Option<Vec<Mechanism>>,
}

impl<'a> PasswordArguments<'a> {
    /// Reads a field. False if it is not about passwords.
    pub(crate) fn read(&mut self, field: Field<'a>) -> Result<bool> {
        match field.key {
            "pwd" => self.password = Some(field.string()?),
            "digestPassword" => self.digest = Some(field.flag()?),
            "mechanisms" => {
                let mut mechanisms = Vec::new();
                for name in field.array()?.iter() {
                    let name = name.as_str().unwrap_or_default();
                    let mechanism = Mechanism::from_name(name)
                        .ok_or_else(|| CommandError::bad_value(format!("Unknown auth mechanism '{name}'")))?;
                    mechanisms.push(mechanism);
                }
                if mechanisms.is_empty() {
                    return Err(CommandError::bad_value("mechanisms field must not be empty"));
                }
                self.mechanisms = Some(mechanisms);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether a password is given.
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether the mechanisms change.
    pub(crate) fn has_mechanisms(&self) -> bool {
        self.mechanisms.is_some()
    }

    /// Keeps the verifiers of the mechanisms that are named.
    pub(crate) fn restrict(&self, credentials: &mut Credentials) -> Result<()> {
        let Some(mechanisms) = &self.mechanisms else { return Ok(()) };
        if mechanisms.iter().any(|mechanism| credentials.scram(*mechanism).is_none()) {
            let text = "mechanisms field must be a subset of previously set mechanisms";
            return Err(CommandError::bad_value(text));
        }
        if !mechanisms.contains(&Mechanism::ScramSha1) {
            credentials.scram_sha_1 = None;
        }
        if !mechanisms.contains(&Mechanism::ScramSha256) {
            credentials.scram_sha_256 = None;
        }
        Ok(())
    }

    /// The verifiers of the new password. `None` without one.
    pub(crate) fn credentials(&self, context: &Context<'_>, user: &str) -> Result<Option<Credentials>> {
        let Some(password) = self.password else { return Ok(None) };
        if password.is_empty() {
            return Err(CommandError::bad_value("Password cannot be empty"));
        }
        let digest = self.digest == Some(false);
        let both = [Mechanism::ScramSha1, Mechanism::ScramSha256];
        // A digest is enough for the older mechanism only.
        let all: &[Mechanism] = if digest { &both[..1] } else { &both };
        let mechanisms = self.mechanisms.as_deref().unwrap_or(all);
        let password = if digest { Password::Digest(password) } else { Password::Plain(password) };
        Ok(Some(context.server.access.scram_credentials(user, &password, mechanisms)?))
    }
}
