//! What is recorded, kept and shown when streams, schema changes, transactions and trimming meet.

use super::position::Position;
use super::scope::EventScope;
use super::stream::OpenStream;
use super::{Retention, trim::trim};
use crate::ops::{Aggregate, Scope};
use crate::plan::Hint;
use crate::{Namespace, Schema, Store, WriteOptions, check};
use diwan_kv::{Engine, MemoryEngine};
use diwan_query::Interrupt;
use diwan_value::{Array, Doc, DocBuf, Value, array, doc};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

fn store() -> Arc<Store> {
    Store::open(Arc::new(MemoryEngine::new())).unwrap()
}

fn name(collection: &str) -> Namespace {
    Namespace::new("db", collection).unwrap()
}

fn insert(store: &Arc<Store>, collection: &str, ids: std::ops::Range<i32>) {
    let docs: Vec<DocBuf> = ids.map(|id| doc! { "_id": id, "text": "x".repeat(100) }).collect();
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let report = store.insert(&name(collection), &docs, true, WriteOptions::default()).unwrap();
    assert_eq!(report.inserted, docs.len());
}

/// A stream on a collection, or on the database if there is none.
fn watch(store: &Arc<Store>, collection: Option<&str>, options: DocBuf) -> crate::Result<OpenStream> {
    watch_through(store, collection, array![{ "$changeStream": options }].finish())
}

fn watch_through(store: &Arc<Store>, collection: Option<&str>, stages: Vec<u8>) -> crate::Result<OpenStream> {
    let request = Aggregate {
        pipeline: Array::trusted(&stages),
        hint: Hint::None,
        scope: Scope::default(),
        bypass_validation: false,
    };
    store.open_stream(collection.map(name).as_ref(), "db", &request)
}

fn open(store: &Arc<Store>, collection: &str) -> OpenStream {
    watch(store, Some(collection), doc! {}).unwrap()
}

fn drain(stream: &mut OpenStream) -> Vec<DocBuf> {
    let mut events = Vec::new();
    while stream.source.advance(&Interrupt::new()).unwrap() {
        events.push(stream.source.current().to_owned());
    }
    events
}

/// The kinds of the events that a stream has now.
fn kinds(stream: &mut OpenStream) -> Vec<String> {
    let events = drain(stream);
    events.iter().map(|event| event.as_doc().get_str("operationType").unwrap().to_owned()).collect()
}

fn code<T>(outcome: crate::Result<T>) -> i32 {
    match outcome.err().unwrap() {
        crate::Error::Query(error) => error.code,
        other => panic!("{other}"),
    }
}

fn log_len(store: &Arc<Store>) -> usize {
    let snapshot = store.shared.engine.snapshot();
    snapshot.scan(diwan_kv::Space::Events, diwan_kv::KeyRange::all(), diwan_kv::Direction::Forward).count()
}

/// Trims until all is done; every slice is over as soon as it has begun.
fn trim_all(store: &Arc<Store>) {
    for _ in 0..1000 {
        if trim(&store.shared, store.entries(), &|| true).unwrap() {
            return;
        }
    }
    panic!("trimming does not end");
}

#[test]
fn a_stream_resumes_with_its_own_token_after_other_collections_were_written() {
    let store = store();
    let (mut stream, _other) = (open(&store, "a"), open(&store, "b"));
    insert(&store, "b", 0..5);
    assert!(drain(&mut stream).is_empty());
    let token = stream.state.token();
    insert(&store, "a", 0..1);
    let mut resumed = watch(&store, Some("a"), doc! { "resumeAfter": token.to_doc() }).unwrap();
    assert_eq!(kinds(&mut resumed), ["insert"]);
}

#[test]
fn the_token_of_a_stream_that_has_nothing_to_show_moves_on() {
    let store = store();
    let mut stream = open(&store, "a");
    let first = stream.state.token();
    store.shared.events.clock.tick();
    assert!(drain(&mut stream).is_empty());
    assert!(stream.state.token().position > first.position);
}

#[test]
fn a_collection_records_by_the_name_that_it_has_now() {
    let store = store();
    let _stream = open(&store, "watched");
    insert(&store, "other", 0..1);
    store.rename(&name("other"), &name("watched"), false).unwrap();
    let mut stream = open(&store, "watched");
    insert(&store, "watched", 1..2);
    assert_eq!(kinds(&mut stream), ["insert"]);
    store.rename(&name("watched"), &name("other"), false).unwrap();
    let events = log_len(&store);
    insert(&store, "other", 2..3);
    assert_eq!(log_len(&store), events);
}

#[test]
fn the_operation_log_is_no_target_of_a_rename() {
    let store = store();
    insert(&store, "a", 0..1);
    let target = Namespace::new("local", "oplog.rs").unwrap();
    assert_eq!(code(store.rename(&name("a"), &target, false)), 73);
}

