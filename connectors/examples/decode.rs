//! What decoding costs: CPU nanoseconds a row of the file connector, beside Arrow's JSON decoder.
//!
//! `cargo run --release -p cenote-connectors --example decode [rows]` writes its input to a temporary folder.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use cenote_connectors::encode::{Encoder, Encoding, Encodings};
use cenote_connectors::file::FileConnector;
use cenote_engine::port::{Connector, Offsets, PathPolicy, SourceBatch, SourceOutput, SourceRequest, StopToken};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Nothing is written here.
struct Unused;

impl Encodings for Unused {
    fn encoder(&self, _: Encoding, _: &SchemaRef) -> cenote_statestore::Result<Box<dyn Encoder>> {
        Err(cenote_statestore::Error::bug("sources encode nothing"))
    }
}

/// Counts what it is handed and lets it go.
struct Counted(usize);

impl SourceOutput for Counted {
    fn push(&mut self, batch: SourceBatch) -> cenote_statestore::Result<()> {
        self.0 += batch.rows.num_rows();
        assert!(batch.bad.is_empty(), "{:?}", batch.bad.first());
        Ok(())
    }
}

struct Workload {
    name: &'static str,
    format: &'static str,
    schema: SchemaRef,
    line: fn(u64) -> String,
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, kind)| Field::new(*name, kind.clone(), true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Spreads consecutive numbers over all of `u64`.
fn spread(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn workloads() -> Vec<Workload> {
    let orders = schema(&[("usr", DataType::Int64), ("amount", DataType::Int64)]);
    let bids = schema(&[
        ("auction", DataType::Int64),
        ("bidder", DataType::Int64),
        ("price", DataType::Int64),
        ("channel", DataType::Utf8),
        ("url", DataType::Utf8),
        ("date_time", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("extra", DataType::Utf8),
    ]);
    vec![
        Workload {
            name: "orders",
            format: "json",
            schema: Arc::clone(&orders),
            line: |i| {
                format!(
                    "{{\"usr\":{},\"amount\":{}}}",
                    spread(i) % 1_000_000,
                    spread(i + 7) % 10_000
                )
            },
        },
        Workload {
            name: "orders, spaced",
            format: "json",
            schema: Arc::clone(&orders),
            line: |i| {
                format!(
                    "{{\"usr\": {}, \"amount\": {}}}",
                    spread(i) % 1_000_000,
                    spread(i + 7) % 10_000
                )
            },
        },
        Workload {
            name: "orders",
            format: "csv",
            schema: orders,
            line: |i| format!("{},{}", spread(i) % 1_000_000, spread(i + 7) % 10_000),
        },
        Workload {
            name: "bids",
            format: "json",
            schema: bids,
            line: bid,
        },
    ]
}

fn bid(i: u64) -> String {
    let (second, minute) = (i % 60, i / 60 % 60);
    format!(
        "{{\"auction\":{},\"bidder\":{},\"price\":{},\"channel\":\"channel-{}\",\"url\":\"https://www.example.com/{}/item.htm?query=1&channel_id={}\",\"date_time\":\"2026-01-01 00:{minute:02}:{second:02}.{:03}\",\"extra\":\"{:0100}\"}}",
        i % 1000,
        spread(i) % 1000,
        spread(i) % 100_000_000,
        i % 10_000,
        spread(i) % 99_999,
        spread(i) % 1_000_000,
        i % 1000,
        spread(i)
    )
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

fn measured(name: &str, rows: u64, work: impl FnOnce() -> usize) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let seen = work();
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    assert_eq!(seen as u64, rows);
    println!(
        "{name:40} {:7.1} ns/row CPU {:7.1} ns/row wall",
        cpu * 1e9 / rows as f64,
        wall * 1e9 / rows as f64
    );
}

fn connector(workload: &Workload, path: &Path, projection: Option<Vec<usize>>) -> usize {
    let options = [("path", path.to_str().unwrap_or_default()), ("format", workload.format)];
    let request = SourceRequest {
        name: "bench".into(),
        schema: Arc::clone(&workload.schema),
        projection,
        options: options
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into(),
        offsets: Offsets::new(),
        until: None,
        paths: PathPolicy::Any,
        threads: 1,
    };
    let file = FileConnector::new(Arc::new(Unused));
    let source = file.source(request).expect("a file source");
    let mut output = Counted(0);
    source
        .run(&mut output, &StopToken::default())
        .expect("the file is read");
    output.0
}

fn arrow_json(workload: &Workload, path: &Path) -> usize {
    let file = BufReader::with_capacity(1 << 20, File::open(path).expect("the file"));
    let reader = arrow::json::ReaderBuilder::new(Arc::clone(&workload.schema))
        .with_batch_size(65_536)
        .build(file);
    reader
        .expect("a reader")
        .map(|batch| batch.expect("a batch").num_rows())
        .sum()
}

fn main() {
    let rows: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(5_000_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for workload in workloads() {
        let rows = if workload.name == "bids" { rows / 10 } else { rows };
        let path = folder.path().join("input");
        let mut file = BufWriter::new(File::create(&path).expect("a file"));
        if workload.format == "csv" {
            writeln!(file, "usr,amount").expect("writing");
        }
        (0..rows).for_each(|i| writeln!(file, "{}", (workload.line)(i)).expect("writing"));
        file.flush().expect("writing");
        let label = format!("{} {}", workload.format, workload.name);
        for _ in 0..2 {
            measured(&format!("{label}: file connector"), rows, || {
                connector(&workload, &path, None)
            });
        }
        measured(&format!("{label}: one column"), rows, || {
            connector(&workload, &path, Some(vec![0]))
        });
        if workload.format == "json" {
            measured(&format!("{label}: arrow-json"), rows, || arrow_json(&workload, &path));
        }
    }
}
