//! `diwan serve`: opens the store, listens, prints the addresses, runs until a signal, and closes cleanly.

use crate::control::Control;
use crate::history::History;
use crate::place::{Place, shown_arguments};
use crate::settings::Resolved;
use crate::{limits, logging, promote, tls, users};
use diwan_access::{Access, Audit, Fixed, Sections, Settings};
use diwan_couch::{Command, Config, Couch, FollowSettings, Follower, Report, Reports};
use diwan_kv::Engine;
use diwan_mongo::{Options, Server, Topology};
use diwan_store::Store;
use diwan_value::DocBuilder;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// How long running commands may continue after the signal to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 4096;

/// Runs the server until SIGTERM or SIGINT.
pub fn run(settings: Resolved) -> Result<(), String> {
    logging::start(&settings.log, settings.log_format)?;
    let engine = open(&settings)?;
    // Each face has its own threads, so that the clients of one never block the clients of the other.
    let mongo = threads("mongo", Server::BLOCKING_THREADS)?;
    let http = threads("http", Couch::BLOCKING_THREADS)?;
    let store = Store::open(engine).map_err(|error| {
        use diwan_store::Error;
        let shown = &settings.place;
        let is_damaged = matches!(error, Error::Damaged(_) | Error::Engine(diwan_kv::Error::Damaged(_)));
        let check = match shown {
            Place::Directory(path) if is_damaged => {
                &format!(". `diwan check --data {}` reports the damage", path.display())
            }
            Place::Postgres(_) if is_damaged => ". `diwan check --store URI` reports the damage",
            _ => "",
        };
        format!("cannot open the store in {shown}: {error}{check}")
    })?;
    store.set_retention(settings.change_history);
    if settings.record_changes {
        store.record_everything().map_err(|error| format!("cannot record changes: {error}"))?;
    }
    let served = mongo.block_on(serve(&settings, store.clone(), http.handle()));
    http.shutdown_timeout(Duration::from_secs(1));
    mongo.shutdown_timeout(Duration::from_secs(1));
    let closed = store.close().map_err(|error| format!("cannot close the store: {error}"));
    served.and(closed)
}

/// The runtime of a face.
fn threads(face: &str, blocking: usize) -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(format!("diwan-{face}"))
        .worker_threads(workers())
        .max_blocking_threads(blocking)
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))
}

/// The number of threads for sockets and quick requests. There are more than processors, because some of them wait for a
/// lock or for a disk read.
fn workers() -> usize {
    2 * std::thread::available_parallelism().map_or(2, usize::from)
}

/// Opens the engine that the settings ask for.
fn open(settings: &Resolved) -> Result<Arc<dyn Engine>, String> {
    settings.place.open(&diwan_kv::Options {
        cache_bytes: settings.cache_size,
        accept_loss: settings.accept_loss,
        disk_reserve: settings.disk_reserve,
        ..diwan_kv::Options::default()
    })
}

