//! Projections: which fields of a document a client sees, and fields computed for it.
//!
//! A projection is parsed to a tree of fields ([`parse`]) and applied to the bytes of a document in one pass
//! ([`apply`]). It either names what stays (inclusion) or what goes (exclusion). Kept fields come in the document's
//! order, computed ones after them in the projection's. The stages `$project` and `$unset` are projections too.
//!
//! Invariants: no path of a projection is a prefix of another one; an exclusion holds no expression.

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

/// A projection, ready to be applied to documents.
#[derive(Clone, Debug)]
pub struct Projection {
    root: Branch,
    inclusion: bool,
    positional: bool,
}

/// The fields of a document that a projection names.
#[derive(Clone, Debug, Default)]
struct Branch {
    /// In the projection's order.
    fields: Vec<(String, Entry)>,
    /// The places of the fields by name, once there are many.
    places: HashMap<Vec<u8>, usize>,
    /// Whether a field is computed here or inside.
    computed: bool,
    /// Whether the positional `$` is here or inside.
    positional: bool,
}

/// Up to how many fields a name is found faster by looking at each.
const FEW_FIELDS: usize = 16;

impl Branch {
    /// The place of the field called `name`.
    #[inline]
    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.fields.len() <= FEW_FIELDS {
            return self.fields.iter().position(|(known, _)| known.as_bytes() == name);
        }
        self.places.get(name).copied()
    }

    /// Adds a field that is not there.
    fn push(&mut self, name: &str, entry: Entry) {
        self.fields.push((name.to_owned(), entry));
        if self.fields.len() > FEW_FIELDS {
            let fields = self.fields.iter().enumerate().skip(self.places.len());
            self.places.extend(fields.map(|(at, (name, _))| (name.clone().into_bytes(), at)));
        }
    }

    /// Removes a field if it is there.
    fn remove(&mut self, name: &str) {
        self.places.clear();
        for (known, entry) in std::mem::take(&mut self.fields) {
            if known != name {
                self.push(&known, entry);
            }
        }
    }
}

/// What happens to one field.
#[derive(Clone, Debug)]
enum Entry {
    /// It stays as it is.
    Keep,
    /// It goes.
    Drop,
    /// Its inner fields are projected.
    Branch(Branch),
    /// It is computed.
    Computed(Expr),
    /// Of an array, the first element stays that matches the filter, which is on the field itself.
    ElemMatch(Box<Filter>),
    /// Of an array, a part stays.
    Slice(Slice),
    /// Of an array, the element stays that the query matched.
    Positional,
}

/// Where a field of a transformed document comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The field of the same name.
    Same,
    /// It is not there.
    Missing,
}

/// The find projection `$slice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    /// The first elements.
    First(usize),
    /// The last elements.
    Last(usize),
    /// So many elements from this one on.
    From(usize, usize),
    /// So many elements from the one that comes so many before the end on.
    FromEnd(usize, usize),
}

impl Projection {
    /// Parses the projection of a find.
    pub fn parse(spec: Doc<'_>, env: &ProjectionEnv<'_>) -> Result<Projection> {
        parse::find(spec, env)
    }

    /// Parses the argument of the stage `$project`.
    pub fn parse_stage(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Projection> {
        parse::stage(spec, scope)
    }

    /// Parses the argument of the stage `$unset`: a field or an array of fields.
    pub fn parse_unset(spec: Value<'_>) -> Result<Projection> {
        parse::unset(spec)
    }

    /// Appends the projected document to `out`. `array_index` is what the positional `$` stands for.
    pub fn apply<'a>(
        &'a self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        env: &EvalEnv<'a>,
        out: &mut DocBuilder,
    ) -> Result<()> {
        let run = apply::Run { array_index, env, chosen: false };
        if self.inclusion { run.include(doc, &self.root, out) } else { run.exclude(doc, &self.root, out) }
    }

    /// The projected document.
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

