//! `create`: creates a collection or a view.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION};
use diwan_query::code;
use diwan_store::Error;
use diwan_value::{DocBuf, DocBuilder};

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let mut options = DocBuilder::new();
    context.request.read(|field| {
        match field.key {
            // Clients repeat the specification of the `_id` index, which they cannot change.
            "idIndex" => {
                field.document()?;
            }
            key => {
                options.append(key, field.value());
            }
        }
        Ok(())
    })?;
    let options: DocBuf = options.finish();
    if context.source.transaction().is_some() && options.as_doc().contains_key("viewOn") {
        let text = "Cannot create a view in a multi-document transaction.";
        return Err(CommandError::new(OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
    }
    let store = context.store;
    match store.create(&namespace, options.as_doc()) {
        // Outside of transactions, creating a collection again with the same options succeeds and changes nothing.
        Err(Error::Query(error))
            if error.code == code::NAMESPACE_EXISTS && context.source.transaction().is_none() =>
        {
            let wanted = diwan_store::CollectionOptions::parse(options.as_doc())?;
            match store.entry(&namespace) {
                Some(entry) if entry.options().to_doc() == wanted.to_doc() => {}
                _ => return Err(error.into()),
            }
        }
        outcome => outcome.map(drop)?,
    }
    context.fence()
}
