//! Rows as JSON objects.

use super::{Encoder, Numbers};
use crate::pending::write_json;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Fields, SchemaRef};
use cenote_statestore::Result;

/// Appends `text` as a JSON string, quotes included.
pub fn write_json_text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut clean = 0;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean..at]);
        clean = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]]);
            }
        }
    }
    out.extend_from_slice(&bytes[clean..]);
    out.push(b'"');
}

/// Writes rows of some columns as JSON objects; the names are escaped once.
pub struct RowObject {
    names: Vec<Vec<u8>>,
    numbers: Numbers,
}

impl RowObject {
    /// Objects with the names of `fields`.
    pub fn new(fields: &Fields, numbers: Numbers) -> RowObject {
        let names = fields
            .iter()
            .map(|field| {
                let mut name = Vec::with_capacity(field.name().len() + 3);
                write_json_text(&mut name, field.name());
                name.push(b':');
                name
            })
            .collect();
        RowObject { names, numbers }
    }

    /// Appends row `row` of `columns`, which are as many as the fields.
    pub fn write(&self, out: &mut Vec<u8>, columns: &[ArrayRef], row: usize) {
        out.push(b'{');
        for (index, (name, column)) in self.names.iter().zip(columns).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            write_json(out, column.as_ref(), row, self.numbers == Numbers::Raw);
        }
        out.push(b'}');
    }
}

/// One object per line.
pub struct Lines {
    object: RowObject,
}

impl Lines {
    /// Lines of objects with the columns of `schema`.
    pub fn new(schema: &SchemaRef, numbers: Numbers) -> Lines {
        Lines { object: RowObject::new(schema.fields(), numbers) }
    }
}

impl Encoder for Lines {
    fn start(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        for row in 0..batch.num_rows() {
            self.object.write(out, batch.columns(), row);
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
