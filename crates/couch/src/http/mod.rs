//! HTTP for handlers: a request whose body is read like a file, and a response that is bytes, rows written as the
//! client reads them, or a feed that waits without a thread.

mod body;
pub mod connection;
mod cors;
mod ending;
mod inline;
mod jsonp;
pub mod multipart;
mod origin;
mod outgoing;
mod paced;
mod query;
mod reach;
mod request;
mod response;
mod socket;
mod streamed;
mod target;
mod workers;

pub use body::{Body, Received};
pub use inline::{Inline, blocking};
pub use outgoing::{Chunks, Outgoing};
pub use paced::Pace;
pub use query::{Query, whole};
pub use request::{EXACT_INTEGERS, Request, begins_as_object};
pub use response::{BSON, Feed, Response, ResponseBody};
pub use streamed::{Flow, RowReader, RowWriter};
pub use workers::Workers;
