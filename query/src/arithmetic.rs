//! Arithmetic that fails where PostgreSQL's does: a result beyond its type's range, a float divided by zero.
//!
//! DataFusion's operators wrap integers around and let floats become infinite. [`CheckedArithmetic`] puts checked
//! functions in their place, once types are coerced; so views, ad-hoc queries and constants folded by the optimiser
//! have the same rules. NUMERIC would pass its 38 digits until 128 bits are full.
//!
//! Casts get PostgreSQL's rules ([`crate::casts`]) here too, as coercion may have added some.

use crate::casts::converted;
use arrow::array::{Array, ArrayRef, AsArray, Datum, Float64Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// The error of a result beyond its type's range.
pub(crate) fn out_of_range(text: &str) -> DataFusionError {
    let error = Error::new(ErrorKind::Invalid, "EVAL-0001", text).sqlstate("22003");
    crate::provider::outside(error)
}

fn division_by_zero() -> DataFusionError {
    let error = Error::new(ErrorKind::Invalid, "EVAL-0002", "division by zero").sqlstate("22012");
    crate::provider::outside(error)
}

/// Puts checked functions in the place of operators.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            if matches!(node, LogicalPlan::Limit(_) | LogicalPlan::TableScan(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = match &node {
                LogicalPlan::Values(_) => DFSchema::empty(),
                node => merge_schema(&node.inputs()),
            };
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(rewritten.data)
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let checked = match (left.get_type(schema), right.get_type(schema)) {
                (Ok(left), Ok(right)) if left == right || (is_numeric(&left) && is_numeric(&right)) => {
                    Checked::new(op, &left)
                }
                _ => None,
            };
            Ok(match checked {
                Some(checked) => Transformed::yes(checked.call(vec![*left, *right])),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(inner) => match inner.get_type(schema) {
            // A negated NaN is NaN; its sign would stand out where floats are compared.
            Ok(data_type) if data_type.is_floating() => {
                let minus_one = ScalarValue::Float64(Some(-1.0)).cast_to(&data_type)?;
                Ok(match Checked::new(Operator::Multiply, &data_type) {
                    Some(checked) => Transformed::yes(checked.call(vec![*inner, Expr::Literal(minus_one, None)])),
                    None => Transformed::no(Expr::Negative(inner)),
                })
            }
            Ok(data_type) if data_type.is_integer() && !matches!(*inner, Expr::Literal(_, _)) => {
                let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
                let checked = Checked::new(Operator::Minus, &data_type);
                Ok(match checked {
                    Some(checked) => Transformed::yes(checked.call(vec![zero, *inner])),
                    None => Transformed::no(Expr::Negative(inner)),
                })
            }
            _ => Ok(Transformed::no(Expr::Negative(inner))),
        },
        Expr::Cast(Cast { expr: inner, field }) => {
            let from = inner.get_type(schema);
            let converted = from.ok().and_then(|from| converted(&inner, &from, field.data_type()));
            Ok(match converted {
                Some(converted) => Transformed::yes(Expr::Cast(Cast {
                    expr: Box::new(converted),
                    field,
                })),
                None => Transformed::no(Expr::Cast(Cast { expr: inner, field })),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// An arithmetic operator, checked.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    signature: Signature,
}

impl Checked {
    /// The checked form of an operator between two values of a type; `None`: DataFusion's own is checked, or there
    /// is none.
    fn new(operator: Operator, data_type: &DataType) -> Option<Checked> {
        use Operator::{Divide, Minus, Multiply, Plus};
        let is_needed = match operator {
            Plus | Minus | Multiply => data_type.is_integer() || data_type.is_floating() || is_numeric(data_type),
            Divide => data_type.is_floating() || is_numeric(data_type),
            _ => false,
        };
        is_needed.then(|| Checked {
            operator,
            signature: Signature::any(2, Volatility::Immutable),
        })
    }

    fn call(self, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(self)), args))
    }

    fn kernel(&self) -> fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        match self.operator {
            Operator::Plus => numeric::add,
            Operator::Minus => numeric::sub,
            Operator::Multiply => numeric::mul,
            _ => numeric::div,
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "add",
            Operator::Minus => "subtract",
            Operator::Multiply => "multiply",
            _ => "divide",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match is_numeric(&arguments[0]) {
            true => BinaryTypeCoercer::new(&arguments[0], &self.operator, &arguments[1]).get_result_type(),
            false => Ok(arguments[0].clone()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result =
            apply(&args.args[0], &args.args[1], self.kernel()).map_err(|error| self.explained(error, &args))?;
        match result.data_type() {
            DataType::Decimal128(_, _) => check_digits(&result)?,
            floating if floating.is_floating() => return self.check(&args.args, result),
            _ => {}
        }
        Ok(result)
    }
}

fn is_numeric(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _))
}

/// Refuses a NUMERIC of more digits than its type has.
fn check_digits(result: &ColumnarValue) -> Result<()> {
    let fits = |value: i128, precision| Decimal128Type::is_valid_decimal_precision(value, precision);
    let all_fit = match result {
        ColumnarValue::Array(array) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            numbers.iter().flatten().all(|value| fits(value, numbers.precision()))
        }
        ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), precision, _)) => fits(*value, *precision),
        ColumnarValue::Scalar(_) => true,
    };
    match all_fit {
        true => Ok(()),
        false => Err(out_of_range("value overflows numeric format")),
    }
}

