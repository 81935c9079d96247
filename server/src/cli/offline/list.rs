//! `cenote state ls --from`: tables, their types, rows, bytes and buckets.

use crate::cli::output::Output;
use crate::cli::state::print;
use crate::encode::Format;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use cenote_query::pgtype::shown_type;
use cenote_statestore::Result;
use cenote_statestore::checkpoint::{Checkpoint, TableEntry, TableKind};
use std::sync::Arc;

/// Prints the tables of a checkpoint; what it is goes to standard error.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(checkpoint: &Checkpoint, format: Format, output: &mut Output) -> Result<()> {
    let manifest = checkpoint.manifest();
    eprintln!(
        "checkpoint {} of epoch {}, {}, {} bytes, {} of them new",
        manifest.id(),
        manifest.epoch,
        manifest.time,
        manifest.bytes,
        manifest.bytes_new
    );
    let tables = &manifest.tables;
    let texts = |of: &dyn Fn(&TableEntry) -> Option<String>| -> ArrayRef {
        Arc::new(tables.iter().map(of).collect::<StringArray>())
    };
    let numbers = |of: &dyn Fn(&TableEntry) -> Option<u64>| -> ArrayRef {
        let numbers = tables
            .iter()
            .map(|table| of(table).and_then(|number| i64::try_from(number).ok()));
        Arc::new(numbers.collect::<Int64Array>())
    };
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("name", texts(&|table| Some(table.readable_name())), false),
        ("kind", texts(&|table| Some(kind_name(table.kind).into())), false),
        ("view", texts(&|table| table.view.clone()), true),
        ("operator", texts(&|table| table.operator.clone()), true),
        ("key", texts(&|table| Some(key_of(table))), false),
        ("columns", texts(&|table| Some(columns_of(table))), false),
        ("rows", numbers(&|table| table.rows), true),
        ("bytes", numbers(&|table| Some(table.bytes)), false),
        ("epoch", numbers(&|_| Some(manifest.epoch)), false),
        ("buckets", numbers(&|table| Some(table.buckets.len() as u64)), false),
        ("files", numbers(&|table| Some(table.parts().count() as u64)), false),
    ])?;
    print(format, &batch.schema(), [Ok(batch)].into_iter(), output)
}

/// As the list of a live server calls it.
fn kind_name(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Table => "table",
        TableKind::View => "materialized_view",
        TableKind::State => "state",
        TableKind::Source => "source",
        TableKind::Sink => "sink",
    }
}

/// Rows of a multiset have no key.
fn key_of(table: &TableEntry) -> String {
    match table.multiset {
        true => String::new(),
        false => table.identity.join(", "),
    }
}

fn columns_of(table: &TableEntry) -> String {
    let columns = table.columns.iter().map(|column| {
        let shown = column.sql_type.clone().unwrap_or_else(|| shown_type(&column.field()));
        format!("{} {shown}", column.name)
    });
    columns.collect::<Vec<_>>().join(", ")
}
