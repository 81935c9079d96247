//! Arrow IPC, stream format, one message per batch.

use super::Encoder;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use cenote_statestore::Result;

/// The encoder.
pub struct IpcStream {
    writer: StreamWriter<Vec<u8>>,
}

impl IpcStream {
    /// A stream of batches of `schema`.
    ///
    /// # Errors
    /// A type that Arrow IPC cannot write.
    pub fn new(schema: &SchemaRef) -> Result<IpcStream> {
        Ok(IpcStream {
            writer: StreamWriter::try_new(Vec::new(), schema)?,
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
        self.writer.write(batch)?;
        self.drain(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish()?;
        self.drain(out);
        Ok(())
    }
}
