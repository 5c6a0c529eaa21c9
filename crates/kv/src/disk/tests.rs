//! Tests of the engine on disk: durability, damage, locking.

use super::*;
use crate::Direction;
use crate::contract_tests::{Dice, contract};
use std::collections::BTreeMap;

fn quiet() -> Options {
    Options { settle_in_background: false, ..Options::default() }
}

fn accepting() -> Options {
    Options { accept_loss: true, ..quiet() }
}

fn open(path: &Path) -> Result<FjallEngine> {
    FjallEngine::open(path, &quiet())
}

/// Copies the files as a crash of the process leaves them.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &target);
        } else if let Err(error) = copy_without_holes(&entry.path(), &target) {
            // A file that a running engine renames into its place is there under its other name.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}

/// Copies the data of a file and leaves its holes: a journal is allocated long before it is written, and settled parts of
/// it are given back.
fn copy_without_holes(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::{SeekFrom, seek};
    use std::os::unix::fs::FileExt;
    let source = std::fs::File::open(from)?;
    let target = std::fs::File::create(to)?;
    target.set_len(source.metadata()?.len())?;
    let mut at = 0;
    // Seeking for data fails where only a hole is left.
    while let Ok(begin) = seek(&source, SeekFrom::Data(at)) {
        at = seek(&source, SeekFrom::Hole(begin))?;
        let mut data = vec![0; (at - begin) as usize];
        // The engine may cut the file meanwhile.
        let len = source.read_at(&mut data, begin)?;
        target.write_all_at(&data[..len], begin)?;
    }
    Ok(())
}

/// The names of all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Copies the files of an engine that may still be flushing, until no file was added or removed during a copy.
fn copy(from: &Path, to: &Path) {
    loop {
        let before = files(from);
        copy_files(from, to);
        if files(from) == before {
            break;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}

type Content = BTreeMap<(Space, Vec<u8>), Vec<u8>>;

fn content(engine: &dyn Engine) -> Result<Content> {
    let mut all = BTreeMap::new();
    engine.snapshot().visit_all(&mut |space, key, value| {
        all.insert((space, key.to_vec()), value.to_vec());
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Commits some records with entries in other spaces, and waits until they are durable.
fn fill(engine: &FjallEngine, numbers: std::ops::Range<u32>) {
    let mut last = CommitId(0);
    for n in numbers {
        let mut batch = Batch::with_capacity(3);
        batch.put(
            Space::Records,
            n.to_be_bytes(),
            format!("record {n} {}", "x".repeat(n as usize % 90)).into_bytes(),
        );
        batch.put(Space::Log, u64::from(n).to_be_bytes(), n.to_le_bytes());
        batch.put(Space::Indexes, [&b"name"[..], &n.to_be_bytes()].concat(), *b"");
        last = engine.commit(batch).unwrap();
    }
    engine.wait_durable(last).unwrap();
}

#[test]
fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract(&open(dir.path()).unwrap());
}

#[test]
fn commits_survive_closing_settling_and_crashing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut here, mut n) = (dir.path().join("0"), 0);
    for round in 0..6 {
        let engine = open(&here).unwrap();
        assert_eq!(content(&engine).unwrap().len(), 3 * n as usize, "round {round}");
        fill(&engine, n..n + 100);
        if round % 3 == 1 {
            engine.settle().unwrap();
            assert!(engine.stats().journal_bytes <= 4096, "what is no whole block stays");
            fill(&engine, n + 100..n + 150);
            n += 50;
        }
        n += 100;
        let expected = content(&engine).unwrap();
        if round % 2 == 0 {
            engine.close().unwrap();
            assert!(matches!(engine.commit(Batch::new()), Err(Error::Closed)));
            drop(engine);
        } else {
            let next = dir.path().join((round + 1).to_string());
            copy(&here, &next);
            here = next;
        }
        let engine = open(&here).unwrap();
        assert_eq!(content(&engine).unwrap(), expected, "round {round}");
    }
}

#[test]
fn journals_are_rotated_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = dir.path().join("crashed");
    let here = dir.path().join("here");
    let engine = open(&here).unwrap();
    let mut expected = BTreeMap::new();
    let mut most = 0;
    for n in 0..300u32 {
        let mut batch = Batch::new();
        let value = n.to_le_bytes().repeat(200_000);
        batch.put(Space::Records, n.to_be_bytes(), value.clone());
        batch.put(Space::Meta, *b"last", n.to_le_bytes());
        expected.insert((Space::Records, n.to_be_bytes().to_vec()), value);
        let commit = engine.commit(batch).unwrap();
        if n % 50 == 0 {
            engine.wait_durable(commit).unwrap();
        }
        most = most.max(engine.stats().journals);
    }
    expected.insert((Space::Meta, b"last".to_vec()), 299u32.to_le_bytes().to_vec());
    assert!(most > 1, "the test has to write enough for a second journal");
    copy(&here, &crashed);
    assert!(content(&engine).unwrap() == expected);
    engine.settle().unwrap();
    let stats = engine.stats();
    assert!(stats.journal_bytes < 1 << 20, "{stats:?}");
    drop(engine);
    for path in [&here, &crashed] {
        let engine = open(path).unwrap();
        assert!(content(&engine).unwrap() == expected);
    }
}

#[test]
fn a_directory_is_opened_once_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Locked(path)) if path == dir.path()));
    drop(engine);
    open(dir.path()).unwrap();
}

