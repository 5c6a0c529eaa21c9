//! Measures the cost of parsing and writing JSON, on documents of about 110 bytes as HTTP clients exchange them.
//!
//! `cargo bench -p diwan-value --bench json [-- NUMBER_OF_DOCUMENTS]`

use diwan_value::json::{self, ArraySplitter, Limits, Mode};
use diwan_value::{Doc, DocBuf};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(200_000);
    let texts: Vec<String> = (0..count).map(person).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{count} persons, {} bytes of JSON each", bytes / texts.len().max(1));
    let read = |text: &String| {
        json::parse_couch(text.as_bytes(), Limits::default(), json::Dialect::Plain).expect("valid JSON").body
    };
    let docs: Vec<DocBuf> = texts.iter().map(read).collect();
    report("read as CouchDB's", bytes, || texts.iter().for_each(|text| drop(black_box(read(text)))));
    report("read", bytes, || {
        for text in &texts {
            black_box(json::parse_document(text.as_bytes(), Limits::default()).expect("valid JSON"));
        }
    });
    let write = |couch: bool| {
        let mut out = Vec::with_capacity(1 << 16);
        for doc in &docs {
            let doc: Doc<'_> = black_box(doc.as_doc());
            out.clear();
            if couch {
                out.push(b'{');
                json::write_couch_members(&mut out, doc);
            } else {
                json::write_document(&mut out, doc, Mode::Relaxed);
            }
            black_box(&out);
        }
    };
    report("write as CouchDB's", bytes, || write(true));
    report("write", bytes, || write(false));
    let body = format!("{{\"docs\":[{}]}}", texts.join(","));
    report("split", body.len(), || {
        let mut splitter = ArraySplitter::new("docs", 1 << 24);
        let mut elements = 0;
        for piece in body.as_bytes().chunks(1 << 16) {
            splitter.feed(piece);
            while splitter.next_element().expect("a valid body").is_some() {
                elements += 1;
            }
        }
        assert_eq!(elements, texts.len());
    });
}

/// A document like those of the benchmark suite, in one of four shapes.
fn person(n: u32) -> String {
    let scrambled = n.wrapping_mul(2_654_435_761);
    let more = match scrambled >> 30 {
        0 => r#","pet":"Penguin""#,
        1 => r#","fax":"0123456789""#,
        2 => r#","jedi power":"Force Choke""#,
        _ => "",
    };
    format!(
        r#"{{"_id":"{n:08x}","name":"name {scrambled}","salary":{},"age":{},"telephone":"{scrambled:010}"{more}}}"#,
        9000 + scrambled % 31_001,
        18 + (scrambled >> 8) % 73,
    )
}

fn report(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("{name:20} {:7.0} MB/s", bytes as f64 / 1e6 / best);
}
