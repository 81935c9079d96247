//! Ctrl-C and SIGTERM as a value that can be waited for.
//!
//! The signals are watched on a thread of their own, so that they are seen while the main thread computes.

use super::no_runtime;
use cenote_statestore::Result;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn install() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Starts watching for Ctrl-C and SIGTERM.
///
/// # Returns
/// A value that becomes `true` at the first signal. A second one ends the process at once, exit code 130.
///
/// # Errors
/// `Unavailable`: the handlers cannot be installed.
pub fn watch_signals() -> Result<watch::Receiver<bool>> {
    let (stop, stopped) = watch::channel(false);
    let (installed, ready) = oneshot::channel();
    let watcher = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(installed.send(Err(error))),
        };
        runtime.block_on(async move {
            let mut signals = match Signals::install() {
                Ok(signals) => signals,
                Err(error) => return drop(installed.send(Err(error))),
            };
            let _ = installed.send(Ok(()));
            signals.next().await;
            let _ = stop.send(true);
            signals.next().await;
            std::process::exit(130);
        });
    };
    std::thread::Builder::new()
        .name("cenote-signals".into())
        .spawn(watcher)
        .map_err(no_runtime)?;
    match ready.blocking_recv() {
        Ok(done) => done.map_err(no_runtime)?,
        Err(_) => return Err(no_runtime(io::Error::other("the signal thread ended"))),
    }
    Ok(stopped)
}

/// Waits for the first signal.
pub async fn signalled(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