#[test]
fn durability_is_reported_in_order_and_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let (engine, sender) = (&engine, sender.clone());
            scope.spawn(move || {
                for n in 0..50u8 {
                    let mut batch = Batch::new();
                    batch.put(Space::Log, [writer, n], *b"x");
                    let id = engine.commit(batch).unwrap();
                    let synced_here = if n % 3 == 0 { engine.sync_here(id) } else { None };
                    if let Some(outcome) = synced_here {
                        outcome.unwrap();
                        assert!(engine.durable() >= id);
                        sender.send((id, Ok(()))).unwrap();
                    } else if n % 3 == 1 {
                        engine.wait_durable(id).unwrap();
                        assert!(engine.durable() >= id);
                        sender.send((id, Ok(()))).unwrap();
                    } else {
                        let sender = sender.clone();
                        engine.on_durable(id, Box::new(move |outcome| sender.send((id, outcome)).unwrap()));
                    }
                }
            });
        }
    });
    drop(sender);
    let answers: Vec<_> = receiver.into_iter().collect();
    assert_eq!(answers.len(), 8 * 50);
    assert!(answers.iter().all(|(_, outcome)| outcome.is_ok()));
    // This thread can sync unless the sync thread is still syncing.
    let mut batch = Batch::new();
    batch.put(Space::Log, *b"here", *b"x");
    let id = engine.commit(batch.clone()).unwrap();
    let outcome = std::iter::repeat_with(|| engine.sync_here(id)).flatten().next();
    assert!(matches!(outcome, Some(Ok(()))));
    assert!(engine.durable() >= id);
    // No caller waits for this commit; it becomes durable all the same.
    let id = engine.commit(batch).unwrap();
    while engine.durable() < id {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn snapshots_never_show_a_part_of_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let view = engine.snapshot();
                        let read = |space| view.get(space, b"same").unwrap();
                        let first = read(Space::Records);
                        assert_eq!(first, read(Space::Log));
                        assert_eq!(first, read(Space::Meta));
                        assert_eq!(first, read(Space::Records));
                    }
                })
            })
            .collect();
        for n in 0..3000u32 {
            let mut batch = Batch::new();
            for space in [Space::Records, Space::Log, Space::Meta] {
                batch.put(space, *b"same", n.to_le_bytes());
            }
            engine.commit(batch).unwrap();
            if n % 300 == 0 {
                engine.settle().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// Opens a damaged copy: it must report an error, at once or when read, or show everything.
fn reports_or_serves(path: &Path, expected: &Content, what: &str) -> bool {
    let served = open(path).and_then(|engine| content(&engine));
    match served {
        Ok(found) => {
            assert!(found == *expected, "{what}: data is silently missing or wrong");
            true
        }
        Err(error) => {
            let known = matches!(error, Error::LostWrites(_) | Error::Damaged(_) | Error::Io { .. });
            assert!(known, "{what}: {error}");
            false
        }
    }
}

fn flip(path: &Path, at: u64, bit: u8) {
    use std::io::{Read, Seek, SeekFrom, Write};
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 1 << bit]).unwrap();
}