#[test]
fn a_stream_whose_events_were_deleted_fails_with_286() {
    let store = store();
    let mut stream = open(&store, "a");
    for id in 0..50 {
        insert(&store, "a", id..id + 1);
    }
    let token = stream.state.token();
    store.set_retention(Retention { bytes: 2000, ..Retention::default() });
    trim_all(&store);
    let kept = log_len(&store);
    assert!((1..20).contains(&kept), "{kept}");
    let error = stream.source.advance(&Interrupt::new()).unwrap_err();
    assert_eq!(error.code, 286);
    assert_eq!(code(watch(&store, Some("a"), doc! { "resumeAfter": token.to_doc() })), 286);
    assert!(check(&store, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn trimming_counts_what_is_left_after_a_restart_and_goes_on_in_slices() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::open(engine.clone()).unwrap();
    let stream = open(&store, "a");
    insert(&store, "a", 0..300);
    let bytes = store.shared.events.bytes.load(Ordering::Relaxed);
    drop((stream, store));
    let store = Store::open(engine).unwrap();
    trim_all(&store);
    assert_eq!(store.shared.events.bytes.load(Ordering::Relaxed), bytes);
    store.set_retention(Retention { bytes: bytes / 2, ..Retention::default() });
    trim_all(&store);
    let left = store.shared.events.bytes.load(Ordering::Relaxed);
    assert!(left <= bytes / 2 && left > bytes / 4, "{left} of {bytes}");
}

#[test]
fn trimming_keeps_the_events_of_a_transaction_together() {
    let store = store();
    let stream = open(&store, "a");
    insert(&store, "a", 0..1);
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", 1..101);
    transaction.commit(None).unwrap();
    store.set_retention(Retention { bytes: 4000, ..Retention::default() });
    trim_all(&store);
    assert_eq!(log_len(&store), 0);
    drop(stream);
}

#[test]
fn events_of_scopes_that_ended_are_deleted() {
    let store = store();
    let stream = open(&store, "a");
    insert(&store, "a", 0..10);
    drop(stream);
    store.set_retention(Retention { millis: 0, ..Retention::default() });
    std::thread::sleep(Duration::from_millis(2));
    trim_all(&store);
    assert_eq!(log_len(&store), 0);
    insert(&store, "a", 10..11);
    assert_eq!(log_len(&store), 0);
}

#[test]
fn a_scope_lasts_while_one_of_its_streams_is_open() {
    let store = store();
    store.set_retention(Retention { millis: 0, ..Retention::default() });
    let (first, mut second) = (open(&store, "a"), open(&store, "a"));
    drop(first);
    // Recording another scope replaces the list of them.
    drop(open(&store, "b"));
    std::thread::sleep(Duration::from_millis(2));
    trim_all(&store);
    insert(&store, "a", 0..1);
    assert_eq!(kinds(&mut second), ["insert"]);
}

#[test]
fn an_opened_stream_misses_nothing_while_another_begins_to_record() {
    let store = store();
    insert(&store, "a", 0..1);
    let collection = store.collection(&name("a")).unwrap().unwrap();
    let writing = collection.begin_write().unwrap();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..2 {
            let (sender, store) = (sender.clone(), &store);
            scope.spawn(move || sender.send(open(store, "a")).unwrap());
        }
        let patience = Duration::from_millis(50);
        assert!(matches!(receiver.recv_timeout(patience), Err(RecvTimeoutError::Timeout)));
        drop(writing);
        let mut streams = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        insert(&store, "a", 1..2);
        assert!(streams.iter_mut().all(|stream| kinds(stream) == ["insert"]));
    });
}

#[test]
fn the_history_begins_when_all_collections_record() {
    let store = store();
    insert(&store, "a", 0..1);
    let before = store.clock().now();
    let stream = open(&store, "a");
    assert_eq!(code(watch(&store, Some("a"), doc! { "startAtOperationTime": before })), 286);
    let after = store.shared.events.recordings.read().since(&EventScope::Collection(name("a"))).unwrap();
    assert!(stream.state.token().position >= Position::before(after));
}

#[test]
fn a_stream_opened_during_a_transaction_shows_the_collection_that_it_creates() {
    let store = store();
    insert(&store, "old", 0..1);
    let transaction = store.begin_transaction();
    insert(transaction.store(), "new", 0..2);
    insert(transaction.store(), "old", 1..2);
    let mut stream = watch(&store, None, doc! { "showExpandedEvents": true }).unwrap();
    transaction.commit(None).unwrap();
    let mut shown = kinds(&mut stream);
    shown.sort();
    assert_eq!(shown, ["create", "insert", "insert", "insert"]);
}

#[test]
fn a_stream_that_resumes_after_its_last_event_shows_the_invalidation() {
    let store = store();
    let mut stream = open(&store, "a");
    insert(&store, "a", 0..1);
    store.drop_collection(&name("a")).unwrap();
    insert(&store, "a", 0..1);
    let events = drain(&mut stream);
    let token = |at: usize| events[at].as_doc().get_doc("_id").unwrap().to_owned();
    let resume =
        |option: &str, at: usize| kinds(&mut watch(&store, Some("a"), doc! { option: token(at) }).unwrap());
    assert_eq!(events.len(), 3);
    assert_eq!(resume("resumeAfter", 0), ["drop", "invalidate"]);
    assert_eq!(resume("resumeAfter", 1), ["invalidate"]);
    assert_eq!(resume("startAfter", 2), ["insert"]);
}