    /// Whether documents stay as they are.
    pub fn is_identity(&self) -> bool {
        !self.inclusion && self.root.fields.is_empty()
    }

    /// Whether the projection names what stays, not what goes.
    pub fn is_inclusion(&self) -> bool {
        self.inclusion
    }

    /// Whether [`Projection::apply`] wants to know which array element the query matched.
    pub fn needs_array_index(&self) -> bool {
        self.positional
    }

    /// The paths that stay if that is all the projection does: what an index must hold to answer alone.
    pub fn covered_paths(&self) -> Option<Vec<Path>> {
        if self.root.computed { None } else { self.needed_paths(None) }
    }

    /// The paths that the projected document depends on, or the part of it that is `wanted`; `None` means all.
    pub fn needed_paths(&self, wanted: Option<&[Path]>) -> Option<Vec<Path>> {
        if !self.inclusion {
            // What is left out is not there to be read.
            return wanted.map(<[Path]>::to_vec);
        }
        let mut paths = Vec::new();
        needed_paths(&self.root, "", &mut paths)?;
        // What is computed may fail, so it counts even if nobody wants it.
        let kept = paths.into_iter().filter(|(path, computed)| {
            let is_wanted = |wanted: &Path| wanted.name(0) == path.name(0);
            *computed || wanted.is_none_or(|wanted| wanted.iter().any(is_wanted))
        });
        Some(kept.map(|(path, _)| path).collect())
    }

    /// Whether the top-level field `name` may come out other than it went in.
    pub fn changes(&self, name: &str) -> bool {
        self.origin(name) != Some(Origin::Same)
    }

    /// Where the top-level field `name` of a projected document comes from; `None` if it is computed, or only parts of it stay.
    pub(crate) fn origin(&self, name: &str) -> Option<Origin> {
        match self.root.position(name.as_bytes()).map(|at| &self.root.fields[at].1) {
            Some(Entry::Keep) => Some(Origin::Same),
            Some(Entry::Drop) => Some(Origin::Missing),
            Some(_) => None,
            None => Some(if self.inclusion { Origin::Missing } else { Origin::Same }),
        }
    }

    /// Whether nothing is computed inside of fields.
    pub(crate) fn computes_at_the_top(&self) -> bool {
        let computes_inside = |entry: &Entry| matches!(entry, Entry::Branch(branch) if branch.computed);
        !self.root.fields.iter().any(|(_, entry)| computes_inside(entry))
    }

    /// The top-level fields that stay exactly as they are.
    pub fn kept_fields(&self) -> impl Iterator<Item = &str> {
        let keeps = |(_, entry): &&(String, Entry)| matches!(entry, Entry::Keep);
        self.root.fields.iter().filter(keeps).map(|(name, _)| name.as_str())
    }

    /// The top-level fields that are computed, with what computes them.
    pub fn computed_fields(&self) -> impl Iterator<Item = (&str, &Expr)> {
        self.root.fields.iter().filter_map(|(name, entry)| match entry {
            Entry::Computed(expr) => Some((name.as_str(), expr)),
            _ => None,
        })
    }
}

/// Collects the paths that stay, and with `true` those that are computed from; `None` if there is anything else.
fn needed_paths(branch: &Branch, prefix: &str, paths: &mut Vec<(Path, bool)>) -> Option<()> {
    branch.fields.iter().try_for_each(|(name, entry)| {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match entry {
            Entry::Keep => paths.push((Path::new(&path), false)),
            Entry::Drop => {}
            Entry::Branch(inner) => {
                // Whether the object around is there is told by the object alone.
                paths.extend(inner.computed.then(|| (Path::new(&path), true)));
                needed_paths(inner, &path, paths)?;
            }
            Entry::Computed(expr) => {
                let mut read = Vec::new();
                expr.read_paths(&mut read)?;
                paths.extend(read.into_iter().map(|path| (path.clone(), true)));
            }
            Entry::ElemMatch(_) | Entry::Slice(_) | Entry::Positional => return None,
        }
        Some(())
    })
}
