//! The store through its public operations, on the engine in memory.

mod ahead;
mod builds;
mod check;
mod compat;
mod covering;
mod crud;
mod full;
mod indexes;
mod metamorphic;
mod model;
mod projections;
mod races;
mod random;
mod residue;
mod revisions;
mod schema_changes;
mod schema_stress;
mod setup;
