//! SIGINT and SIGTERM for a command that ends its work by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// The exit status after a second signal, as a shell reports it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether the command was asked to end: set by the first signal. The second ends the process at once.
pub fn asked_to_end() -> Result<Arc<AtomicBool>, String> {
    let asked = Arc::new(AtomicBool::new(false));
    let refused = |error: std::io::Error| format!("cannot wait for signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let listen = |kind| {
        let _entered = runtime.enter();
        signal(kind).map_err(refused)
    };
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let set = asked.clone();
    let attend = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if set.swap(true, Ordering::SeqCst) {
                    std::process::exit(INTERRUPTED);
                }
            }
        })
    };
    std::thread::Builder::new().name("diwan-signals".into()).spawn(attend).map_err(refused)?;
    Ok(asked)
}
