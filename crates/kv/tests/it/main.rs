//! The engine on disk as a process of its own has it.

mod ingest;
