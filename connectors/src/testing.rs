//! What the tests of several modules share: schemas, requests, an output that keeps everything, dice.

use crate::encode::{Encoder, Encoding, Encodings};
use crate::rows::Rows;
use crate::text::{Limits, TextRows};
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::display::array_value_to_string;
use cenote_engine::port::{
    BadRow, Connector, Offsets, Options, PathPolicy, SinkRequest, SourceBatch, SourceOutput, SourceRequest, StopToken,
};
use cenote_statestore::Result;
use std::sync::Arc;

pub(crate) const BIGINT: DataType = DataType::Int64;
pub(crate) const TEXT: DataType = DataType::Utf8;
pub(crate) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

pub(crate) fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A schema of nullable columns; a name that ends with `!` is NOT NULL.
pub(crate) fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| {
        Field::new(name.trim_end_matches('!'), data_type.clone(), !name.ends_with('!'))
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

pub(crate) fn options(pairs: &[(&str, &str)]) -> Options {
    let given = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    given.chain([("connector".to_string(), "file".to_string())]).collect()
}

pub(crate) fn request(schema: &SchemaRef, pairs: &[(&str, &str)]) -> SourceRequest {
    SourceRequest {
        name: "t".to_string(),
        schema: Arc::clone(schema),
        projection: None,
        options: options(pairs),
        offsets: Offsets::new(),
        until: None,
        paths: PathPolicy::Any,
        threads: 1,
    }
}

/// The connector of files.
pub(crate) fn connector() -> crate::file::FileConnector {
    crate::file::FileConnector::new(Arc::new(Bars))
}

/// A request for a sink whose rows have the first column as their key.
pub(crate) fn sink_request(schema: &SchemaRef, pairs: &[(&str, &str)]) -> SinkRequest {
    SinkRequest {
        name: "k".to_string(),
        schema: Arc::clone(schema),
        key: vec![0],
        options: options(pairs),
        paths: PathPolicy::Any,
    }
}

/// Rows as their values joined by `|`, a line each; a file starts with `#` and ends with `.` where its format is no text.
pub(crate) struct Bars;

impl Encodings for Bars {
    fn encoder(&self, encoding: Encoding, _: &SchemaRef) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(BarLines(encoding)))
    }
}

struct BarLines(Encoding);

impl Encoder for BarLines {
    fn start(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.0 != Encoding::Ndjson {
            out.extend_from_slice(b"#\n");
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        rows_of(batch)
            .iter()
            .for_each(|row| out.extend_from_slice(format!("{row}\n").as_bytes()));
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.0.is_text() {
            out.extend_from_slice(b".\n");
        }
        Ok(())
    }
}

/// Everything that a source handed over.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) bad: Vec<BadRow>,
    pub(crate) offsets: Offsets,
    pub(crate) bytes: u64,
    pub(crate) expected: u64,
    /// The offsets after each push, and the rows until then.
    pub(crate) steps: Vec<(Offsets, usize)>,
}

impl SourceOutput for Kept {
    fn push(&mut self, batch: SourceBatch) -> Result<()> {
        self.offsets.extend(batch.offsets);
        self.bad.extend(batch.bad);
        self.bytes += batch.bytes;
        self.batches.push(batch.rows);
        let rows = self.batches.iter().map(RecordBatch::num_rows).sum();
        self.steps.push((self.offsets.clone(), rows));
        Ok(())
    }

    fn expect_bytes(&mut self, total: u64) {
        self.expected = total;
    }
}

impl Kept {
    /// Every row as its values joined by `|`.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.batches.iter().flat_map(rows_of).collect()
    }

    /// Bad rows as `line: reason`.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.bad
            .iter()
            .map(|bad| format!("{}: {}", bad.line, bad.reason))
            .collect()
    }
}

/// The rows of a batch as their values joined by `|`.
pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let value = |column: &Arc<dyn Array>, row: usize| match column.is_null(row) {
        true => "NULL".to_string(),
        false => array_value_to_string(column, row).unwrap(),
    };
    let row = |row| {
        batch
            .columns()
            .iter()
            .map(|column| value(column, row))
            .collect::<Vec<_>>()
            .join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Runs a request to its end.
pub(crate) fn run(request: SourceRequest) -> Result<Kept> {
    let mut kept = Kept::default();
    connector().source(request)?.run(&mut kept, &StopToken::default())?;
    Ok(kept)
}

/// Reads text from memory: rows joined by `|`, and `line: reason` of the bad ones.
pub(crate) fn read_text(schema: &SchemaRef, mut format: TextRows, text: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut rows = Rows::new(schema, None).unwrap();
    let (mut at, mut line) = (0, 1);
    let mut bad = Vec::new();
    while at < text.len() {
        let limits = Limits {
            rows: usize::MAX,
            bad: usize::MAX,
            record_bytes: usize::MAX,
        };
        let progress = format.read(&mut rows, &text[at..], true, limits);
        bad.extend(
            progress
                .bad
                .iter()
                .map(|bad| format!("{}: {}", line + bad.lines_before, bad.fault.reason)),
        );
        at += progress.bytes;
        line += progress.lines;
    }
    (rows_of(&rows.finish().unwrap()), bad)
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}
