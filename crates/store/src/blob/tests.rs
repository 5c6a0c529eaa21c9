//! Tests of blobs: uploads read back, equal contents are stored once, and exactly the unreferenced blobs are swept.

use super::*;
use crate::keys::{self, BlobKeys};
use crate::{Collection, Error, Namespace, Revision, Store};
use diwan_kv::{Batch, ContractEngine, Direction, KeyRange, MemoryEngine, Space};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn store() -> (Arc<Store>, Arc<Collection>) {
    let store = Store::open(Arc::new(ContractEngine::new(MemoryEngine::new()))).unwrap();
    let collection = store.collection_or_create(&Namespace::new("test", "files").unwrap()).unwrap();
    (store, collection)
}

/// Bytes that do not repeat and do not compress.
fn noise(length: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn upload(collection: &Arc<Collection>, source: BlobSource, bytes: &[u8]) -> StagedBlob {
    let mut writer = collection.blob_writer(source).unwrap();
    for part in bytes.chunks(70_001) {
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap()
}

fn read(
    collection: &Arc<Collection>,
    attachment: &Attachment,
    form: BlobForm,
    range: Option<std::ops::Range<u64>>,
) -> Vec<u8> {
    let mut reader = collection.read_blob(attachment, form, range).unwrap().unwrap();
    let mut bytes = Vec::new();
    let left = reader.left();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, left);
    bytes
}

fn revision(generation: u32) -> Revision {
    Revision { generation, hash: [generation as u8; 16] }
}

fn refer(collection: &Collection, id: &[u8], generation: u32, attachments: &[Attachment]) {
    let mut batch = Batch::new();
    reference(&mut batch, collection.id, id, revision(generation), attachments);
    collection.shared.engine.commit(batch).unwrap();
}

fn unrefer(collection: &Collection, id: &[u8], generation: u32, attachments: &[Attachment]) {
    let mut batch = Batch::new();
    release(&mut batch, collection.id, id, revision(generation), attachments);
    collection.shared.engine.commit(batch).unwrap();
}

/// Runs a sweep in the test. The store's own sweeper also runs every second.
fn sweep_now(collection: &Collection) {
    sweep(&collection.shared, || false).unwrap();
}

/// The number of heads, contents, references, loose marks and chunks.
fn keys_left(collection: &Collection) -> [usize; 5] {
    let snapshot = collection.shared.engine.snapshot();
    let count = |space, prefix: &[u8]| {
        snapshot.scan(space, KeyRange::prefix(prefix), Direction::Forward).map(Result::unwrap).count()
    };
    let meta = |kind| count(Space::Meta, &keys::blobs_prefix(collection.id, kind));
    [
        meta(BlobKeys::Heads),
        meta(BlobKeys::Contents),
        meta(BlobKeys::References),
        count(Space::Meta, &keys::loose_prefix(None)),
        count(Space::Attachments, &keys::collection_prefix(collection.id)),
    ]
}

#[test]
fn uploads_read_back_whole_and_in_ranges() {
    let (_store, files) = store();
    for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 1_000_000] {
        let bytes = noise(length, length as u64);
        let staged = upload(&files, BlobSource::Plain, &bytes);
        assert_eq!(staged.md5, <[u8; 16]>::from(<md5::Md5 as md5::Digest>::digest(&bytes)));
        let plain = staged.attachment("a", "image/png", 1);
        assert_eq!((plain.length, plain.encoded_length), (length as u64, length as u64));
        assert_eq!(read(&files, &plain, BlobForm::Identity, None), bytes);

        let text = [bytes.as_slice(), &vec![b'x'; length]].concat();
        let staged = upload(&files, BlobSource::ToPack { level: 8 }, &text);
        let packed = staged.attachment("b", "text/plain", 1);
        assert_eq!((packed.length, packed.encoding), (text.len() as u64, Some(Encoding::Gzip)));
        assert_eq!(staged.received_md5, <[u8; 16]>::from(<md5::Md5 as md5::Digest>::digest(&text)));
        assert_eq!(read(&files, &packed, BlobForm::Identity, None), text);
        let stored = read(&files, &packed, BlobForm::Stored, None);
        assert_eq!(stored.len() as u64, packed.encoded_length);
        assert_eq!(staged.md5, <[u8; 16]>::from(<md5::Md5 as md5::Digest>::digest(&stored)));

        // The same bytes, compressed by the client.
        let again = upload(&files, BlobSource::Packed, &stored);
        assert_eq!((again.blob(), again.length), (packed.blob, text.len() as u64));

        let end = text.len() as u64;
        for range in [0..1, 0..end, end / 2..end, end / 3..end / 2, end..end + 5, end + 7..end] {
            let cut = |bytes: &[u8]| {
                let (start, end) =
                    ((range.start as usize).min(bytes.len()), (range.end as usize).min(bytes.len()));
                bytes[start..end.max(start)].to_vec()
            };
            assert_eq!(read(&files, &plain, BlobForm::Stored, Some(range.clone())), cut(&bytes));
            assert_eq!(read(&files, &packed, BlobForm::Identity, Some(range.clone())), cut(&text));
            assert_eq!(read(&files, &packed, BlobForm::Stored, Some(range.clone())), cut(&stored));
        }
    }
}

