//! `cenote bench serve-file`: a plain axum handler that streams the bytes of a file: the yardstick of streamed answers.

use crate::cli::{signalled, watch_signals};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use cenote_statestore::Result;
use futures::stream;
use std::io::Write;
use std::path::PathBuf;
use tokio::net::TcpListener;

/// Serve the bytes of a file with a plain handler, as the yardstick of streamed answers
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench serve-file rows.arrow --http 127.0.0.1:0")]
pub struct Options {
    /// The file; it is held in memory
    #[arg(value_name = "FILE", env = "CENOTE_BENCH_FILE")]
    file: PathBuf,
    /// Address to listen on; port 0 lets the system pick one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", env = "CENOTE_BENCH_HTTP")]
    http: String,
}

/// Bytes of one chunk: as many as a streamed answer of Cenote's has.
const CHUNK_BYTES: usize = 128 << 10;

/// Serves until a signal.
///
/// # Errors
/// The file cannot be read, or the address cannot be listened on.
pub fn run(options: &Options) -> Result<()> {
    let bytes = Bytes::from(std::fs::read(&options.file)?);
    let mut stopped = watch_signals()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let listener = TcpListener::bind(options.http.as_str()).await?;
        println!("http: listening on http://{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let router = Router::new().route("/", get(move || std::future::ready(body(&bytes))));
        tokio::select! {
            served = axum::serve(listener, router) => Ok(served?),
            () = signalled(&mut stopped) => Ok(()),
        }
    });
    runtime.shutdown_background();
    done
}

/// The bytes, chunk by chunk, without copying them.
fn body(bytes: &Bytes) -> Body {
    let chunks = bytes.len().div_ceil(CHUNK_BYTES);
    let bytes = bytes.clone();
    Body::from_stream(stream::iter((0..chunks).map(move |chunk| {
        let (start, end) = (chunk * CHUNK_BYTES, ((chunk + 1) * CHUNK_BYTES).min(bytes.len()));
        Ok::<_, std::io::Error>(bytes.slice(start..end))
    })))
}
