//! Which MongoDB the server compares to.

/// The version of MongoDB whose behaviour is kept.
pub const VERSION: &str = "8.0.4";

/// [`VERSION`] in numbers.
pub(crate) const VERSION_PARTS: [i32; 4] = [8, 0, 4, 0];

/// The version of the wire protocol: the one of MongoDB 8.0.
pub(crate) const MAX_WIRE_VERSION: i32 = 25;

/// How many writes one command may hold.
pub(crate) const MAX_WRITE_BATCH: usize = 100_000;
