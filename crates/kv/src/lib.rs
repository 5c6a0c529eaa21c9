//! The ordered key-value contract of Diwan and its engines; bytes only.
