//! The JavaScript sandbox, and the views made with it.
//!
//! A [`Sandbox`] runs the functions of a [`Design`]: filters, validations, updates, shows, lists, rewrites, and the map
//! and reduce functions of views. [`Views`] stores the output of map functions in indexes that follow the change log of
//! their collection, and answers queries from them. Only this crate depends on the JavaScript engine.
//!
//! Invariants:
//! - A script has access to its arguments only: no files, no sockets, no other design document.
//! - A script has limits on time, memory, stack and output. A call that exceeds one gets an error, and its context is
//!   replaced by a new one; other calls are not affected.
//! - A reader of an index sees the index at one sequence of its collection.

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
pub use reduce::{Overflow, ReduceLimit};
pub use sandbox::{Fault, Limits, ListCall, ListEvent, Sandbox};
pub use view::{
    Documents, GroupLevel, Progress, Queried, Row, Task, Tasks, TemporaryView, Trial, TrialDocument,
    TrialScope, Update, ViewAnswer, ViewHead, ViewInfo, ViewQuery, ViewSink, Views, Waiting,
};
