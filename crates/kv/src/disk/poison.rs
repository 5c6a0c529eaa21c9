//! The state after a failed write or sync: no more writes until the engine is opened anew.

use crate::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Why the engine refuses writes, if it does. Once set, it stays.
#[derive(Default)]
pub(super) struct Poison(OnceLock<Arc<str>>);

impl Poison {
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned(Arc::clone(why))),
        }
    }

    /// The first reason counts, and is logged.
    pub fn set(&self, why: &str) {
        if self.0.set(why.into()).is_ok() {
            tracing::error!(cause = why, "writes are refused until the store is opened again");
        }
    }
}
