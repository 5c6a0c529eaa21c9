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
  diwan serve --store postgres://user:password@host/database
                                       documents in a PostgreSQL server
  diwan serve --data copy --listen 127.0.0.1:27018 --http 127.0.0.1:5985 --follow http://127.0.0.1:5984
                                       a copy of another server that keeps up with it
  diwan serve --config diwan.toml      settings from a file; flags and DIWAN_* variables go before it")]
    Serve(Box<Settings>),
    /// Verify every record, index entry and change-log entry of a store against each other: exit code 0 if all agree, 1
    /// if something was found, 2 if the store cannot be read
    Check(CheckArguments),
    /// Move all documents, users and settings to another place: from a directory to a PostgreSQL server, back, or between two
    /// of a kind. The source is only read, and must not be served meanwhile
    #[command(after_help = "Examples:
  diwan move --from diwan-data --to postgres://user:password@host/database
  diwan move --from postgres://user:password@host/database --to diwan-data

After an interruption the same command goes on. Until it has ended, the target cannot be served.")]
    Move(MoveArguments),
    /// Add, list and remove users, and change passwords: in a stopped directory, or through the server that has it open
    #[command(after_help = "Examples:
  diwan user add anna --role root                an administrator of the server
  diwan user add app --role readWrite@shop       may read and write the database shop
  diwan user list")]
    User(UserArguments),
    /// Make a follower the primary: the server that has the directory open, or the directory of a stopped one
    #[command(after_help = "Example:
  diwan promote --data /srv/diwan      first stop the old primary")]
    Promote(PromoteArguments),
    /// Make a certificate and its key, to try TLS
    #[command(after_help = "Example:
  diwan certificate --self-signed --host db.example --host 10.0.0.5")]
    Certificate(CertificateArguments),
}

/// The arguments of `diwan user`.
#[derive(Args, Debug)]
pub struct UserArguments {
    /// The directory of the documents [default: diwan-data]
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA", global = true)]
    pub data: Option<PathBuf>,
    /// The PostgreSQL server with the documents instead; no process may serve them at the time
    #[arg(long, value_name = "URI", env = "DIWAN_STORE", hide_env_values = true, global = true)]
    pub store: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: UserCommand,
}

/// The subcommands of `diwan user`.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user; the password comes from a prompt, from a file, or from standard input
    Add {
        /// The user's name
        name: String,
        /// A role: root, readWrite@shop, read@shop, dbAdmin@shop and so on; repeatable
        #[arg(long)]
        role: Vec<String>,
        /// The database in which the user is defined, which drivers call authSource
        #[arg(long, default_value = "admin")]
        database: String,
        /// A file with the password
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List all users with their roles
    List,
    /// Change a user's password
    Passwd {
        /// The user's name
        name: String,
        /// The database in which the user is defined
        #[arg(long, default_value = "admin")]
        database: String,
        /// A file with the new password
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Remove a user
    Remove {
        /// The user's name
        name: String,
        /// The database in which the user is defined
        #[arg(long, default_value = "admin")]
        database: String,
        /// Remove the last administrator, too: on a stopped directory only
        #[arg(long)]
        last: bool,
    },
}

/// The arguments of `diwan promote`.
#[derive(Args, Debug)]
pub struct PromoteArguments {
    /// The directory of the documents [default: diwan-data]
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA")]
    pub data: Option<PathBuf>,
}

/// The arguments of `diwan certificate`.
#[derive(Args, Debug)]
pub struct CertificateArguments {
    /// Sign the certificate with its own key
    #[arg(long)]
    pub self_signed: bool,
    /// A host name or address under which clients reach the server; repeatable [default: localhost]
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// How many days the certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    pub days: u32,
    /// Where to write the certificate; must not exist
    #[arg(long, value_name = "FILE", default_value = "diwan-certificate.pem")]
    pub certificate: PathBuf,
    /// Where to write the private key; must not exist
    #[arg(long, value_name = "FILE", default_value = "diwan-key.pem")]
    pub key: PathBuf,
}

/// The arguments of `diwan check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The directory of the documents; no server may have it open [default: diwan-data]
    #[arg(long, value_name = "DIR", env = "DIWAN_DATA")]
    pub data: Option<PathBuf>,
    /// The PostgreSQL server with the documents instead; no other process may serve them
    #[arg(long, value_name = "URI", env = "DIWAN_STORE", hide_env_values = true)]
    pub store: Option<String>,
}

/// The arguments of `diwan move`.
#[derive(Args, Debug)]
pub struct MoveArguments {
    /// Where the documents are: a directory, or postgres://…
    #[arg(long, value_name = "PLACE", env = "DIWAN_MOVE_FROM", hide_env_values = true)]
    pub from: String,
    /// Where they are to be: a new directory, or a PostgreSQL server without a store in the schema
    #[arg(long, value_name = "PLACE", env = "DIWAN_MOVE_TO", hide_env_values = true)]
    pub to: String,
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
