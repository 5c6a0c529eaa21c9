//! MongoDB Extended JSON, version 2: documents as text and back.
//!
//! The canonical form keeps every type; the relaxed one writes numbers and dates as JSON users expect and so cannot
//! tell an `Int64` from an `Int32` or a `Double`. Reading takes either, and plain JSON: integers become the smallest
//! integer type that holds them, other numbers doubles.

mod read;
mod write;

pub use read::{ParseError, parse, parse_value};
pub use write::{Mode, to_json, value_to_json};

#[cfg(test)]
mod tests;
