//! Views of real collections.

use super::*;
use crate::json;
use crate::sandbox::Limits;
use crate::tree::Entry;
use diwan_kv::{Batch, Direction, KeyRange, MemoryEngine};
use diwan_store::keys::Key;
use diwan_store::{Edit, Store, WriteOptions, id_key};
use diwan_value::{DocBuf, doc};
use header::BuildState;
use std::time::Duration;

struct Fixture {
    store: Arc<Store>,
    collection: Arc<Collection>,
    views: Arc<Views>,
}

fn fixture() -> Fixture {
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    let name = Namespace { database: "test".to_owned(), collection: "people".to_owned() };
    let collection = store.collection_or_create(&name).unwrap();
    let limits = Limits { time: Duration::from_secs(2), ..Limits::default() };
    Fixture { store, collection, views: Views::new(Sandbox::new(limits)) }
}

/// A source of documents with only the features that these tests need.
struct Plain;

impl Documents for Plain {
    fn write(
        &self,
        view: &ReadView,
        id: &str,
        revision: Option<&str>,
        _query: &ViewQuery,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        assert!(revision.is_none(), "no test asks for one");
        let found = view.document(&id_key(diwan_value::Value::String(id))?)?.filter(|found| !found.deleted);
        let Some(found) = found else { return Ok(false) };
        out.extend_from_slice(format!(r#"{{"_id":"{id}","_rev":"{}""#, found.revision).as_bytes());
        diwan_value::json::write_couch_members(out, found.doc.as_doc());
        out.push(b'}');
        Ok(true)
    }
}

impl Fixture {
    fn insert(&self, docs: &[DocBuf]) {
        let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
        let report = self.collection.insert(&docs, true, WriteOptions::default()).unwrap();
        assert!(report.errors.is_empty());
    }

    fn edit(&self, id: &str, edit: impl Fn() -> Edit) {
        let key = id_key(diwan_value::Value::String(id)).unwrap();
        self.collection.edit(&[key], WriteOptions::default(), |_, _| Ok(edit())).unwrap();
    }

    /// The answer as text: the head, then one line for each row.
    fn query(&self, design: &Design, view: &str, parameters: &str) -> Result<Vec<String>> {
        self.query_of(&self.views, design, view, parameters)
    }

    fn query_of(
        &self,
        views: &Arc<Views>,
        design: &Design,
        view: &str,
        parameters: &str,
    ) -> Result<Vec<String>> {
        let query = parse(parameters)?;
        let mut take = || Arc::new(self.collection.view());
        loop {
            match views.query(&self.collection, design, view, &query, &mut take)? {
                Queried::Answer(answer) => return self.read(*answer),
                Queried::Busy(_) => {}
            }
        }
    }

    fn temporary(&self, body: &str, parameters: &str) -> Result<Vec<String>> {
        let view = TemporaryView::parse(body)?;
        self.read(self.views.temporary(&self.collection, &view, &parse(parameters)?)?)
    }

    /// Reads an answer row by row, with a new snapshot for each row.
    fn read(&self, mut answer: ViewAnswer) -> Result<Vec<String>> {
        let mut rows = Answer::default();
        while answer.go_on(&self.collection.view(), &Plain, &mut rows)? {}
        Ok(rows.lines)
    }
}

#[derive(Default)]
struct Answer {
    lines: Vec<String>,
}

impl ViewSink for Answer {
    fn head(&mut self, head: &ViewHead) -> Result<()> {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        self.lines.push(format!("{} {}", number(head.total_rows), number(head.offset)));
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<bool> {
        let id = row.id.map(|id| format!("{id}: ")).unwrap_or_default();
        let doc = row.doc.map(|doc| format!(" {doc}")).unwrap_or_default();
        self.lines.push(format!("{id}{} {}{doc}", row.key, row.value));
        Ok(false)
    }
}

fn parse(parameters: &str) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    for (name, value) in parameters.split('&').filter_map(|pair| pair.split_once('=')) {
        assert!(query.set_url(name, value)?, "{name}");
    }
    Ok(query)
}

fn design(members: &str) -> Design {
    Design::parse(format!(r#"{{"_id":"_design/d",{members}}}"#).as_bytes()).unwrap()
}

fn of_view(map: &str, reduce: &str) -> Design {
    let reduce =
        if reduce.is_empty() { String::new() } else { format!(r#","reduce":{}"#, json::quoted(reduce)) };
    design(&format!(r#""views":{{"v":{{"map":{}{reduce}}}}}"#, json::quoted(map)))
}

fn letters() -> Fixture {
    let fixture = fixture();
    let docs: Vec<DocBuf> = ["a", "b", "c", "d", "e"]
        .iter()
        .zip(1..)
        .map(|(id, n)| doc! { "_id": (*id), "n": n, "half": n / 2 })
        .collect();
    fixture.insert(&docs);
    fixture
}

#[test]
fn rows_with_one_key_and_document_are_ordered_by_value() {
    let fixture = fixture();
    fixture.insert(&[doc! { "_id": "a" }, doc! { "_id": "b" }]);
    let map = "function (doc) { for (const value of ['x', [2], {a: 1}, null, 10, true, 9]) { emit(1, value); emit(0, 0); } emit(2, 'z'); emit(3, 'y'); }";
    let design = of_view(map, "");
    let rows = fixture.query(&design, "v", "key=1").unwrap();
    let values = ["9", "10", "null", "true", r#"{"a":1}"#, "[2]", r#""x""#];
    let expected: Vec<String> =
        ["a", "b"].iter().flat_map(|id| values.map(|value| format!("{id}: 1 {value}"))).collect();
    assert_eq!(rows[1..], expected);
    assert_eq!(fixture.query(&design, "v", "key=0").unwrap().len(), 15, "equal rows are rows of their own");
    assert_eq!(
        fixture.query(&design, "v", "startkey=2").unwrap()[1..],
        [r#"a: 2 "z""#, r#"b: 2 "z""#, r#"a: 3 "y""#, r#"b: 3 "y""#]
    );
}

#[test]
fn queries_return_rows_of_ranges() {
    let fixture = letters();
    let design = of_view("function (doc) { emit(doc.half, doc.n); }", "");
    let query = |parameters: &str| fixture.query(&design, "v", parameters).unwrap();
    assert_eq!(query(""), ["5 0", "a: 0 1", "b: 1 2", "c: 1 3", "d: 2 4", "e: 2 5"]);
    assert_eq!(query("descending=true&limit=2"), ["5 0", "e: 2 5", "d: 2 4"]);
    assert_eq!(query("key=1"), ["5 1", "b: 1 2", "c: 1 3"]);
    assert_eq!(query("startkey=1&skip=1&limit=2"), ["5 2", "c: 1 3", "d: 2 4"]);
    assert_eq!(query("endkey=1&inclusive_end=false"), ["5 0", "a: 0 1"]);
    assert_eq!(query("startkey=1&startkey_docid=c&endkey=2&endkey_docid=d"), ["5 2", "c: 1 3", "d: 2 4"]);
    assert_eq!(
        query("startkey=1&endkey=2&endkey_docid=e&inclusive_end=false"),
        ["5 1", "b: 1 2", "c: 1 3", "d: 2 4"]
    );
    assert_eq!(query("startkey=2&endkey=1&descending=true"), ["5 0", "e: 2 5", "d: 2 4", "c: 1 3", "b: 1 2"]);
    assert_eq!(
        query("startkey=2&startkey_docid=d&endkey=1&endkey_docid=c&descending=true"),
        ["5 1", "d: 2 4", "c: 1 3"]
    );
    assert_eq!(query("startkey=2&endkey=1&descending=true&inclusive_end=false"), ["5 0", "e: 2 5", "d: 2 4"]);
    assert_eq!(query("keys=[2,0,7,2]&limit=4&skip=1"), ["5 4", "e: 2 5", "a: 0 1", "d: 2 4", "e: 2 5"]);
    assert_eq!(query("keys=[2,1]&startkey_docid=c&endkey_docid=d"), ["5 3", "d: 2 4", "c: 1 3"]);
    assert_eq!(
        query("keys=[2,1]&startkey_docid=d&endkey_docid=c&descending=true")[1..],
        ["c: 1 3", "d: 2 4"]
    );
    assert_eq!(query("keys=[2,1]&inclusive_end=false")[1..], [""; 0]);
    assert_eq!(query("limit=0"), ["5 0"]);
    assert_eq!(query("key=9"), ["5 5"]);
    assert_eq!(query("skip=9"), ["5 5"]);
    for (parameters, reason) in [
        (
            "startkey=2&endkey=1",
            "No rows can match your key range, reverse your start_key and end_key or set descending=true",
        ),
        (
            "startkey=1&endkey=2&descending=true",
            "No rows can match your key range, reverse your start_key and end_key or set descending=false",
        ),
        ("group=true", "Invalid use of grouping on a map view."),
    ] {
        assert_eq!(fixture.query(&design, "v", parameters).unwrap_err().reason(), reason);
    }
    assert_eq!(fixture.query(&design, "w", "").unwrap_err().reason(), "missing_named_view");
}

#[test]
fn queries_reduce_groups() {
    let fixture = letters();
    let design = of_view("function (doc) { emit([doc.half, doc._id], doc.n); }", "_sum");
    let query = |parameters: &str| fixture.query(&design, "v", parameters).unwrap();
    assert_eq!(query(""), ["- -", "null 15"]);
    assert_eq!(query("group_level=1"), ["- -", "[0] 1", "[1] 5", "[2] 9"]);
    assert_eq!(query("group_level=1&descending=true&limit=1&skip=1"), ["- -", "[1] 5"]);
    assert_eq!(query("group=true&startkey=[2]"), ["- -", r#"[2,"d"] 4"#, r#"[2,"e"] 5"#]);
    assert_eq!(query(r#"group=true&keys=[[2,"e"],[0,"a"]]"#), ["- -", r#"[2,"e"] 5"#, r#"[0,"a"] 1"#]);
    assert_eq!(query("startkey=[3]"), ["- -"]);
    assert_eq!(query("reduce=false&key=[0,\"a\"]"), ["5 0", r#"a: [0,"a"] 1"#]);
    let script = of_view(
        "function (doc) { emit(doc.half, doc.n); }",
        "function (keys, values, rereduce) { return rereduce ? Math.max.apply(null, values) : Math.max.apply(null, values); }",
    );
    assert_eq!(fixture.query(&script, "v", "group=true").unwrap(), ["- -", "0 1", "1 3", "2 5"]);
    assert_eq!(fixture.query(&of_view("function () {}", "_sum"), "v", "").unwrap(), ["- -"]);
}

#[test]
fn include_docs_adds_documents_to_rows() {
    let fixture = letters();
    fixture.insert(&[doc! { "_id": "l", "n": 9, "link": "a" }, doc! { "_id": "m", "n": 9, "link": "gone" }]);
    let design = of_view(
        "function (doc) { if (doc.link) emit(doc.n, {_id: doc.link}); else if (doc.n > 4) emit(doc.n, 'own'); }",
        "",
    );
    let rows = fixture.query(&design, "v", "include_docs=true").unwrap();
    assert!(
        rows[1].starts_with(r#"e: 5 "own" {"_id":"e","_rev":"1-"#)
            && rows[1].ends_with(r#","n":5,"half":2}"#),
        "{}",
        rows[1]
    );
    assert!(rows[2].starts_with(r#"l: 9 {"_id":"a"} {"_id":"a","_rev":"1-"#), "{}", rows[2]);
    assert_eq!(rows[3], r#"m: 9 {"_id":"gone"} null"#);
    fixture.edit("a", || Edit::Delete);
    assert_eq!(fixture.query(&design, "v", "include_docs=true").unwrap()[2], r#"l: 9 {"_id":"a"} null"#);
}

/// Compares an index that follows changes with one that is built afterwards and with a temporary view.
#[test]
fn updated_index_equals_a_new_one() {
    let fixture = fixture();
    let map = "function (doc) { for (var i = 0; i < doc.n % 4; i++) emit([doc.n % 3, i % 2], doc.n); }";
    let design = of_view(map, "_sum");
    let body = format!(r#"{{"map":{},"reduce":"_sum"}}"#, json::quoted(map));
    let mut seed = 1u64;
    let mut random = move |end: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % end
    };
    for round in 0..12 {
        for _ in 0..random(150) {
            let id = format!("id{}", random(200));
            let n = random(50) as i32;
            match random(4) {
                0 => fixture.edit(&id, || Edit::Delete),
                _ => fixture.edit(&id, || Edit::Put(doc! { "_id": (&*id), "n": n })),
            }
        }
        // A different signature, so the index is built from scratch.
        let fresh = of_view(&format!("{map}{}", " ".repeat(round + 1)), "_sum");
        for parameters in [
            "reduce=false",
            "",
            "group=true",
            "group_level=1&descending=true",
            "reduce=false&startkey=[1]&endkey=[2]&skip=2",
        ] {
            let followed = fixture.query(&design, "v", parameters).unwrap();
            assert_eq!(followed, fixture.query(&fresh, "v", parameters).unwrap(), "{parameters}");
            assert_eq!(followed, fixture.temporary(&body, parameters).unwrap(), "{parameters}");
        }
        assert_eq!(fixture.views.info(&fixture.collection, &design).unwrap().pending, 0);
    }
    assert!(fixture.views.tasks().is_empty());
}

#[test]
fn old_index_serves_until_the_new_one_is_built() {
    let fixture = letters();
    let old = of_view("function (doc) { emit(doc.n); }", "");
    assert_eq!(fixture.query(&old, "v", "update=false").unwrap(), ["0 0"]);
    assert_eq!(fixture.query(&old, "v", "limit=1").unwrap(), ["5 0", "a: 1 null"]);
    let new = of_view("function (doc) { emit(-doc.n); }", "");
    assert_eq!(fixture.query(&new, "v", "update=false&limit=1").unwrap(), ["5 0", "a: 1 null"]);
    assert_eq!(fixture.query(&new, "v", "limit=1").unwrap(), ["5 0", "e: -5 null"]);
    fixture.insert(&[doc! { "_id": "f", "n": 6 }]);
    assert_eq!(fixture.query(&new, "v", "stale=ok&limit=1").unwrap(), ["5 0", "e: -5 null"]);
    fixture.query(&new, "v", "stale=update_after&limit=1").unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while fixture.query(&new, "v", "update=false&limit=1").unwrap() != ["6 0", "f: -6 null"] {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    fixture.insert(&[
        doc! { "_id": "_design/d", "views": { "v": { "map": "function (doc) { emit(-doc.n); }" } } },
    ]);
    assert_eq!(fixture.views.cleanup(&fixture.collection).unwrap(), 1);
    assert_eq!(fixture.collection.view_headers().unwrap().len(), 1);
    assert_eq!(fixture.query(&new, "v", "limit=1").unwrap(), ["6 0", "f: -6 null"]);
}

#[test]
fn errors_affect_only_their_document_and_function() {
    let fixture = letters();
    let design = of_view(
        "function (doc) { emit(doc.n); if (doc.n === 3) throw new Error('three'); if (doc.n === 4) doc.x.y; }",
        "",
    );
    assert_eq!(fixture.query(&design, "v", "").unwrap(), ["3 0", "a: 1 null", "b: 2 null", "e: 5 null"]);
    let endless = of_view("function (doc) { if (doc.n === 3) for (;;) {} emit(doc.n); }", "");
    assert_eq!(fixture.query(&endless, "v", "").unwrap_err().name(), "timeout");
    let greedy = of_view("function (doc) { for (;;) emit(doc.n, 'x'.repeat(1000000)); }", "");
    assert_eq!(fixture.query(&greedy, "v", "").unwrap_err().name(), "os_process_error");
    assert_eq!(
        fixture.query(&of_view("function (doc) {", ""), "v", "").unwrap_err().name(),
        "compilation_error"
    );
    let stats = of_view("function (doc) { emit(doc.n, doc.n === 2 ? 'text' : doc.n); }", "_stats");
    assert_eq!(fixture.query(&stats, "v", "").unwrap_err().name(), "invalid_value");
    assert_eq!(
        fixture.query(&stats, "v", "startkey=3").unwrap(),
        ["- -", r#"null {"sum":12,"count":3,"min":3,"max":5,"sumsqr":50}"#]
    );
    assert_eq!(fixture.query(&stats, "v", "reduce=false&limit=1").unwrap(), ["5 0", "a: 1 1"]);
    assert!(fixture.views.tasks().is_empty());
}

/// A build that is interrupted at any moment continues and has the same result as an uninterrupted one.
#[test]
fn interrupted_build_continues_from_its_checkpoint() {
    let fixture = fixture();
    let docs: Vec<DocBuf> =
        (0..3000).map(|n| doc! { "_id": format!("{:05}", n * 7919 % 3000), "n": n }).collect();
    fixture.insert(&docs);
    let design = of_view("function (doc) { emit(doc.n % 100, 1); }", "_count");
    let index = fixture.views.find_or_create(&fixture.collection, &design).unwrap();
    let limits = Limits::default();
    let mut header = index.header().unwrap();
    for round in 0..4 {
        let mappers = index.take_mappers(2, limits, &design).unwrap();
        let view = fixture.collection.view();
        let BuildState::Building { after, mapped, runs } = header.state.clone() else { panic!() };
        let walk = mapping::Walk::new(&view, after);
        walk.allow(600);
        let count = std::sync::atomic::AtomicU64::new(mapped);
        let plan = mapping::MappingPlan {
            design: &design,
            layouts: vec![header.views[0].layout],
            ranges: None,
            keeps_records: true,
            ended: &AtomicBool::new(false),
            mapped: &count,
        };
        let parts = plan.map_walk(&mappers, &walk, &|_| Ok(())).unwrap();
        let (after, _) = walk.position();
        header.state =
            BuildState::Building { after, mapped: count.into_inner(), runs: runs + parts.len() as u64 };
        build::store_runs(&index, &parts, &header).unwrap();
        // Documents before and after the position of the build change in the meantime.
        fixture
            .edit(&format!("{:05}", round), || Edit::Put(doc! { "_id": format!("{round:05}"), "n": 1000 }));
        fixture.edit(&format!("{:05}", 2999 - round), || Edit::Delete);
    }
    // A part of the next round was written and is not counted in the header.
    let BuildState::Building { runs, .. } = header.state else { panic!() };
    let mut stale = mapping::Mapped::new(1).views.remove(0);
    stale.push(Entry { place: b"x", key: "\"stale\"", value: "1" });
    let mut batch = Batch::new();
    for (rows, chunk) in stale.chunks(1).zip(99..) {
        let key = Key::ViewRun { index: index.number, view: 0, run: runs, chunk };
        batch.put(diwan_kv::Space::Indexes, key.bytes(), rows);
    }
    index.commit(batch, None).unwrap();
    let again = Views::new(Sandbox::new(limits));
    let fresh = of_view("function (doc) { emit(doc.n % 100, 1);  }", "_count");
    for parameters in ["", "group=true", "reduce=false"] {
        let lines = fixture.query_of(&again, &design, "v", parameters).unwrap();
        assert_eq!(lines, fixture.query(&fresh, "v", parameters).unwrap());
    }
    let runs = diwan_store::keys::view_part(index.number, diwan_store::keys::ViewPart::Runs);
    let left = fixture
        .collection
        .view()
        .snapshot()
        .scan(diwan_kv::Space::Indexes, KeyRange::prefix(&runs), Direction::Forward)
        .count();
    assert_eq!(left, 0);
}

#[test]
fn design_options_change_the_mapped_documents() {
    let fixture = letters();
    fixture.insert(&[doc! { "_id": "_design/x", "n": 7 }, doc! { "_id": 5, "n": 8 }]);
    let with = |options: &str, map: &str| {
        design(&format!(r#""options":{options},"views":{{"v":{{"map":{}}}}}"#, json::quoted(map)))
    };
    let ids = with(
        r#"{"include_design":true,"local_seq":true}"#,
        "function (doc) { if (doc.n > 4) emit(doc._id, doc._local_seq); }",
    );
    assert_eq!(
        fixture.query(&ids, "v", "").unwrap(),
        ["3 0", r#"_design/x: "_design/x" 6"#, r#"~5: "~5" 7"#, r#"e: "e" 5"#]
            .map(|line| line
                .replace("~5: \"~5\"", "~{\"$numberInt\":\"5\"}: \"~{\\\"$numberInt\\\":\\\"5\\\"}\""))
    );
    let raw = design(
        r#""views":{"v":{"map":"function (doc) { if (doc.n < 3) { emit('a'); emit('B'); emit(null); emit(1); } }","options":{"collation":"raw"}}}"#,
    );
    assert_eq!(
        fixture.query(&raw, "v", "startkey=null&endkey=\"a\"&limit=4").unwrap(),
        ["8 2", "a: null null", "b: null null", r#"a: "B" null"#, r#"b: "B" null"#]
    );
    assert_eq!(
        fixture
            .query(&design(r#""language":"erlang","views":{"v":{"map":"x"}}"#), "v", "")
            .unwrap_err()
            .name(),
        "unknown_query_language"
    );
}

#[test]
fn partitioned_queries_return_one_partition() {
    let fixture = fixture();
    fixture.collection.set_setting("partitioned", Some(diwan_value::Value::Boolean(true))).unwrap();
    fixture.insert(&[
        doc! { "_id": "a:1", "n": 1 },
        doc! { "_id": "a:2", "n": 2 },
        doc! { "_id": "b:1", "n": 3 },
    ]);
    let design = of_view("function (doc) { emit([doc.n % 2, 'x'], doc.n); }", "_sum");
    let query = |parameters: &str| fixture.query(&design, "v", parameters).unwrap();
    assert_eq!(query("partition=a&reduce=false"), ["3 0", r#"a:2: [0,"x"] 2"#, r#"a:1: [1,"x"] 1"#]);
    assert_eq!(query("partition=a&group_level=1"), ["- -", "[0] 2", "[1] 1"]);
    assert_eq!(query("partition=b"), ["- -", "null 3"]);
    assert_eq!(query("partition=a&reduce=false&startkey=[1]&descending=false"), ["3 1", r#"a:1: [1,"x"] 1"#]);
    assert!(fixture.query(&design, "v", "").is_err());
    let global = design_global();
    assert_eq!(fixture.query(&global, "v", "").unwrap(), ["- -", "null 6"]);
    assert!(fixture.query(&global, "v", "partition=a").is_err());
}

fn design_global() -> Design {
    design(
        r#""options":{"partitioned":false},"views":{"v":{"map":"function (doc) { emit(doc.n, doc.n); }","reduce":"_sum"}}"#,
    )
}

#[test]
fn concurrent_readers_see_complete_documents() {
    let fixture = letters();
    let design = of_view("function (doc) { emit(doc.n, 1); emit(-doc.n, -1); }", "_sum");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..200 {
                let id = format!("w{}", n % 50);
                fixture.edit(&id, || {
                    if n % 3 == 0 { Edit::Delete } else { Edit::Put(doc! { "_id": (&*id), "n": n }) }
                });
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40 {
                    // At any moment, either all rows of a document are present or none.
                    let lines = fixture.query(&design, "v", "").unwrap();
                    assert_eq!(lines, ["- -", "null 0"]);
                }
            });
        }
    });
    drop(fixture.store);
}