#[test]
fn a_rename_wakes_the_streams_of_its_target() {
    let store = store();
    insert(&store, "a", 0..1);
    let stream = open(&store, "target");
    let (sender, receiver) = channel();
    let _subscription = stream.state.on_event(Box::new(move || sender.send(()).unwrap_or_default()));
    store.rename(&name("a"), &name("target"), false).unwrap();
    receiver.recv_timeout(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_modification_shows_what_was_changed_and_what_was_before() {
    let store = store();
    insert(&store, "a", 0..1);
    let spec = crate::IndexSpec::parse(doc! { "key": { "n": 1 }, "name": "n" }.as_doc(), None).unwrap();
    let collection = store.collection(&name("a")).unwrap().unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &crate::BuildProgress::default()).unwrap();
    let mut stream = watch(&store, Some("a"), doc! { "showExpandedEvents": true }).unwrap();
    let hide = |schema: &mut Schema| {
        schema
            .modify_index(|index| index.spec.name == "n", |spec| spec.modified(Some(true), None, None))
            .map(drop)
    };
    store.modify(&name("a"), doc! {}.as_doc(), Some(hide)).unwrap();
    let events = drain(&mut stream);
    let event = events[0].as_doc();
    let hidden =
        |document: &str, index: &str| event.get_doc(document).unwrap().get_doc(index).unwrap().get("hidden");
    assert_eq!(hidden("operationDescription", "index"), Some(Value::Boolean(true)));
    assert_eq!(hidden("stateBeforeChange", "indexOptions"), Some(Value::Boolean(false)));
}

#[test]
fn a_suspended_stream_shows_each_event_once() {
    let store = store();
    let mut stream = open(&store, "a");
    insert(&store, "a", 0..600);
    let mut ids = Vec::new();
    while stream.source.advance(&Interrupt::new()).unwrap() {
        ids.push(
            stream
                .source
                .current()
                .get_doc("documentKey")
                .unwrap()
                .get("_id")
                .unwrap()
                .as_i64_exact()
                .unwrap(),
        );
        stream.source.suspend();
    }
    assert_eq!(ids, Vec::from_iter(0..600));
}

/// The number of calls of a waiting stream's callback.
fn count_wakes(stream: &OpenStream) -> (super::EventSubscription, std::sync::mpsc::Receiver<()>) {
    let (sender, receiver) = channel();
    let callback = Box::new(move || sender.send(()).unwrap_or_default());
    (stream.state.on_event(callback), receiver)
}

#[test]
fn a_waiting_stream_is_woken_only_for_what_its_filter_lets_pass() {
    let store = store();
    let only = |id: i32| {
        let stages = array![{ "$changeStream": {} }, { "$match": { "documentKey._id": id } }].finish();
        watch_through(&store, Some("a"), stages).unwrap()
    };
    let (mut third, mut fifth) = (only(3), only(5));
    let ((_third, third_woken), (_fifth, fifth_woken)) = (count_wakes(&third), count_wakes(&fifth));
    insert(&store, "a", 0..4);
    third_woken.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(kinds(&mut third), ["insert"]);
    // The other one has passed these events without looking at them.
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while fifth.state.has_news() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!fifth.state.has_news() && fifth_woken.try_recv().is_err());
    insert(&store, "a", 4..6);
    fifth_woken.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(kinds(&mut fifth), ["insert"]);
}

#[test]
fn a_stream_that_is_behind_passes_nothing_that_it_has_not_looked_at() {
    let store = store();
    let stages = array![{ "$changeStream": {} }, { "$match": { "documentKey._id": 1 } }].finish();
    let mut stream = watch_through(&store, Some("a"), stages).unwrap();
    insert(&store, "a", 0..2);
    let (_subscription, woken) = count_wakes(&stream);
    insert(&store, "a", 2..3);
    woken.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(kinds(&mut stream), ["insert"]);
}

#[test]
fn an_update_that_is_looked_up_wakes_streams_whatever_their_filter() {
    let store = store();
    insert(&store, "a", 0..1);
    let stages = array![{ "$changeStream": { "fullDocument": "updateLookup" } }, { "$match": { "fullDocument.n": 1 } }];
    let mut stream = watch_through(&store, Some("a"), stages.finish()).unwrap();
    let (_subscription, woken) = count_wakes(&stream);
    let change = doc! { "$set": { "n": 1 } };
    let update = crate::ops::Update { update: Some(Value::Document(change.as_doc())), ..Default::default() };
    store.update(&name("a"), &update).unwrap();
    woken.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(kinds(&mut stream), ["update"]);
}
