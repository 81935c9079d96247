//! A client's socket: bytes in, cut into messages within bounds; bytes out, paced by the client.

use super::backend::Outgoing;
use super::frontend::{self, Message};
use super::signals::Failure;
use bytes::{Buf, Bytes, BytesMut};
use cenote_statestore::{Error, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 16 << 10;
/// Bytes read ahead while a statement runs: enough to see a client that hangs up behind a usual pipeline.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Output that is sent before more of it is made.
const OUTPUT_BYTES: usize = 64 << 10;
/// A buffer that grew beyond this is not kept.
const KEPT_BYTES: usize = 256 << 10;
/// How long a client may take to read the error that ends its connection.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// One client's socket with its buffers.
pub(super) struct Wire {
    stream: TcpStream,
    input: BytesMut,
    /// Messages not sent yet, the first `sent` bytes excepted.
    pub(super) output: Outgoing,
    sent: usize,
    message_bytes_max: usize,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, message_bytes_max: usize) -> Wire {
        Wire {
            stream,
            input: BytesMut::new(),
            output: Outgoing::default(),
            sent: 0,
            message_bytes_max,
        }
    }

    /// Reads what the socket has, or waits until it has something. Safe to drop while it waits.
    ///
    /// # Errors
    /// [`Failure::Gone`]: the client hung up.
    async fn fill(&mut self) -> Result<(), Failure> {
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = BytesMut::new();
        }
        if self.input.capacity() - self.input.len() < READ_BYTES {
            self.input.reserve(READ_BYTES);
        }
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Failure::Gone),
            _ => Ok(()),
        }
    }

    /// Waits until at least `count` bytes are there.
    async fn need(&mut self, count: usize) -> Result<(), Failure> {
        while self.input.len() < count {
            self.fill().await?;
        }
        Ok(())
    }

    /// The next message of the startup phase, without its length; at most `bytes_max` bytes. Safe to drop.
    ///
    /// # Returns
    /// `None`: the length is out of bounds, so this is no client of this protocol.
    pub(super) async fn startup_packet(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Failure> {
        self.need(4).await?;
        let length = (&self.input[..4]).get_i32();
        match usize::try_from(length)
            .ok()
            .filter(|length| (8..=bytes_max).contains(length))
        {
            Some(length) => {
                self.need(length).await?;
                Ok(Some(self.input.split_to(length).freeze().slice(4..)))
            }
            None => Ok(None),
        }
    }

    /// The next message. Safe to drop while it waits.
    ///
    /// # Errors
    /// - [`Failure::Fatal`]: the bytes are no messages, or a message is too long.
    /// - [`Failure::Gone`]: the client hung up.
    ///
    /// The inner result tells whether the message's body decoded.
    pub(super) async fn message(&mut self) -> Result<(u8, Result<Message, Error>), Failure> {
        self.need(5).await?;
        let kind = self.input[0];
        let length = (&self.input[1..5]).get_i32();
        let length = self.checked_length(kind, length).map_err(Failure::Fatal)?;
        self.need(1 + length).await?;
        let body = self.input.split_to(1 + length).freeze().slice(5..);
        Ok((kind, frontend::decode(kind, body)))
    }

    fn checked_length(&self, kind: u8, length: i32) -> Result<usize, Error> {
        let Some(bytes_max) = frontend::bytes_max(kind, self.message_bytes_max) else {
            return Err(frontend::violation(format!("invalid frontend message type {kind}")));
        };
        let length = usize::try_from(length).ok().filter(|length| *length >= 4);
        let length = length.ok_or_else(|| frontend::violation("invalid message length"))?;
        if length <= bytes_max {
            return Ok(length);
        }
        let message = format!("cannot read message `{}`: it is too long", kind as char);
        let error = Error::new(ErrorKind::Invalid, "PG-0005", message).sqlstate("54000");
        Err(error
            .fact("length", format!("{length} bytes"))
            .fact("limit", format!("{bytes_max} bytes")))
    }

    /// The kind of the next message, which stays. Safe to drop while it waits.
    pub(super) async fn next_kind(&mut self) -> Result<u8, Failure> {
        self.need(1).await?;
        Ok(self.input[0])
    }

    /// Resolves when the client has hung up, reading ahead within bounds. Safe to drop.
    pub(super) async fn hung_up(&mut self) {
        while self.input.len() < READ_AHEAD_BYTES {
            if self.fill().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Whether enough output is there to be sent.
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES
    }

    /// Sends all output. Safe to drop while it waits: what is left goes out with the next call.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        while self.sent < self.output.len() {
            let written = self.stream.write(&self.output.as_bytes()[self.sent..]).await?;
            if written == 0 {
                return Err(Failure::Gone);
            }
            self.sent += written;
        }
        self.sent = 0;
        self.output.clear(KEPT_BYTES);
        Ok(())
    }

    /// Sends the error that ends the connection, and waits a moment so that the client can read it.
    pub(super) async fn farewell(mut self, error: &Error) {
        self.output.error("FATAL", error, 0);
        // Whether it was heard makes no difference.
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, self.hand_over()).await;
    }

    /// Sends all output and the end of it, then waits until the client hangs up: closing a socket with unread input
    /// would drop what was sent.
    async fn hand_over(&mut self) -> Result<(), Failure> {
        self.flush().await?;
        self.stream.shutdown().await?;
        loop {
            self.input.clear();
            self.fill().await?;
        }
    }
}
