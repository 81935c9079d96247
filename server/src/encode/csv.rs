//! CSV as PostgreSQL's `COPY ... WITH (FORMAT csv, HEADER)` writes it: NULL is nothing, an empty text is `""`.

use super::{Encoder, formatters};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::Result;

/// The encoder.
pub struct Csv {
    schema: SchemaRef,
    value: Vec<u8>,
}

impl Csv {
    /// CSV with the columns of `schema`.
    pub fn new(schema: &SchemaRef) -> Csv {
        Csv {
            schema: schema.clone(),
            value: Vec::new(),
        }
    }
}

fn write_quoted(out: &mut Vec<u8>, value: &[u8]) {
    let plain = !value.is_empty()
        && !value.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
        && value != b"\\."
        && value[0] != b' '
        && value[value.len() - 1] != b' ';
    if plain {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for &byte in value {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

impl Encoder for Csv {
    fn start(&mut self, out: &mut Vec<u8>) -> Result<()> {
        for (index, field) in self.schema.fields().iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_quoted(out, field.name().as_bytes());
        }
        out.push(b'\n');
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns = formatters(batch)?;
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                if !column.is_null(row) {
                    self.value.clear();
                    column.write(&mut self.value, row);
                    write_quoted(out, &self.value);
                }
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
