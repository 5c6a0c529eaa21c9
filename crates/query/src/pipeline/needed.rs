//! Which paths of its documents a pipeline reads, so that an index which holds them all can stand for the documents.

use super::{Operation, Stage, Transform};
use crate::accumulator::Accumulator;
use crate::expr::{Expr, Variable};
use diwan_value::Path;

/// The paths of the input that the result of these stages depends on; `None` if that may be any.
pub(super) fn by_stages(stages: &[Stage]) -> Option<Vec<Path>> {
    let (stage, rest) = stages.split_first()?;
    match &stage.operation {
        Operation::Skip(_) | Operation::Limit(_) | Operation::Sample(_) => by_stages(rest),
        Operation::Count(_) => Some(Vec::new()),
        Operation::Sort(stage) => {
            let mut paths = by_stages(rest)?;
            paths.extend(stage.sort.parts().iter().map(|part| part.path.clone()));
            Some(paths)
        }
        Operation::Group(group) => {
            let mut paths = Vec::new();
            by_expression(group.id(), &mut paths)?;
            for (_, accumulator) in group.fields() {
                by_accumulator(accumulator, &mut paths)?;
            }
            Some(paths)
        }
        Operation::Transform(transform) => match &**transform {
            Transform::Project(projection) => projection.needed_paths(by_stages(rest).as_deref()),
            Transform::Replace(expr) => {
                let mut paths = Vec::new();
                by_expression(expr, &mut paths)?;
                Some(paths)
            }
            Transform::AddFields(fields) => {
                let mut paths = by_stages(rest)?;
                paths.retain(|path| fields.expression(path.name(0)).is_none());
                // What is computed may fail, so it counts even if nobody wants it.
                for expr in fields.expressions() {
                    by_expression(expr, &mut paths)?;
                }
                Some(paths)
            }
        },
        _ => None,
    }
}

fn by_accumulator(accumulator: &Accumulator, paths: &mut Vec<Path>) -> Option<()> {
    paths.extend(accumulator.sort_paths().cloned());
    accumulator.expressions().try_for_each(|expr| by_expression(expr, paths))
}

/// Adds the paths that an expression reads; `None` if it reads the whole document.
pub(crate) fn by_expression(expr: &Expr, paths: &mut Vec<Path>) -> Option<()> {
    match expr {
        Expr::Variable { variable: Variable::Root, path: None } => return None,
        Expr::Variable { variable: Variable::Root, path: Some(path) } => paths.push(path.clone()),
        _ => {}
    }
    expr.children().into_iter().try_for_each(|child| by_expression(child, paths))
}