async fn serve(settings: &Resolved, store: Arc<Store>, http: &Handle) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let mut usr1 = signal(SignalKind::user_defined1()).map_err(|error| error.to_string())?;
    let follower = follower(settings, &store, http)?;
    if let Some(follower) = &follower {
        // A follower has the users of its primary before it listens.
        let joining = follower.clone();
        let joined = tokio::task::spawn_blocking(move || joining.join());
        tokio::select! {
            joined = joined => joined.map_err(|error| error.to_string())??,
            _ = terminate.recv() => return stop_joining(follower),
            _ = interrupt.recv() => return stop_joining(follower),
        }
    }
    let access = register(settings, store.clone())?;
    check_exposure(settings, &access)?;
    let (mongo_tls, http_tls) = match settings.tls.clone().map(tls::follow).transpose()? {
        Some(followed) => (Some(followed.mongo), Some(followed.http)),
        None => (None, None),
    };
    let _control = settings
        .place
        .directory()
        .map(|directory| control(directory, &access, follower.clone()))
        .transpose()?;
    let mongo_listener = listen(settings.listen, "--listen")?;
    let address = mongo_listener.local_addr().map_err(|error| error.to_string())?;
    store.replica().introduce(own_host(settings, address), address.port(), &settings.set_name);
    let connections = limits::connections(settings.max_connections, faces(settings));
    let options = Options { tls: mongo_tls, ..options(settings, address, connections) };
    let server = Server::new(access.clone(), options);
    let history = Arc::new(History::default());
    let mut http_address = None;
    let mut face = None;
    if let Some(wanted) = settings.http {
        let listener = {
            // The socket must be registered with its face's runtime.
            let _entered = http.enter();
            listen(wanted, "--http")?
        };
        http_address = Some(listener.local_addr().map_err(|error| error.to_string())?);
        let addresses = (address, http_address);
        let reports = reports(settings, addresses, server.clone(), history.clone());
        let config = http_config(settings, connections, server.clone(), store.clone());
        let couch = Couch::new(access.clone(), Config { tls: http_tls, reports: Some(reports), ..config });
        face = Some(couch.clone());
        http.spawn(couch.serve(listener));
    }
    let sampling = tokio::spawn(history.follow(server.clone(), face.clone()));
    let accepting = tokio::spawn(server.clone().serve(mongo_listener));
    // The standard output may be closed; the server runs anyway.
    let is_open = access.is_open().map_err(|error| error.to_string())?;
    let _ = greet(settings, is_open, address, http_address);
    if let Some(follower) = &follower {
        follower.start()?;
    }
    loop {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: closing"),
            _ = interrupt.recv() => tracing::info!("SIGINT: closing"),
            _ = usr1.recv() => {
                promote_by_signal(follower.clone());
                continue;
            }
        }
        break;
    }
    if let Some(follower) = follower {
        let _ = tokio::task::spawn_blocking(move || follower.stop()).await;
    }
    accepting.abort();
    sampling.abort();
    server.abort_transactions();
    if let Some(couch) = face {
        // Closing waits for threads that need the store and the runtime, so it runs on a blocking thread.
        let _ = tokio::task::spawn_blocking(move || couch.close()).await;
    }
    server.drain(PATIENCE).await;
    tracing::info!("closed");
    Ok(())
}

/// The follower, if this server is to be one.
fn follower(settings: &Resolved, store: &Arc<Store>, http: &Handle) -> Result<Option<Arc<Follower>>, String> {
    let Some(follow) = &settings.follow else {
        return match store.replica().follows() {
            true => Err(format!(
                "{} is the copy of another server: start it with --follow and that server's URL, or make it the primary \
                 with `diwan promote`",
                settings.place
            )),
            false => Ok(None),
        };
    };
    let url = follow.url.0.clone();
    let followed = FollowSettings { url, authorities: follow.authorities.clone(), rejoins: follow.rejoins };
    Follower::new(store.clone(), followed, http.clone()).map(Some)
}

/// The address for drivers, if all of them reach the server under the same one.
fn own_host(settings: &Resolved, address: SocketAddr) -> Option<String> {
    let listened = (!address.ip().is_unspecified()).then(|| address.to_string());
    settings.advertise.clone().or(listened)
}

/// Ends a server that has not reached its primary yet.
fn stop_joining(follower: &Follower) -> Result<(), String> {
    tracing::info!("closing");
    follower.stop();
    Ok(())
}

/// Makes the server the primary, beside its work.
fn promote_by_signal(follower: Option<Arc<Follower>>) {
    tokio::task::spawn_blocking(move || match follower {
        Some(follower) => match follower.promote() {
            Ok(done) => tracing::info!("SIGUSR1: {done}"),
            Err(error) => tracing::error!("SIGUSR1: {error}"),
        },
        None => tracing::warn!("SIGUSR1: this server is a primary already"),
    });
}

