//! `diwan check`: verifies all data of a store that no server has open, and reports the findings.

use crate::cli::CheckArguments;
use crate::place::{Place, postgres};
use diwan_kv::{Engine, FjallEngine};
use diwan_store::check::{CheckReport, CollectionReport, Progress, check_engine};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit code: the check has findings.
const FINDINGS: u8 = 1;
/// Exit code: the store cannot be read.
const UNREADABLE: u8 = 2;

/// Checks the store. The exit code is 0 without findings, 1 with findings, 2 if the store cannot be read.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    match examine(arguments) {
        Ok(report) => {
            // The reader of the output may have closed it; the exit code still reports the result.
            let _ = show(&report);
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) }
        }
        Err(message) => {
            eprintln!("diwan: {message}");
            ExitCode::from(UNREADABLE)
        }
    }
}

fn examine(arguments: &CheckArguments) -> Result<CheckReport, String> {
    let place = Place::of(arguments.data.clone(), arguments.store.clone(), false)?;
    let engine: Box<dyn Engine> = match &place {
        Place::Postgres(uri) => Box::new(postgres(uri)?),
        Place::Directory(directory) => open(directory)?,
        Place::Memory => return Err("there is nothing to check in memory".to_owned()),
    };
    let mut display = Display::new();
    let report = check_engine(&*engine, &mut |progress| display.show(&progress));
    display.clear();
    report.map_err(|error| format!("the check of {place} ended early: {error}"))
}

fn open(directory: &Path) -> Result<Box<dyn Engine>, String> {
    let shown = directory.display();
    let mut entries = std::fs::read_dir(directory)
        .map_err(|error| format!("cannot read the data directory {shown}: {error}"))?;
    if entries.next().is_none() {
        return Err(format!("the directory {shown} is empty: it contains no store"));
    }
    let options = diwan_kv::Options { settle_in_background: false, ..diwan_kv::Options::default() };
    let engine = FjallEngine::open(directory, &options).map_err(|error| match error {
        diwan_kv::Error::Locked(_) => format!(
            "a server has the data directory {shown} open: stop it first, or use its `validate` command"
        ),
        error => format!("cannot open the data directory {shown}: {error}"),
    })?;
    Ok(Box::new(engine))
}

/// The progress of the check, as one line on a terminal.
struct Display {
    is_terminal: bool,
    shown_at: Instant,
}

impl Display {
    fn new() -> Display {
        Display { is_terminal: io::stderr().is_terminal(), shown_at: Instant::now() }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        if !self.is_terminal || self.shown_at.elapsed() < Duration::from_millis(100) {
            return;
        }
        self.shown_at = Instant::now();
        let of = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        eprint!("\r\x1b[K{} {}: {}{of}", progress.namespace, progress.part, progress.done);
    }

    fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn show(report: &CheckReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for collection in &report.collections {
        show_collection(&mut out, collection)?;
    }
    let documents: u64 = report.collections.iter().map(|collection| collection.documents).sum();
    writeln!(
        out,
        "checked {documents} documents in {} collections, {} views, {} results of retryable writes",
        report.collections.len(),
        report.views,
        report.retry_records
    )?;
    for finding in &report.findings.listed {
        writeln!(out, "FOUND {finding}")?;
    }
    match report.findings.count {
        0 => writeln!(out, "everything agrees"),
        count => writeln!(out, "{count} findings"),
    }
}

fn show_collection(out: &mut impl Write, collection: &CollectionReport) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} documents, {} bytes, {} changes, {} deleted, {} earlier revisions",
        collection.namespace,
        collection.documents,
        collection.bytes,
        collection.changes,
        collection.tombstones,
        collection.ancestors
    )?;
    for index in &collection.indexes {
        match index.checked {
            true => writeln!(out, "  index {}: {} entries", index.name, index.entries)?,
            false => writeln!(out, "  index {}: not complete, will be removed", index.name)?,
        }
    }
    Ok(())
}
