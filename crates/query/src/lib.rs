//! Filters, projections, updates, sorts, expressions and aggregation stages: parse and evaluate, no I/O.
