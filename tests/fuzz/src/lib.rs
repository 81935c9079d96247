//! What must hold for readers of bytes that anybody can send, for any bytes: a module each, run by libFuzzer.
//!
//! `pgtext`, `pgtype` and `key_query` are links to the sources of `query` and `server`, so that a target needs neither
//! DataFusion nor a web server.

pub mod json;
pub mod key;
#[allow(dead_code)]
mod key_query;
#[allow(dead_code, unused_imports, missing_docs)]
mod pgtext;
#[allow(dead_code, unused_imports, missing_docs)]
mod pgtype;
pub mod wal;

/// What the sources of `query` take of its `types`, which stand on DataFusion: NUMERIC without precision, and the name of
/// a type, which no target looks at.
mod types {
    use arrow::datatypes::DataType;

    pub(crate) const OPEN_SCALE: i8 = 18;
    pub(crate) const OPEN_NUMERIC: DataType = DataType::Decimal128(38, OPEN_SCALE);

    pub(crate) fn type_name(data_type: &DataType) -> String {
        data_type.to_string()
    }
}
