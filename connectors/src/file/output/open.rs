//! A file that rows are added to: text as it will be read, or a spool of Arrow batches that becomes Parquet.
//!
//! A spool is a row of frames: the length of an Arrow IPC stream in eight bytes, and the stream.

use super::folder::{Folder, damaged, unwritten};
use super::token::{Open, Whole};
use crate::encode::{Encoder, Encodings};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use cenote_statestore::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Rows encoded at a time, which bounds the buffer.
const ROWS_PER_WRITE: usize = 8192;

/// A file that is not full.
pub(super) struct OpenFile {
    number: u64,
    path: PathBuf,
    file: File,
    /// `None`: rows are spooled.
    text: Option<Box<dyn Encoder>>,
    figures: Figures,
    since: Instant,
}

/// What is in a file so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) bytes: u64,
    pub(super) rows: u64,
    pub(super) epochs: u64,
}

impl OpenFile {
    /// A new file.
    pub(super) fn create(
        folder: &Folder,
        number: u64,
        encodings: &dyn Encodings,
        schema: &SchemaRef,
    ) -> Result<OpenFile> {
        let (path, text) = place(folder, number, encodings, schema)?;
        folder.remove(&path)?;
        let created = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut open = OpenFile {
            file: created.map_err(|error| unwritten(&path, error))?,
            number,
            path,
            text,
            figures: Figures::default(),
            since: Instant::now(),
        };
        let mut head = Vec::new();
        if let Some(text) = &mut open.text {
            text.start(&mut head)?;
        }
        open.put(&head)?;
        Ok(open)
    }

    /// A file as a token left it; what is behind that is cut off.
    ///
    /// # Errors
    /// `Corrupt`: there is less.
    pub(super) fn reopen(
        folder: &Folder,
        left: &Open,
        encodings: &dyn Encodings,
        schema: &SchemaRef,
    ) -> Result<OpenFile> {
        let (path, text) = place(folder, left.number, encodings, schema)?;
        let lost = |seen| damaged(&path, left.bytes, seen);
        let mut file = match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(lost(0)),
            opened => opened.map_err(|error| unwritten(&path, error))?,
        };
        let length = file.metadata().map_err(|error| unwritten(&path, error))?.len();
        if length < left.bytes {
            return Err(lost(length));
        }
        let cut = file.set_len(left.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(|error| unwritten(&path, error))?;
        Ok(OpenFile {
            number: left.number,
            path,
            file,
            text,
            figures: Figures {
                bytes: left.bytes,
                rows: left.rows,
                epochs: left.epochs,
            },
            since: Instant::now(),
        })
    }

    /// Adds the rows of an epoch; gives the bytes that they take.
    pub(super) fn append(&mut self, rows: &RecordBatch) -> Result<u64> {
        let before = self.figures.bytes;
        match self.text.take() {
            None => self.put(&frame(rows)?)?,
            Some(mut text) => {
                for start in (0..rows.num_rows()).step_by(ROWS_PER_WRITE) {
                    let mut lines = Vec::new();
                    text.batch(
                        &rows.slice(start, ROWS_PER_WRITE.min(rows.num_rows() - start)),
                        &mut lines,
                    )?;
                    self.put(&lines)?;
                }
                self.text = Some(text);
            }
        }
        self.figures.rows += rows.num_rows() as u64;
        self.figures.epochs += 1;
        Ok(self.figures.bytes - before)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| unwritten(&self.path, error))?;
        self.figures.bytes += bytes.len() as u64;
        Ok(())
    }

    /// What is in it.
    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// When it was opened.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Makes durable what is in it, and says what that is.
    pub(super) fn settle(&mut self) -> Result<Open> {
        self.file.sync_all().map_err(|error| unwritten(&self.path, error))?;
        Ok(Open {
            number: self.number,
            bytes: self.figures.bytes,
            rows: self.figures.rows,
            epochs: self.figures.epochs,
        })
    }

    /// Makes it a whole file, durable but for its name.
    pub(super) fn finish(mut self, folder: &Folder, encodings: &dyn Encodings, schema: &SchemaRef) -> Result<Whole> {
        let mut tail = Vec::new();
        if let Some(text) = &mut self.text {
            text.finish(&mut tail)?;
            self.put(&tail)?;
            let open = self.settle()?;
            return Ok(Whole {
                number: open.number,
                bytes: open.bytes,
            });
        }
        // The spool stays until the file is published: an older token may still be the newest in the log.
        Ok(Whole {
            number: self.number,
            bytes: self.write_out(folder, encodings, schema)?,
        })
    }

    /// Writes what was spooled in the format; gives the length of the file.
    fn write_out(&self, folder: &Folder, encodings: &dyn Encodings, schema: &SchemaRef) -> Result<u64> {
        let path = folder.staged(self.number);
        let failed = |error| unwritten(&path, error);
        let mut file = File::create(&path).map_err(failed)?;
        let mut encoder = encodings.encoder(folder.encoding(), schema)?;
        let (mut bytes, mut out) = (0, Vec::new());
        encoder.start(&mut out)?;
        for batch in self.spooled()? {
            let batch = batch?;
            for start in (0..batch.num_rows()).step_by(ROWS_PER_WRITE) {
                encoder.batch(
                    &batch.slice(start, ROWS_PER_WRITE.min(batch.num_rows() - start)),
                    &mut out,
                )?;
                file.write_all(&out).map_err(failed)?;
                bytes += out.len() as u64;
                out.clear();
            }
        }
        encoder.finish(&mut out)?;
        file.write_all(&out).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(bytes + out.len() as u64)
    }

    /// The batches of the spool, in the order that they were added in.
    fn spooled(&self) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let file = File::open(&self.path).map_err(|error| unwritten(&self.path, error))?;
        let (mut file, path, mut left) = (BufReader::new(file), self.path.clone(), self.figures.bytes);
        Ok(std::iter::from_fn(move || {
            let mut length = [0; 8];
            (left > 0).then(|| {
                file.read_exact(&mut length).map_err(|error| unwritten(&path, error))?;
                let mut stream = vec![0; u64::from_le_bytes(length) as usize];
                file.read_exact(&mut stream).map_err(|error| unwritten(&path, error))?;
                left -= 8 + stream.len() as u64;
                unframed(stream)
            })
        }))
    }
}

/// Where the rows of a file go, and what writes them.
fn place(
    folder: &Folder,
    number: u64,
    encodings: &dyn Encodings,
    schema: &SchemaRef,
) -> Result<(PathBuf, Option<Box<dyn Encoder>>)> {
    match folder.encoding().is_text() {
        true => Ok((
            folder.staged(number),
            Some(encodings.encoder(folder.encoding(), schema)?),
        )),
        false => Ok((folder.spool(number), None)),
    }
}

fn frame(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, rows.schema_ref())?;
    writer.write(rows)?;
    writer.finish()?;
    drop(writer);
    let mut frame = (stream.len() as u64).to_le_bytes().to_vec();
    frame.append(&mut stream);
    Ok(frame)
}

fn unframed(stream: Vec<u8>) -> Result<RecordBatch> {
    let batch = StreamReader::try_new(Cursor::new(stream), None)?.next();
    Ok(batch.ok_or_else(|| Error::bug("a frame of a spool has no rows"))??)
}
