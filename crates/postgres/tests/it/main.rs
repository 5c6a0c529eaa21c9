//! The engine over a PostgreSQL server. `python tests/postgres_server.py -- cargo test -p diwan-postgres -- --include-ignored`

mod contract;
mod keys;
mod lease;
mod outage;
mod peers;
mod refusals;
mod snapshots;
mod speed;
mod support;
mod tls;
