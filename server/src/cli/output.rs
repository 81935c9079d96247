//! Standard output in large writes.

use super::progress::Line;
use cenote_statestore::{Error, ErrorKind, Result};
use std::io::{self, Write};

/// Code of the error that says that nobody reads the output any more: not a failure (`cenote run | head`).
pub const CLOSED: &str = "CLI-0005";

const WRITE_BYTES: usize = 128 << 10;

/// A buffer before stdout (or, in tests, before anything else).
pub struct Output<W: Write = io::Stdout> {
    buffer: Vec<u8>,
    target: W,
    progress: Line,
}

impl Output {
    /// Output to stdout; a progress line on the same terminal is wiped before each write.
    pub fn stdout(progress: Line) -> Output {
        Output::new(io::stdout(), progress)
    }
}

impl<W: Write> Output<W> {
    /// Output to `target`.
    pub fn new(target: W, progress: Line) -> Output<W> {
        Output {
            buffer: Vec::new(),
            target,
            progress,
        }
    }

    /// The buffer to append to; call [`Output::settle`] after it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer if it is large.
    pub fn settle(&mut self) -> Result<()> {
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// [`CLOSED`]: the reader is gone. Otherwise `Unavailable`: the disk is full or the like.
    pub fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.progress.wipe();
        let written = self.target.write_all(&self.buffer).and_then(|()| self.target.flush());
        self.buffer.clear();
        written.map_err(failure)
    }
}

fn failure(error: io::Error) -> Error {
    let code = if error.kind() == io::ErrorKind::BrokenPipe {
        CLOSED
    } else {
        "CLI-0004"
    };
    Error::new(
        ErrorKind::Unavailable,
        code,
        format!("cannot write to standard output: {error}"),
    )
    .source(error)
}
