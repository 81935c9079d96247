//! Arrow IPC streams as bodies.
//!
//! The stream is decoded from the bytes at hand, so a size written in it can never make more than there are,
//! and a panic of the reader is an error like any other.

use super::{BATCH_ROWS, refused};
use crate::column::sql_type;
use crate::fault::{Fault, FaultKind};
use crate::guard::unpanicked;
use crate::parquet::Cast;
use crate::rows::nearest;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::util::display::array_value_to_string;
use cenote_statestore::Result;
use std::sync::Arc;

/// Reads a whole stream.
///
/// # Errors
/// As [`decode_body`](super::decode_body).
pub(super) fn decode(schema: &SchemaRef, body: &[u8]) -> Result<Vec<RecordBatch>> {
    let mut buffer = Buffer::from(body);
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    let mut row = 0;
    let mut known: Option<Vec<Option<Source>>> = None;
    loop {
        let next = unpanicked(|| decoder.decode(&mut buffer)).map_err(|reason| damaged(&reason))?;
        if known.is_none()
            && let Some(found) = decoder.schema()
        {
            known = Some(sources(schema, &found)?);
        }
        let Some(batch) = next.map_err(|error| damaged(&error.to_string()))? else {
            break;
        };
        let sources = known.as_deref().unwrap_or(&[]);
        let converted = convert(schema, sources, &batch, row)?;
        row += batch.num_rows();
        let pieces = (0..converted.num_rows()).step_by(BATCH_ROWS);
        batches.extend(pieces.map(|at| converted.slice(at, BATCH_ROWS.min(converted.num_rows() - at))));
    }
    unpanicked(|| decoder.finish())
        .and_then(|end| end.map_err(|error| error.to_string()))
        .map_err(|reason| damaged(&reason))?;
    if known.is_none() {
        return Err(damaged("the stream has no schema"));
    }
    Ok(batches)
}

/// The names of a stream's columns; `None` if its head cannot be read.
pub(super) fn stream_columns(body: &[u8]) -> Option<Vec<String>> {
    let schema = unpanicked(|| {
        let mut decoder = StreamDecoder::new();
        let mut buffer = Buffer::from(body);
        // Stops behind the first batch, if there is one.
        decoder.decode(&mut buffer).map(|_| decoder.schema())
    });
    let schema = schema.ok()?.ok()??;
    Some(schema.fields().iter().map(|field| field.name().clone()).collect())
}

/// Where a declared column comes from.
struct Source {
    index: usize,
    cast: Cast,
}

/// Pairs the declared columns with those of the stream, all of which must be declared.
fn sources(schema: &SchemaRef, found: &Schema) -> Result<Vec<Option<Source>>> {
    for field in found.fields() {
        let known = schema
            .fields()
            .iter()
            .any(|own| own.name().eq_ignore_ascii_case(field.name()));
        if !known {
            return Err(refused("schema", &unknown(schema, field.name())));
        }
    }
    schema.fields().iter().map(|field| source(field, found)).collect()
}

fn source(field: &Field, found: &Schema) -> Result<Option<Source>> {
    let exact = found.fields().iter().position(|other| other.name() == field.name());
    let folded = || {
        found
            .fields()
            .iter()
            .position(|other| other.name().eq_ignore_ascii_case(field.name()))
    };
    let Some(index) = exact.or_else(folded) else {
        return Ok(None);
    };
    let from = plain_type(found.field(index).data_type());
    match Cast::between(from, field.data_type()) {
        Some(cast) => Ok(Some(Source { index, cast })),
        None if *from == DataType::Null => Ok(None),
        None => {
            let reason = format!(
                "field `{}`: {from} cannot be read as {}",
                field.name(),
                sql_type(field.data_type())
            );
            Err(refused(
                "schema",
                &Fault {
                    kind: FaultKind::Syntax,
                    reason,
                },
            ))
        }
    }
}

/// The type of a dictionary's values, or the type itself.
fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn unknown(schema: &SchemaRef, name: &str) -> Fault {
    let hint = match nearest(name, schema.fields().iter().map(|field| field.name().as_str())) {
        Some(near) => format!("; the nearest column is `{near}`"),
        None => String::new(),
    };
    Fault {
        kind: FaultKind::Unknown,
        reason: format!("field `{name}`: there is no such column{hint}"),
    }
}

/// The declared columns of a batch whose first row is row `first` of the stream.
fn convert(schema: &SchemaRef, sources: &[Option<Source>], batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, source) in schema.fields().iter().zip(sources) {
        let column = match source {
            Some(source) => {
                let before = batch.column(source.index);
                let after = unpanicked(|| apply(source, before, field))
                    .and_then(|outcome| outcome)
                    .map_err(|reason| damaged(&reason))?;
                check(field, source, before, &after, first)?;
                after
            }
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        if !field.is_nullable() && column.null_count() > 0 {
            let row = (0..column.len()).find(|row| column.is_null(*row)).unwrap_or(0);
            let reason = format!("field `{}`: NULL in a column that is NOT NULL", field.name());
            return Err(refused(
                &format!("row {}", first + row + 1),
                &Fault {
                    kind: FaultKind::Null,
                    reason,
                },
            ));
        }
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

fn apply(source: &Source, array: &ArrayRef, field: &Field) -> Result<ArrayRef, String> {
    let plain = match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).map_err(|error| error.to_string())?,
        _ => Arc::clone(array),
    };
    source.cast.apply(&plain, field.data_type())
}

/// Refuses a value that the cast lost.
fn check(field: &Field, source: &Source, before: &ArrayRef, after: &ArrayRef, first: usize) -> Result<()> {
    let lost = (0..after.len()).find(|row| after.is_null(*row) && before.is_valid(*row));
    // A dictionary's keys are valid where its values are NULL.
    let Some(row) = lost.filter(|_| after.null_count() > before.logical_null_count()) else {
        return Ok(());
    };
    let value = array_value_to_string(before, row).unwrap_or_default();
    let fault =
        source
            .cast
            .refusal(field.data_type())
            .fault(field.name(), &sql_type(field.data_type()), value.as_bytes());
    Err(refused(&format!("row {}", first + row + 1), &fault))
}

fn damaged(reason: &str) -> cenote_statestore::Error {
    refused(
        "body",
        &Fault {
            kind: FaultKind::Syntax,
            reason: format!("invalid Arrow stream: {reason}"),
        },
    )
}
