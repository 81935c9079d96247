//! Parquet, written front to back; memory is bounded by one row group.

use super::Encoder;
use super::exported::{Exported, Target};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Error, ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// Encoded bytes after which a row group is closed.
const ROW_GROUP_BYTES: usize = 16 << 20;
const ROW_GROUP_ROWS: usize = 1 << 20;

/// The encoder.
pub struct ParquetFile {
    exported: Exported,
    writer: ArrowWriter<Vec<u8>>,
}

pub(super) fn failure(error: ParquetError) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "ENC-0001",
        format!("cannot write Parquet: {error}"),
    )
    .source(error)
}

impl ParquetFile {
    /// A file with the columns of `schema`.
    ///
    /// # Errors
    /// `Unsupported`: a type that Parquet cannot hold.
    pub fn new(schema: &SchemaRef) -> Result<ParquetFile> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // Of each page they cost a comparison of every value more, and few readers look at them.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let exported = Exported::new(schema, Target::Parquet);
        let schema = exported.schema().clone();
        let writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).map_err(failure)?;
        Ok(ParquetFile { exported, writer })
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.inner_mut());
    }
}

impl Encoder for ParquetFile {
    fn start(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.drain(out);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        self.writer.write(&self.exported.batch(batch)?).map_err(failure)?;
        if self.writer.memory_size() >= ROW_GROUP_BYTES {
            self.writer.flush().map_err(failure)?;
        }
        self.drain(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish().map_err(failure)?;
        self.drain(out);
        Ok(())
    }
}
