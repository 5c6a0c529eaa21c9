//! Persons like those of experiment P: four fields that all have, and one more that differs.

use crate::error::Result;
use diwan_store::{Collection, WriteOptions};
use diwan_value::{DocBuf, DocBuilder, ObjectId, Value};

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";
const ANIMALS: [&str; 6] = ["Albatross", "Horse", "Piranha", "Slow loris", "Panda", "Penguin"];
const POWERS: [&str; 5] =
    ["Force Lightning", "Jedi Mind Trick", "Force Choke", "Force Throw", "Force Insanity"];

/// The seed, so that every server makes the same persons.
const SEED: u64 = 1337;
/// How many documents are inserted at once.
const BATCH: u64 = 1000;

/// Inserts so many persons.
pub(super) fn fill(collection: &Collection, count: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut made = 0;
    while made < count {
        let batch: Vec<DocBuf> =
            (made..count.min(made + BATCH)).map(|number| person(&mut random, number)).collect();
        made += batch.len() as u64;
        let docs: Vec<_> = batch.iter().map(DocBuf::as_doc).collect();
        let report = collection.insert(&docs, true, WriteOptions::default())?;
        if let Some((_, error)) = report.errors.into_iter().next() {
            return Err(error.into());
        }
    }
    Ok(())
}

fn person(random: &mut fastrand::Rng, number: u64) -> DocBuf {
    let mut id = *b"\x4d\0\0\0diwan\0\0\0";
    id[9..].copy_from_slice(&number.to_be_bytes()[5..]);
    let length = random.usize(5..=15);
    let name = distinct(random, LETTERS, length);
    let mut doc = DocBuilder::new();
    doc.append("_id", Value::ObjectId(ObjectId(id)));
    doc.append("name", Value::String(&name));
    doc.append("salary", Value::Int32(random.i32(9000..=40_000)));
    doc.append("age", Value::Int32(random.i32(18..=90)));
    doc.append("telephone", Value::String(&distinct(random, DIGITS, 10)));
    let extra = match random.u8(0..4) {
        1 => Some(("pet", pick(random, &ANIMALS))),
        2 => Some(("fax", distinct(random, DIGITS, 10))),
        3 => Some(("jedi power", pick(random, &POWERS))),
        _ => None,
    };
    if let Some((field, value)) = extra {
        doc.append(field, Value::String(&value));
    }
    doc.finish()
}

fn pick(random: &mut fastrand::Rng, values: &[&str]) -> String {
    random.choice(values).copied().unwrap_or_default().to_owned()
}

/// So many different characters of an alphabet, in any order.
fn distinct(random: &mut fastrand::Rng, alphabet: &str, count: usize) -> String {
    let mut characters: Vec<char> = alphabet.chars().collect();
    random.shuffle(&mut characters);
    characters.into_iter().take(count).collect()
}
