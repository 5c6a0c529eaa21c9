//! The MongoDB face: wire protocol, commands, cursors, sessions.
