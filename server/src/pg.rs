//! The PostgreSQL door: clients speak the frontend/backend protocol 3.0 here and reach a [`cenote_query::Session`].
//!
//! # Rules kept here
//! 1. **No byte of a client is trusted.** A length is checked before anything is read, memory grows with bytes that
//!    came and not with lengths announced, and a message that does not decode is an error and never a panic.
//! 2. **The client sets the pace.** Rows are encoded a buffer at a time; the next batch is asked for when the last one
//!    has left. What is waited for can always be cancelled, and ends when the client hangs up or the server stops.
//! 3. **Acknowledged means done.** The completion of the last statement of a message leaves after its transaction
//!    committed.
//! 4. **Idle costs nothing.** A connection without work waits for its socket and holds one small buffer.
//!
//! # Not here
//! What SQL means and how transactions behave is the session's matter; how values look is `cenote_query::pgtext`.
//!
//! # Source
//! "Frontend/Backend Protocol", PostgreSQL 16 documentation, chapter 55.

mod backend;
mod cancel;
mod connection;
mod copy;
mod extended;
mod frontend;
mod parameters;
mod portal;
mod rows;
mod session;
mod signals;
mod simple;
mod startup;
mod subscription;
mod wire;

#[cfg(test)]
mod tests;

use cancel::CancelKeys;
use cenote_query::Database;
use cenote_statestore::{Error, ErrorKind, Result};
use connection::Connection;
use session::Session;
use signals::Signals;
use startup::Greeting;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use wire::Wire;

/// Bounds on what clients may take.
#[derive(Clone, Copy, Debug)]
pub struct PgLimits {
    /// Connections at a time; one more is told 53300.
    pub connections_max: usize,
    /// Bytes of one message, such as a statement's text or the parameters of one execution.
    pub message_bytes_max: usize,
    /// Time from connecting to the end of the startup message.
    pub startup_timeout: Duration,
    /// Prepared statements, and open portals, of one connection.
    pub prepared_max: usize,
    /// How long connections may take to say goodbye when the server stops.
    pub shutdown_grace: Duration,
}

impl Default for PgLimits {
    fn default() -> PgLimits {
        PgLimits {
            connections_max: 256,
            message_bytes_max: 64 << 20,
            startup_timeout: Duration::from_secs(30),
            prepared_max: 10_000,
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// Clients beyond `connections_max` that are told so, or that ask to cancel a statement, at a time. Further ones are
/// closed without a word.
const OVERFLOW_MAX: usize = 64;

/// Pause after the system refused to accept a connection, as when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves PostgreSQL clients until `shutdown` resolves.
///
/// Clients are trusted (no password). When `shutdown` resolves, running statements are ended, every client gets an
/// error with SQLSTATE 57P01, and connections that do not end within `limits.shutdown_grace` are cut.
///
/// # Arguments
/// - `listener`: a bound socket; its address is the door's.
/// - `limits`: what clients may take, see [`PgLimits`].
///
/// # Errors
/// `Unavailable`: the listener's socket could not be set up. Failures of single connections end these alone.
pub async fn serve(
    listener: TcpListener,
    database: Arc<Database>,
    limits: PgLimits,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    serve_sessions(listener, Arc::new(move || Session::of(&database)), limits, shutdown).await
}

/// Makes the session of a new connection.
type SessionSource = Arc<dyn Fn() -> Session + Send + Sync>;

async fn serve_sessions(
    listener: TcpListener,
    sessions: SessionSource,
    limits: PgLimits,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    keep_alive(&listener)?;
    let (stop, stopped) = watch::channel(false);
    let door = Door {
        sessions,
        limits,
        keys: CancelKeys::default(),
        seats: Arc::new(Semaphore::new(limits.connections_max)),
        overflow: Arc::new(Semaphore::new(OVERFLOW_MAX)),
        stopped,
    };
    let mut clients = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => door.admit(&mut clients, stream),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a PostgreSQL connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = clients.join_next() => report(ended),
        }
    }
    drop(listener);
    let _ = stop.send(true);
    let farewell = async {
        while let Some(ended) = clients.join_next().await {
            report(ended)
        }
    };
    if tokio::time::timeout(limits.shutdown_grace, farewell).await.is_err() {
        clients.shutdown().await;
    }
    Ok(())
}

/// Lets the system notice clients whose machine vanished: accepted sockets inherit this from the listener.
fn keep_alive(listener: &TcpListener) -> Result<()> {
    let probes = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10));
    socket2::SockRef::from(listener)
        .set_tcp_keepalive(&probes)
        .map_err(|error| {
            let message = format!("cannot listen for PostgreSQL clients: {error}");
            Error::new(ErrorKind::Unavailable, "PG-0001", message).source(error)
        })
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended.map_err(|error| error.to_string()) {
        tracing::error!(error, "a PostgreSQL connection ended by a fault");
    }
}

/// What all connections share.
#[derive(Clone)]
struct Door {
    sessions: SessionSource,
    limits: PgLimits,
    keys: CancelKeys,
    seats: Arc<Semaphore>,
    overflow: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Door {
    fn admit(&self, clients: &mut JoinSet<()>, stream: TcpStream) {
        let door = self.clone();
        match self.seats.clone().try_acquire_owned() {
            Ok(seat) => {
                clients.spawn(async move {
                    door.greet(stream, true).await;
                    drop(seat);
                });
            }
            Err(_) => {
                // Without a place even to be told so, the socket is closed by being dropped here.
                if let Ok(place) = self.overflow.clone().try_acquire_owned() {
                    clients.spawn(async move {
                        door.greet(stream, false).await;
                        drop(place);
                    });
                }
            }
        }
    }

    /// Serves one client from its first byte to its last.
    async fn greet(self, stream: TcpStream, has_seat: bool) {
        let _ = stream.set_nodelay(true);
        let mut wire = Wire::new(stream, self.limits.message_bytes_max);
        let mut stopped = self.stopped.clone();
        let greeting = tokio::select! {
            greeting = tokio::time::timeout(self.limits.startup_timeout, startup::greet(&mut wire)) => greeting,
            () = signals::wait_for_stop(&mut stopped) => return,
        };
        match greeting {
            Ok(Greeting::Session(startup)) if has_seat => {
                let (key, cancelled) = self.keys.issue();
                let signals = Signals::new(cancelled, self.stopped);
                Connection::new(wire, (self.sessions)(), signals, self.limits)
                    .run(startup, key)
                    .await;
            }
            Ok(Greeting::Session(_)) => {
                let error = Error::new(ErrorKind::Unavailable, "PG-0002", "sorry, too many clients already");
                let limit = format!("{} connections", self.limits.connections_max);
                let error = error.sqlstate("53300").fact("limit", limit);
                let attempt = "close connections that are idle, or raise --max-connections";
                wire.farewell(&error.attempt(attempt)).await;
            }
            Ok(Greeting::Cancel { process, secret }) => self.keys.cancel(process, secret),
            Ok(Greeting::Refused(error)) => wire.farewell(&error).await,
            // Gone, not a client of this protocol, or too slow.
            Ok(Greeting::Closed) | Err(_) => {}
        }
    }
}
