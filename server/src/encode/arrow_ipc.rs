//! Arrow IPC, stream format, one message per batch.
//!
//! Batches of flat columns (numbers, times, texts) go from their buffers into the answer in one copy: [`FlatMessage`].
//! What else there is, the library writes.

use super::Encoder;
use super::exported::{Exported, Target};
use super::flat_message::FlatMessage;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use cenote_statestore::Result;

/// The encoder.
pub struct IpcStream {
    exported: Exported,
    writer: StreamWriter<Vec<u8>>,
    /// Set with the first rows, if all columns are flat.
    flat: Option<FlatMessage>,
}

impl IpcStream {
    /// A stream of batches of `schema`.
    ///
    /// # Errors
    /// A type that Arrow IPC cannot write.
    pub fn new(schema: &SchemaRef) -> Result<IpcStream> {
        let exported = Exported::new(schema, Target::Arrow);
        Ok(IpcStream {
            writer: StreamWriter::try_new(Vec::new(), exported.schema())?,
            exported,
            flat: None,
        })
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.get_mut());
    }
}

impl Encoder for IpcStream {
    fn start(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.drain(out);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let batch = self.exported.batch(batch)?;
        if self.flat.is_none() {
            self.flat = FlatMessage::like(&batch)?;
        }
        match &self.flat {
            Some(message) if batch.num_rows() > 0 => message.write(&batch, out),
            _ => {
                self.writer.write(&batch)?;
                self.drain(out);
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish()?;
        self.drain(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
