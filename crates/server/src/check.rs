//! `diwan check`: verifies all data of a store that no server has open, and reports the findings.

use crate::cli::CheckArguments;
use crate::place::Place;
use crate::progress::Display;
use diwan_store::check::{CheckReport, CollectionReport, Progress, check_engine};
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit code: the check has findings.
const FINDINGS: u8 = 1;
/// Exit code: the store cannot be read.
const UNREADABLE: u8 = 2;

/// The cache of a directory, in bytes: for each document its keys elsewhere are looked up.
const CACHE: u64 = 256 << 20;

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
    let engine = place.open_stopped(CACHE, ", or use its `validate` command")?;
    let mut display = Display::new(None);
    let report = check_engine(&*engine, &mut |progress| display.show(|| line(&progress)));
    display.clear();
    report.map_err(|error| format!("the check of {place} ended early: {error}"))
}

fn line(progress: &Progress<'_>) -> String {
    let of = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
    format!("{} {}: {}{of}", progress.namespace, progress.part, progress.done)
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