#[test]
fn tables_that_are_cut_off_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (here, damaged) = (dir.path().join("here"), dir.path().join("damaged"));
    let engine = open(&here).unwrap();
    fill(&engine, 0..40);
    engine.settle().unwrap();
    drop(engine);
    let tables = || files(&here).into_iter().filter(|path| path.parent().unwrap().ends_with("tables"));
    assert!(tables().count() > 0);
    for table in tables() {
        let table = table.strip_prefix(&here).unwrap().to_owned();
        let length = std::fs::metadata(here.join(&table)).unwrap().len();
        for cut in [0, 1, 7, 40, length / 2, length - 1] {
            let _ = std::fs::remove_dir_all(&damaged);
            copy(&here, &damaged);
            std::fs::OpenOptions::new().write(true).open(damaged.join(&table)).unwrap().set_len(cut).unwrap();
            let read = open(&damaged).and_then(|engine| content(&engine));
            assert!(matches!(read, Err(Error::Damaged(_))), "{} cut at {cut}: {read:?}", table.display());
        }
    }
}

#[test]
fn damage_to_a_synced_journal_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (here, copied) = (dir.path().join("here"), dir.path().join("copy"));
    let engine = open(&here).unwrap();
    fill(&engine, 0..40);
    engine.settle().unwrap();
    fill(&engine, 40..300);
    let expected = content(&engine).unwrap();
    copy(&here, &copied);
    let mark = Mark::open(&copied.join("mark")).unwrap().unwrap().1;
    let [Synced { journal, base, end, .. }] = mark[..] else { panic!("{mark:?}") };
    assert!(base > 0 && end > base);
    let journal = Path::new("data").join(format!("{journal}.jnl"));
    let mut dice = Dice(7);
    let damage = |what: &str, act: &dyn Fn(&Path)| {
        let damaged = dir.path().join("damaged");
        let _ = std::fs::remove_dir_all(&damaged);
        copy(&copied, &damaged);
        act(&damaged.join(&journal));
        let before = std::fs::read(damaged.join(&journal)).unwrap();
        let served = reports_or_serves(&damaged, &expected, what);
        assert!(!served, "{what}: the damage is in the synced part");
        assert!(std::fs::read(damaged.join(&journal)).unwrap() == before, "{what}: the journal was changed");
        assert!(matches!(open(&damaged), Err(Error::LostWrites(_))), "{what}");
        let accepted = FjallEngine::open(&damaged, &accepting()).unwrap();
        let kept = content(&accepted).unwrap();
        assert!(kept.iter().all(|(key, value)| expected.get(key) == Some(value)), "{what}");
        assert!(std::fs::read(damaged.join("lost-1").join(journal.file_name().unwrap())).unwrap() == before);
        drop(accepted);
        open(&damaged).unwrap();
    };
    // The first batch's markers bit by bit: no checksum of fjall covers its sequence number.
    let first = (0..20).map(|byte| (base + byte, (byte % 8) as u8));
    let anywhere: Vec<_> = (0..20).map(|_| (base + dice.below(end - base), dice.below(8) as u8)).collect();
    for (at, bit) in first.chain(anywhere) {
        damage(&format!("bit {bit} of byte {at} flipped"), &|path| flip(path, at, bit));
    }
    for at in [0, 1, base, base + 1, base + (end - base) / 10, end - 1] {
        damage(&format!("cut at {at}"), &|path| {
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(at).unwrap();
        });
    }
    damage("cut out", &|path| {
        let mut bytes = std::fs::read(path).unwrap();
        let at = (base + (end - base) / 2) as usize;
        bytes.drain(at..at + 1);
        std::fs::write(path, bytes).unwrap();
    });
}

