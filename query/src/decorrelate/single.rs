//! The value of a subquery that may have one row only.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use cenote_statestore::{Error, ErrorKind};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `only_row(value, rows)`: the value, if it is of at most one row.
pub(super) fn only(arguments: Vec<Expr>) -> Expr {
    let function = Arc::new(ScalarUDF::from(OnlyRow {
        signature: Signature::any(2, Volatility::Immutable),
    }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    /// # Errors
    /// 21000: a value is of several rows.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[1].to_array(args.number_rows)?;
        let rows = arrow::compute::cast(&rows, &DataType::Int64)?;
        let rows = rows.as_primitive::<Int64Type>();
        if (0..rows.len()).any(|row| rows.is_valid(row) && rows.value(row) > 1) {
            let message = "more than one row returned by a subquery used as an expression";
            let error = Error::new(ErrorKind::Invalid, "EVAL-0021", message).sqlstate("21000");
            return Err(crate::provider::outside(error));
        }
        Ok(args.args[0].clone())
    }
}
