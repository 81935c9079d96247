//! Stand-ins for parts of the workspace that are about to land. Each item names what replaces it; when
//! the last one is replaced this file goes.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, SchemaRef, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use cenote_engine::port::ConnectorRegistry;
use cenote_query::{ChangeStream, Database, Session, Statement};
use cenote_statestore::{Error, ErrorKind, Result};
use std::io::Write;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Becomes `cenote_query::pgtext::write_json`.
pub fn write_json(out: &mut Vec<u8>, array: &dyn Array, row: usize, numbers_raw: bool) {
    const EXACT: u64 = 1 << 53;
    if array.is_null(row) {
        out.extend_from_slice(b"null");
        return;
    }
    let quoted = match array.data_type() {
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 => false,
        DataType::Int64 => !numbers_raw && array.as_primitive::<Int64Type>().value(row).unsigned_abs() > EXACT,
        DataType::UInt64 => !numbers_raw && array.as_primitive::<UInt64Type>().value(row) > EXACT,
        DataType::Float32 | DataType::Float64 => false,
        DataType::Decimal128(_, _) => !numbers_raw,
        _ => true,
    };
    let mut text = Vec::new();
    write_text(&mut text, array, row);
    if quoted {
        crate::encode::write_json_text(out, &String::from_utf8_lossy(&text));
    } else {
        out.extend_from_slice(&text);
    }
}

/// Becomes the text `Formatter` of `cenote_query::pgtext`.
pub fn write_text(out: &mut Vec<u8>, array: &dyn Array, row: usize) {
    match array.data_type() {
        DataType::Boolean => out.extend_from_slice(if array.as_boolean().value(row) { b"true" } else { b"false" }),
        DataType::Int64 => drop(write!(out, "{}", array.as_primitive::<Int64Type>().value(row))),
        DataType::Utf8 => out.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Decimal128(_, _) => {
            out.extend_from_slice(array.as_primitive::<Decimal128Type>().value_as_string(row).as_bytes());
        }
        _ => {
            let options = FormatOptions::default();
            if let Ok(formatter) = ArrayFormatter::try_new(array, &options) {
                let _ = write!(out, "{}", formatter.value(row));
            }
        }
    }
}

/// Becomes `pg::serve`.
pub async fn serve_pg(listener: TcpListener, _: Arc<Database>, _: usize, mut stop: watch::Receiver<bool>) -> Result<()> {
    drop(listener);
    let _ = stop.wait_for(|stopped| *stopped).await;
    Ok(())
}

/// Becomes `cenote_connectors::registry`.
pub fn registry() -> ConnectorRegistry {
    ConnectorRegistry::default()
}

/// Becomes `cenote_connectors::decode::BodyFormat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// One JSON object per line.
    Ndjson,
    /// One JSON array of objects.
    JsonArray,
    /// CSV with a header line.
    Csv,
    /// Arrow IPC, stream format.
    Arrow,
}

/// Becomes `cenote_connectors::decode::decode_body`.
pub fn decode_body(_: SchemaRef, _: BodyFormat, _: &[u8]) -> Result<Vec<RecordBatch>> {
    Err(Error::new(ErrorKind::Unsupported, "CONN-0001", "cannot decode rows: not built"))
}

/// Becomes `Session::execute_changes`.
pub async fn execute_changes(_: &mut Session, _: &Statement) -> Result<ChangeStream> {
    Err(Error::new(ErrorKind::Unsupported, "SQL-0001", "cannot follow changes: not built"))
}
