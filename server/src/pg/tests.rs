//! The whole door over real sockets, with a session that plays its part from a script.

mod client;
mod conversations;
mod extended;
mod hostile;
pub(super) mod script;

use super::session::Session;
use super::{PgLimits, serve_sessions};
use client::Client;
use script::Stage;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server on a free port.
struct Server {
    address: SocketAddr,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<cenote_statestore::Result<()>>,
}

impl Server {
    async fn start() -> Server {
        Server::with(PgLimits::default()).await
    }

    async fn with(limits: PgLimits) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::new(Stage::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let actors = stage.clone();
        let sessions = Arc::new(move || Session::Script(script::Session::new(actors.clone())));
        let served = tokio::spawn(serve_sessions(listener, sessions, limits, async {
            let _ = stopped.await;
        }));
        Server {
            address,
            stage,
            stop: Some(stop),
            served,
        }
    }

    async fn connect(&self) -> Client {
        let client = Client::connect(self.address).await;
        self.stage.take_log();
        client
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), self.served)
            .await
            .expect("the server does not stop")
            .unwrap()
            .unwrap();
    }
}
