//! In-process servers and script runners for tests.
