//! Events of change streams against a model: a stream that is replayed onto a copy of the collection gives the collection.

use diwan_kv::{Engine, MemoryEngine};
use diwan_query::Interrupt;
use diwan_store::events::OpenStream;
use diwan_store::ops::{Aggregate, Scope};
use diwan_store::plan::Hint;
use diwan_store::{Edit, Namespace, Store, WriteOptions, id_key};
use diwan_value::{Array, DocBuf, Value, array, doc};
use std::collections::BTreeMap;
use std::sync::Arc;

fn name() -> Namespace {
    Namespace::new("test", "c").unwrap()
}

fn open(store: &Arc<Store>, stage: DocBuf) -> OpenStream {
    let stages = array![{ "$changeStream": stage }].finish();
    let request = Aggregate {
        pipeline: Array::trusted(&stages),
        hint: Hint::None,
        scope: Scope::default(),
        bypass_validation: false,
    };
    store.open_stream(Some(&name()), "test", &request).unwrap()
}

/// The events that a stream has now.
fn drain(stream: &mut OpenStream) -> Vec<DocBuf> {
    let mut events = Vec::new();
    while stream.source.advance(&Interrupt::new()).unwrap() {
        events.push(stream.source.current().to_owned());
    }
    events
}

/// Applies events to a copy, by their documents after the change.
fn replay(events: &[DocBuf], copy: &mut BTreeMap<i32, DocBuf>) {
    for event in events {
        let event = event.as_doc();
        let Some(Value::Int32(id)) = event.get_doc("documentKey").unwrap().get("_id") else {
            panic!("no id")
        };
        match event.get_str("operationType").unwrap() {
            "insert" => assert!(copy.insert(id, event.get_doc("fullDocument").unwrap().to_owned()).is_none()),
            "update" | "replace" => {
                let before = event.get_doc("fullDocumentBeforeChange").unwrap().to_owned();
                let old = copy.insert(id, event.get_doc("fullDocument").unwrap().to_owned());
                assert_eq!(old, Some(before));
            }
            "delete" => assert!(copy.remove(&id).is_some()),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_replayed_stream_gives_the_collection_from_any_token_also_after_restarts() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut store = Store::open(engine.clone()).unwrap();
    let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    store.create(&name(), images.as_doc()).unwrap();
    let wanted = || doc! { "fullDocument": "required", "fullDocumentBeforeChange": "required" };
    let mut stream = open(&store, wanted());
    let (mut events, mut copy) = (Vec::new(), BTreeMap::new());
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..600 {
        let collection = store.collection(&name()).unwrap().unwrap();
        let id = random.i32(0..20);
        let new = match random.u8(0..4) {
            0 => Edit::Delete,
            1 => Edit::Keep,
            _ => Edit::Put(doc! { "_id": id, "n": round, "a": [round, 2, 3] }),
        };
        let mut new = Some(new);
        let options = WriteOptions { replaces: random.bool(), ..WriteOptions::default() };
        let ids = [id_key(Value::Int32(id)).unwrap()];
        collection.edit(&ids, options, |_, _| Ok(new.take().unwrap_or(Edit::Keep))).unwrap();
        if random.u8(0..10) == 0 {
            events.extend(drain(&mut stream));
        }
        if random.u8(0..40) == 0 {
            let token = stream.state.token().to_doc();
            drop((stream, collection, store));
            store = Store::open(engine.clone()).unwrap();
            let mut options = wanted().into_builder();
            options.append("resumeAfter", token);
            stream = open(&store, options.finish());
        }
    }
    events.extend(drain(&mut stream));
    replay(&events, &mut copy);
    let collection = store.collection(&name()).unwrap().unwrap();
    assert_eq!(collection.count(), copy.len() as u64);
    for (id, doc) in &copy {
        let stored = collection.get(&id_key(Value::Int32(*id)).unwrap()).unwrap().unwrap();
        assert_eq!(stored.doc(), doc.as_doc());
    }
    for at in (0..events.len()).step_by(17) {
        let mut options = wanted().into_builder();
        options.append("startAfter", events[at].as_doc().get("_id"));
        assert_eq!(drain(&mut open(&store, options.finish())), events[at + 1..], "after event {at}");
    }
}

#[test]
fn tokens_of_another_store_and_another_collection_are_refused() {
    let refused = |store: &Arc<Store>, token: DocBuf| {
        let stages = array![{ "$changeStream": { "resumeAfter": token } }].finish();
        let request = Aggregate {
            pipeline: Array::trusted(&stages),
            hint: Hint::None,
            scope: Scope::default(),
            bypass_validation: false,
        };
        store.open_stream(Some(&name()), "test", &request).err().map(|error| error.to_string()).unwrap()
    };
    let (one, other) = (
        Store::open(Arc::new(MemoryEngine::new())).unwrap(),
        Store::open(Arc::new(MemoryEngine::new())).unwrap(),
    );
    let token = open(&one, doc! {}).state.token().to_doc();
    let _opened = open(&other, doc! {});
    assert!(refused(&other, token).contains("the resume token was not found"));
    assert!(refused(&other, doc! { "_data": "82" }).contains("not made by this server"));
    assert!(refused(&other, doc! {}).contains("_data of missing"));
}
