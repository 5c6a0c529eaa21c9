//! The MongoDB version that the server reports, and the limits that come with it.

use diwan_value::ObjectId;

/// The version of MongoDB whose behaviour the server follows.
pub(crate) const VERSION: &str = "8.0.4";

/// [`VERSION`] in numbers.
pub(crate) const VERSION_PARTS: [i32; 4] = [8, 0, 4, 0];

/// The version of the wire protocol in MongoDB 8.0.
pub(crate) const MAX_WIRE_VERSION: i32 = 25;

/// The largest number of writes in one command.
pub(crate) const MAX_WRITE_BATCH: usize = 100_000;

/// The identifier of the first election of a set. Later ones differ in their last eight bytes, the number of the term.
pub(crate) const ELECTION: ObjectId = ObjectId([0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1]);
