//! The `diwan` binary: command line, configuration, listeners, shutdown, metrics.

mod check;
mod cli;
mod limits;
mod logging;
mod serve;
mod settings;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(settings) => settings.resolve().and_then(serve::run),
        Command::Check(arguments) => return check::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("diwan: {message}");
            ExitCode::FAILURE
        }
    }
}
