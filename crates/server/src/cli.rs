//! The command line.

use crate::settings::Settings;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Diwan is a document database: MongoDB's wire protocol and CouchDB's HTTP over one embedded store.
#[derive(Debug, Parser)]
#[command(name = "diwan", version, long_about = None, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the documents of a directory (or of memory) until SIGTERM or SIGINT
    #[command(after_help = "Examples:
  diwan serve                          documents in ./diwan-data, MongoDB's port on this machine
  diwan serve --memory --listen 127.0.0.1:0 --http off
                                       nothing on disk, a free port: for tests
  diwan serve --config diwan.toml      settings from a file; flags and DIWAN_* variables go before it")]
    Serve(Box<Settings>),
    /// Verify every record, index entry and change-log entry of a directory against each other: exit code 0 if all
    /// agree, 1 if something was found, 2 if the directory cannot be read
    Check(CheckArguments),
}

/// The arguments of `diwan check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The directory of the documents; no server may have it open
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA", default_value = "diwan-data")]
    pub data: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_begins_with_what_the_program_is() {
        for help in [Cli::command().render_help(), Cli::command().render_long_help()] {
            let help = help.to_string();
            assert!(
                help.starts_with("Diwan is a document database: MongoDB's wire protocol and CouchDB's"),
                "{help}"
            );
        }
    }
}
