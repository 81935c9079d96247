//! Functions whose result can be far larger than their arguments, refused before they ask for the memory.
//!
//! Memory that cannot be had ends the process, and a view would do so again at each start. PostgreSQL has the same
//! errors (54000) at 1 GiB a value; here the bound is on what one batch of rows asks for.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use cenote_statestore::{Error, ErrorKind};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// Bytes that the results of one batch may take.
const BYTES_MAX: u128 = 256 << 20;

/// Functions that repeat something as often as their second argument says, and the bytes of a repetition; `None`: those
/// of the first argument.
const REPEATING: [(&str, Option<u128>); 5] = [
    ("repeat", None),
    ("lpad", Some(4)),
    ("rpad", Some(4)),
    ("array_repeat", Some(16)),
    ("array_resize", Some(16)),
];

/// Puts bounded functions in the place of DataFusion's.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, unit) in REPEATING {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, unit })))?;
    }
    Ok(())
}

/// A function that repeats.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    unit: Option<u128>,
}

impl Bounded {
    /// Bytes that the results take at most.
    fn bytes(&self, args: &ScalarFunctionArgs) -> Result<u128> {
        let [first, times, ..] = args.args.as_slice() else {
            return Ok(0);
        };
        let rows = match (first, times) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => 1,
            _ => args.number_rows,
        };
        let times = cast(&times.to_array(rows)?, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let units: Vec<u128> = match self.unit {
            Some(unit) => vec![unit; rows],
            None => lengths(first, rows)?,
        };
        let valid = (0..rows).filter(|row| times.is_valid(*row));
        Ok(valid.map(|row| times.value(row).max(0) as u128 * units[row]).sum())
    }
}

/// Bytes of each text.
fn lengths(texts: &ColumnarValue, rows: usize) -> Result<Vec<u128>> {
    let texts = cast(&texts.to_array(rows)?, &DataType::LargeUtf8)?;
    let texts = texts.as_string::<i64>();
    Ok(texts.iter().map(|text| text.map_or(0, str::len) as u128).collect())
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.bytes(&args)?;
        if bytes > BYTES_MAX {
            let message = format!("cannot compute {}(): requested length too large", self.name());
            let error = Error::new(ErrorKind::Invalid, "EVAL-0003", message).sqlstate("54000");
            let error = error
                .fact("bytes", bytes)
                .fact("limit", format!("{BYTES_MAX} bytes for the rows of one batch"));
            return Err(crate::provider::outside(error));
        }
        self.inner.invoke_with_args(args)
    }
}
