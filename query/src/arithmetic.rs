//! Arithmetic that fails where PostgreSQL's does: a result beyond its type's range, a float divided by zero.
//!
//! DataFusion's operators wrap integers around and let floats become infinite. [`CheckedArithmetic`] puts checked
//! functions in their place, once types are coerced; so views, ad-hoc queries and constants folded by the optimiser
//! have the same rules. NUMERIC would pass its 38 digits until 128 bits are full.
//!
//! Casts get PostgreSQL's rules ([`crate::casts`]) here too, as coercion may have added some.

mod negated;

pub(crate) use negated::{is_negated_here, negative};

use crate::casts::converted;
use crate::types::NUMERIC_DIGITS_MAX;
use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, Float64Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float32Type, Float64Type, i256};
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
            let checked = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?;
            match checked.transformed {
                true => checked.map_data(LogicalPlan::recompute_schema),
                false => Ok(checked),
            }
        })?;
        Ok(rewritten.data)
    }
}

/// An expression whose operators are checked.
pub(crate) fn checked(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.transform_up(|expr| rewrite(expr, schema))?.data)
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

/// Digits behind the point that a quotient of exact numbers has at least.
const QUOTIENT_SCALE: i8 = 16;

/// Digits behind the point that a product keeps at least, where it has not room for all.
const PRODUCT_SCALE: i8 = 18;

/// The type of a quotient of NUMERICs of two scales: 16 digits behind the point, or more if a side has more.
pub(crate) fn quotient_type(left: i8, right: i8) -> DataType {
    let scale = left.max(right).max(QUOTIENT_SCALE);
    DataType::Decimal128(NUMERIC_DIGITS_MAX, scale)
}

/// The type of a product of NUMERICs: all digits if 38 have room for them, else 18 behind the point, or more if a
/// side has more.
fn product_type(left: (u8, i8), right: (u8, i8)) -> DataType {
    let (digits, scale) = (left.0 as u32 + right.0 as u32, left.1 + right.1);
    if digits <= NUMERIC_DIGITS_MAX as u32 || scale <= PRODUCT_SCALE {
        return DataType::Decimal128(digits.min(NUMERIC_DIGITS_MAX as u32) as u8, scale);
    }
    DataType::Decimal128(NUMERIC_DIGITS_MAX, left.1.max(right.1).max(PRODUCT_SCALE))
}

/// A quotient or a product of two NUMERICs, as a function: it has a type of its own before types are coerced.
pub(crate) fn numeric_operator(divides: bool, sides: Vec<Expr>) -> Expr {
    let operator = if divides { Operator::Divide } else { Operator::Multiply };
    let signature = Signature::any(2, Volatility::Immutable);
    Checked { operator, signature }.call(sides)
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
            true if self.is_scaled() => self.scaled_type(arguments),
            true => BinaryTypeCoercer::new(&arguments[0], &self.operator, &arguments[1]).get_result_type(),
            false => Ok(arguments[0].clone()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.is_scaled() && is_numeric(args.return_type()) {
            return self.scaled(&args);
        }
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
    /// Whether NUMERICs have a result of a scale of their own.
    fn is_scaled(&self) -> bool {
        matches!(self.operator, Operator::Multiply | Operator::Divide)
    }

    fn scaled_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let sizes = |data_type: &DataType| match data_type {
            DataType::Decimal128(precision, scale) => Ok((*precision, *scale)),
            other => Err(DataFusionError::Internal(format!("{other} is not a NUMERIC"))),
        };
        let (left, right) = (sizes(&arguments[0])?, sizes(&arguments[1])?);
        Ok(match self.operator {
            Operator::Divide => quotient_type(left.1, right.1),
            _ => product_type(left, right),
        })
    }

    /// A product or a quotient of NUMERICs, rounded once, half away from zero.
    fn scaled(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, scale) = *args.return_type() else {
            return Err(DataFusionError::Internal("a NUMERIC is expected".into()));
        };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (left, right) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let (left, right) = (
            left.as_primitive::<Decimal128Type>(),
            right.as_primitive::<Decimal128Type>(),
        );
        // Powers of ten that the result has too few of, or too many.
        let (raise, lower) = match self.operator {
            Operator::Divide => (scale - left.scale() + right.scale(), 0),
            _ => (0, left.scale() + right.scale() - scale),
        };
        let (raise, lower) = (power_of_ten(raise), power_of_ten(lower));
        let overflow = || out_of_range("value overflows numeric format");
        let one = |a: i128, b: i128| {
            let (dividend, divisor) = match self.operator {
                Operator::Divide if b == 0 => return Err(division_by_zero()),
                Operator::Divide => (i256::from_i128(a).checked_mul(raise), i256::from_i128(b)),
                _ => (i256::from_i128(a).checked_mul(i256::from_i128(b)), lower),
            };
            let rounded = dividend
                .map(|dividend| rounded_quotient(dividend, divisor))
                .and_then(i256::to_i128);
            let held = rounded.filter(|value| Decimal128Type::is_valid_decimal_precision(*value, precision));
            held.ok_or_else(overflow)
        };
        let results = left.iter().zip(right.iter());
        let results = results.map(|(a, b)| a.zip(b).map(|(a, b)| one(a, b)).transpose());
        let results = results
            .collect::<Result<Decimal128Array>>()?
            .with_precision_and_scale(precision, scale)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(Arc::new(results)),
        })
    }

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

fn power_of_ten(exponent: i8) -> i256 {
    i256::from_i128(10).wrapping_pow(exponent.max(0) as u32)
}

/// A quotient rounded half away from zero.
fn rounded_quotient(dividend: i256, divisor: i256) -> i256 {
    let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
    let distance = divisor.wrapping_abs().wrapping_sub(rest.wrapping_abs());
    if rest.wrapping_abs() < distance {
        return quotient;
    }
    let is_negative = (dividend < i256::ZERO) != (divisor < i256::ZERO);
    if is_negative {
        quotient.wrapping_sub(i256::ONE)
    } else {
        quotient.wrapping_add(i256::ONE)
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
