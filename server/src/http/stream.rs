//! Streamed answers: a task encodes batches at the pace of the client.
//!
//! Between the task and the connection stands a channel of two chunks. The task ends when the client goes; when
//! the client leaves a chunk untouched for the write timeout, the task drops the query (and with it the snapshot
//! that the query holds) before it waits any further.

use crate::encode::{Encoder, chunks};
use arrow::array::RecordBatch;
use axum::body::Body;
use bytes::Bytes;
use cenote_query::BatchStream;
use cenote_statestore::{Error, ErrorKind, Result};
use futures::{FutureExt, StreamExt, future, stream};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const CHUNK_BYTES: usize = 128 << 10;
const CHUNKS: usize = 2;

/// Why a stream ended before its rows did.
pub enum End {
    /// The client is gone.
    Gone,
    /// The query failed, or the client was too slow.
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Failed(error)
    }
}

/// The sending side of a streamed body.
pub struct Target {
    chunks: mpsc::Sender<Result<Bytes>>,
    write_timeout: Duration,
}

/// A body and what feeds it.
pub fn channel(write_timeout: Duration) -> (Target, Body) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    (
        Target {
            chunks: sender,
            write_timeout,
        },
        Body::from_stream(ReceiverStream::new(receiver)),
    )
}

impl Target {
    /// Sends what `out` holds and empties it.
    async fn send(&self, out: &mut Vec<u8>) -> Result<(), End> {
        if out.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(out));
        match tokio::time::timeout(self.write_timeout, self.chunks.send(Ok(chunk))).await {
            Ok(sent) => sent.map_err(|_| End::Gone),
            Err(_) => Err(End::Failed(stopped_reading(self.write_timeout))),
        }
    }

    /// Waits for `work` as long as the client is there.
    async fn while_open<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            done = work => Ok(done),
            () = self.chunks.closed() => Err(End::Gone),
        }
    }

    /// Sends the batches of `source`; what is encoded goes out before more rows are waited for.
    ///
    /// # Arguments
    /// - `encode`: takes a slice of a batch and whether it is the batch's last.
    pub async fn pump(
        &self,
        source: &mut BatchStream,
        mut encode: impl FnMut(&RecordBatch, bool, &mut Vec<u8>) -> Result<()>,
        out: &mut Vec<u8>,
    ) -> Result<(), End> {
        loop {
            let next = match source.next().now_or_never() {
                Some(next) => next,
                None => {
                    self.send(out).await?;
                    self.while_open(source.next()).await?
                }
            };
            let batch = match next {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => {
                    self.send(out).await?;
                    return Err(End::Failed(error));
                }
                None => break,
            };
            let mut slices = chunks(&batch).peekable();
            while let Some(chunk) = slices.next() {
                encode(&chunk, slices.peek().is_none(), out)?;
                if out.len() >= CHUNK_BYTES {
                    self.send(out).await?;
                }
            }
        }
        self.send(out).await
    }

    /// Sends last bytes, waiting for the client however long it takes: nothing else is held any more.
    pub async fn close_with(self, last: Result<Bytes>) {
        let _ = self.chunks.send(last).await;
    }
}

/// A body of encoded rows. A failure cuts the transfer, so that the client sees it as incomplete.
///
/// # Arguments
/// - `keep`: whatever must live as long as the rows are read (a session).
pub fn rows_body(
    encoder: Box<dyn Encoder>,
    source: BatchStream,
    write_timeout: Duration,
    keep: impl Send + 'static,
) -> Body {
    let (target, body) = channel(write_timeout);
    tokio::spawn(async move {
        let ended = send_rows(encoder, source, &target).await;
        drop(keep);
        if let Err(End::Failed(error)) = ended {
            tracing::warn!(code = error.code(), "streamed answer was cut: {error}");
            target.close_with(Err(error)).await;
        }
    });
    body
}

/// A body of several encoded results, one behind the other. A failure cuts the transfer, as in [`rows_body`].
pub fn several_body(parts: Vec<(Box<dyn Encoder>, BatchStream)>, write_timeout: Duration) -> Body {
    let (target, body) = channel(write_timeout);
    tokio::spawn(async move {
        for (encoder, source) in parts {
            match send_rows(encoder, source, &target).await {
                Ok(()) => {}
                Err(End::Gone) => return,
                Err(End::Failed(error)) => {
                    tracing::warn!(code = error.code(), "streamed answer was cut: {error}");
                    return target.close_with(Err(error)).await;
                }
            }
        }
    });
    body
}

async fn send_rows(mut encoder: Box<dyn Encoder>, mut source: BatchStream, target: &Target) -> Result<(), End> {
    let mut out = Vec::new();
    encoder.start(&mut out)?;
    target
        .pump(&mut source, |batch, _, out| encoder.batch(batch, out), &mut out)
        .await?;
    encoder.finish(&mut out)?;
    target.send(&mut out).await
}

/// Waits for the first batch, so that what fails there is still answered with an error object.
///
/// # Errors
/// The first batch's.
pub async fn started(mut source: BatchStream) -> Result<BatchStream> {
    match source.next().await.transpose()? {
        None => Ok(stream::empty().boxed()),
        Some(first) => Ok(stream::once(future::ready(Ok(first))).chain(source).boxed()),
    }
}

/// The first `limit` rows.
pub fn limited(source: BatchStream, limit: u64) -> BatchStream {
    let take = |left: &mut u64, batch: Result<RecordBatch>| {
        future::ready(match batch {
            _ if *left == 0 => None,
            Err(error) => Some(Err(error)),
            Ok(batch) => {
                let rows = usize::try_from(*left).unwrap_or(usize::MAX).min(batch.num_rows());
                *left -= rows as u64;
                Some(Ok(batch.slice(0, rows)))
            }
        })
    };
    source.scan(limit, take).boxed()
}

fn stopped_reading(write_timeout: Duration) -> Error {
    let message = "cannot send more rows: the client stopped reading";
    let error = Error::new(ErrorKind::Unavailable, "HTTP-0016", message);
    error
        .fact("limit", format!("{write_timeout:?}, set by --write-timeout"))
        .attempt("read without a pause, or raise --write-timeout")
}

#[cfg(test)]
mod tests;
