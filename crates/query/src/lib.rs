//! The query language: filters, projections, updates, sorts, expressions and aggregation stages.
//!
//! Everything here is pure: it parses documents into trees and evaluates the trees over documents. What a stage needs
//! from outside (another collection, the clock) comes through a trait that the store implements.
//!
//! Errors carry MongoDB's numeric code and text, see [`Error`].

pub mod accumulator;
pub mod display;
mod error;
pub mod expr;
pub mod external_sort;
pub mod filter;
mod interrupt;
pub mod mango;
pub mod pipeline;
pub mod projection;
pub mod sort;
mod tally;
pub mod update;

pub use error::{Error, Result, code};
pub use interrupt::Interrupt;
pub use tally::{Examined, Tally};
