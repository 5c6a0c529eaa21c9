//! The `diwan` binary: command line, configuration, listeners, shutdown, metrics.

mod check;
mod cli;
mod control;
mod history;
mod limits;
mod logging;
mod memory;
mod place;
mod progress;
mod promote;
mod serve;
mod settings;
mod signals;
mod tls;
mod transfer;
mod units;
mod users;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Gives memory back that many threads have used, which the C library's allocator keeps for each of them.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(settings) => settings.resolve().and_then(serve::run),
        Command::Check(arguments) => return check::run(&arguments),
        Command::Move(arguments) => transfer::run(&arguments),
        Command::User(arguments) => users::run(arguments),
        Command::Promote(arguments) => promote::run(arguments),
        Command::Certificate(arguments) => tls::make_certificate(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("diwan: {message}");
            ExitCode::FAILURE
        }
    }
}
