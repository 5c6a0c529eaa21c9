//! The `arrayFilters` of an update.

use super::UpdateEnv;
use crate::error::{Error, Result};
use crate::filter::ArrayFilter;
use diwan_value::{Array, RawValue, Value};

/// The array filters of an update: each selects elements for its identifier.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters(Vec<ArrayFilter>);

impl ArrayFilters {
    /// Parses the filters.
    pub fn parse(filters: Option<Array<'_>>, env: &UpdateEnv<'_>) -> Result<ArrayFilters> {
        let mut parsed: Vec<ArrayFilter> = Vec::new();
        for filter in filters.into_iter().flat_map(Array::iter) {
            let Value::Document(filter) = filter else {
                return Err(Error::type_mismatch(format!(
                    "BSON field 'update.updates.arrayFilters.0' is the wrong type '{}', expected type 'object'",
                    filter.tag().alias()
                )));
            };
            let filter = ArrayFilter::parse(filter, env.filter)?;
            let identifier = filter.identifier();
            if parsed.iter().any(|known| known.identifier() == identifier) {
                return Err(Error::failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {identifier}"
                )));
            }
            parsed.push(filter);
        }
        Ok(ArrayFilters(parsed))
    }

    /// The identifiers in order.
    pub fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(ArrayFilter::identifier)
    }

    /// Whether `identifier` selects `element`. The empty identifier selects all.
    pub fn matches(&self, identifier: &str, element: RawValue<'_>) -> Result<bool> {
        match self.0.iter().find(|known| known.identifier() == identifier) {
            Some(filter) => filter.matches(element),
            None => Ok(identifier.is_empty()),
        }
    }
}
