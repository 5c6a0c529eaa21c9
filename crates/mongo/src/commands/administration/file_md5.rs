//! `filemd5`: the MD5 of a GridFS file. Older drivers compare it after an upload.

use crate::commands::shared::hex;
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_store::Namespace;
use diwan_store::ops::Find;
use diwan_value::{DocBuilder, Value, doc};
use md5::{Digest, Md5};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let mut root = "fs";
    request.read(|field| {
        match field.key {
            "root" => root = field.string()?,
            "partialOk" if !field.flag()? => {}
            "partialOk" | "md5state" => {
                return Err(CommandError::not_implemented(format_args!("filemd5.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let (filter, sort) = (doc! { "files_id": request.target() }, doc! { "files_id": 1, "n": 1 });
    let find = Find {
        filter: filter.as_doc(),
        sort: Some(sort.as_doc()),
        scope: context.scope(),
        ..Find::default()
    };
    let chunks = Namespace::new(request.arguments.database, &format!("{root}.chunks"))?;
    let mut source = context.store.find(&chunks, &find)?;
    let (mut hash, mut count) = (Md5::new(), 0i32);
    while source.advance(&context.interrupt)? {
        let chunk = source.current();
        let (Some(number), Some(Value::Binary { bytes, .. })) = (chunk.get("n"), chunk.get("data")) else {
            return Err(CommandError::new(50849, "The element that calls binData() must be type of BinData"));
        };
        if number.as_i64_exact() != Some(count.into()) {
            return Err(CommandError::new(10040, "chunks out of order"));
        }
        hash.update(bytes);
        count += 1;
    }
    reply.append("numChunks", count).append("md5", hex(&hash.finalize()));
    Ok(())
}
