//! A `$group` behind a stage that only names, drops and computes fields reads what it needs from that stage's input: no
//! document is made in between.

use super::{Group, Transform};
use crate::expr::{Expr, Variable};
use crate::projection::Origin;

/// So many fields a group reads at most: one that reads more gains by the small document in between.
const MOST_READS: usize = 4;

/// The group that makes of a transform's input what `group` makes of its output; `None` if that is unknown or does not pay.
///
/// What is computed may fail, so it is still computed for every document. Only where several things fail for the same
/// document, the error may be another one of theirs.
pub(super) fn group_over(transform: &Transform, group: &Group) -> Option<Group> {
    let mut computed = computed_fields(transform)?;
    let mut reads = 0;
    let group = group.read_from(&mut |path, always| {
        reads += 1;
        match computed.iter_mut().find(|field| field.name == path.name(0)) {
            // A path into what is computed would have to be followed there.
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

/// What a transform computes, and how often the group reads it.
struct Computed<'t> {
    name: &'t str,
    expr: &'t Expr,
    uses: usize,
}

impl Computed<'_> {
    /// Whether nothing but the place where it is computed changes.
    fn may_be_moved(&self) -> bool {
        match self.uses {
            0 => is_field(self.expr) || self.expr.as_literal().is_some(),
            1 => true,
            _ => self.expr.is_repeatable(),
        }
    }
}

/// Everything that a transform computes; `None` if some of it is not a top-level field.
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

/// Whether an expression is a field or a variable, which cannot fail, or nothing.
fn is_field(expr: &Expr) -> bool {
    match expr {
        Expr::Missing => true,
        Expr::Variable { variable, .. } => matches!(variable, Variable::Root | Variable::Slot(_)),
        _ => false,
    }
}
