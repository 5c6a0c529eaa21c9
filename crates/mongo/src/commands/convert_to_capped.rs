//! `convertToCapped` and `cloneCollectionAsCapped`: a collection's documents in one that is bounded. Indexes but the one
//! on `_id` stay behind, as in MongoDB.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::missing;
use diwan_store::Namespace;
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let from = request.namespace()?;
    let clones = request.name == "cloneCollectionAsCapped";
    let (mut to, mut size) = (None, None);
    request.read(|field| {
        match field.key {
            "toCollection" if clones => to = Some(field.string()?),
            "size" => size = Some(field.integer()?),
            "temp" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let size = size.ok_or_else(|| missing(request.name, "size"))?;
    if size <= 0 {
        return Err(CommandError::new(
            code::INVALID_OPTIONS,
            "Capped collection size must be greater than zero",
        ));
    }
    let store = &context.server.store;
    match to {
        Some(name) => {
            let target = Namespace::new(&from.database, name)?;
            store.clone_as_capped(&from, &target, size, &context.interrupt)?;
        }
        None if clones => return Err(missing(request.name, "toCollection")),
        None => store.convert_to_capped(&from, size, &context.interrupt)?,
    }
    context.fence()
}
