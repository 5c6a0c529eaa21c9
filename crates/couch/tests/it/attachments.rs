//! Attachments: standalone, inline, as stubs, and in `multipart/related`.

use crate::setup::{database, rev};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_testkit::HttpClient;
use serde_json::json;
use std::io::Write;

const PLAIN: (&str, &str) = ("Content-Type", "image/png");

#[test]
fn attachments_are_stored_read_replaced_and_deleted() {
    let (_server, mut http) = database();
    let made = http.send("PUT", "/db/d/dir%2Fa%20b.png", &[PLAIN], b"0123456789");
    assert_eq!((made.status, rev(&made).starts_with("1-")), (201, true));
    assert_eq!(made.header("location"), Some("http://localhost/db/d/dir%2Fa%20b.png"));
    let got = http.get("/db/d/dir/a%20b.png");
    assert_eq!((got.status, got.body.as_slice()), (200, &b"0123456789"[..]));
    let digest = "eB5eJF1ptWaXm4bijSPyxw==";
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "10"),
        ("accept-ranges", "bytes"),
        ("content-md5", digest),
        ("cache-control", "must-revalidate"),
        ("etag", &format!("\"{digest}\"")),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    let tag = format!("\"{digest}\"");
    assert_eq!(http.send("GET", "/db/d/dir/a%20b.png", &[("If-None-Match", &tag)], b"").status, 304);
    let head = http.send("HEAD", "/db/d/dir/a%20b.png", &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
    let stub = &http.get("/db/d").json()["_attachments"]["dir/a b.png"];
    assert_eq!(
        *stub,
        json!({"content_type": "image/png", "revpos": 1, "digest": format!("md5-{digest}"), "length": 10, "stub": true})
    );
    assert_eq!(http.send("PUT", "/db/d/other", &[PLAIN], b"x").status, 409);
    let unknown = format!("/db/d/other?rev=1-{}", "0".repeat(32));
    assert_eq!(http.send("PUT", &unknown, &[PLAIN], b"x").refusal().2, "missing_rev");
    let second = rev(&http.send("PUT", &format!("/db/d/other?rev={}", rev(&made)), &[PLAIN], b"x"));
    let attachments = http.get("/db/d").json()["_attachments"].clone();
    assert_eq!(
        (attachments["other"]["revpos"].as_u64(), attachments["dir/a b.png"]["revpos"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(http.send("DELETE", "/db/d/none", &[], b"").refusal().2, "Document is missing attachment");
    assert_eq!(http.send("DELETE", "/db/d/other", &[], b"").status, 409);
    let third = http.send("DELETE", &format!("/db/d/other?rev={second}"), &[], b"");
    assert_eq!((third.status, rev(&third).starts_with("3-")), (200, true));
    assert_eq!(http.get("/db/d/other").refusal().0, 404);
    assert_eq!(http.get(&format!("/db/d/other?rev={second}")).body, b"x");
    assert_eq!(http.get("/db/none/other").refusal().2, "missing");
    assert_eq!(http.send("PUT", "/db/e/_x", &[], b"x").refusal().0, 400);
    let wrong = http.send("PUT", "/db/e/x", &[("Content-MD5", digest)], b"x");
    assert_eq!(wrong.refusal().1, "content_md5_mismatch");
    let odd = http.send("PUT", "/db/e/x", &[("Content-Encoding", "br")], b"x");
    assert_eq!(odd.refusal().1, "bad_content_type");
}

#[test]
fn range_requests_return_partial_content() {
    let (_server, mut http) = database();
    http.send("PUT", "/db/d/a", &[PLAIN], b"0123456789");
    let part = http.send("GET", "/db/d/a", &[("Range", "bytes=2-4")], b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
    assert_eq!(http.send("GET", "/db/d/a", &[("Range", "bytes=-3")], b"").body, b"789");
    // If `If-Range` does not match, the whole attachment is sent.
    let tag = part.header("etag").unwrap().to_owned();
    for (condition, status) in [(tag.as_str(), 206), ("\"other\"", 200)] {
        let rest = http.send("GET", "/db/d/a", &[("Range", "bytes=2-4"), ("If-Range", condition)], b"");
        assert_eq!(rest.status, status, "{condition}");
    }
    assert_eq!(http.send("GET", "/db/d/a", &[("Range", "bytes=0-")], b"").status, 200);
    let bad = http.send("GET", "/db/d/a", &[("Range", "bytes=10-12")], b"");
    assert_eq!(bad.refusal().1, "requested_range_not_satisfiable");
    assert_eq!(bad.status, 416);
    let several = http.send("GET", "/db/d/a", &[("Range", "bytes=0-1,8-9")], b"");
    assert_eq!(several.status, 206);
    assert!(several.header("content-type").unwrap().starts_with("multipart/byteranges; boundary="));
    assert!(several.text().contains("Content-Range: bytes 8-9/10\r\n\r\n89\r\n--"));
}

#[test]
fn text_attachments_are_stored_compressed() {
    let (_server, mut http) = database();
    let text = "many words ".repeat(10_000);
    let first =
        rev(&http.send("PUT", "/db/d/t", &[("Content-Type", "text/plain; charset=utf-8")], text.as_bytes()));
    let plain = http.get("/db/d/t");
    assert_eq!((plain.text() == text, plain.header("content-encoding")), (true, None));
    assert_eq!(plain.header("content-length"), Some(text.len().to_string().as_str()));
    assert_eq!(plain.header("accept-ranges"), Some("none"));
    let packed = http.send("GET", "/db/d/t", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < 5_000);
    let stub = http.get("/db/d?att_encoding_info=true").json()["_attachments"]["t"].clone();
    assert_eq!((stub["length"].as_u64(), stub["encoding"].as_str()), (Some(text.len() as u64), Some("gzip")));
    assert_eq!(stub["encoded_length"].as_u64(), Some(packed.body.len() as u64));
    // A compressed upload is stored unchanged.
    let sent = [("Content-Type", "image/png"), ("Content-Encoding", "gzip")];
    assert_eq!(http.send("PUT", &format!("/db/d/u?rev={first}"), &sent, &packed.body).status, 201);
    let unpacked = http.get("/db/d/u");
    assert_eq!((unpacked.text() == text, unpacked.header("content-length")), (true, None));
    // As in CouchDB, its uncompressed length is unknown.
    let stub = http.get("/db/d?att_encoding_info=true").json()["_attachments"]["u"].clone();
    assert_eq!(
        (stub["length"].as_u64(), stub["encoded_length"].as_u64()),
        (Some(packed.body.len() as u64), Some(packed.body.len() as u64))
    );
    let whole = http.get("/db/d?attachments=true").json()["_attachments"]["u"]["data"].clone();
    assert_eq!(STANDARD.decode(whole.as_str().unwrap()).unwrap(), text.as_bytes());
    assert_eq!(http.send("GET", "/db/d/u", &[("Accept-Encoding", "gzip")], b"").body, packed.body);
    let damaged = http.send("PUT", "/db/e/u", &sent, b"no gzip at all, but long enough to look");
    assert_eq!(damaged.status, 400);
}

/// Replication passes compressed bytes on unchanged, including those of small attachments.
#[test]
fn compressed_attachments_keep_their_digests_in_replication() {
    let (_server, mut http) = database();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(b"some words of a client that packs badly").unwrap();
    let packed = encoder.finish().unwrap();
    let sent = [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")];
    let first = rev(&http.send("PUT", "/db/d/by%20client", &sent, &packed));
    let second = rev(&http.send("PUT", &format!("/db/d/plain?rev={first}"), &[PLAIN], b"no text"));
    rev(&http.send(
        "PUT",
        &format!("/db/d/by%20server?rev={second}"),
        &[("Content-Type", "text/plain")],
        b"text",
    ));
    for (target, bulk) in [("bulk", true), ("single", false)] {
        let body = json!({ "source": "db", "target": target, "create_target": true, "use_bulk_get": bulk });
        assert_eq!(http.post("/_replicate", &body).json()["ok"], true);
        let described =
            |http: &mut HttpClient, db: &str| http.get(&format!("/{db}/d?att_encoding_info=true")).json();
        assert_eq!(described(&mut http, target), described(&mut http, "db"));
        let got = http.send("GET", &format!("/{target}/d/by%20client"), &[("Accept-Encoding", "gzip")], b"");
        assert_eq!(got.body, packed);
    }
}

#[test]
fn database_sizes_include_attachments() {
    let (_server, mut http) = database();
    let before = http.get("/db").json()["sizes"]["external"].as_u64().unwrap();
    rev(&http.send("PUT", "/db/d/a", &[PLAIN], &[7; 100_000]));
    let after = http.get("/db").json()["sizes"].take();
    assert!(after["external"].as_u64().unwrap() > before + 100_000, "{after}");
    assert_eq!((&after["active"], &after["file"]), (&after["external"], &after["external"]));
}

#[test]
fn inline_attachments_and_stubs_are_stored() {
    let (_server, mut http) = database();
    let inline = json!({"_attachments": {
        "a.bin": {"content_type": "image/png", "data": "aGVsbG8="},
        "b.txt": {"content_type": "text/plain", "data": "d29ybGQ="}
    }});
    let first = rev(&http.put("/db/d", &inline));
    assert_eq!(http.get("/db/d/a.bin").body, b"hello");
    let whole = http.get("/db/d?attachments=true").json();
    assert_eq!(whole["_attachments"]["a.bin"]["data"], "aGVsbG8=");
    assert_eq!(whole["_attachments"]["b.txt"]["data"], "d29ybGQ=");
    let mut stubs = http.get("/db/d").json();
    stubs["_attachments"]["c"] = json!({"content_type": "image/png", "data": "Yw=="});
    stubs["_attachments"].as_object_mut().unwrap().remove("a.bin");
    let second = rev(&http.put("/db/d", &stubs));
    assert_eq!(http.get("/db/d/b.txt").body, b"world");
    assert_eq!(http.get("/db/d/a.bin").status, 404);
    assert_eq!(http.get(&format!("/db/d/a.bin?rev={first}")).body, b"hello");
    for (stub, reason) in [
        (json!({"x": {"stub": true}}), "Invalid attachment stub in d for x"),
        (json!({"c": {"stub": true, "revpos": 9}}), "Invalid attachment stub in d for c"),
    ] {
        let reply = http.put("/db/d", &json!({"_rev": second, "_attachments": stub})).refusal();
        assert_eq!(reply, (412, "missing_stub".to_owned(), reason.to_owned()));
    }
    let none = http.put("/db/new", &json!({"_attachments": {"x": {"stub": true}}})).refusal();
    assert_eq!(none.2, "Previous revision missing for document new");
    let bad = http.put("/db/new", &json!({"_attachments": {"x": {"data": "%"}}})).refusal();
    assert_eq!(bad.2, "Invalid attachment data for x");
    let follows = http.put("/db/new", &json!({"_attachments": {"x": {"follows": true, "length": 1}}}));
    assert_eq!(follows.status, 400);
    // `atts_since` limits the bytes to newer attachments.
    let since = http.get(&format!("/db/d?atts_since=[%22{first}%22]")).json()["_attachments"].clone();
    assert_eq!((since["b.txt"]["stub"].as_bool(), since["c"]["data"].as_str()), (Some(true), Some("Yw==")));
    let copy = http.send("COPY", "/db/d", &[("Destination", "e")], b"");
    assert_eq!(copy.status, 201);
    assert_eq!(http.get("/db/e/b.txt").body, b"world");
}

fn related(boundary: &str, doc: &str, parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = format!("--{boundary}\r\nContent-Type: application/json\r\n\r\n{doc}").into_bytes();
    for (headers, bytes) in parts {
        body.extend_from_slice(format!("\r\n--{boundary}\r\n{headers}\r\n").as_bytes());
        body.extend_from_slice(bytes);
    }
    body.extend_from_slice(format!("\r\n--{boundary}--").as_bytes());
    body
}

#[test]
fn multipart_documents_are_stored_and_returned() {
    let (_server, mut http) = database();
    let doc = r#"{"x":1,"_attachments":{
        "z":{"content_type":"image/png","follows":true,"length":5},
        "a":{"content_type":"image/png","follows":true,"length":3},
        "inline":{"content_type":"image/png","data":"aQ=="}
    }}"#;
    let sent = [("Content-Type", "multipart/related; boundary=\"xyz\"")];
    let body = related(
        "xyz",
        doc,
        &[("Content-Disposition: attachment; filename=\"z\"\r\n", b"first"), ("", b"two")],
    );
    // Without file names, parts are assigned in the order of the announcements.
    let put = http.send("PUT", "/db/d", &sent, &body);
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!((http.get("/db/d/z").body, http.get("/db/d/a").body), (b"first".to_vec(), b"two".to_vec()));
    let whole = http.send("GET", "/db/d?attachments=true", &[("Accept", "multipart/related")], b"");
    let kind = whole.header("content-type").unwrap().to_owned();
    assert!(kind.starts_with("multipart/related; boundary=\""), "{kind}");
    assert_eq!(whole.header("content-length"), Some(whole.body.len().to_string().as_str()));
    http.put("/other", &json!({}));
    let back = http.send("PUT", "/other/d?new_edits=false", &[("Content-Type", &kind)], &whole.body);
    assert_eq!((back.status, rev(&back)), (201, rev(&put)));
    assert_eq!(http.get("/other/d/inline").body, b"i");
    let chunked = http.send_chunked("PUT", "/db/f", &sent, body.chunks(7));
    assert_eq!(chunked.status, 201);
    assert_eq!(http.get("/db/f/z").body, b"first");
    for (parts, reason) in [
        (&[("", &b"first"[..])][..], "The attachment a was announced but does not follow"),
        (&[("", &b"longer than"[..]), ("", &b"two"[..])][..], "attachment longer than expected"),
        (&[("", &b"x"[..]), ("", &b"two"[..])][..], "attachment shorter than expected"),
    ] {
        let reply = http.send("PUT", "/db/g", &sent, &related("xyz", doc, parts)).refusal();
        assert_eq!((reply.0, reply.2.as_str()), (400, reason));
    }
    let cut = &body[..body.len() - 20];
    assert_eq!(http.send("PUT", "/db/g", &sent, cut).status, 400);
    assert_eq!(http.send("PUT", "/db/g", &[("Content-Type", "multipart/related")], &body).status, 400);
    let open = http.send("GET", "/db/d?open_revs=all&revs=true", &[("Accept", "multipart/mixed")], b"");
    assert!(open.header("content-type").unwrap().starts_with("multipart/mixed; boundary="));
    assert!(open.text().contains("multipart/related; boundary=") && open.text().contains("first"));
    let many = json!({"docs": [{"id": "d"}, {"id": "none"}]});
    let accept = [("Accept", "multipart/mixed"), ("Content-Type", "application/json")];
    let bulk = http.send("POST", "/db/_bulk_get", &accept, many.to_string().as_bytes());
    let text = bulk.text();
    assert!(
        text.contains("X-Doc-Id: d\r\n") && text.contains("first") && text.contains("error=\"true\""),
        "{text}"
    );
}

#[test]
fn large_attachments_are_streamed() {
    let (_server, mut http) = database();
    let bytes: Vec<u8> = (0..20_000_003u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let put = http.send_chunked("PUT", "/db/d/large", &[PLAIN], bytes.chunks(100_000));
    assert_eq!(put.status, 201);
    assert!(http.get("/db/d/large").body == bytes);
    let end = http.send("GET", "/db/d/large", &[("Range", "bytes=19999990-")], b"");
    assert_eq!(end.body, bytes[19_999_990..]);
    let inline = http.get("/db/d?attachments=true").json();
    let data = inline["_attachments"]["large"]["data"].as_str().map(str::len);
    assert_eq!(data, Some(bytes.len().div_ceil(3) * 4));
}

/// A form as a browser sends it: field name, file name and content.
fn form(fields: &[(&str, Option<&str>, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (name, file, text) in fields {
        let file =
            file.map_or(String::new(), |file| format!("; filename=\"{file}\"\r\nContent-Type: text/plain"));
        body += &format!("--f\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{text}\r\n");
    }
    (body + "--f--\r\n").into_bytes()
}

#[test]
fn form_uploads_become_attachments() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/d", &json!({"n": 1, "_attachments": {"old": {"data": "aGk="}}})));
    let headers =
        [("Content-Type", "multipart/form-data; boundary=f"), ("Referer", "http://localhost/page?x")];
    let body = form(&[
        ("_attachments", Some("a.txt"), "one"),
        ("_attachments", Some(""), ""),
        ("_rev", None, &first),
    ]);
    let reply = http.send("POST", "/db/d", &headers, &body);
    assert_eq!((reply.status, rev(&reply).starts_with("2-")), (201, true));
    assert_eq!((http.get("/db/d/a.txt").body, http.get("/db/d/old").body), (b"one".to_vec(), b"hi".to_vec()));
    assert_eq!(http.get("/db/d").json()["n"], 1);
    assert_eq!(http.send("POST", "/db/d", &headers, &body).status, 409);
    let body = form(&[("_doc", None, r#"{"n":2}"#), ("_attachments", Some("b"), "two")]);
    assert_eq!(http.send("POST", "/db/e", &headers, &body).status, 201);
    assert_eq!(
        (http.get("/db/e").json()["n"].as_i64(), http.get("/db/e/b").body),
        (Some(2), b"two".to_vec())
    );
    let reason = |headers: &[(&str, &str)], http: &mut diwan_testkit::HttpClient| {
        let refusal = http.send("POST", "/db/x", headers, &form(&[])).refusal();
        (refusal.0, refusal.2)
    };
    assert_eq!(reason(&headers, &mut http), (400, "Invalid rev format".to_owned()));
    assert_eq!(reason(&headers[..1], &mut http), (400, "Referer header required.".to_owned()));
    let foreign = [headers[0], ("Referer", "http://example.org/")];
    assert_eq!(reason(&foreign, &mut http), (400, "Referer header must match host.".to_owned()));
    let plain = [("Content-Type", "text/plain"), headers[1]];
    assert_eq!(reason(&plain, &mut http), (415, "Content-Type must be multipart/form-data".to_owned()));
}

/// PouchDB compares digests, which are those of the compressed bytes.
#[test]
fn digests_of_compressed_attachments_match_couchdb() {
    let (_server, mut http) = database();
    http.send("PUT", "/db/d/t", &[("Content-Type", "text/plain")], b"hello, world");
    let stub = http.get("/db/d?att_encoding_info=true").json()["_attachments"]["t"].clone();
    let expected = json!({
        "content_type": "text/plain", "revpos": 1, "digest": "md5-BnCHsCe7fMf9Avxy3kbwmQ==", "length": 12, "stub": true,
        "encoding": "gzip", "encoded_length": 32
    });
    assert_eq!(stub, expected);
}

#[test]
fn attachments_that_are_not_objects_are_ignored() {
    let (_server, mut http) = database();
    let doc = json!({"_attachments": {"a": 1, "b": {"data": "aGk="}, "c": "x"}});
    assert_eq!(http.put("/db/d", &doc).status, 201);
    let kept = http.get("/db/d").json()["_attachments"].clone();
    assert_eq!(kept.as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(http.put("/db/e", &json!({"_attachments": {"_a": 1}})).status, 201);
    assert_eq!(http.put("/db/f", &json!({"_attachments": 1})).refusal().1, "doc_validation");
}

#[test]
fn settings_choose_which_attachments_are_compressed() {
    let (_server, mut http) = database();
    let set = |http: &mut HttpClient, key: &str, value: &str| {
        http.put(&format!("/_node/_local/_config/attachments/{key}"), &json!(value)).status
    };
    let text = "a line of text that packs well, and differs little\n".repeat(400);
    let mut stored = Vec::new();
    for (level, types, kind) in [
        ("1", "text/*", "text/plain"),
        ("9", "text/*", "TEXT/plain; charset=utf-8"),
        ("0", "text/*", "text/plain"),
        ("8", "image/*, x/y", "text/plain"),
        ("8", "image/*, x/y", "x/y"),
        ("8", "", "text/plain"),
    ] {
        assert_eq!(
            (set(&mut http, "compression_level", level), set(&mut http, "compressible_types", types)),
            (200, 200)
        );
        let id = format!("d{}", stored.len());
        assert_eq!(
            http.send("PUT", &format!("/db/{id}/f"), &[("Content-Type", kind)], text.as_bytes()).status,
            201
        );
        let stub = http.get(&format!("/db/{id}?att_encoding_info=true")).json()["_attachments"]["f"].clone();
        assert_eq!(stub["length"].as_u64(), Some(text.len() as u64));
        assert_eq!(http.get(&format!("/db/{id}/f")).text(), text);
        stored.push((stub["encoding"].as_str().map(str::to_owned), stub["encoded_length"].as_u64()));
    }
    let packed: Vec<bool> = stored.iter().map(|(encoding, _)| encoding.as_deref() == Some("gzip")).collect();
    assert_eq!(packed, [true, true, false, false, true, false]);
    assert!(stored.iter().all(|(encoding, length)| encoding.is_some() == length.is_some()), "{stored:?}");
    assert!(stored[0].1 > stored[1].1, "{stored:?}");
    // Attachments in a document's JSON, and in a bulk request.
    set(&mut http, "compressible_types", "text/*");
    set(&mut http, "compression_level", "0");
    let file = json!({ "f": { "content_type": "text/plain", "data": "aGVsbG8=" } });
    http.put("/db/plain", &json!({ "_attachments": file }));
    set(&mut http, "compression_level", "5");
    http.post("/db/_bulk_docs", &json!({ "docs": [{ "_id": "packed", "_attachments": file }] }));
    for (id, encoding) in [("plain", json!(null)), ("packed", json!("gzip"))] {
        let found = http.get(&format!("/db/{id}?att_encoding_info=true")).json();
        assert_eq!(found["_attachments"]["f"]["encoding"], encoding, "{id}");
    }
    for bad in ["10", "-1", "best", ""] {
        assert_eq!(set(&mut http, "compression_level", bad), 400, "{bad}");
    }
}