#[test]
fn an_upload_that_is_not_a_gzip_stream_is_refused() {
    let (_store, files) = store();
    let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
    packer.write_all(&noise(300_000, 1)).unwrap();
    let good = packer.finish().unwrap();
    let attempt = |bytes: &[u8]| {
        let mut writer = files.blob_writer(BlobSource::Packed).unwrap();
        match writer.write_all(bytes) {
            Ok(()) => writer.finish(),
            Err(error) => Err(error_of(error).unwrap()),
        }
    };
    assert!(attempt(&good).is_ok());
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for bad in [&b""[..], b"plain text", &good[..good.len() - 1], &good[..5], &flipped] {
        assert!(matches!(attempt(bad), Err(Error::Query(_))), "{} bytes", bad.len());
    }
    sweep_now(&files);
    assert_eq!(keys_left(&files), [0; 5]);
}

#[test]
fn a_content_is_stored_once_and_deleted_with_its_last_reference() {
    let (store, files) = store();
    let bytes = noise(300_000, 1);
    let first = upload(&files, BlobSource::Plain, &bytes);
    let second = upload(&files, BlobSource::Plain, &bytes);
    assert_eq!(first.blob(), second.blob());
    assert_eq!(files.blob_totals().unwrap(), BlobTotals { count: 1, bytes: 300_000 });
    let list = [first.attachment("a", "x/y", 1), second.attachment("b", "x/y", 1)];
    // The holds keep the blob, though no document refers to it. The chunks of the second upload are deleted.
    sweep_now(&files);
    assert_eq!(keys_left(&files), [1, 1, 0, 1, 3]);
    refer(&files, b"one", 1, &list);
    refer(&files, b"two", 1, &list[..1]);
    drop((first, second));
    sweep_now(&files);
    assert_eq!(keys_left(&files), [1, 1, 2, 0, 3]);

    // A later revision keeps the blob; the other document releases it.
    let follow = |old: (u32, &[Attachment]), new: (u32, &[Attachment])| {
        let mut batch = Batch::new();
        release(&mut batch, files.id, b"one", revision(old.0), old.1);
        reference(&mut batch, files.id, b"one", revision(new.0), new.1);
        files.shared.engine.commit(batch).unwrap();
    };
    follow((1, &list), (2, &list[1..]));
    sweep_now(&files);
    assert_eq!(keys_left(&files), [1, 1, 2, 0, 3]);
    unrefer(&files, b"two", 1, &list[..1]);
    sweep_now(&files);
    assert_eq!(keys_left(&files), [1, 1, 1, 0, 3]);
    follow((2, &list[1..]), (3, &[]));

    // A reader keeps its blob.
    let mut reader = files.read_blob(&list[0], BlobForm::Identity, None).unwrap().unwrap();
    sweep_now(&files);
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert_eq!(found, bytes);
    drop(reader);
    sweep_now(&files);
    assert_eq!(keys_left(&files), [0; 5]);
    assert!(files.read_blob(&list[0], BlobForm::Identity, None).unwrap().is_none());
    assert!(files.hold_blob(list[0].blob).unwrap().is_none());
    assert_eq!(files.blob_totals().unwrap(), BlobTotals::default());

    // An upload that is abandoned, then one whose collection is dropped.
    let mut writer = files.blob_writer(BlobSource::Plain).unwrap();
    writer.write_all(&bytes).unwrap();
    sweep_now(&files);
    drop(writer);
    sweep_now(&files);
    assert_eq!(keys_left(&files), [0; 5]);
    let kept = upload(&files, BlobSource::Plain, &bytes);
    let mut writer = files.blob_writer(BlobSource::Plain).unwrap();
    writer.write_all(&noise(200_000, 9)).unwrap();
    let attachment = kept.attachment("a", "x/y", 1);
    let mut reader = files.read_blob(&attachment, BlobForm::Stored, None).unwrap().unwrap();
    store.drop_collection(&files.namespace()).unwrap();
    assert!(writer.write_all(&noise(200_000, 9)).is_err());
    assert!(files.blob_writer(BlobSource::Plain).is_err());
    for _ in 0..500 {
        if keys_left(&files) == [0; 5] {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(keys_left(&files), [0; 5]);
    assert!(reader.read_to_end(&mut Vec::new()).is_err());
}

/// Writers upload a few contents over and over, add references and release them, beside a sweeper that never rests. A
/// referenced blob always exists. In the end no key of a blob is left.
#[test]
fn sweeping_beside_uploads_loses_nothing_and_leaves_nothing() {
    const CONTENTS: u64 = 3;
    let (_store, files) = store();
    let contents: Vec<Vec<u8>> = (0..CONTENTS).map(|n| noise(100_000 * (n as usize + 1), n)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                let (files, contents) = (&files, &contents);
                scope.spawn(move || {
                    let id = [writer];
                    let mut attached: Vec<Attachment> = Vec::new();
                    for round in 1..150u32 {
                        let which = (round * u32::from(writer + 1) % CONTENTS as u32) as usize;
                        let staged = upload(files, BlobSource::Plain, &contents[which]);
                        let new = match round % 4 {
                            0 => Vec::new(),
                            _ => vec![staged.attachment("a", "x/y", round)],
                        };
                        let mut batch = Batch::new();
                        release(&mut batch, files.id, &id, revision(round - 1), &attached);
                        reference(&mut batch, files.id, &id, revision(round), &new);
                        files.shared.engine.commit(batch).unwrap();
                        drop(staged);
                        attached = new;
                        for attachment in &attached {
                            assert_eq!(read(files, attachment, BlobForm::Stored, None), contents[which]);
                        }
                    }
                    unrefer(files, &id, 149, &attached);
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_now(&files);
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    sweep_now(&files);
    assert_eq!(keys_left(&files), [0; 5]);
}

/// Text of a few words, the same at every run.
fn words(length: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    ];
    let mut out = Vec::with_capacity(length + 8);
    let mut state = 1u64;
    while out.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(WORDS[(state >> 33) as usize % WORDS.len()].as_bytes());
        out.push(if (state >> 40).is_multiple_of(7) { b'\n' } else { b' ' });
    }
    out.truncate(length);
    out
}

#[test]
fn compressed_attachments_have_the_lengths_and_digests_of_zlib_level_8() {
    let (_store, files) = store();
    // The lengths and digests are those of zlib itself: `compressobj(8, DEFLATED, 31, 8)` of Python's module.
    for (bytes, length, digest) in [
        (Vec::new(), 20, "7029066c27ac6f5ef18d660d5741979a"),
        (b"hello, world".to_vec(), 32, "067087b027bb7cc7fd02fc72de46f099"),
        (vec![0; 100_000], 132, "781d85846e95592e564bead19c048178"),
        (words(1000), 287, "8d3ee3c3441529630ed6233775b66976"),
        (words(300_000), 45_400, "72c021e9a798f8a0942ea20853459d33"),
        (
            [words(40_000), noise(40_000, 1), words(40_000)].concat(),
            55_792,
            "0196d395e4d2b5eb3fb0fa09883922d3",
        ),
    ] {
        let staged = upload(&files, BlobSource::ToPack { level: 8 }, &bytes);
        let packed = staged.attachment("a", "text/plain", 1);
        let stored = read(&files, &packed, BlobForm::Stored, None);
        assert_eq!(&stored[..10.min(stored.len())], b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
        let md5: String = packed.md5.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((packed.encoded_length, md5.as_str()), (length, digest), "of {} bytes", bytes.len());
    }
}
