//! Arrow IPC, stream format, one message per batch.

use super::Encoder;
use super::exported::{Exported, Target};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use cenote_statestore::Result;

/// The encoder.
pub struct IpcStream {
    exported: Exported,
    writer: StreamWriter<Vec<u8>>,
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
        self.writer.write(&self.exported.batch(batch)?)?;
        self.drain(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish()?;
        self.drain(out);
        Ok(())
    }
}