impl Checked {
    fn explained(&self, error: DataFusionError, args: &ScalarFunctionArgs) -> DataFusionError {
        match error.find_root() {
            DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) => {
                let name = crate::types::type_name(&args.args[0].data_type());
                out_of_range(&format!("{name} out of range"))
            }
            _ => error,
        }
    }

    /// Refuses infinities and zeros that the operands do not account for, and divisors of zero.
    fn check(&self, args: &[ColumnarValue], result: ColumnarValue) -> Result<ColumnarValue> {
        let loses = matches!(self.operator, Operator::Multiply | Operator::Divide);
        let results = doubles(&result, 1)?;
        if !results.values().iter().any(|v| !v.is_finite() || (loses && *v == 0.0)) {
            return Ok(result);
        }
        let rows = results.len();
        let (left, right) = (doubles(&args[0], rows)?, doubles(&args[1], rows)?);
        for row in (0..rows).filter(|row| results.is_valid(*row)) {
            let (a, b, value) = (left.value(row), right.value(row), results.value(row));
            if self.operator == Operator::Divide && b == 0.0 && !a.is_nan() {
                return Err(division_by_zero());
            }
            if value.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(out_of_range("value out of range: overflow"));
            }
            if loses && value == 0.0 && a != 0.0 && b != 0.0 && b.is_finite() {
                return Err(out_of_range("value out of range: underflow"));
            }
        }
        one_nan(result)
    }
}

/// The floats, every NaN of them the same.
fn one_nan(result: ColumnarValue) -> Result<ColumnarValue> {
    Ok(match result {
        ColumnarValue::Array(array) => ColumnarValue::Array(match array.data_type() {
            DataType::Float32 => Arc::new(
                array
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value }),
            ),
            _ => Arc::new(
                array
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }),
            ),
        }),
        ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) if value.is_nan() => {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(f64::NAN)))
        }
        ColumnarValue::Scalar(ScalarValue::Float32(Some(value))) if value.is_nan() => {
            ColumnarValue::Scalar(ScalarValue::Float32(Some(f32::NAN)))
        }
        other => other,
    })
}

fn doubles(value: &ColumnarValue, rows: usize) -> Result<Float64Array> {
    let array = arrow::compute::cast(&value.to_array(rows)?, &DataType::Float64)?;
    Ok(array.as_primitive::<Float64Type>().clone())
}
