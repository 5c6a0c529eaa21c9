//! The server process under load.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A running server on a new directory. Dropping it kills the server.
pub struct Server {
    process: Child,
    pub mongo: SocketAddr,
    pub http: SocketAddr,
    _directory: TempDir,
}

impl Server {
    /// Starts the program and waits until it listens.
    pub fn start(binary: &Path) -> Result<Server, Box<dyn Error>> {
        // The system's temporary directory may be in memory, where syncs cost nothing.
        let directory = tempfile::tempdir_in(std::env::current_dir()?)?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]);
        let mut process =
            command.arg(directory.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        let mut address = |scheme: &str| -> Result<SocketAddr, Box<dyn Error>> {
            for line in lines.by_ref() {
                let line = line?;
                if let Some((_, rest)) = line.split_once(scheme) {
                    let end = rest.find('/').unwrap_or(rest.len());
                    return Ok(rest[..end].parse()?);
                }
            }
            Err(format!("{} did not say where it listens", binary.display()).into())
        };
        let (mongo, http) = (address("mongodb://")?, address("http://")?);
        Ok(Server { process, mongo, http, _directory: directory })
    }

    /// The CPU time of the server.
    pub fn cpu(&self) -> Duration {
        cpu(&format!("/proc/{}/stat", self.process.id()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The CPU time of this process.
pub fn own_cpu() -> Duration {
    cpu("/proc/self/stat")
}

/// User and system time from a process's `stat`; none if there is no such file.
fn cpu(stat: &str) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    // The process name, in parentheses, may contain any characters.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u32 = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks
}
