//! Stand-ins for parts of the workspace that are about to land. Each item names what replaces it; when
//! the last one is replaced this file goes.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::port::ConnectorRegistry;
use cenote_query::Database;
use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Becomes `cenote_query::pgtext`.
pub mod pgtext {
    use arrow::array::{Array, ArrayRef, AsArray, StringArray};
    use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, UInt64Type};
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    use cenote_statestore::Result;
    use std::io::Write;
    use std::sync::Arc;

    /// Settings of a session that change how values are written.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct TextStyle;

    /// Writes the cells of one array as text.
    pub struct Formatter<'a>(&'a dyn Array);

    impl<'a> Formatter<'a> {
        /// Looks at an array once.
        pub fn new(_: &Field, array: &'a dyn Array, _: &TextStyle) -> Result<Formatter<'a>> {
            Ok(Formatter(array))
        }

        /// Whether the cell is NULL.
        pub fn is_null(&self, row: usize) -> bool {
            self.0.is_null(row)
        }

        /// Appends the cell's text; nothing for NULL.
        pub fn write(&self, out: &mut Vec<u8>, row: usize) {
            write_text(out, self.0, row);
        }
    }

    /// Writes the cells of one array as JSON.
    pub struct JsonWriter<'a>(&'a dyn Array, bool);

    impl<'a> JsonWriter<'a> {
        /// Looks at an array once.
        pub fn new(_: &Field, array: &'a dyn Array, numbers_raw: bool) -> Result<JsonWriter<'a>> {
            Ok(JsonWriter(array, numbers_raw))
        }

        /// Appends the cell; `null` for NULL.
        pub fn write(&self, out: &mut Vec<u8>, row: usize) {
            write_json(out, self.0, row, self.1);
        }
    }

    /// Reads texts as values of a type.
    pub fn parse_array(values: &[Option<&str>], data_type: &DataType) -> Result<ArrayRef> {
        let texts: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let strict = arrow::compute::CastOptions {
            safe: false,
            ..Default::default()
        };
        Ok(arrow::compute::cast_with_options(&texts, data_type, &strict)?)
    }

    fn write_json(out: &mut Vec<u8>, array: &dyn Array, row: usize, numbers_raw: bool) {
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
        if let DataType::Boolean = array.data_type() {
            out.extend_from_slice(if array.as_boolean().value(row) {
                b"true"
            } else {
                b"false"
            });
            return;
        }
        let mut text = Vec::new();
        write_text(&mut text, array, row);
        if quoted {
            crate::encode::write_json_text(out, &String::from_utf8_lossy(&text));
        } else {
            out.extend_from_slice(&text);
        }
    }

    fn write_text(out: &mut Vec<u8>, array: &dyn Array, row: usize) {
        if array.is_null(row) {
            return;
        }
        match array.data_type() {
            DataType::Boolean => out.push(if array.as_boolean().value(row) { b't' } else { b'f' }),
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
}

/// Becomes `cenote_query::pgtype`.
pub mod pgtype {
    use arrow::datatypes::{DataType, Field};

    /// The type of a column.
    pub struct ColumnType(String);

    impl ColumnType {
        /// The type of a column: its metadata, else its Arrow type.
        pub fn of(field: &Field) -> ColumnType {
            ColumnType(match field.data_type() {
                DataType::Int64 => "bigint".into(),
                DataType::Utf8 => "text".into(),
                DataType::Decimal128(precision, scale) => format!("numeric({precision},{scale})"),
                other => other.to_string().to_lowercase(),
            })
        }

        /// The type as `format_type` prints it.
        pub fn display(&self) -> String {
            self.0.clone()
        }
    }
}

/// Becomes `pg::serve`.
pub async fn serve_pg(
    listener: TcpListener,
    _: Arc<Database>,
    _: usize,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
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
    ArrowStream,
}

/// Becomes `cenote_connectors::decode::decode_body`.
pub fn decode_body(_: &SchemaRef, _: BodyFormat, _: &[u8]) -> Result<Vec<RecordBatch>> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "CONN-0001",
        "cannot decode rows: not built",
    ))
}
