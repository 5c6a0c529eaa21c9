//! Structured logs on standard error. The last lines are also kept for MongoDB's `getLog`.

use crate::settings::LogFormat;
use std::io::{self, IsTerminal, Write};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Installs the log subscriber.
pub fn start(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Lines);
    match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
    // A logger is already installed only if a test has started another server.
    if log::set_logger(&Errors).is_ok() {
        log::set_max_level(log::LevelFilter::Error);
    }
    Ok(())
}

/// Forwards the errors of the storage engine's own threads, which report the operating system's reason nowhere else.
struct Errors;

impl log::Log for Errors {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            tracing::error!(of = record.target(), "{}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Writes each line to standard error and to the buffer for `getLog`.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line
    }
}

/// The writer of one line. The subscriber writes a line with one call.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        diwan_mongo::log::remember(&String::from_utf8_lossy(bytes));
        io::stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