#[test]
fn a_torn_end_behind_the_mark_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (here, torn) = (dir.path().join("here"), dir.path().join("torn"));
    let engine = open(&here).unwrap();
    fill(&engine, 0..100);
    let expected = content(&engine).unwrap();
    let end = Mark::open(&here.join("mark")).unwrap().unwrap().1[0].end;
    let mut whole = std::fs::read(here.join("data/0.jnl")).unwrap();
    let some: Vec<u8> = whole[..200].to_vec();
    for kept in [1, 13, 14, 40, 100, 199] {
        let _ = std::fs::remove_dir_all(&torn);
        copy(&here, &torn);
        whole[end as usize..].fill(0);
        whole[end as usize..][..kept].copy_from_slice(&some[..kept]);
        whole[end as usize + kept + 50] = 77;
        std::fs::write(torn.join("data/0.jnl"), &whole).unwrap();
        let found = content(&open(&torn).unwrap()).unwrap();
        // The written bytes may contain a whole commit, which is then a repetition of the first.
        assert!(found == expected, "{kept}");
    }
}

#[test]
fn missing_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    let engine = open(&here).unwrap();
    fill(&engine, 0..50);
    for file in ["mark", "data/version", "data/0.jnl"] {
        let copied = dir.path().join(file.replace('/', "-"));
        copy(&here, &copied);
        std::fs::remove_file(copied.join(file)).unwrap();
        let outcome = open(&copied);
        assert!(matches!(outcome, Err(Error::Damaged(_) | Error::LostWrites(_))), "{file}");
    }
    let accepted = FjallEngine::open(dir.path().join("mark"), &accepting()).unwrap();
    assert_eq!(content(&accepted).unwrap(), content(&engine).unwrap());
}

#[test]
fn a_space_is_created_by_its_first_write_and_reported_when_missing() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    let chunk = |n: u8| vec![n; 100_000];
    let put = |engine: &FjallEngine, n: u8| {
        let mut batch = Batch::new();
        batch.put(Space::Attachments, [n], chunk(n));
        batch.put(Space::Meta, [n], [n]);
        engine.wait_durable(engine.commit(batch).unwrap()).unwrap();
    };
    // The files of a version that did not know the space.
    let engine = open(&here).unwrap();
    fill(&engine, 0..5);
    let before = engine.snapshot();
    assert_eq!(engine.get(Space::Attachments, b"x").unwrap(), None);
    let mut deletion = Batch::new();
    deletion.require_absent(Space::Attachments, *b"x");
    deletion.delete(Space::Attachments, *b"x");
    engine.commit(deletion).unwrap();
    drop(engine);
    assert!(!here.join("spaces").exists() && !here.join("data/keyspaces/6").exists());
    drop(before);
    for n in 0..4 {
        let engine = open(&here).unwrap();
        std::thread::scope(|scope| {
            for m in 0..4 {
                let engine = &engine;
                scope.spawn(move || put(engine, 4 * n + m));
            }
        });
        assert_eq!(
            engine.snapshot().scan(Space::Attachments, KeyRange::all(), Direction::Forward).count(),
            4 * (usize::from(n) + 1)
        );
        if n % 2 == 0 {
            engine.settle().unwrap();
        }
        let copied = dir.path().join(n.to_string());
        copy(&here, &copied);
        assert_eq!(content(&open(&copied).unwrap()).unwrap(), content(&engine).unwrap());
    }
    let engine = open(&here).unwrap();
    assert_eq!(engine.get(Space::Attachments, &[7]).unwrap().as_deref(), Some(&*chunk(7)));
    let whole = content(&engine).unwrap();
    drop(engine);
    // The list is written again; the keyspace is not.
    std::fs::remove_file(here.join("spaces")).unwrap();
    assert_eq!(content(&open(&here).unwrap()).unwrap(), whole);
    assert!(here.join("spaces").exists());
    std::fs::remove_dir_all(here.join("data/keyspaces/6")).unwrap();
    assert!(matches!(open(&here), Err(Error::Damaged(_))));
    std::fs::write(here.join("spaces"), b"attachments").unwrap();
    assert!(matches!(open(&here), Err(Error::Damaged(_))));
}

#[test]
fn an_interrupted_creation_starts_over() {
    let dir = tempfile::tempdir().unwrap();
    Mark::create(&dir.path().join("mark")).unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    std::fs::write(dir.path().join("data/0.jnl"), b"").unwrap();
    fill(&open(dir.path()).unwrap(), 0..3);
    assert_eq!(content(&open(dir.path()).unwrap()).unwrap().len(), 9);
}

