//! Tests of the store through its public operations, mostly on the in-memory engine.

mod ahead;
mod builds;
mod check;
mod compat;
mod covering;
mod crud;
mod events;
mod full;
mod indexes;
mod metamorphic;
mod plans;
mod projections;
mod races;
mod random;
mod residue;
mod revisions;
mod schema_changes;
mod schema_stress;
mod setup;
