//! The CouchDB face over a socket.

mod attachments;
mod bulk;
mod documents;
mod local;
mod setup;
