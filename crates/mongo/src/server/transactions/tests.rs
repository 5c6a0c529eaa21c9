use super::*;
use crate::server::cursors::{Cursor, OpenCursors};
use diwan_kv::MemoryEngine;
use diwan_query::pipeline::DocList;
use std::sync::mpsc::channel;

const SESSION: SessionId = [1; 16];

fn store() -> Arc<Store> {
    Store::open(Arc::new(MemoryEngine::new())).unwrap()
}

fn begin<'a>(
    transactions: &'a Transactions,
    store: &Arc<Store>,
    session: SessionId,
    number: i64,
    interrupt: &Interrupt,
) -> Result<TransactionTurn<'a>> {
    let beginning = Beginning { owner: None, level: None, wall_millis: 0 };
    transactions.begin(store, session, number, beginning, interrupt, || Ok(store.begin_transaction()))
}

/// A transaction with an open cursor, between two statements.
fn open(transactions: &Transactions, store: &Arc<Store>, number: i64) {
    let turn = begin(transactions, store, SESSION, number, &Interrupt::new()).unwrap();
    add_cursor(transactions, number);
    turn.keep().unwrap();
}

fn add_cursor(transactions: &Transactions, number: i64) {
    let mut cursor = Cursor::new(Box::new(DocList::new(Vec::new())), "db", "c");
    (cursor.session, cursor.transaction) = (Some(SESSION), Some(number));
    transactions.cursors.insert(cursor).unwrap();
}

fn cursors(transactions: &Transactions) -> usize {
    let OpenCursors { total, .. } = transactions.cursors.count();
    total
}

#[test]
fn begin_that_waits_for_a_retryable_write_holds_up_no_other_session() {
    let (store, transactions, interrupt) = (store(), Transactions::default(), Interrupt::new());
    let _turn = store.begin_retryable(&SESSION, 5, &interrupt).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| begin(&transactions, &store, SESSION, 6, &interrupt).err());
        std::thread::sleep(Duration::from_millis(100));
        let (sender, begun) = channel();
        let (transactions, store) = (&transactions, &store);
        scope.spawn(move || {
            let other = begin(transactions, store, [2; 16], 1, &Interrupt::new());
            sender.send(other.is_ok()).unwrap();
        });
        let begun = begun.recv_timeout(Duration::from_secs(5));
        interrupt.kill();
        assert_eq!(waiting.join().unwrap().unwrap().code, 11601);
        assert_eq!(begun, Ok(true));
    });
}

#[test]
fn cursors_of_a_transaction_close_however_it_ends() {
    let (store, transactions) = (store(), Transactions::default());
    let ways: [fn(&Transactions, &Arc<Store>, i64); 6] = [
        |all, store, number| drop(begin(all, store, SESSION, number + 1, &Interrupt::new()).unwrap()),
        |all, _, number| all.outdate(SESSION, number + 1).unwrap(),
        |all, _, _| all.end_sessions(&[SESSION]),
        |all, _, _| drop(all.expire(Duration::ZERO)),
        |all, store, number| assert!(all.commit(store, SESSION, number, &Interrupt::new()).is_ok()),
        // A statement with a write error.
        |all, _, number| drop(all.resume(SESSION, number).unwrap()),
    ];
    for (way, end) in ways.iter().enumerate() {
        let number = 10 * (way as i64 + 1);
        open(&transactions, &store, number);
        assert_eq!(cursors(&transactions), 1);
        end(&transactions, &store, number);
        assert_eq!(cursors(&transactions), 0, "{way}");
    }
}

#[test]
fn a_transaction_that_is_replaced_during_a_statement_is_aborted_once_with_its_cursors() {
    let (store, transactions) = (store(), Transactions::default());
    let old = begin(&transactions, &store, SESSION, 1, &Interrupt::new()).unwrap();
    let new = begin(&transactions, &store, SESSION, 2, &Interrupt::new()).unwrap();
    add_cursor(&transactions, 1);
    assert_eq!(old.keep().unwrap_err().code, code::NO_SUCH_TRANSACTION);
    assert_eq!((cursors(&transactions), transactions.counters.aborted.get()), (0, 1));
    new.keep().unwrap();
    assert_eq!(transactions.open().inactive, 1);
}

#[test]
fn a_session_that_ends_during_a_statement_is_forgotten_after_it() {
    let (store, transactions) = (store(), Transactions::default());
    let turn = begin(&transactions, &store, SESSION, 1, &Interrupt::new()).unwrap();
    transactions.end_sessions(&[SESSION]);
    assert!(turn.keep().is_err());
    assert!(transactions.sessions.lock().is_empty());
    assert_eq!(transactions.count.load(Ordering::Relaxed), 0);
    assert_eq!(transactions.counters.aborted.get(), 1);
}
