//! The JavaScript sandbox, and the views made with it.
//!
//! A [`Sandbox`] runs the functions of a [`Design`]: filters, validations, updates, shows, lists, rewrites, and the map
//! and reduce functions of views. [`Views`] keeps what maps emit in indexes that follow the change log of their
//! collection, and answers queries from them. This is the only crate that knows of the JavaScript engine.
//!
//! Invariants:
//! - A script sees nothing but its arguments: no files, no sockets, no other design document.
//! - A script has limits on time, memory, stack and output. Who exceeds one gets an error and a new context the next
//!   time; nobody else notices.
//! - A reader of an index sees it as of one sequence of its collection.

pub mod collate;
mod design;
mod error;
mod json;
mod reduce;
mod sandbox;
mod tree;
mod view;

pub use design::{Design, DesignOptions, ViewDefinition, design_documents};
pub use error::{Error, Result};
pub use sandbox::{Limits, ListCall, ListEvent, Sandbox};
pub use view::{
    Documents, GroupLevel, Progress, Queried, Row, Task, Tasks, TemporaryView, Update, ViewAnswer, ViewHead,
    ViewInfo, ViewQuery, ViewSink, Views, Waiting,
};
