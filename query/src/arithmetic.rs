//! Sums, differences and products of integers, which are an error where they leave their type's range.
//!
//! DataFusion's operators wrap around, so these take their place in every plan.

use arrow::array::Datum;
use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};

/// An operation on two integers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    signature: Signature,
}

fn function(operator: Operator) -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Checked { operator, signature }))
}

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Operator::Plus));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Operator::Minus));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Operator::Multiply));

/// The checked form of an operation; `None`: it cannot leave its range, or is no operation on integers.
pub(crate) fn checked(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let function = match binary.op {
        Operator::Plus => &*ADD,
        Operator::Minus => &*SUBTRACT,
        Operator::Multiply => &*MULTIPLY,
        _ => return Ok(None),
    };
    let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) else {
        return Ok(None);
    };
    let integers = left.is_signed_integer() && right.is_signed_integer();
    Ok(integers.then(|| function.call(vec![(*binary.left).clone(), (*binary.right).clone()])))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Minus => "int_subtract",
            Operator::Multiply => "int_multiply",
            _ => "int_add",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let wider = arguments.iter().max_by_key(|argument| argument.primitive_width());
        let wider = wider.ok_or_else(|| DataFusionError::Plan(format!("{} takes two numbers", self.name())))?;
        Ok(vec![wider.clone(); arguments.len()])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.coerce_types(arguments).map(|mut types| types.remove(0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operate: fn(&dyn Datum, &dyn Datum) -> _ = match self.operator {
            Operator::Minus => numeric::sub,
            Operator::Multiply => numeric::mul,
            _ => numeric::add,
        };
        match args.args.as_slice() {
            [ColumnarValue::Array(left), ColumnarValue::Array(right)] => {
                Ok(ColumnarValue::Array(operate(left, right)?))
            }
            [ColumnarValue::Array(left), ColumnarValue::Scalar(right)] => {
                Ok(ColumnarValue::Array(operate(left, &right.to_scalar()?)?))
            }
            [ColumnarValue::Scalar(left), ColumnarValue::Array(right)] => {
                Ok(ColumnarValue::Array(operate(&left.to_scalar()?, right)?))
            }
            [ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)] => {
                let value = operate(&left.to_scalar()?, &right.to_scalar()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
            other => Err(DataFusionError::Plan(format!(
                "{} takes two numbers, found {}",
                self.name(),
                other.len()
            ))),
        }
    }
}
