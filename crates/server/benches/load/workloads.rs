//! The requests to the server.

use crate::client::{Client, Outcome};
use crate::report::Report;
use crate::server::{Server, own_cpu};
use crate::streams::Stream;
use diwan_value::{ArrayBuilder, DocBuf, Value, doc};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};

/// One kind of load: clients that send the same kind of small request, optionally beside a big request.
pub struct Workload {
    pub name: &'static str,
    clients: usize,
    operation: Operation,
    beside: Option<Big>,
    /// How many change streams are open on the collection, each with a filter of its own, and read.
    streams: i64,
}

/// A small request.
#[derive(Clone, Copy)]
enum Operation {
    Ping,
    Insert {
        synced: bool,
    },
    Find,
    FindByIndex,
    FindSeveral,
    Update,
    TwoUpdates,
    Transaction,
    /// An insert, and the event that a stream shows of it: the time from the reply to the event is reported.
    Event,
    Delete,
    Post,
    Get,
}

/// A request that works on [`MANY`] documents of a collection, concurrently with the small requests.
#[derive(Clone, Copy)]
enum Big {
    DeleteMany(&'static str),
    UpdateMany(&'static str),
    CreateIndex(&'static str),
}

/// The number of documents for single finds, updates and deletions.
const FEW: i64 = 100_000;
/// The number of documents for the big requests.
const MANY: i64 = 300_000;
/// How long tables may take to settle after loading.
const SETTLING: Duration = Duration::from_secs(3);

const fn alone(name: &'static str, clients: usize, operation: Operation) -> Workload {
    Workload { name, clients, operation, beside: None, streams: 0 }
}

const fn inserts_beside_streams(name: &'static str, streams: i64) -> Workload {
    Workload { streams, ..alone(name, 1, Operation::Insert { synced: false }) }
}

const fn updates_beside(name: &'static str, big: Big) -> Workload {
    Workload { beside: Some(big), ..alone(name, 1, Operation::Update) }
}

pub const WORKLOADS: [Workload; 26] = [
    alone("ping", 1, Operation::Ping),
    alone("ping, 16 clients", 16, Operation::Ping),
    alone("insert", 1, Operation::Insert { synced: false }),
    alone("insert, 16 clients", 16, Operation::Insert { synced: false }),
    alone("synced insert", 1, Operation::Insert { synced: true }),
    alone("synced insert, 16 clients", 16, Operation::Insert { synced: true }),
    alone("find", 1, Operation::Find),
    alone("find by an index", 1, Operation::FindByIndex),
    alone("find 60 by an index", 1, Operation::FindSeveral),
    alone("update", 1, Operation::Update),
    alone("update, 16 clients", 16, Operation::Update),
    alone("two updates", 1, Operation::TwoUpdates),
    alone("transaction of two updates", 1, Operation::Transaction),
    inserts_beside_streams("insert beside 1 stream", 1),
    inserts_beside_streams("insert beside 500 streams", 500),
    alone("reply to event", 1, Operation::Event),
    alone("delete", 1, Operation::Delete),
    alone("POST", 1, Operation::Post),
    alone("POST, 16 clients", 16, Operation::Post),
    alone("GET", 1, Operation::Get),
    updates_beside("update beside deleteMany", Big::DeleteMany("few")),
    updates_beside("update beside deleteMany elsewhere", Big::DeleteMany("many")),
    updates_beside("update beside updateMany", Big::UpdateMany("few")),
    updates_beside("update beside updateMany elsewhere", Big::UpdateMany("many")),
    updates_beside("update beside createIndex", Big::CreateIndex("few")),
    updates_beside("update beside createIndex elsewhere", Big::CreateIndex("many")),
];

/// The shared state of a workload's clients.
struct Load {
    operation: Operation,
    next: Cell<i64>,
    end: Cell<Option<Instant>>,
    took: RefCell<Vec<Duration>>,
}

impl Load {
    /// The number of the next operation; none when the time is over.
    fn next(&self) -> Option<i64> {
        let number = self.next.replace(self.next.get() + 1);
        let over = self.end.get().is_some_and(|end| Instant::now() >= end);
        // Each document can be deleted only once.
        (!over && (number < FEW || !matches!(self.operation, Operation::Delete))).then_some(number)
    }

    async fn work(self: Rc<Load>, mut client: Client) -> Outcome<()> {
        while let Some(number) = self.next() {
            let begun = Instant::now();
            self.operation.run(&mut client, number).await?;
            self.took.borrow_mut().push(begun.elapsed());
        }
        Ok(())
    }

    /// Inserts documents and waits for their events. The time of an operation is the one from the reply to the event.
    async fn follow(self: Rc<Load>, mut client: Client, mut stream: Stream) -> Outcome<()> {
        while let Some(number) = self.next() {
            let insert = async {
                let outcome = self.operation.run(&mut client, number).await;
                (outcome, Instant::now())
            };
            let event = async {
                let outcome = stream.next().await;
                (outcome, Instant::now())
            };
            let ((inserted, replied), (shown, arrived)) = tokio::join!(insert, event);
            inserted.and(shown)?;
            self.took.borrow_mut().push(arrived.saturating_duration_since(replied));
        }
        Ok(())
    }
}

impl Workload {
    /// Runs the load for the given time, or until the big request is answered.
    pub async fn run(&self, server: &Server, stretch: Duration) -> Outcome<Report> {
        self.prepare(server).await?;
        let address = match self.operation {
            Operation::Post | Operation::Get => server.http,
            _ => server.mongo,
        };
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(Client::connect(address).await?);
        }
        let load = Rc::new(Load {
            operation: self.operation,
            next: Cell::new(0),
            end: Cell::new(None),
            took: RefCell::default(),
        });
        let (cpu, own, begun) = (server.cpu(), own_cpu(), Instant::now());
        load.end.set(self.beside.is_none().then(|| begun + stretch));
        LocalSet::new().run_until(self.together(server, &load, clients)).await?;
        let wall = begun.elapsed();
        let mut took = load.took.take();
        took.sort_unstable();
        Ok(Report { took, wall, server: server.cpu() - cpu, clients: own_cpu() - own })
    }

    async fn together(&self, server: &Server, load: &Rc<Load>, clients: Vec<Client>) -> Outcome<()> {
        let (mut tasks, mut readers) = (JoinSet::new(), JoinSet::new());
        for group in 0..self.streams {
            readers.spawn_local(Stream::open(server.mongo, Some(group)).await?.read());
        }
        for client in clients {
            match load.operation {
                Operation::Event => {
                    let stream = Stream::open(server.mongo, None).await?;
                    tasks.spawn_local(load.clone().follow(client, stream))
                }
                _ => tasks.spawn_local(load.clone().work(client)),
            };
        }
        if let Some(big) = self.beside {
            let outcome = Client::connect(server.mongo).await?.run(&big.command()).await;
            load.end.set(Some(Instant::now()));
            outcome?;
        }
        while let Some(outcome) = tasks.join_next().await {
            outcome??;
        }
        Ok(())
    }

    /// Stores the documents of the workload.
    async fn prepare(&self, server: &Server) -> Outcome<()> {
        let mut client = Client::connect(server.mongo).await?;
        match self.operation {
            Operation::Post => {
                return Client::connect(server.http).await?.request(&http("PUT", "/few", "")).await;
            }
            Operation::FindByIndex | Operation::FindSeveral => {
                let indexes = diwan_value::array![
                    doc! { "key": { "name": 1 }, "name": "names" },
                    doc! { "key": { "group": 1, "_id": 1 }, "name": "groups" },
                ];
                client.run(&doc! { "createIndexes": "few", "indexes": indexes, "$db": "test" }).await?;
            }
            Operation::Find
            | Operation::Update
            | Operation::TwoUpdates
            | Operation::Transaction
            | Operation::Delete
            | Operation::Get => {}
            Operation::Ping | Operation::Insert { .. } | Operation::Event => {
                return client.run(&insert("few", -1..0, false)).await;
            }
        }
        fill(&mut client, "few", 0..FEW).await?;
        if let Some(Big::DeleteMany(name) | Big::UpdateMany(name) | Big::CreateIndex(name)) = self.beside {
            fill(&mut client, name, FEW..FEW + MANY).await?;
        }
        tokio::time::sleep(SETTLING).await;
        Ok(())
    }
}

impl Operation {
    async fn run(self, client: &mut Client, number: i64) -> Outcome<()> {
        // A different document each time; each occurs once before any is repeated.
        let id = number.wrapping_mul(7919).rem_euclid(FEW);
        match self {
            Operation::Ping => client.run(&doc! { "ping": 1, "$db": "admin" }).await,
            Operation::Insert { synced } => client.run(&insert("few", number..number + 1, synced)).await,
            Operation::Event => client.run(&insert("few", number..number + 1, false)).await,
            Operation::Find => {
                client.run(&doc! { "find": "few", "filter": { "_id": id }, "limit": 1, "$db": "test" }).await
            }
            Operation::FindByIndex => {
                let name = format!("client number {id}");
                client.run(&doc! { "find": "few", "filter": { "name": name }, "$db": "test" }).await
            }
            Operation::FindSeveral => {
                let filter = doc! { "group": id % 100, "_id": { "$gte": id / 2 } };
                client.run(&doc! { "find": "few", "filter": filter, "limit": 60, "$db": "test" }).await
            }
            Operation::Update => client.run(&write("update", "few", "updates", change(id, number))).await,
            Operation::TwoUpdates => {
                for id in [id, (id + 1) % FEW] {
                    client.run(&write("update", "few", "updates", change(id, number))).await?;
                }
                Ok(())
            }
            Operation::Transaction => {
                for (at, id) in [id, (id + 1) % FEW].into_iter().enumerate() {
                    let update = doc! { "update": "few", "updates": [change(id, number)], "$db": "test" };
                    client.run(&in_transaction(update, number, at == 0)).await?;
                }
                let concern = doc! { "w": 1 };
                let commit = doc! { "commitTransaction": 1, "writeConcern": concern, "$db": "admin" };
                client.run(&in_transaction(commit, number, false)).await
            }
            Operation::Delete => {
                let statement = doc! { "q": { "_id": id }, "limit": 1 };
                client.run(&write("delete", "few", "deletes", statement)).await
            }
            Operation::Post => {
                let body =
                    format!(r#"{{"name":"client number {number}","group":{},"amount":0}}"#, number % 100);
                client.request(&http("POST", "/few", &body)).await
            }
            Operation::Get => {
                client
                    .request(&http("GET", &format!("/few/~%7B%22%24numberLong%22%3A%22{id}%22%7D"), ""))
                    .await
            }
        }
    }
}

impl Big {
    fn command(self) -> DocBuf {
        let many = || doc! { "_id": { "$gte": FEW } };
        match self {
            Big::DeleteMany(name) => write("delete", name, "deletes", doc! { "q": many(), "limit": 0 }),
            Big::UpdateMany(name) => {
                let statement = doc! { "q": many(), "u": { "$inc": { "amount": 1 } }, "multi": true };
                write("update", name, "updates", statement)
            }
            Big::CreateIndex(name) => {
                let index = doc! { "key": { "group": 1, "name": 1 }, "name": "groups" };
                doc! { "createIndexes": name, "indexes": [index], "$db": "test" }
            }
        }
    }
}

/// An update of one document.
fn change(id: i64, number: i64) -> DocBuf {
    doc! { "q": { "_id": id }, "u": { "$set": { "amount": number } } }
}

/// A command as part of the transaction with this number.
fn in_transaction(command: DocBuf, number: i64, is_first: bool) -> DocBuf {
    let session = doc! { "id": Value::Binary { subtype: 4, bytes: &[7; 16] } };
    let mut command = command.into_builder();
    command.append("lsid", session).append("txnNumber", number).append("autocommit", false);
    if is_first {
        command.append("startTransaction", true);
    }
    command.finish()
}

/// A write of one statement, acknowledged before it is synced.
fn write(command: &str, collection: &str, list: &str, statement: DocBuf) -> DocBuf {
    let concern = doc! { "w": 1 };
    doc! { command: collection, list: [statement], "writeConcern": concern, "$db": "test" }
}

/// An insert of documents, acknowledged before or after they are synced.
fn insert(collection: &str, numbers: Range<i64>, synced: bool) -> DocBuf {
    let mut documents = ArrayBuilder::new();
    for number in numbers {
        let name = format!("client number {number}");
        documents.push(doc! { "_id": number, "name": name, "group": number % 100, "amount": 0i64 });
    }
    doc! { "insert": collection, "documents": documents, "writeConcern": { "w": 1, "j": synced }, "$db": "test" }
}

async fn fill(client: &mut Client, collection: &str, numbers: Range<i64>) -> Outcome<()> {
    for from in numbers.clone().step_by(1000) {
        client.run(&insert(collection, from..(from + 1000).min(numbers.end), false)).await?;
    }
    Ok(())
}

fn http(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}
