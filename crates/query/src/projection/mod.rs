//! Projections: which fields of a document a client receives, and fields computed for it.
//!
//! [`parse`] turns a projection into a tree of fields, and [`apply`] applies the tree to the bytes of a document in one
//! pass. A projection names either the fields to keep (inclusion) or the fields to drop (exclusion). Kept fields come
//! in the document's order, followed by computed fields in the projection's order. The stages `$project` and `$unset`
//! are projections too.
//!
//! Invariants: no path of a projection is a prefix of another one; an exclusion contains no expression.

mod apply;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::ProjectionEnv;

use crate::error::Result;
use crate::expr::{EvalEnv, Expr, ParseEnv};
use crate::filter::Filter;
use diwan_value::{Doc, DocBuf, DocBuilder, Path, Value};
use std::collections::HashMap;

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    root: Branch,
    inclusion: bool,
    positional: bool,
}

/// The fields of a document that a projection names.
#[derive(Clone, Debug, Default)]
struct Branch {
    /// In the order of the projection.
    fields: Vec<(String, FieldProjection)>,
    /// The positions of the fields by name, once there are many.
    places: HashMap<Vec<u8>, usize>,
    /// Whether this branch or one inside it computes a field.
    computed: bool,
    /// Whether this branch or one inside it has the positional `$`.
    positional: bool,
}

/// Up to this number of fields, a linear search by name is faster than the map.
const FEW_FIELDS: usize = 16;

impl Branch {
    /// The position of the field `name`.
    #[inline]
    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.fields.len() <= FEW_FIELDS {
            return self.fields.iter().position(|(known, _)| known.as_bytes() == name);
        }
        self.places.get(name).copied()
    }

    /// Adds a field that is not in the branch.
    fn push(&mut self, name: &str, entry: FieldProjection) {
        self.fields.push((name.to_owned(), entry));
        if self.fields.len() > FEW_FIELDS {
            let fields = self.fields.iter().enumerate().skip(self.places.len());
            self.places.extend(fields.map(|(at, (name, _))| (name.clone().into_bytes(), at)));
        }
    }

    /// Removes a field if it is in the branch.
    fn remove(&mut self, name: &str) {
        self.places.clear();
        for (known, entry) in std::mem::take(&mut self.fields) {
            if known != name {
                self.push(&known, entry);
            }
        }
    }
}

/// How one field is projected.
#[derive(Clone, Debug)]
enum FieldProjection {
    /// The field is kept unchanged.
    Keep,
    /// The field is dropped.
    Drop,
    /// The field's inner fields are projected.
    Branch(Branch),
    /// The field is computed.
    Computed(Expr),
    /// Keeps the first element of an array that matches the filter. The filter's path is the field.
    ElemMatch(Box<Filter>),
    /// Keeps a part of an array.
    Slice(Slice),
    /// Keeps the element of an array that the query matched.
    Positional,
}

/// The origin of a field in a transformed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The field of the same name in the input.
    Same,
    /// The field is missing.
    Missing,
}

/// The find projection `$slice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    /// The first elements.
    First(usize),
    /// The last elements.
    Last(usize),
    /// A number of elements from an index on.
    From(usize, usize),
    /// A number of elements, starting at a distance from the end.
    FromEnd(usize, usize),
}

impl Projection {
    /// Parses the projection of a find.
    pub fn parse(spec: Doc<'_>, env: &ProjectionEnv<'_>) -> Result<Projection> {
        parse::find(spec, env)
    }

    /// Parses the argument of the stage `$project`.
    pub(crate) fn parse_stage(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Projection> {
        parse::stage(spec, scope)
    }

    /// Parses the argument of the stage `$unset`: a field or an array of fields.
    pub(crate) fn parse_unset(spec: Value<'_>) -> Result<Projection> {
        parse::unset(spec)
    }

    /// Appends the projected document to `out`. `array_index` is the value of the positional `$`.
    pub fn apply<'a>(
        &'a self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        env: &EvalEnv<'a>,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let run = apply::Projector { array_index, env, chosen: false };
        if self.inclusion { run.include(doc, &self.root, out) } else { run.exclude(doc, &self.root, out) }
    }

