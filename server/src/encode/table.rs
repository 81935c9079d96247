//! Aligned columns, as psql prints them. Holds all rows: a column is as wide as its widest value.

use super::{Encoder, formatters};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_query::pgtext::Formatter;
use cenote_statestore::Result;
use unicode_width::UnicodeWidthStr;

/// The encoder.
pub struct Aligned {
    schema: SchemaRef,
    cells: Vec<Vec<String>>,
    value: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Centre,
}

impl Aligned {
    /// A table with the columns of `schema`.
    pub fn new(schema: &SchemaRef) -> Aligned {
        Aligned {
            schema: schema.clone(),
            cells: Vec::new(),
            value: Vec::new(),
        }
    }

    fn cell(&mut self, column: &Formatter<'_>, row: usize) -> String {
        self.value.clear();
        column.write(&mut self.value, row);
        let text = String::from_utf8_lossy(&self.value);
        if text.contains(|c: char| c.is_control() && c != '\n') {
            escape_controls(&text)
        } else {
            text.into_owned()
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.schema.fields().iter().map(|field| field.name().width()).collect();
        for cell in self.cells.iter() {
            for (width, text) in widths.iter_mut().zip(cell) {
                *width = text.lines().map(|line| line.width()).max().unwrap_or(0).max(*width);
            }
        }
        widths
    }
}

/// Writes control characters as `\x1B`, so that a value cannot steer the terminal.
fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => escaped.push(c),
            '\t' => escaped.push_str("        "),
            '\r' => escaped.push_str("\\r"),
            c if c.is_control() => escaped.push_str(&format!("\\x{:02X}", c as u32)),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writes `text` in `width` columns with a blank on both sides; the last column is not filled up on its right.
fn write_cell(out: &mut Vec<u8>, text: &str, width: usize, side: Side, last: bool) {
    let gap = width.saturating_sub(text.width());
    let before = match side {
        Side::Left => 0,
        Side::Right => gap,
        Side::Centre => gap / 2,
    };
    out.resize(out.len() + 1 + before, b' ');
    out.extend_from_slice(text.as_bytes());
    if !last || matches!(side, Side::Centre) {
        out.resize(out.len() + gap - before + 1, b' ');
    }
}

/// Writes a row of cells, each of which may have several lines; `+` marks a line that goes on below.
fn write_row(out: &mut Vec<u8>, cells: &[String], widths: &[usize], sides: &[Side]) {
    let lines: Vec<Vec<&str>> = cells.iter().map(|cell| cell.split('\n').collect()).collect();
    let height = lines.iter().map(Vec::len).max().unwrap_or(1);
    for line in 0..height {
        for (index, cell) in lines.iter().enumerate() {
            let goes_on = line + 1 < cell.len();
            let last = index + 1 == cells.len() && !goes_on;
            write_cell(
                out,
                cell.get(line).copied().unwrap_or(""),
                widths[index],
                sides[index],
                last,
            );
            if goes_on {
                *out.last_mut().expect("a cell ends with a blank") = b'+';
            }
            if index + 1 < cells.len() {
                out.push(b'|');
            }
        }
        out.push(b'\n');
    }
}

impl Encoder for Aligned {
    fn start(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, _: &mut Vec<u8>) -> Result<()> {
        let columns = formatters(batch)?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| self.cell(column, row)).collect();
            self.cells.push(cells);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let widths = self.widths();
        let fields = self.schema.fields();
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        write_row(out, &names, &widths, &vec![Side::Centre; names.len()]);
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        out.extend_from_slice(rules.join("+").as_bytes());
        out.push(b'\n');
        let sides: Vec<Side> = fields
            .iter()
            .map(|field| {
                if field.data_type().is_numeric() {
                    Side::Right
                } else {
                    Side::Left
                }
            })
            .collect();
        for cells in &self.cells {
            write_row(out, cells, &widths, &sides);
        }
        let rows = self.cells.len();
        out.extend_from_slice(format!("({rows} row{})\n\n", if rows == 1 { "" } else { "s" }).as_bytes());
        Ok(())
    }
}
