//! `arrayFilters`: which elements the `$[<identifier>]` of an update selects.

use super::{Filter, FilterEnv};
use crate::error::{Error, Result};
use diwan_value::{Doc, DocBuilder, Path, RawValue};

/// One of the `arrayFilters`.
#[derive(Clone, Debug)]
pub struct ArrayFilter {
    identifier: String,
    filter: Filter,
}

impl ArrayFilter {
    /// Parses a filter whose conditions all concern one identifier: `{"x.grade": {$gte: 85}}`.
    pub fn parse(doc: Doc<'_>, env: &FilterEnv<'_>) -> Result<ArrayFilter> {
        let filter = Filter::parse(doc, env).map_err(|error| {
            Error::new(error.code, format!("Error parsing array filter :: caused by :: {}", error.message))
        })?;
        let mut identifier = None;
        collect(&filter, &mut identifier)?;
        let Some(identifier) = identifier else {
            return Err(Error::failed_to_parse(
                "Cannot use an expression without a top-level field name in arrayFilters",
            ));
        };
        let well_formed = identifier.starts_with(|first: char| first.is_ascii_lowercase())
            && identifier.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !well_formed {
            return Err(Error::bad_value(format!(
                "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string \
                 beginning with a lowercase letter, found '{identifier}'"
            )));
        }
        Ok(ArrayFilter { identifier: identifier.to_owned(), filter })
    }

    /// The identifier.
    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Whether the update applies to an array element.
    pub fn matches(&self, element: RawValue<'_>) -> Result<bool> {
        let mut builder = DocBuilder::new();
        builder.append_raw(self.identifier.as_bytes(), element);
        self.filter.matches(builder.finish().as_doc())
    }
}

/// Finds the one name that all paths of `filter` begin with, and fails if there are two.
fn collect<'f>(filter: &'f Filter, found: &mut Option<&'f str>) -> Result<()> {
    let children = match filter {
        Filter::And(conjunction) => conjunction.children(),
        Filter::Or(children) | Filter::Nor(children) => children,
        Filter::Path(path) => return agree(&path.path, found),
        // The other filters have no path.
        _ => return Ok(()),
    };
    children.iter().try_for_each(|child| collect(child, found))
}

fn agree<'f>(path: &'f Path, found: &mut Option<&'f str>) -> Result<()> {
    let name = path.name(0);
    match found {
        Some(other) if *other != name => Err(Error::failed_to_parse(format!(
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found '{other}' and \
             '{name}'"
        ))),
        _ => {
            *found = Some(name);
            Ok(())
        }
    }
}
