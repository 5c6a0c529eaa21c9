//! Boolean operators, comparisons and conditionals.

pub(super) mod boolean;
pub(super) mod comparison;
pub(super) mod conditional;
