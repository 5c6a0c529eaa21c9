//! `POST /{db}/_bulk_get`: many revisions of many documents, in the requested order.

use super::document::get::{Opened, open, relate};
use crate::document::{
    DocOptions, IdKey, OpenRevs, Rev, Show, check_new, parse_id, parse_list, push_rev, send_related,
    write_doc,
};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response, RowWriter, begins_as_object, multipart};
use crate::users;
use diwan_store::{Collection, ReadView};
use diwan_value::json::{ArraySplitter, write_string};
use hyper::header::CONTENT_TYPE;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// How many bytes of the body are read at once.
const PIECE: usize = 64 << 10;

/// One requested document.
struct Asked {
    /// The id as given, or null.
    id: Value,
    wanted: std::result::Result<Wanted, Refusal>,
}

struct Wanted {
    id: IdKey,
    revs: OpenRevs,
    show: Show,
}

/// Why a document cannot be returned.
struct Refusal {
    /// The value of `rev` in the error.
    rev: Value,
    error: &'static str,
    reason: String,
}

/// Returns the documents.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let mut options = DocOptions::parse_for_many(&request.query)?;
    options.show.exact_integers = request.keeps_integers();
    let asked = read(request, &collection, &options.show.of_revision())?;
    let latest = options.latest;
    // JSON is preferred if the client accepts it.
    let mixed = request.takes("multipart/mixed");
    if !request.takes("application/json") && (mixed || request.takes("multipart/related")) {
        let boundary = format!("--{}", multipart::boundary());
        let kind = if mixed { "multipart/mixed" } else { "multipart/related" };
        let kind = format!("{kind}; boundary=\"{boundary}\"");
        let mut rest = asked.into_iter();
        let mut is_empty = true;
        let response = Response::rows(move |out| {
            let view = out.view(&collection);
            while !out.is_full() {
                let Some(one) = rest.next() else {
                    if !is_empty {
                        write!(out, "\r\n--{boundary}--\r\n")?;
                    }
                    return Ok(Flow::Done);
                };
                is_empty = false;
                write_parts(out, &view, &one, latest, &boundary)?;
            }
            Ok(Flow::More)
        });
        return Ok(response.with_header(CONTENT_TYPE, kind));
    }
    let mut rest = asked.into_iter();
    let mut begun = false;
    Ok(Response::rows(move |out| {
        let view = out.view(&collection);
        while !out.is_full() {
            let next = rest.next();
            match (&next, std::mem::replace(&mut begun, true)) {
                (_, false) => out.write_all(br#"{"results":["#)?,
                (Some(_), true) => out.buffer().push(b','),
                (None, true) => {}
            }
            let Some(one) = next else {
                out.write_all(b"]}\n")?;
                return Ok(Flow::Done);
            };
            write_result(out, &view, &one, latest)?;
        }
        Ok(Flow::More)
    }))
}

/// Parses the requested documents from the body, which may be long.
fn read(request: &mut Request, collection: &Arc<Collection>, show: &Show) -> Result<Vec<Asked>> {
    let limit = request.couch.max_request_bytes();
    let mut body = request.take_body();
    let mut splitter = ArraySplitter::new("docs", limit);
    let mut piece = vec![0; PIECE];
    let mut asked = Vec::new();
    let mut length = 0;
    loop {
        let count = body.read(&mut piece)?;
        if count == 0 {
            break;
        }
        if length == 0 {
            begins_as_object(&piece[..count])?;
        }
        length += count;
        if length > limit {
            return Err(Error::too_large("the request entity is too large"));
        }
        splitter.feed(&piece[..count]);
        while let Some(text) = splitter.next_element()? {
            let value: Value = serde_json::from_slice(text)
                .map_err(|error| Error::bad_request(format!("invalid UTF-8 JSON: {error}")))?;
            let check = |id: &str| {
                check_new(collection, id)?;
                users::require_whole(request, collection, id)
            };
            asked.push(parse(&value, show, &check));
        }
    }
    let found = splitter.found();
    splitter.finish()?;
    if !found {
        return Err(Error::bad_request("Missing JSON list of 'docs'."));
    }
    Ok(asked)
}

