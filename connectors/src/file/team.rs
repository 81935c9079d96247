//! Records decoded on several threads, handed back in the order of the file.
//!
//! The source's thread cuts a file into pieces of whole records and submits them; threads of the team, and the source's own
//! while it waits, make rows of them. It takes the pieces back in the order in which it submitted them, so that whoever
//! sees the rows, offsets and bad records cannot tell how many threads there were.
//!
//! # Rules kept here
//! 1. The source's thread is one of the team: with `threads` 2, one thread is started. If none can be started, it decodes
//!    all by itself.
//! 2. At most [`PIECES_PER_THREAD`] pieces and [`BYTES_PER_THREAD`] bytes (or one piece) for each thread are not taken back.
//! 3. A team lives as long as one large file is read. Dropping it forgets what waits and ends its threads.
//!
//! # Not here
//! Where a file can be cut, and what becomes of the rows: `text_file`.

use super::input::Piece;
use crate::rows::Rows;
use crate::text::{Limits, Progress, TextRows};
use arrow::array::RecordBatch;
use cenote_statestore::{Error, Result};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use std::collections::VecDeque;
use std::thread::JoinHandle;

/// Pieces for each thread: one at work and one that waits.
const PIECES_PER_THREAD: usize = 2;

/// Bytes of pieces for each thread, for files of very long lines.
const BYTES_PER_THREAD: usize = 2 << 20;

/// What makes rows of pieces; each thread has its own.
pub(crate) struct Decoder {
    pub(crate) format: TextRows,
    /// Empty between two pieces.
    pub(crate) rows: Rows,
    /// Of one part.
    pub(crate) limits: Limits,
    /// Whether nothing behind a bad record is wanted.
    pub(crate) fail: bool,
}

/// A piece and what it holds.
pub(crate) struct Decoded {
    pub(crate) piece: Piece,
    pub(crate) parts: Vec<Part>,
}

/// Some of a piece's records, not more rows or bad records than the limits allow.
pub(crate) struct Part {
    /// Where it begins in the piece.
    pub(crate) start: usize,
    pub(crate) rows: RecordBatch,
    pub(crate) progress: Progress,
}

struct Job {
    piece: Piece,
    reply: Sender<Result<Decoded>>,
}

/// Threads that decode pieces, and the pieces that they have.
pub(crate) struct Team {
    /// `None` once it ends.
    jobs: Option<Sender<Job>>,
    /// The same queue's other end: the source's thread decodes too.
    waiting: Receiver<Job>,
    own: Decoder,
    /// What was submitted and not taken back, in order: its bytes, and where the outcome comes.
    submitted: VecDeque<(usize, Receiver<Result<Decoded>>)>,
    submitted_bytes: usize,
    size: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Decoder {
    fn decode(&mut self, piece: Piece) -> Result<Decoded> {
        let (bytes, mut start, mut parts) = (piece.bytes(), 0, Vec::new());
        while start < bytes.len() {
            let progress = self.format.read(&mut self.rows, &bytes[start..], false, self.limits);
            if progress.bytes == 0 {
                return Err(Error::bug("a piece of a file does not end with a record"));
            }
            let next = start + progress.bytes;
            let ends = self.fail && !progress.bad.is_empty();
            let rows = self.rows.finish()?;
            parts.push(Part { start, rows, progress });
            if ends {
                break;
            }
            start = next;
        }
        Ok(Decoded { piece, parts })
    }

    fn work(&mut self, job: Job) {
        // Whoever waited for it may have gone away.
        let _ = job.reply.send(self.decode(job.piece));
    }
}

impl Team {
    /// A team of `size` threads, the caller's included, with a decoder each.
    ///
    /// # Errors
    /// Those of `decoder`.
    pub(crate) fn start(size: usize, decoder: impl Fn() -> Result<Decoder>) -> Result<Team> {
        let (jobs, waiting) = unbounded::<Job>();
        let mut team = Team {
            jobs: Some(jobs),
            waiting,
            own: decoder()?,
            submitted: VecDeque::new(),
            submitted_bytes: 0,
            size,
            threads: Vec::new(),
        };
        for _ in 1..size {
            let (mut decoder, jobs) = (decoder()?, team.waiting.clone());
            let work = move || jobs.iter().for_each(|job| decoder.work(job));
            match std::thread::Builder::new()
                .name("cenote-decode".to_string())
                .spawn(work)
            {
                Ok(thread) => team.threads.push(thread),
                Err(error) => tracing::warn!("a file is decoded on fewer threads: {error}"),
            }
        }
        Ok(team)
    }

    /// Whether a piece must be taken back before one of `bytes` more is submitted.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        self.submitted.len() >= self.size * PIECES_PER_THREAD
            || (!self.submitted.is_empty() && self.submitted_bytes + bytes > self.size * BYTES_PER_THREAD)
    }

    /// Hands a piece of whole records to the threads.
    pub(crate) fn submit(&mut self, piece: Piece) {
        let (reply, outcome) = bounded(1);
        let bytes = piece.bytes().len();
        if let Some(jobs) = &self.jobs {
            // Not refused: this end of the queue keeps it open.
            let _ = jobs.send(Job { piece, reply });
        }
        self.submitted.push_back((bytes, outcome));
        self.submitted_bytes += bytes;
    }

    /// Takes the oldest piece back once it is decoded; until then decodes what nobody has begun with.
    ///
    /// # Returns
    /// `None` if there is none.
    ///
    /// # Errors
    /// `Bug`: a thread panicked, or see [`Rows::finish`].
    pub(crate) fn take(&mut self) -> Result<Option<Decoded>> {
        let Some((bytes, outcome)) = self.submitted.pop_front() else {
            return Ok(None);
        };
        self.submitted_bytes -= bytes;
        let gone = |_| Error::bug("a thread that decodes a file panicked: what it says is in the log");
        loop {
            match outcome.try_recv() {
                Err(TryRecvError::Empty) => {}
                decoded => return decoded.map_err(|_| gone(crossbeam_channel::RecvError))?.map(Some),
            }
            match self.waiting.try_recv() {
                Ok(job) => self.own.work(job),
                Err(_) => return outcome.recv().map_err(gone)?.map(Some),
            }
        }
    }

    /// Takes the oldest piece back if it is decoded.
    ///
    /// # Errors
    /// As of [`Team::take`].
    pub(crate) fn take_ready(&mut self) -> Result<Option<Decoded>> {
        match self.submitted.front() {
            Some((_, outcome)) if !outcome.is_empty() => self.take(),
            _ => Ok(None),
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.jobs = None;
        self.waiting.try_iter().for_each(drop);
        for thread in self.threads.drain(..) {
            // One that panicked has been told of by the outcome that did not come.
            let _ = thread.join();
        }
    }
}