fn options(settings: &Resolved, address: SocketAddr, max_connections: usize) -> Options {
    let is_persistent = !matches!(settings.place, Place::Memory);
    let mut parsed = DocBuilder::new();
    parsed.begin_document("net").append("bindIp", address.ip().to_string());
    parsed.append("port", i32::from(address.port())).end();
    if let Some(directory) = settings.place.directory() {
        parsed.begin_document("storage").append("dbPath", directory.display().to_string()).end();
    }
    if settings.test_commands {
        parsed.begin_document("setParameter").append("enableTestCommands", true).end();
    }
    Options {
        topology: settings.topology,
        set_name: settings.set_name.clone(),
        advertise: settings.advertise.clone(),
        durability: settings.durability,
        max_connections,
        arguments: shown_arguments(),
        settings: parsed.finish(),
        storage_engine: if is_persistent { "diwan" } else { "ephemeralForTest" },
        persistent: is_persistent,
        temporary: Some(settings.place.temporary()),
        tls: None,
        test_commands: settings.test_commands,
        kept_snapshots: if matches!(settings.place, Place::Postgres(_)) { 8 } else { 64 },
    }
}

/// The register of users, with the first user that the environment asks for.
fn register(settings: &Resolved, store: Arc<Store>) -> Result<Arc<Access>, String> {
    let audit = match &settings.audit {
        Some(path) => Audit::open(path)
            .map_err(|error| format!("cannot open the audit log {}: {error}", path.display()))?,
        None => Audit::default(),
    };
    let mut fixed = BTreeMap::new();
    if !settings.cors_origins.is_empty() {
        let mut fix = |section: &str, key: &str, value: String| {
            let source = "--cors-origin".to_owned();
            fixed.insert((section.to_owned(), key.to_owned()), Fixed { value, source });
        };
        fix("chttpd", "enable_cors", "true".to_owned());
        fix("cors", "origins", settings.cors_origins.join(","));
    }
    let kept = Settings::open(store.clone(), Sections::new(), fixed).map_err(|error| error.to_string())?;
    let access = Access::open(store, kept, audit).map_err(|error| error.to_string())?;
    // A follower has the users of its primary.
    if !access.store().replica().follows() {
        users::first_user(&access)?;
    }
    Ok(access)
}

/// Refuses addresses that others can reach, unless users must sign in and nobody can read their passwords on the way.
fn check_exposure(settings: &Resolved, access: &Access) -> Result<(), String> {
    let addresses = [("--listen", Some(settings.listen)), ("--http", settings.http)];
    let exposed = addresses.into_iter().find_map(|(flag, address)| {
        let address = address.filter(|address| !address.ip().is_loopback())?;
        Some((flag, address))
    });
    let Some((flag, address)) = exposed else { return Ok(()) };
    if access.is_open().map_err(|error| error.to_string())? {
        return Err(format!(
            "refusing to listen on {address} ({flag}): there are no users, so anyone who reaches it could read and \
             change everything. Make an administrator first: `diwan user add NAME --role root`, or set \
             DIWAN_ROOT_USERNAME and DIWAN_ROOT_PASSWORD_FILE"
        ));
    }
    if settings.tls.is_none() && !settings.insecure_plaintext {
        return Err(format!(
            "refusing to listen on {address} ({flag}) without TLS: passwords and documents would cross the network \
             readable. Give --tls-certificate and --tls-key (`diwan certificate --self-signed` makes a pair to try), \
             or --insecure-plaintext if a tunnel or proxy encrypts"
        ));
    }
    Ok(())
}

/// The port for `diwan user` and `diwan promote`.
fn control(
    directory: &Path,
    access: &Arc<Access>,
    follower: Option<Arc<Follower>>,
) -> Result<Control, String> {
    let (users, promote) = (users::handler(access.clone()), promote::handler(follower));
    Control::listen(directory, Arc::new(move |request| promote(request).or_else(|| users(request))))
        .map_err(|error| format!("cannot write the control file in {}: {error}", directory.display()))
}

