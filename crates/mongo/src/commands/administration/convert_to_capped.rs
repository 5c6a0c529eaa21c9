//! `convertToCapped` and `cloneCollectionAsCapped`: make a capped collection of a collection. As in MongoDB, only the
//! index on `_id` is kept.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::missing;
use diwan_store::Namespace;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let from = request.namespace()?;
    let is_clone = request.name == "cloneCollectionAsCapped";
    let (mut to, mut size) = (None, None);
    request.read(|field| {
        match field.key {
            "toCollection" if is_clone => to = Some(field.string()?),
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
    let store = context.store;
    match to {
        Some(name) => {
            let target = Namespace::new(&from.database, name)?;
            store.clone_as_capped(&from, &target, size, &context.interrupt)?;
        }
        None if is_clone => return Err(missing(request.name, "toCollection")),
        None => store.convert_to_capped(&from, size, &context.interrupt)?,
    }
    context.fence()
}
