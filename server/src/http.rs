//! The HTTP door: JSON, Arrow and server-sent events.
//!
//! # Rules kept here
//! 1. **One table of routes.** [`routes`] is what the router and `/openapi.json` are made of.
//! 2. **One epoch.** Every read carries the epoch it was taken at, in the header `Cenote-Epoch` and in the body.
//! 3. **The client's pace.** A streamed answer holds at most two chunks; a client that stops reading, or goes,
//!    ends its query.
//! 4. **Nothing ignored.** An unknown query parameter or body field is refused with the nearest valid name.
//!
//! # Not here
//! What a name, a key or a statement means: `cenote_query`.

mod append;
mod changes;
mod checkpoints;
mod connection;
mod error;
mod export;
mod health;
mod inventory;
mod key_query;
mod listing;
mod lookup;
mod lookup_many;
mod metrics;
mod openapi;
mod parameters;
mod request;
mod respond;
mod routes;
mod scan;
mod short_way;
mod sinks;
mod snapshot;
mod sql;
mod sql_parameters;
mod stream;

pub use connection::serve;
pub use parameters::nearest;

use cenote_query::Database;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Bounds of the HTTP door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Bytes of a request body.
    pub body_bytes_max: usize,
    /// Bytes of an SQL text.
    pub statement_bytes_max: usize,
    /// Bytes of a result that is answered as one JSON document.
    pub result_bytes_max: usize,
    /// How long a client may take to send a request head, and to send its next bytes.
    pub read_timeout: Duration,
    /// How long a client may leave a streamed answer untouched.
    pub write_timeout: Duration,
    /// How long a shutdown waits for requests that are under way.
    pub drain_time: Duration,
}

/// What handlers share.
#[derive(Clone)]
struct App(Arc<Shared>);

struct Shared {
    database: Arc<Database>,
    limits: Limits,
    figures: metrics::Figures,
    stopping: watch::Receiver<bool>,
}

impl App {
    fn new(database: Arc<Database>, limits: Limits, stopping: watch::Receiver<bool>) -> App {
        App(Arc::new(Shared {
            database,
            limits,
            figures: metrics::Figures::default(),
            stopping,
        }))
    }

    fn database(&self) -> &Arc<Database> {
        &self.0.database
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn figures(&self) -> &metrics::Figures {
        &self.0.figures
    }
}

/// Waits until `shutdown` is true or its sender is gone.
async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests;
