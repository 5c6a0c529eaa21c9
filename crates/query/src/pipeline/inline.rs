//! Combines a `$group` with the stage before it if that stage only names, drops and computes fields: the group then
//! reads from that stage's input, and no intermediate document is built.

use super::{Group, Transform};
use crate::expr::{Expr, Variable};
use crate::projection::Origin;

/// The maximum number of fields that such a group may read. A group that reads more is faster with the small
/// intermediate document.
const MOST_READS: usize = 4;

/// Rewrites `group` to read from the input of `transform` with the same result. `None` if that is not possible or not
/// faster.
///
/// A computed field may fail, so it is still computed for every document. Only if several expressions fail for one
/// document, the error may come from another of them.
pub(super) fn group_over(transform: &Transform, group: &Group) -> Option<Group> {
    let mut computed = computed_fields(transform)?;
    let mut reads = 0;
    let group = group.read_from(&mut |path, always| {
        reads += 1;
        match computed.iter_mut().find(|field| field.name == path.name(0)) {
            // A path into a computed value would have to be followed inside that value.
            Some(_) if path.depth() > 1 => None,
            Some(field) => {
                field.uses += 1;
                (always || is_field(field.expr)).then(|| field.expr.clone())
            }
            None => match transform.origin(path.name(0))? {
                Origin::Same => Some(Expr::Variable { variable: Variable::Root, path: Some(path.clone()) }),
                Origin::Missing => Some(Expr::Missing),
            },
        }
    })?;
    (reads <= MOST_READS && computed.iter().all(Computed::may_be_moved)).then_some(group)
}

/// A computed field of the transform, and how often the group reads it.
struct Computed<'t> {
    name: &'t str,
    expr: &'t Expr,
    uses: usize,
}

impl Computed<'_> {
    /// Whether computing the field in the group instead gives the same results and errors.
    fn may_be_moved(&self) -> bool {
        match self.uses {
            0 => is_field(self.expr) || self.expr.as_literal().is_some(),
            1 => true,
            _ => self.expr.is_repeatable(),
        }
    }
}

/// All fields that a transform computes; `None` if one of them is not a top-level field.
fn computed_fields(transform: &Transform) -> Option<Vec<Computed<'_>>> {
    let fields: Vec<(&str, &Expr)> = match transform {
        Transform::Project(projection) => {
            projection.computes_at_the_top().then(|| projection.computed_fields().collect())?
        }
        Transform::AddFields(fields) => {
            fields.names().map(|name| Some((name, fields.expression(name)?))).collect::<Option<_>>()?
        }
        Transform::Replace(_) => return None,
    };
    Some(fields.into_iter().map(|(name, expr)| Computed { name, expr, uses: 0 }).collect())
}

/// Whether an expression is a field, a variable or missing, none of which can fail.
fn is_field(expr: &Expr) -> bool {
    match expr {
        Expr::Missing => true,
        Expr::Variable { variable, .. } => matches!(variable, Variable::Root | Variable::Slot(_)),
        _ => false,
    }
}
