//! Rows as JSON objects.

use super::{Encoder, Numbers};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Fields, SchemaRef};
use cenote_query::pgtext::JsonWriter;
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
    fields: Fields,
    names: Vec<Vec<u8>>,
    numbers: Numbers,
}

/// Writes the rows of one batch.
pub struct ObjectWriter<'a> {
    names: &'a [Vec<u8>],
    columns: Vec<JsonWriter<'a>>,
}

impl RowObject {
    /// Objects with the names of `fields`.
    pub fn new(fields: &Fields, numbers: Numbers) -> RowObject {
        let escaped = |name: &str| {
            let mut out = Vec::with_capacity(name.len() + 3);
            write_json_text(&mut out, name);
            out.push(b':');
            out
        };
        let names = fields.iter().map(|field| escaped(field.name())).collect();
        RowObject {
            fields: fields.clone(),
            names,
            numbers,
        }
    }

    /// A writer of the rows of `columns`, which are as many as the fields.
    ///
    /// # Errors
    /// `Unsupported`: a type that has no JSON form.
    pub fn over<'a>(&'a self, columns: &'a [ArrayRef]) -> Result<ObjectWriter<'a>> {
        let columns = json_writers(&self.fields, columns, self.numbers)?;
        Ok(ObjectWriter {
            names: &self.names,
            columns,
        })
    }
}

/// A writer for each column.
///
/// # Errors
/// `Unsupported`: a type that has no JSON form.
pub fn json_writers<'a>(fields: &Fields, columns: &'a [ArrayRef], numbers: Numbers) -> Result<Vec<JsonWriter<'a>>> {
    let raw = numbers == Numbers::Raw;
    fields
        .iter()
        .zip(columns)
        .map(|(field, column)| JsonWriter::new(field, column.as_ref(), raw))
        .collect()
}

impl ObjectWriter<'_> {
    /// Appends row `row`.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) {
        out.push(b'{');
        for (index, (name, column)) in self.names.iter().zip(&self.columns).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            column.write(out, row);
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
        Lines {
            object: RowObject::new(schema.fields(), numbers),
        }
    }
}

impl Encoder for Lines {
    fn start(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let object = self.object.over(batch.columns())?;
        for row in 0..batch.num_rows() {
            object.write(out, row);
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
