//! An object that is streamed: in parts of one size where it is large, in one request where it is not.
//!
//! # Rules kept here
//! 1. What is not finished is taken back, as far as the store can be reached. Of what a killed process leaves no reader sees
//!    anything.
//!
//! # Not here
//! A condition on an object in parts: not every store knows one. Before the parts become an object it is looked whether one of
//! that name is there; names of files are never given twice, so nobody comes between.

use std::io::{self, Write};
use std::sync::Arc;

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, Result};
use tokio::task::JoinSet;

use super::put::{Mark, Whose, put_if_absent};
use super::requests::Connection;
use super::told::told;
use crate::checkpoint::blobs::BlobWriter;

/// Bytes of each part but the last.
pub(super) const PART_BYTES: usize = 8 << 20;

/// Parts that are under way at once, beside the one that is filled.
const PARTS_UNDER_WAY: usize = 2;

/// Parts of an object at most: what S3 takes.
const PARTS_MAX: usize = 10_000;

/// An object that is being written.
pub(super) struct ObjectWriter {
    connection: Arc<Connection>,
    place: Path,
    buffer: Vec<u8>,
    /// `None`: it fits into the buffer so far.
    parts: Option<Parts>,
    /// Parts that were sent.
    sent: usize,
    /// A part was not written: what comes cannot be used.
    is_broken: bool,
}

/// The parts of an object.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    under_way: JoinSet<Result<()>>,
    mark: Mark,
}

impl Parts {
    async fn begin(store: &dyn ObjectStore, place: &Path) -> Result<Parts> {
        let mark = Mark::new();
        Ok(Parts {
            upload: store.put_multipart_opts(place, mark.multipart()).await?,
            under_way: JoinSet::new(),
            mark,
        })
    }

    async fn send(&mut self, part: Vec<u8>) -> Result<()> {
        self.under_way.spawn(self.upload.put_part(part.into()));
        self.wait(PARTS_UNDER_WAY).await
    }

    /// Waits until at most so many are under way.
    async fn wait(&mut self, count: usize) -> Result<()> {
        while self.under_way.len() > count {
            if let Some(sent) = self.under_way.join_next().await {
                sent??;
            }
        }
        Ok(())
    }

    /// Makes them an object.
    async fn finish(&mut self, store: &dyn ObjectStore, place: &Path, last: Vec<u8>) -> io::Result<()> {
        self.send(last).await.map_err(told)?;
        self.wait(0).await.map_err(told)?;
        if self.mark.owner(store, place).await?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match self.upload.complete().await {
            Ok(_) => Ok(()),
            // Its answer may have been lost.
            Err(error) => match self.mark.owner(store, place).await {
                Ok(Some(Whose::Ours)) => Ok(()),
                _ => Err(told(error)),
            },
        }
    }

    /// Takes them back. What a store keeps nevertheless is no object.
    async fn abort(mut self) {
        self.under_way.shutdown().await;
        let _ = self.upload.abort().await;
    }
}

impl ObjectWriter {
    pub(super) fn new(connection: Arc<Connection>, place: Path) -> ObjectWriter {
        ObjectWriter {
            connection,
            place,
            buffer: Vec::new(),
            parts: None,
            sent: 0,
            is_broken: false,
        }
    }

    /// Sends what is in the buffer as a part.
    fn send(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("a part of it was not written"));
        }
        // One is left for the last.
        if self.sent + 1 == PARTS_MAX {
            let text = format!("it has more than {PARTS_MAX} parts of {PART_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let (store, place, part) = (self.connection.store.clone(), self.place.clone(), self.take());
        let parts = self.parts.take();
        self.is_broken = true;
        let (parts, outcome) = self.connection.run(async move {
            let mut parts = match parts {
                Some(parts) => parts,
                None => match Parts::begin(store.as_ref(), &place).await {
                    Ok(parts) => parts,
                    Err(error) => return (None, Err(error)),
                },
            };
            let outcome = parts.send(part).await;
            (Some(parts), outcome)
        })?;
        self.parts = parts;
        outcome.map_err(told)?;
        self.is_broken = false;
        self.sent += 1;
        Ok(())
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == PART_BYTES {
            self.send()?;
        }
        let count = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for ObjectWriter {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("a part of it was not written"));
        }
        let (store, place, bytes) = (self.connection.store.clone(), self.place.clone(), self.take());
        let parts = self.parts.take();
        self.connection.run(async move {
            let Some(mut parts) = parts else {
                return put_if_absent(store.as_ref(), &place, bytes.into()).await;
            };
            let outcome = parts.finish(store.as_ref(), &place, bytes).await;
            if outcome.is_err() {
                parts.abort().await;
            }
            outcome
        })?
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            let _ = self.connection.run(parts.abort());
        }
    }
}
