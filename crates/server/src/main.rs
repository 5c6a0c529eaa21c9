//! The `diwan` binary.
fn main() {}