fn http_config(
    settings: &Resolved,
    max_connections: usize,
    server: Arc<Server>,
    store: Arc<Store>,
) -> Config {
    Config {
        cors_origins: settings.cors_origins.clone(),
        advertise: settings.advertise.clone(),
        version: env!("CARGO_PKG_VERSION"),
        max_connections,
        commands: Some({
            let server = server.clone();
            Box::new(move |command| {
                let Command { caller, peer, database, body, interrupt } = command;
                server.run_command(caller, peer, database, body, interrupt)
            })
        }),
        temporary: Some(settings.place.temporary()),
        followable: !matches!(settings.place, Place::Postgres(_)),
        extra: Box::new(move |path| match path {
            "/healthz" => Some((200, "ok\n".to_owned())),
            "/readyz" if !server.is_ready() => Some((503, "closing\n".to_owned())),
            "/readyz" => Some(match store.engine().writable() {
                Ok(()) => (200, "ready\n".to_owned()),
                Err(error) => (503, format!("{error}\n")),
            }),
            "/metrics" => Some((200, server.prometheus())),
            _ => None,
        }),
        ..Config::default()
    }
}

/// What the HTTP face reports on the server as a whole.
fn reports(
    settings: &Resolved,
    addresses: (SocketAddr, Option<SocketAddr>),
    server: Arc<Server>,
    history: Arc<History>,
) -> Reports {
    let started = Instant::now();
    let is_encrypted = settings.tls.is_some();
    let set = (settings.topology == Topology::ReplicaSet).then(|| settings.set_name.clone());
    let shown = move |address: SocketAddr| json!({ "address": address.ip().to_string(), "port": address.port(), "tls": is_encrypted });
    Box::new(move |report| match report {
        Report::Status => {
            let mut mongodb = shown(addresses.0);
            mongodb["set"] = json!(set);
            json!({
                "version": env!("CARGO_PKG_VERSION"),
                "uptime_ms": started.elapsed().as_millis() as u64,
                "mongodb": mongodb,
                "http": addresses.1.map(shown),
            })
        }
        Report::Figures => {
            let figures = server.figures();
            json!({
                "connections": figures.connections,
                "memory_bytes": figures.memory_bytes,
                "cache_bytes": figures.cache_bytes,
                "cache_limit_bytes": figures.cache_limit_bytes,
                "journal_bytes": figures.journal_bytes,
                "disk_bytes": figures.disk_bytes,
            })
        }
        Report::History => history.to_json(),
    })
}

/// How many faces share the file descriptors of the process.
fn faces(settings: &Resolved) -> usize {
    1 + usize::from(settings.http.is_some())
}

/// Listens at `address`, with a long queue for clients that connect at once.
fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener, String> {
    let attempt = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted server can use the port of the previous process at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    attempt().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another program: choose another address with {flag} (port 0 takes a free one)")
        }
        _ => format!("cannot listen on {address} ({flag}): {error}"),
    })
}

/// Prints the addresses of the server to standard output.
fn greet(
    settings: &Resolved,
    is_open: bool,
    address: SocketAddr,
    http: Option<SocketAddr>,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "Diwan {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  documents   {}", settings.place)?;
    let (option, scheme) = if settings.tls.is_some() { ("&tls=true", "https") } else { ("", "http") };
    writeln!(out, "  MongoDB     mongodb://{address}/?directConnection=true{option}")?;
    if let Some(http) = http {
        writeln!(out, "  CouchDB     {scheme}://{http}/")?;
        writeln!(out, "  browser     {scheme}://{http}/_utils/")?;
    }
    if is_open {
        writeln!(
            out,
            "  users       none: this machine alone; `diwan user add NAME --role root` opens the way"
        )?;
    } else {
        writeln!(out, "  users       everybody signs in")?;
    }
    out.flush()
}
