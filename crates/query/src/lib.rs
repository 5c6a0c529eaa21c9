//! The query language: filters, projections, updates, sorts, expressions and aggregation stages.
//!
//! The crate has no I/O: it parses documents into trees and evaluates the trees over documents. A stage reaches
//! everything else (another collection, the clock) through a trait that the store implements.
//!
//! Errors carry MongoDB's numeric code and message, see [`Error`].

pub mod accumulator;
pub mod display;
mod error;
pub mod expr;
pub mod external_sort;
pub mod filter;
mod interrupt;
pub mod mango;
mod memory;
pub mod pipeline;
pub mod projection;
pub mod sort;
mod tally;
pub mod update;

pub use error::{Error, Result, code};
pub use interrupt::Interrupt;
pub use memory::{DEFAULT_MEMORY_LIMIT, Gate, LARGE, MemoryBudget, MemoryPool, Pass, Reservation};
pub use tally::{Examined, Tally};
