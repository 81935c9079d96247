//! An object that is read in pieces, each by a request for a range.
//!
//! # Rules kept here
//! 1. All pieces are of one object: it is asked for by its tag, and one that was put in its place is an error.
//! 2. One piece is in memory.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore, Result};

use super::requests::Connection;
use super::told::{is_out_of_range, told};
use crate::checkpoint::blobs::OpenBlob;

/// Bytes of the first piece: documents whole, and of large objects little where only the length is asked for.
pub(super) const FIRST_BYTES: u64 = 64 << 10;

/// Bytes of each further piece.
pub(super) const PIECE_BYTES: u64 = 8 << 20;

/// Opens an object: its length and its first bytes, in one request.
pub(super) fn open(connection: Arc<Connection>, place: Path) -> io::Result<OpenBlob> {
    let (store, from) = (connection.store.clone(), place.clone());
    let first = connection.run(async move { first(store.as_ref(), &from).await })?;
    let (meta, piece) = first.map_err(told)?;
    Ok(OpenBlob {
        length: meta.size,
        bytes: Box::new(Download {
            next: piece.len() as u64,
            length: meta.size,
            tag: meta.e_tag,
            connection,
            place,
            piece,
        }),
    })
}

async fn first(store: &dyn ObjectStore, place: &Path) -> Result<(ObjectMeta, Bytes)> {
    let range = Some(GetRange::Bounded(0..FIRST_BYTES));
    let options = GetOptions {
        range,
        ..GetOptions::default()
    };
    match store.get_opts(place, options).await {
        Ok(found) => {
            let meta = found.meta.clone();
            Ok((meta, found.bytes().await?))
        }
        // An object of no bytes has no range.
        Err(error) if is_out_of_range(&error) => empty(store, place, error).await,
        Err(error) => Err(error),
    }
}

async fn empty(store: &dyn ObjectStore, place: &Path, error: Error) -> Result<(ObjectMeta, Bytes)> {
    let options = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    let meta = store.get_opts(place, options).await?.meta;
    match meta.size {
        0 => Ok((meta, Bytes::new())),
        _ => Err(error),
    }
}

/// An object that is being read.
struct Download {
    connection: Arc<Connection>,
    place: Path,
    tag: Option<String>,
    length: u64,
    /// Where the next piece begins.
    next: u64,
    piece: Bytes,
}

impl Download {
    fn fetch(&mut self) -> io::Result<()> {
        let end = self.length.min(self.next + PIECE_BYTES);
        let range = self.next..end;
        let (store, place) = (self.connection.store.clone(), self.place.clone());
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.tag.clone(),
            ..GetOptions::default()
        };
        let piece = self
            .connection
            .run(async move { store.get_opts(&place, options).await?.bytes().await })?;
        self.piece = piece.map_err(told)?;
        if self.piece.len() as u64 != end - range.start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.next = end;
        Ok(())
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.next < self.length {
            self.fetch()?;
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