fn parse(value: &Value, show: &Show, check: &dyn Fn(&str) -> Result<()>) -> Asked {
    let refuse = |id: &Value, rev: Value, error: &'static str, reason: &str| Asked {
        id: id.clone(),
        wanted: Err(Refusal { rev, error, reason: reason.to_owned() }),
    };
    // Every refusal is a row of the answer: one bad request does not fail the others.
    let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
        return refuse(&Value::Null, Value::Null, "bad_request", "document must be a JSON object");
    };
    let Some(given) = object.get("id") else {
        return refuse(&Value::Null, Value::Null, "bad_request", "document id missed");
    };
    let Some(text) = given.as_str() else {
        return refuse(given, Value::Null, "illegal_docid", "Document id must be a string");
    };
    let id = match parse_id(text).and_then(|id| check(text).map(|()| id)) {
        Ok(id) => id,
        Err(Error { error: Cow::Borrowed(error), reason, .. }) => {
            return refuse(given, Value::Null, error, &reason);
        }
        Err(error) => return refuse(given, Value::Null, "illegal_docid", &error.reason),
    };
    let revs = match object.get("rev") {
        None | Some(Value::Null) => OpenRevs::All,
        Some(rev) => match rev.as_str().map(Rev::parse) {
            Some(Ok(rev)) => OpenRevs::List(vec![rev]),
            _ => return refuse(given, rev.clone(), "bad_request", "Invalid rev format"),
        },
    };
    let mut show = show.clone();
    match object.get("atts_since") {
        None => {}
        Some(Value::Array(list)) if list.is_empty() => {}
        Some(list @ Value::Array(_)) => match parse_list(list) {
            Ok(since) => {
                show.atts_since = since.iter().filter_map(Rev::own).collect();
                show.attachments = true;
            }
            Err(_) => return refuse(given, list.clone(), "bad_request", "Invalid rev format"),
        },
        Some(other) => {
            let reason = "att_since value must be array of revs.";
            return refuse(given, other.clone(), "bad_request", reason);
        }
    }
    Asked { id: given.clone(), wanted: Ok(Wanted { id, revs, show }) }
}

/// Finds the requested revisions. If none is found, the result is one refusal.
fn find(view: &ReadView, wanted: &Wanted, latest: bool) -> Result<std::result::Result<Opened, Refusal>> {
    let opened = open(view, &wanted.id, &wanted.revs, latest)?;
    if !opened.is_empty() {
        return Ok(Ok(opened));
    }
    let rev = match &wanted.revs {
        OpenRevs::All => Value::from("undefined"),
        OpenRevs::List(revs) => {
            let mut text = Vec::new();
            for rev in revs.iter().filter_map(Rev::own) {
                push_rev(&mut text, &rev);
            }
            Value::from(String::from_utf8_lossy(&text).into_owned())
        }
    };
    Ok(Err(Refusal { rev, error: "not_found", reason: "missing".to_owned() }))
}

