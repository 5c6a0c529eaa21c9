//! The server, and how connections to it are made.
//!
//! The engine's runtime drives the connections. A caller's thread that needs a new one waits for a task that makes it.

use crate::connection::Connection;
use crate::error::{Answer, Cause, cause, engine_error};
use crate::options::Target;
use crate::session::{self, Role};
use crate::tls::{Verify, connector};
use diwan_kv::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The pauses between attempts to reach a server that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The server of an engine.
pub(crate) struct Server {
    pub target: Target,
    pub handle: Handle,
    tls: Option<MakeRustlsConnect>,
}

impl Server {
    /// A server that has not been reached yet.
    pub fn new(target: Target, handle: Handle) -> Result<Server, String> {
        let tls = match (target.config.get_ssl_mode(), target.verify) {
            (SslMode::Disable, Verify::Nothing) => None,
            _ => Some(connector(target.verify, target.roots.as_deref())?),
        };
        Ok(Server { target, handle, tls })
    }

    /// A connection without the settings of a session.
    pub async fn connect_plain(&self) -> Answer<Client> {
        let config = &self.target.config;
        Ok(match &self.tls {
            None => {
                let (client, driven) = config.connect(NoTls).await?;
                self.handle.spawn(driven);
                client
            }
            Some(tls) => {
                let (client, driven) = config.connect(tls.clone()).await?;
                self.handle.spawn(driven);
                client
            }
        })
    }

    /// The same; `notified` is called at each notification.
    pub async fn connect_notified(&self, notified: impl Fn() + Send + 'static) -> Answer<Client> {
        let config = &self.target.config;
        Ok(match &self.tls {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                self.handle.spawn(drive(connection, notified));
                client
            }
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                self.handle.spawn(drive(connection, notified));
                client
            }
        })
    }

    /// A connection for a purpose.
    pub async fn connect(&self, role: Role) -> Answer<Connection> {
        let client = self.connect_plain().await?;
        client.batch_execute(&session::session(role)).await?;
        Ok(Connection::new(client, self.target.schema.as_str().into()))
    }

    /// The same, with attempts until the deadline while the server is away. There is always one.
    pub async fn connect_until(&self, role: Role, deadline: Instant) -> Answer<Connection> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect(role).await {
                Err(error) if cause(&error) == Cause::Lost && Instant::now() + pause < deadline => {
                    tracing::debug!(%error, "PostgreSQL is away");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// The same for a caller's thread, which is blocked.
    pub fn connect_blocking(self: &Arc<Self>, role: Role, deadline: Instant) -> Result<Connection, Error> {
        let (tell, told) = sync_channel(1);
        let server = self.clone();
        self.handle.spawn(async move {
            // The caller may have gone, which closes the connection.
            let _ = tell.send(server.connect_until(role, deadline).await);
        });
        // A runtime that has been shut down drops the task.
        let made = told.recv().map_err(|_| Error::Closed)?;
        made.map_err(|error| engine_error("connecting to PostgreSQL", &error))
    }
}

/// Drives a connection until it ends.
async fn drive<T: TlsStream + Unpin>(
    mut connection: tokio_postgres::Connection<Socket, T>,
    notified: impl Fn(),
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(_) = message {
            notified();
        }
    }
}