#[test]
fn damage_to_tables_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (here, damaged) = (dir.path().join("here"), dir.path().join("damaged"));
    let engine = open(&here).unwrap();
    fill(&engine, 0..600);
    engine.settle().unwrap();
    fill(&engine, 600..900);
    let expected = content(&engine).unwrap();
    engine.close().unwrap();
    drop(engine);
    let mut files = Vec::new();
    list_files(&here, Path::new(""), &mut files);
    let mut dice = Dice(11);
    let mut complaints = 0;
    for file in files.iter().filter(|f| !f.ends_with("lock")) {
        let len = std::fs::metadata(here.join(file)).unwrap().len();
        let flips: Vec<u64> = match len {
            0 => continue,
            1..24 => (0..len).collect(),
            _ => (0..10).map(|_| dice.below(len)).chain([0, len / 2, len - 1, len - 9]).collect(),
        };
        for at in flips {
            let _ = std::fs::remove_dir_all(&damaged);
            copy(&here, &damaged);
            flip(&damaged.join(file), at, dice.below(8) as u8);
            complaints +=
                usize::from(!reports_or_serves(&damaged, &expected, &format!("{} {at}", file.display())));
        }
        for at in [0, len / 2, len - 1] {
            let _ = std::fs::remove_dir_all(&damaged);
            copy(&here, &damaged);
            std::fs::OpenOptions::new().write(true).open(damaged.join(file)).unwrap().set_len(at).unwrap();
            reports_or_serves(&damaged, &expected, &format!("{} cut at {at}", file.display()));
        }
    }
    assert!(complaints > 20, "{complaints} of the flips were noticed");
}

fn list_files(root: &Path, below: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            list_files(root, &path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn reverse_scans_and_early_ends() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    fill(&engine, 0..100);
    let scan = engine.snapshot().scan(Space::Records, KeyRange::all(), Direction::Reverse);
    drop(engine);
    assert_eq!(
        scan.take(3).map(|pair| pair.unwrap().0.last().copied()).collect::<Vec<_>>(),
        [99, 98, 97].map(Some)
    );
}

/// An engine whose journal has been deleted, so that nothing can become durable any more; and a batch that it committed
/// after that.
fn without_journal(path: &Path) -> (FjallEngine, Batch, CommitId) {
    let engine = open(path).unwrap();
    fill(&engine, 0..10);
    std::fs::remove_file(path.join("data/0.jnl")).unwrap();
    let mut batch = Batch::new();
    batch.put(Space::Records, *b"lost", *b"x");
    let id = engine.commit(batch.clone()).unwrap();
    (engine, batch, id)
}

#[test]
fn a_failed_sync_refuses_writes_until_the_engine_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, batch, id) = without_journal(dir.path());
    let (sender, receiver) = std::sync::mpsc::channel();
    engine.on_durable(id, Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert!(receiver.recv().unwrap().is_err());
    assert!(engine.wait_durable(id).is_err());
    assert!(engine.durable() < id);
    for outcome in [engine.commit(batch).map(drop), engine.settle(), engine.writable()] {
        let text = outcome.unwrap_err().to_string();
        let cause =
            "the store refuses writes after a failure and must be restarted: syncing the journal failed: ";
        assert!(text.starts_with(cause), "{text}");
        assert_eq!(text.matches("refuses").count(), 1, "{text}");
    }
    assert_eq!(content(&engine).unwrap().len(), 31);
    drop(engine);
    assert!(matches!(open(dir.path()), Err(Error::LostWrites(_))));
}

#[test]
fn a_failed_sync_in_the_callers_thread_answers_all_callers() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, batch, id) = without_journal(dir.path());
    // The sync thread may come first: commits do not stay unsynced for long.
    let here = engine.sync_here(id);
    assert!(here.is_none_or(|outcome| outcome.is_err()));
    assert!(engine.wait_durable(id).is_err());
    assert!(engine.sync_here(id).is_some_and(|outcome| outcome.is_err()), "a second try must not succeed");
    assert!(engine.durable() < id);
    assert!(matches!(engine.commit(batch), Err(Error::Poisoned(_))));
}