fn write_result(out: &mut RowWriter, view: &ReadView, asked: &Asked, latest: bool) -> io::Result<()> {
    write!(out.buffer(), r#"{{"id":{},"docs":["#, asked.id)?;
    let wanted = match &asked.wanted {
        Ok(wanted) => wanted,
        Err(refusal) => return write_refusal(out, &asked.id, refusal),
    };
    let opened = match find(view, wanted, latest)? {
        Ok(opened) => opened,
        Err(refusal) => return write_refusal(out, &asked.id, &refusal),
    };
    for (at, one) in opened.iter().enumerate() {
        if at > 0 {
            out.buffer().push(b',');
        }
        match one {
            Ok(doc) => {
                out.buffer().extend_from_slice(br#"{"ok":"#);
                write_doc(out, view, &wanted.id.key, doc, &wanted.show)?;
                out.buffer().push(b'}');
            }
            Err(rev) => {
                let buffer = out.buffer();
                write!(buffer, r#"{{"error":{{"id":{},"rev":""#, asked.id)?;
                rev.push(buffer);
                buffer.extend_from_slice(br#"","error":"not_found","reason":"missing"}}"#);
            }
        }
    }
    out.buffer().extend_from_slice(b"]}");
    Ok(())
}

fn write_refusal(out: &mut RowWriter, id: &Value, refusal: &Refusal) -> io::Result<()> {
    out.buffer().extend_from_slice(br#"{"error":"#);
    describe(out.buffer(), id, refusal)?;
    out.buffer().extend_from_slice(b"}]}");
    Ok(())
}

fn describe(out: &mut Vec<u8>, id: &Value, refusal: &Refusal) -> io::Result<()> {
    write!(out, r#"{{"id":{id},"rev":{},"error":"{}","reason":"#, refusal.rev, refusal.error)?;
    write_string(out, &refusal.reason);
    out.push(b'}');
    Ok(())
}

fn write_parts(
    out: &mut RowWriter,
    view: &ReadView,
    one: &Asked,
    latest: bool,
    boundary: &str,
) -> io::Result<()> {
    const ERROR: &str = "Content-Type: application/json; error=\"true\"";
    let opened = match &one.wanted {
        Ok(wanted) => find(view, wanted, latest)?.map(|opened| (wanted, opened)),
        Err(refusal) => {
            write!(out, "\r\n--{boundary}\r\n{ERROR}\r\n\r\n")?;
            describe(out.buffer(), &one.id, refusal)?;
            return Ok(());
        }
    };
    let (wanted, opened) = match opened {
        Ok(found) => found,
        Err(refusal) => {
            write!(out, "\r\n--{boundary}\r\n{ERROR}\r\n\r\n")?;
            describe(out.buffer(), &one.id, &refusal)?;
            return Ok(());
        }
    };
    // All nested parts share one boundary, which differs from the outer one.
    let inner = format!("--{}", multipart::boundary());
    for doc in &opened {
        write!(out, "\r\n--{boundary}")?;
        match doc {
            Ok(doc) => {
                let related = relate(view, &wanted.id, doc, &wanted.show, inner.clone())?;
                if related.following.is_empty() {
                    write!(out, "\r\nContent-Type: application/json\r\n\r\n")?;
                } else {
                    let id = multipart::header_value(one.id.as_str().unwrap_or_default());
                    write!(
                        out,
                        "\r\nX-Doc-Id: {id}\r\nX-Rev-Id: {}\r\nContent-Type: {}\r\n\r\n",
                        doc.revision,
                        related.content_type()
                    )?;
                }
                send_related(out, view.collection(), &related)?;
            }
            Err(rev) => {
                write!(out, "\r\n{ERROR}\r\n\r\n{{\"rev\":\"")?;
                rev.push(out.buffer());
                out.write_all(br#"","error":"not_found","reason":"missing"}"#)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requested_documents_are_validated_separately() {
        let parse = |value| parse(&value, &Show::default(), &|_| Ok(()));
        let refused = |value| match parse(value).wanted {
            Ok(_) => String::new(),
            Err(refusal) => format!("{} {}: {}", refusal.rev, refusal.error, refusal.reason),
        };
        assert_eq!(refused(json!({})), "null bad_request: document must be a JSON object");
        assert_eq!(refused(json!({"rev": "1-x"})), "null bad_request: document id missed");
        assert_eq!(
            refused(json!({"id": "_x"})),
            "null illegal_docid: Only reserved document ids may start with underscore."
        );
        assert_eq!(refused(json!({"id": "a", "rev": "x"})), "\"x\" bad_request: Invalid rev format");
        assert!(refused(json!({"id": "a", "atts_since": 1})).contains("array of revs"));
        assert_eq!(refused(json!({"id": "a", "rev": "1-x", "atts_since": []})), "");
        let asked = parse(json!({"id": "a", "atts_since": ["1-x"]}));
        assert!(asked.wanted.is_ok_and(|wanted| wanted.show.attachments && wanted.revs == OpenRevs::All));
    }
}
