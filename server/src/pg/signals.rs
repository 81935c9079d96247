//! What can end a running statement from outside: a cancel request, the server's end, the client's end.

use cenote_statestore::{Error, ErrorKind};
use tokio::sync::watch;

/// How a statement or a connection fails.
pub(super) enum Failure {
    /// The statement failed; the connection goes on.
    Statement(Error),
    /// The client is told and the connection ends.
    Fatal(Error),
    /// The client is gone.
    Gone,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Statement(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(_: std::io::Error) -> Failure {
        Failure::Gone
    }
}

/// Ears for what comes from outside a connection.
pub(super) struct Signals {
    /// Counts cancel requests.
    cancelled: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
}

impl Signals {
    pub(super) fn new(cancelled: watch::Receiver<u64>, stopped: watch::Receiver<bool>) -> Signals {
        Signals { cancelled, stopped }
    }

    /// Forgets cancel requests that came while nothing ran.
    pub(super) fn begin_statement(&mut self) {
        self.cancelled.borrow_and_update();
    }

    /// Ends the running statement if it must end, without waiting.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        if *self.stopped.borrow() {
            return Err(Failure::Fatal(stopping()));
        }
        match self.cancelled.has_changed() {
            Ok(true) => Err(Failure::Statement(cancelled())),
            _ => Ok(()),
        }
    }

    /// Resolves when the running statement must end.
    pub(super) async fn raised(&mut self) -> Failure {
        tokio::select! {
            () = wait_for_stop(&mut self.stopped) => Failure::Fatal(stopping()),
            () = wait_for_cancel(&mut self.cancelled) => Failure::Statement(cancelled()),
        }
    }

    /// Resolves when the server stops.
    pub(super) async fn stopped(&mut self) -> Failure {
        wait_for_stop(&mut self.stopped).await;
        Failure::Fatal(stopping())
    }
}

/// Resolves when the server stops.
pub(super) async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn wait_for_cancel(cancelled: &mut watch::Receiver<u64>) {
    if cancelled.changed().await.is_err() {
        // The key is withdrawn: nobody can cancel any more.
        std::future::pending::<()>().await;
    }
}

fn cancelled() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "PG-0003",
        "canceling statement due to user request",
    )
    .sqlstate("57014")
}

fn stopping() -> Error {
    let message = "terminating connection due to administrator command";
    Error::new(ErrorKind::Unavailable, "PG-0004", message).sqlstate("57P01")
}
