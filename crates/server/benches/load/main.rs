//! Measures the cost of small requests to the program `diwan`, which runs as a separate process: operations per second,
//! the server's CPU time per operation, and latencies. The clients speak the protocols over plain sockets, all in one
//! thread, so that they take little CPU time from the server. Their own CPU time is reported too.
//!
//! `cargo bench -p diwan-server --bench load [-- [--seconds N] [--rounds N] [--binary FILE]… [WORKLOAD…]]`
//!
//! Several binaries are measured alternately, each round on a new directory. The best round is reported. Workloads are
//! chosen by parts of their names.

mod client;
mod report;
mod server;
mod streams;
mod workloads;

use report::Report;
use server::Server;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use workloads::{WORKLOADS, Workload};

struct Settings {
    seconds: f64,
    rounds: usize,
    binaries: Vec<PathBuf>,
    workloads: Vec<&'static Workload>,
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Settings, Box<dyn Error>> {
        let mut settings = Settings { seconds: 2.0, rounds: 3, binaries: Vec::new(), workloads: Vec::new() };
        let mut wanted = Vec::new();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} lacks its value"));
            match argument.as_str() {
                "--seconds" => settings.seconds = value()?.parse()?,
                "--rounds" => settings.rounds = value()?.parse()?,
                "--binary" => settings.binaries.push(value()?.into()),
                // `cargo bench` adds this argument.
                "--bench" => {}
                name => wanted.push(name.to_owned()),
            }
        }
        if settings.binaries.is_empty() {
            settings.binaries.push(env!("CARGO_BIN_EXE_diwan").into());
        }
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
        settings.workloads = WORKLOADS.iter().filter(|workload| is_wanted(workload.name)).collect();
        Ok(settings)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stretch = Duration::from_secs_f64(settings.seconds);
    println!("{}", Report::HEADING);
    for workload in &settings.workloads {
        let mut reports: Vec<Vec<Report>> = settings.binaries.iter().map(|_| Vec::new()).collect();
        for _ in 0..settings.rounds {
            for (binary, reports) in settings.binaries.iter().zip(&mut reports) {
                let server = Server::start(binary)?;
                reports.push(runtime.block_on(workload.run(&server, stretch))?);
            }
        }
        for (binary, reports) in settings.binaries.iter().zip(reports) {
            let name = binary.file_name().unwrap_or_default().to_string_lossy();
            let best = Report::best(reports).ok_or("there are no rounds")?;
            println!("{}", best.line(workload.name, &name));
        }
    }
    Ok(())
}
