//! The query language: filters, projections, updates, sorts, expressions and aggregation stages.
//!
//! Everything here is pure: it parses documents into trees and evaluates the trees over documents. What a stage needs
//! from outside (another collection, the clock) comes through a trait that the store implements.
//!
//! Errors carry MongoDB's numeric code and text, see [`Error`].

mod error;
pub mod expr;
mod interrupt;

pub use error::{Error, Result, code};
pub use interrupt::Interrupt;
