//! `cenote serve`: opens the database, opens the doors, waits for a signal, closes both in order.

use super::interrupt::{signalled, watch_signals};
use super::no_runtime;
use super::settings::{Door, ServeOptions, Settings};
use crate::http;
use crate::pg::{self, PgLimits};
use cenote_engine::THREAD_STACK_BYTES;
use cenote_query::Database;
use cenote_statestore::{Error, ErrorKind, Result};
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Runs the command until a signal.
///
/// # Errors
/// Settings that do not hold together, a door that cannot be bound, a database that cannot be opened.
pub fn serve(options: ServeOptions) -> Result<()> {
    let settings = Settings::resolve(options)?;
    if settings.has_memory_limit() {
        super::allocator::give_memory_back();
    }
    log_to_stderr(&settings.log)?;
    let stopped = watch_signals()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(THREAD_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(no_runtime)?;
    let done = runtime.block_on(serve_until_stopped(settings, stopped));
    runtime.shutdown_background();
    done
}

fn log_to_stderr(filter: &str) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            "CLI-0008",
            format!("cannot use log filter `{filter}`: {error}"),
        )
        .attempt("--log info, or --log cenote_query=debug,warn")
    })?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
    Ok(())
}

async fn serve_until_stopped(settings: Settings, mut stopped: watch::Receiver<bool>) -> Result<()> {
    let http = bind("http", &settings.http).await?;
    let pg = bind("pg", &settings.pg).await?;
    let config = settings.database();
    let database = tokio::select! {
        opened = Database::open(config) => opened?,
        () = signalled(&mut stopped) => return Ok(()),
    };
    let mut doors = Doors {
        tasks: JoinSet::new(),
        lines: Vec::new(),
    };
    if let Some((listener, address)) = http {
        doors.open(
            format!("http: listening on http://{address}"),
            http::serve(listener, database.clone(), settings.limits, stopped.clone()),
        );
    }
    if let Some((listener, address)) = pg {
        doors.open(format!("pgwire: listening on postgresql://{address}"), {
            let limits = PgLimits {
                connections_max: settings.pg_connections,
                startup_timeout: settings.limits.read_timeout,
                shutdown_grace: settings.limits.drain_time,
                ..PgLimits::default()
            };
            let mut stopped = stopped.clone();
            pg::serve(listener, database.clone(), limits, async move {
                signalled(&mut stopped).await
            })
        });
    }
    if let Door::At(address) = &settings.flight {
        doors
            .lines
            .push(format!("flight: not supported yet, {address} is not bound"));
    }
    if let Some(interval) = settings.checkpoint_interval {
        tokio::spawn(database.clone().checkpoint_every(interval));
    }
    doors.announce()?;
    let served = doors.wait(&mut stopped).await;
    database.checkpoint_if_changed().await;
    let shut = database.shutdown().await;
    served.and(shut)
}

fn ended(error: tokio::task::JoinError) -> Error {
    Error::bug(format!("cannot go on: a task of the server ended: {error}"))
}

async fn bind(option: &str, door: &Door) -> Result<Option<(TcpListener, SocketAddr)>> {
    let Door::At(address) = door else { return Ok(None) };
    let failure = |error: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            "CLI-0009",
            format!("cannot listen on {address}: {error}"),
        )
        .fact("option", format!("--{option}"))
        .attempt(format!(
            "--{option} 127.0.0.1:0 to let the system pick a port, --{option} off to do without"
        ))
        .source(error)
    };
    let listener = TcpListener::bind(address.as_str()).await.map_err(failure)?;
    let bound = listener.local_addr().map_err(failure)?;
    Ok(Some((listener, bound)))
}

/// The open doors.
struct Doors {
    tasks: JoinSet<Result<()>>,
    lines: Vec<String>,
}

impl Doors {
    fn open(&mut self, line: String, door: impl Future<Output = Result<()>> + Send + 'static) {
        self.lines.push(line);
        self.tasks.spawn(door);
    }

    /// Prints one line per door.
    fn announce(&self) -> Result<()> {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits for the signal, then until every door has drained. A door that fails ends the server.
    async fn wait(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<()> {
        loop {
            tokio::select! {
                () = signalled(stopped) => break,
                Some(ended_door) = self.tasks.join_next() => ended_door.map_err(ended)??,
            }
        }
        while let Some(ended_door) = self.tasks.join_next().await {
            ended_door.map_err(ended)??;
        }
        Ok(())
    }
}
