//! A condition that waits for a column.

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `in_turn(condition, column)`: the condition. The optimiser moves it to no place that the column is not in.
pub(super) fn after(condition: Expr, column: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(InTurn {
        signature: Signature::any(2, Volatility::Immutable),
    }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![condition, column]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InTurn {
    signature: Signature,
}

impl ScalarUDFImpl for InTurn {
    fn name(&self) -> &str {
        "in_turn"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