    /// Returns the projected document.
    pub fn project<'a>(
        &'a self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        env: &EvalEnv<'a>,
    ) -> Result<DocBuf> {
        let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len()));
        self.apply(doc, array_index, env, &mut out)?;
        Ok(out.finish())
    }

    /// Whether the projection returns documents unchanged.
    pub fn is_identity(&self) -> bool {
        !self.inclusion && self.root.fields.is_empty()
    }

    /// Whether [`Projection::apply`] needs the index of the array element that the query matched.
    pub fn needs_array_index(&self) -> bool {
        self.positional
    }

    /// The kept paths, if the projection does nothing but keep paths: an index that contains them can answer the query
    /// alone.
    pub fn covered_paths(&self) -> Option<Vec<Path>> {
        if self.root.computed { None } else { self.needed_paths(None) }
    }

    /// The paths that the projected document, or its `wanted` part, depends on; `None` means all.
    pub fn needed_paths(&self, wanted: Option<&[Path]>) -> Option<Vec<Path>> {
        if !self.inclusion {
            // Dropped fields are never read.
            return wanted.map(<[Path]>::to_vec);
        }
        let mut paths = Vec::new();
        needed_paths(&self.root, "", &mut paths)?;
        // A computed field may fail, so it is read even if it is not wanted.
        let kept = paths.into_iter().filter(|(path, computed)| {
            let is_wanted = |wanted: &Path| wanted.name(0) == path.name(0);
            *computed || wanted.is_none_or(|wanted| wanted.iter().any(is_wanted))
        });
        Some(kept.map(|(path, _)| path).collect())
    }

    /// Whether the projection may change the top-level field `name`.
    pub fn changes(&self, name: &str) -> bool {
        self.origin(name) != Some(Origin::Same)
    }

    /// The origin of the top-level field `name` of a projected document; `None` if it is computed or only partly kept.
    pub(crate) fn origin(&self, name: &str) -> Option<Origin> {
        match self.root.position(name.as_bytes()).map(|at| &self.root.fields[at].1) {
            Some(FieldProjection::Keep) => Some(Origin::Same),
            Some(FieldProjection::Drop) => Some(Origin::Missing),
            Some(_) => None,
            None => Some(if self.inclusion { Origin::Missing } else { Origin::Same }),
        }
    }

    /// Whether no field is computed inside another one.
    pub(crate) fn computes_at_the_top(&self) -> bool {
        let computes_inside =
            |entry: &FieldProjection| matches!(entry, FieldProjection::Branch(branch) if branch.computed);
        !self.root.fields.iter().any(|(_, entry)| computes_inside(entry))
    }

    /// The computed top-level fields with their expressions.
    pub(crate) fn computed_fields(&self) -> impl Iterator<Item = (&str, &Expr)> {
        self.root.fields.iter().filter_map(|(name, entry)| match entry {
            FieldProjection::Computed(expr) => Some((name.as_str(), expr)),
            _ => None,
        })
    }
}

/// Collects the kept paths, and with `true` the paths that computed fields read. `None` if there is any other entry.
fn needed_paths(branch: &Branch, prefix: &str, paths: &mut Vec<(Path, bool)>) -> Option<()> {
    branch.fields.iter().try_for_each(|(name, entry)| {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match entry {
            FieldProjection::Keep => paths.push((Path::new(&path), false)),
            FieldProjection::Drop => {}
            FieldProjection::Branch(inner) => {
                // Whether the outer object exists can only be read from the object itself.
                paths.extend(inner.computed.then(|| (Path::new(&path), true)));
                needed_paths(inner, &path, paths)?;
            }
            FieldProjection::Computed(expr) => {
                let mut read = Vec::new();
                expr.read_paths(&mut read)?;
                paths.extend(read.into_iter().map(|path| (path.clone(), true)));
            }
            FieldProjection::ElemMatch(_) | FieldProjection::Slice(_) | FieldProjection::Positional => {
                return None;
            }
        }
        Some(())
    })
}
