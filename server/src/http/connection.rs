//! Connections: accepted within a limit, served over HTTP/1.1, drained at a shutdown.

use super::error::ApiError;
use super::routes::router;
use super::short_way::ShortWay;
use super::{App, Limits, stopped};
use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use cenote_query::Database;
use cenote_statestore::{Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections beyond the limit that are told so at a time; more are closed without a word.
const REFUSALS_MAX: usize = 64;
/// How long a peer may be silent before the kernel asks whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves HTTP until `shutdown` is true, then waits for requests under way, at most [`Limits::drain_time`].
///
/// # Errors
/// None at present; connections that fail end alone.
pub async fn serve(
    listener: TcpListener,
    database: Arc<Database>,
    limits: Limits,
    mut shutdown: watch::Receiver<bool>,
) -> Result<()> {
    let app = App::new(database, limits, shutdown.clone());
    let mut door = Door::new(app, shutdown.clone());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => door.take(stream),
                Err(error) => door.accept_failed(&error).await,
            },
            Some(_) = door.connections.join_next() => {}
            () = stopped(&mut shutdown) => break,
        }
    }
    drop(listener);
    let drained = async { while door.connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_time, drained).await.is_err() {
        tracing::warn!(
            connections = door.connections.len(),
            "requests were cut: they did not end within the drain time"
        );
    }
    Ok(())
}

struct Door {
    app: App,
    router: Router,
    refusing: Router,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    connections: JoinSet<()>,
    shutdown: watch::Receiver<bool>,
}

impl Door {
    fn new(app: App, shutdown: watch::Receiver<bool>) -> Door {
        let connections_max = app.limits().connections_max;
        Door {
            router: router(app.clone()),
            refusing: Router::new().fallback(move || async move { too_many(connections_max) }),
            slots: Arc::new(Semaphore::new(connections_max)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            connections: JoinSet::new(),
            app,
            shutdown,
        }
    }

    fn take(&mut self, stream: TcpStream) {
        let (app, shutdown, limits) = (self.app.clone(), self.shutdown.clone(), *self.app.limits());
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            let router = self.router.clone();
            app.figures().connections.fetch_add(1, Ordering::Relaxed);
            self.connections.spawn(async move {
                let service = ShortWay::new(app.clone(), router);
                serve_connection(stream, service, limits.read_timeout, shutdown).await;
                app.figures().connections.fetch_sub(1, Ordering::Relaxed);
                drop(slot);
            });
            return;
        }
        app.figures().refused.fetch_add(1, Ordering::Relaxed);
        if let Ok(slot) = self.refusals.clone().try_acquire_owned() {
            let router = self.refusing.clone();
            self.connections.spawn(async move {
                let (service, read_timeout) = (
                    TowerToHyperService::new(router),
                    limits.read_timeout.min(Duration::from_secs(5)),
                );
                serve_connection(stream, service, read_timeout, shutdown).await;
                drop(slot);
            });
        }
    }

    /// Waits until accepting may work again: most often the process has no file left, so until a connection ends.
    async fn accept_failed(&mut self, error: &std::io::Error) {
        tracing::warn!("cannot accept a connection: {error}");
        let _ = tokio::time::timeout(Duration::from_millis(100), async {
            if self.connections.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        })
        .await;
    }
}

/// Bytes of a request's line and headers; more is answered with 431. Without a bound of its own, how much a read happens to
/// bring decides whether a head that is too large is seen as such.
const HEAD_BYTES_MAX: usize = 256 << 10;

async fn serve_connection<S>(stream: TcpStream, service: S, read_timeout: Duration, mut shutdown: watch::Receiver<bool>)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    if let Err(error) = configure(&stream) {
        tracing::debug!("cannot configure a connection: {error}");
    }
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(read_timeout)
        .max_header_size(HEAD_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// Answers go out at once; a peer that is gone without a word is noticed.
fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(Duration::from_secs(15));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

fn too_many(connections_max: usize) -> axum::response::Response {
    let error = Error::new(
        ErrorKind::Unavailable,
        "HTTP-0019",
        "cannot take the connection: too many are open",
    )
    .sqlstate("53300")
    .fact("limit", format!("{connections_max}, set by --max-connections"))
    .attempt("close connections that are idle, or raise --max-connections");
    let mut response = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error).into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests;
