//! Runs the MongoDB interface in the test process.

use crate::client::TestClient;
use diwan_access::{Access, RoleName, User, UserName};
use diwan_kv::{Engine, MemoryEngine};
use diwan_mongo::{Options, Server};
use diwan_store::Store;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A running server on a free port of the loopback interface. Dropping it stops the server.
pub struct TestServer {
    address: SocketAddr,
    server: Arc<Server>,
    store: Arc<Store>,
    access: Arc<Access>,
    runtime: Option<Runtime>,
    directory: Option<TempDir>,
}

impl TestServer {
    /// Starts a server that keeps everything in memory.
    pub fn in_memory() -> TestServer {
        TestServer::start(Arc::new(MemoryEngine::new()), None, Options::default())
    }

    /// Starts a server in memory with these options.
    pub fn with_options(options: Options) -> TestServer {
        TestServer::start(Arc::new(MemoryEngine::new()), None, options)
    }

    /// Starts a server on this engine.
    pub fn on_engine(engine: Arc<dyn Engine>) -> TestServer {
        TestServer::start(engine, None, Options::default())
    }

    /// Starts a server in a new temporary directory.
    pub fn on_disk() -> TestServer {
        let directory = tempfile::tempdir().expect("a temporary directory");
        TestServer::in_directory(directory)
    }

    fn in_directory(directory: TempDir) -> TestServer {
        let engine =
            diwan_kv::open(directory.path(), &diwan_kv::Options::default()).expect("an engine on disk");
        TestServer::start(Arc::from(engine), Some(directory), Options::default())
    }

    fn start(engine: Arc<dyn Engine>, directory: Option<TempDir>, options: Options) -> TestServer {
        let store = Store::open(engine).expect("a store");
        let access = Access::with_defaults(store).expect("a register of users");
        TestServer::serve(access, directory, options)
    }

    /// Starts a server in memory over this register of users and its store.
    pub fn with_access(access: Arc<Access>) -> TestServer {
        TestServer::serve(access, None, Options::default())
    }

    fn serve(access: Arc<Access>, directory: Option<TempDir>, options: Options) -> TestServer {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads for the server");
        let server = Server::new(access.clone(), options);
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
        let address = listener.local_addr().expect("the listener's address");
        runtime.spawn(server.clone().serve(listener));
        let store = access.store().clone();
        TestServer { address, server, store, access, runtime: Some(runtime), directory }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The store of the server.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The register of users.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Adds a user of a database with these roles, each with its database. Hashes are made fast, and with that weak.
    pub fn add_user(&self, database: &str, name: &str, password: &str, roles: &[(&str, &str)]) {
        let access = &self.access;
        for (section, setting, iterations) in [
            ("chttpd_auth", "iterations", "10"),
            ("mongodb", "scramIterationCount", "5000"),
            ("mongodb", "scramSHA256IterationCount", "5000"),
        ] {
            access.settings.set(section, setting, Some(iterations)).expect("a setting");
        }
        let user = User {
            http_name: name.to_owned(),
            name: UserName::new(name, database),
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
    pub fn client(&self) -> TestClient {
        self.try_client().expect("a connection to the server")
    }

    /// Opens a connection, or returns why it could not.
    fn try_client(&self) -> io::Result<TestClient> {
        TestClient::connect(self.address)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Stops the server cleanly and starts a new one on the same directory.
    ///
    /// # Panics
    ///
    /// If the server is in memory.
    pub fn restart(mut self) -> TestServer {
        let directory = self.directory.take().expect("only a server on disk can be started again");
        drop(self);
        TestServer::in_directory(directory)
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.server.drain(Duration::from_secs(5)));
            runtime.shutdown_timeout(Duration::from_secs(5));
            self.store.close().expect("a clean end of the store");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}
