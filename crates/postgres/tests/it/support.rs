//! A schema of its own for each test, and a session of an administrator beside the engine's.

use diwan_kv::{Batch, Bytes, Engine, Result, Space};
use diwan_postgres::{Options, PostgresEngine};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// Why the tests are not run without being asked for.
pub const VARIABLE: &str = "DIWAN_TEST_POSTGRES";

/// Tests that disturb the server run alone.
static SERVER: RwLock<()> = RwLock::new(());

#[expect(dead_code, reason = "held until the test ends")]
enum Use {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// The server's URI, without a query.
pub fn server() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| panic!("{VARIABLE} must be the URI of a PostgreSQL server"))
}

/// A schema that is dropped with this.
pub struct Schema {
    pub name: String,
    pub admin: Admin,
    _use: Use,
}

impl Schema {
    /// A new name, under which nothing is yet. Other tests run beside this one.
    pub fn new() -> Schema {
        Schema::with(Use::Shared(SERVER.read()))
    }

    /// The same for a test that runs alone.
    pub fn alone() -> Schema {
        Schema::with(Use::Alone(SERVER.write()))
    }

    fn with(used: Use) -> Schema {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Schema { name: format!("diwan_{}_{number}", process::id()), admin: Admin::new(), _use: used }
    }

    /// The URI of the store.
    pub fn uri(&self) -> String {
        format!("{}?schema={}", server(), self.name)
    }

    /// The URI of the store for another user.
    pub fn uri_of(&self, user: &str) -> String {
        let uri = self.uri();
        let at = uri.find('@').expect("the server's URI has a user");
        format!("postgres://{user}{}", &uri[at..])
    }

    /// Opens the store.
    pub fn open(&self, options: &Options) -> PostgresEngine {
        PostgresEngine::open(&self.uri(), options).unwrap()
    }

    /// The only number of the only row, with `{s}` for the schema.
    pub fn number(&self, sql: &str) -> i64 {
        let sql = format!("SELECT ({})::text", sql.replace("{s}", &self.name));
        self.admin.text(&sql).parse().unwrap()
    }

    /// Runs statements with `{s}` for the schema.
    pub fn sql(&self, sql: &str) {
        self.admin.run(&sql.replace("{s}", &self.name));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.admin.try_run(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}

/// A session of a superuser.
pub struct Admin {
    runtime: Runtime,
    client: Option<Client>,
}

impl Admin {
    pub fn new() -> Admin {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut admin = Admin { runtime, client: None };
        admin.reconnect();
        admin
    }

    /// Connects, when the server is there.
    pub fn reconnect(&mut self) {
        let began = Instant::now();
        let client = self.runtime.block_on(async {
            loop {
                match tokio_postgres::connect(&server(), NoTls).await {
                    Ok((client, driven)) => {
                        tokio::spawn(driven);
                        return client;
                    }
                    Err(error) if began.elapsed() > Duration::from_secs(30) => panic!("{error}"),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        self.client = Some(client);
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    /// Runs what uses the client.
    pub fn block_on<T>(&self, run: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(run(self.client()))
    }

    pub fn run(&self, sql: &str) {
        self.runtime
            .block_on(self.client().batch_execute(sql))
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub fn try_run(&self, sql: &str) {
        let _ = self.runtime.block_on(self.client().batch_execute(sql));
    }

    /// The only column of the only row.
    pub fn text(&self, sql: &str) -> String {
        self.runtime.block_on(self.client().query_one(sql, &[])).unwrap().get(0)
    }

    /// Ends the sessions of all engines.
    pub fn terminate(&self) {
        self.try_run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'diwan'",
        );
    }

    /// Ends the server as `pg_ctl stop -m immediate` does, and returns when it has been started again.
    pub fn crash(&mut self) {
        let file = self.text("SELECT pg_read_file('postmaster.pid')");
        let number = file.lines().next().and_then(|line| line.parse().ok()).unwrap();
        let server = rustix::process::Pid::from_raw(number).unwrap();
        rustix::process::kill_process(server, rustix::process::Signal::QUIT).unwrap();
        while !self.client().is_closed() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.reconnect();
    }
}

/// Puts one pair.
pub fn put(engine: &dyn Engine, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(space, key, value);
    engine.commit(batch).map(drop)
}

/// Adds one to a number, under conditions, and again after each conflict.
pub fn increment(engine: &dyn Engine, key: &[u8]) -> Result<()> {
    loop {
        let old = engine.get(Space::Meta, key)?;
        let mut batch = Batch::new();
        batch.put(Space::Meta, key, (number(old.as_ref()) + 1).to_le_bytes());
        match old {
            None => batch.require_absent(Space::Meta, key),
            Some(old) => batch.require_equal(Space::Meta, key, old),
        }
        match engine.commit(batch) {
            Err(diwan_kv::Error::Conflict(_)) => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// The number that [`increment`] has counted to.
pub fn number(value: Option<&Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes((**value).try_into().unwrap()))
}

/// Bytes that do not compress.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
