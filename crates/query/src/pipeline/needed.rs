//! Finds the document paths that a pipeline reads, so that an index that contains them can replace the documents.

use super::{Operation, Stage, Transform};
use crate::accumulator::Accumulator;
use diwan_value::Path;

/// The input paths that the result of these stages depends on; `None` if it may depend on any path.
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
            group.id().read_paths(&mut paths)?;
            for (_, accumulator) in group.fields() {
                by_accumulator(accumulator, &mut paths)?;
            }
            Some(owned(paths))
        }
        Operation::Transform(transform) => match &**transform {
            Transform::Project(projection) => projection.needed_paths(by_stages(rest).as_deref()),
            Transform::Replace(expr) => {
                let mut paths = Vec::new();
                expr.read_paths(&mut paths)?;
                Some(owned(paths))
            }
            Transform::AddFields(fields) => {
                let mut wanted = by_stages(rest)?;
                wanted.retain(|path| fields.expression(path.name(0)).is_none());
                // A computed field may fail, so its paths count even if no later stage reads it.
                let mut read = Vec::new();
                fields.expressions().into_iter().try_for_each(|expr| expr.read_paths(&mut read))?;
                wanted.extend(owned(read));
                Some(wanted)
            }
        },
        _ => None,
    }
}

/// Adds the paths that an accumulator reads; `None` if it reads the whole document.
fn by_accumulator<'a>(accumulator: &'a Accumulator, paths: &mut Vec<&'a Path>) -> Option<()> {
    paths.extend(accumulator.sort_paths());
    accumulator.expressions().try_for_each(|expr| expr.read_paths(paths))
}

fn owned(paths: Vec<&Path>) -> Vec<Path> {
    paths.into_iter().cloned().collect()
}