#[test]
fn settling_beside_writes_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (here, crashed) = (dir.path().join("here"), dir.path().join("crashed"));
    let engine = open(&here).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    engine.settle().unwrap();
                }
            });
        }
        (0..20).for_each(|n| fill(&engine, n * 200..(n + 1) * 200));
        done.store(true, Ordering::Relaxed);
    });
    let expected = content(&engine).unwrap();
    assert_eq!(expected.len(), 3 * 4000);
    copy(&here, &crashed);
    let mark = Mark::open(&crashed.join("mark")).unwrap().unwrap().1;
    assert!(mark.iter().any(|e| e.base > 0), "{mark:?}");
    drop(engine);
    for path in [&here, &crashed] {
        assert!(content(&open(path).unwrap()).unwrap() == expected);
    }
}

#[test]
fn a_panicking_callback_leaves_no_caller_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    let mut batch = Batch::new();
    batch.put(Space::Records, *b"k", *b"v");
    let id = engine.commit(batch.clone()).unwrap();
    engine.on_durable(CommitId(id.0 + 1), Box::new(|_| panic!("a callback's bug")));
    let next = engine.commit(batch.clone()).unwrap();
    // This commit may still have become durable; later ones cannot.
    let _ = engine.wait_durable(next);
    while engine.commit(batch.clone()).is_ok_and(|id| engine.wait_durable(id).is_ok()) {}
    assert!(matches!(engine.commit(batch), Err(Error::Poisoned(_))));
}

#[test]
fn an_almost_full_disk_accepts_only_deletions() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        |reserve| FjallEngine::open(dir.path(), &Options { disk_reserve: Some(reserve), ..quiet() }).unwrap();
    let put = |key: &[u8]| {
        let mut batch = Batch::new();
        batch.put(Space::Records, key, *b"v");
        batch
    };
    let engine = open(0);
    engine.commit(put(b"a")).unwrap();
    drop(engine);
    let engine = open(u64::MAX);
    let is_full = |outcome: Result<()>| matches!(outcome, Err(Error::OutOfSpace { required: u64::MAX, .. }));
    assert!(is_full(engine.commit(put(b"b")).map(drop)));
    let pairs: [(&[u8], &[u8]); 1] = [(b"k", b"v")];
    assert!(is_full(engine.ingest(Space::Records, Box::new(pairs.into_iter()))));
    assert!(is_full(engine.writable()));
    let mut noted = put(b"c");
    noted.take_reserve();
    let id = engine.commit(noted).unwrap();
    engine.wait_durable(id).unwrap();
    engine.commit(Batch::new()).unwrap();
    assert_eq!(engine.delete_range(Space::Records, KeyRange::all()).unwrap(), 2);
    engine.settle().unwrap();
    drop(engine);
    let engine = open(0);
    engine.writable().unwrap();
    engine.commit(put(b"b")).unwrap();
    assert_eq!(content(&engine).unwrap().len(), 1);
}

#[test]
fn versions_are_kept_while_a_snapshot_is_held_and_freed_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).unwrap();
    // 64 keys of 16 KiB that do not compress: 1 MiB is live at any time.
    let mut dice = Dice(7);
    let mut overwrite = |rounds: u32| {
        for _ in 0..rounds {
            let mut batch = Batch::new();
            for key in 0..64_u32 {
                let value: Vec<u8> = (0..2048).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect();
                batch.put(Space::Records, key.to_be_bytes().to_vec(), value);
            }
            engine.commit(batch).unwrap();
            engine.settle().unwrap();
        }
    };
    overwrite(1);
    let held = engine.snapshot();
    let before = held.get(Space::Records, &7_u32.to_be_bytes()).unwrap();
    overwrite(16);
    assert_eq!(held.get(Space::Records, &7_u32.to_be_bytes()).unwrap(), before);
    let kept = engine.stats().disk_bytes;
    assert!(kept > 12 << 20, "the versions since the snapshot: {kept}");
    drop(held);
    overwrite(16);
    let rest = engine.stats().disk_bytes;
    assert!(rest < 8 << 20, "a few versions until the next compaction: {rest}");
}
