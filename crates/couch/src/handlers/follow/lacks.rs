//! `POST /_diwan/follow/lacks`: which revisions of a server that joins again this one does not know.

use super::{answer, binary, collection, list_revisions, malformed, read, revisions};
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_value::{ArrayBuilder, DocBuilder, Value, doc};

/// Answers with the unknown ones.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let asked = read(request)?;
    let collection = collection(&couch, asked.as_doc())?;
    let mut lacking = ArrayBuilder::new();
    for one in asked.as_doc().get_array("documents").ok_or_else(malformed)?.iter() {
        let one = one.as_doc().ok_or_else(malformed)?;
        let id = binary(one, "i")?;
        let unknown = collection.lacks(id, &revisions(binary(one, "r")?)?)?;
        if !unknown.is_empty() {
            let listed = list_revisions(&unknown);
            let binary = |bytes| Value::Binary { subtype: 0, bytes };
            lacking.push(doc! { "i": binary(id), "r": binary(&listed) });
        }
    }
    let mut out = DocBuilder::new();
    out.append("documents", lacking);
    Ok(answer(out.finish().into_bytes()))
}
