//! Runs the CouchDB interface in the test process.

use crate::http::HttpClient;
use diwan_access::{Access, RoleName, User, UserName};
use diwan_couch::{Config, Couch};
use diwan_kv::{Engine, MemoryEngine};
use diwan_store::Store;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A running server on a free port of the loopback interface. Dropping it stops the server.
pub struct TestCouch {
    address: SocketAddr,
    couch: Arc<Couch>,
    runtime: Option<Runtime>,
    directory: Option<TempDir>,
}

impl TestCouch {
    /// Starts a server that keeps everything in memory.
    pub fn in_memory() -> TestCouch {
        TestCouch::with_config(Config::default())
    }

    /// Starts a server in memory with these settings.
    pub fn with_config(config: Config) -> TestCouch {
        TestCouch::start(Arc::new(MemoryEngine::new()), None, config)
    }

    /// Starts a server on this engine.
    pub fn on_engine(engine: Arc<dyn Engine>) -> TestCouch {
        TestCouch::start(engine, None, Config::default())
    }

    /// Starts a server in a new temporary directory.
    pub fn on_disk() -> TestCouch {
        TestCouch::in_directory(tempfile::tempdir().expect("a temporary directory"))
    }

    fn in_directory(directory: TempDir) -> TestCouch {
        let engine =
            diwan_kv::open(directory.path(), &diwan_kv::Options::default()).expect("an engine on disk");
        TestCouch::start(Arc::from(engine), Some(directory), Config::default())
    }

    /// Starts a server over this register of users and its store.
    pub fn with_access(access: Arc<Access>) -> TestCouch {
        TestCouch::serve(access, None, Config::default())
    }

    fn start(engine: Arc<dyn Engine>, directory: Option<TempDir>, config: Config) -> TestCouch {
        let store = Store::open(engine).expect("a store");
        TestCouch::serve(Access::with_defaults(store).expect("a register of users"), directory, config)
    }

    fn serve(access: Arc<Access>, directory: Option<TempDir>, config: Config) -> TestCouch {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads for the server");
        let couch = Couch::new(access, config);
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
        let address = listener.local_addr().expect("the listener's address");
        runtime.spawn(couch.clone().serve(listener));
        TestCouch { address, couch, runtime: Some(runtime), directory }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL it listens on, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The CouchDB interface itself.
    pub fn couch(&self) -> &Arc<Couch> {
        &self.couch
    }

    /// The store of the server.
    pub fn store(&self) -> &Arc<Store> {
        &self.couch.store
    }

    /// Adds a user with these roles, each with its database. Hashes are made fast, and with that weak.
    pub fn add_user(&self, name: &str, password: &str, roles: &[(&str, &str)]) {
        let access = self.couch.access();
        access.settings.set("chttpd_auth", "iterations", Some("10")).expect("a setting");
        let user = User {
            http_name: name.to_owned(),
            name: UserName::new(name, "admin"),
            id: None,
            roles: roles.iter().map(|(role, database)| RoleName::new(role, database)).collect(),
            free_roles: Vec::new(),
            credentials: access.http_credentials(name, password).expect("a hash"),
            custom_data: None,
            restrictions: Vec::new(),
        };
        access.create_user(user, diwan_access::HttpNames::Any).expect("a new user");
    }

    /// Opens a connection.
    pub fn client(&self) -> HttpClient {
        HttpClient::connect(self.address).expect("a connection to the server")
    }

    /// Stops the server cleanly and starts a new one on the same directory.
    ///
    /// # Panics
    ///
    /// If the server is in memory.
    pub fn restart(mut self) -> TestCouch {
        let directory = self.directory.take().expect("only a server on disk can be started again");
        drop(self);
        TestCouch::in_directory(directory)
    }
}

impl Drop for TestCouch {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
            self.couch.store.close().expect("a clean end of the store");
        }
    }
}
