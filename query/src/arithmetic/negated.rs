//! The negative of NUMERIC and INTERVAL, as a function: DataFusion's operator knows no constant NULL.

use arrow::compute::kernels::numeric::neg;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The negative of an expression of one of the types.
pub(crate) fn negative(expr: Expr) -> Expr {
    let function = ScalarUDF::from(Negative {
        signature: Signature::any(1, Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// Whether a type is one of them.
pub(crate) fn is_negated_here(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _) | DataType::Interval(_))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Negative {
    signature: Signature,
}

impl ScalarUDFImpl for Negative {
    fn name(&self) -> &str {
        "negative"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(neg(array)?),
            ColumnarValue::Scalar(scalar) => {
                let negated = neg(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?)
            }
        })
    }
}
