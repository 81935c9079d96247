//! Casts with PostgreSQL's rules: how numbers are rounded.
//!
//! - Floats become whole numbers by rounding half to even; DataFusion cuts.
//! - NUMERIC becomes a float by its digits, rounded once; DataFusion divides two rounded floats.
//! - A float becomes NUMERIC by the digits that it is sure of: 15, or 6 of a REAL.
//! - NUMERIC without precision never drops digits: what has more than it holds is refused.
//! - A DOUBLE PRECISION that REAL cannot hold is refused; DataFusion makes it infinite, or zero.
//!
//! # Parts
//! [`named`]: names that tell casts apart. [`text`]: casts from and to text.

pub(crate) mod named;
pub(crate) mod text;

use crate::types::{OPEN_NUMERIC, OPEN_SCALE};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The greatest power of ten that a float holds exactly.
const EXACT_POWER_MAX: i8 = 22;

/// Floats rounded to whole numbers, half to even; other arrays as they are.
pub(crate) fn round_half_even(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(f32::round_ties_even))
        }
        _ => array.clone(),
    }
}

/// NUMERIC as the nearest floats of a type.
pub(crate) fn nearest_floats(numbers: &Decimal128Array, to: &DataType) -> ArrayRef {
    let scale = numbers.scale();
    let text = |value| Decimal128Type::format_decimal(value, numbers.precision(), scale);
    if *to == DataType::Float32 {
        let floats: Float32Array = numbers.unary(|value| text(value).parse().expect("digits are a number"));
        return Arc::new(floats);
    }
    let power = 10f64.powi(scale as i32);
    let floats: Float64Array = numbers.unary(|value| {
        // A quotient of two exact floats is rounded once.
        if value.unsigned_abs() < 1 << f64::MANTISSA_DIGITS && (0..=EXACT_POWER_MAX).contains(&scale) {
            value as f64 / power
        } else {
            text(value).parse().expect("digits are a number")
        }
    });
    Arc::new(floats)
}

/// A value as another type, where DataFusion's cast has other rules; `None`: it has not.
pub(crate) fn converted(expr: &Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    if let Some(cast) = text::cast_of(expr, from, to) {
        return Some(cast);
    }
    let function = match (from, to) {
        (DataType::Float32 | DataType::Float64, to) if to.is_integer() => Conversion::new("round_half_even", from),
        (DataType::Float64, DataType::Float32) => Conversion::new("narrow", to),
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(_, _)) => Conversion::new("to_numeric", to),
        (DataType::Decimal128(_, scale), to) if *to == OPEN_NUMERIC && *scale > OPEN_SCALE => {
            Conversion::new("to_open_numeric", to)
        }
        (DataType::Time64(_), DataType::Interval(_)) => return Some(of_time(expr, "cenote_interval_of_time")),
        (DataType::Interval(_), DataType::Time64(_)) => return Some(of_time(expr, "cenote_time_of_interval")),
        (DataType::Decimal128(_, _), DataType::Float32) => Conversion::new("to_real", to),
        (DataType::Decimal128(_, _), DataType::Float64) => Conversion::new("to_double", to),
        (DataType::Decimal128(_, scale), to) if to.is_integer() && *scale > 0 => {
            return Some(datafusion::prelude::cast(expr.clone(), DataType::Decimal128(38, 0)));
        }
        _ => return None,
    };
    let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![expr.clone()]);
    Some(Expr::ScalarFunction(call))
}

fn of_time(expr: &Expr, name: &str) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(crate::functions::own(name), vec![expr.clone()]))
}

/// Floats as NUMERIC: by as many digits as the type is sure of, then rounded to the scale.
///
/// # Errors
/// 22003: it has more digits than the type. 0A000: infinities and NaN.
pub(crate) fn numerics_of(floats: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let is_double = *floats.data_type() == DataType::Float64;
    let doubles = arrow::compute::cast(floats, &DataType::Float64)?;
    let read = doubles.as_primitive::<Float64Type>().iter().map(|value| {
        let text = match value? {
            value if !value.is_finite() => value.to_string(),
            value if is_double => format!("{value:.14e}"),
            value => format!("{value:.5e}"),
        };
        Some(crate::pgtext::read_decimal(&text, precision, scale))
    });
    let read = read
        .map(Option::transpose)
        .collect::<cenote_statestore::Result<Decimal128Array>>();
    let read = read.map_err(crate::provider::outside)?;
    Ok(Arc::new(read.with_precision_and_scale(precision, scale)?))
}

/// NUMERIC as one without precision, whose scale is [`OPEN_SCALE`].
///
/// # Errors
/// 22003: a digit would be lost.
pub(crate) fn open_numerics(numbers: &Decimal128Array) -> Result<ArrayRef> {
    let lost = numbers.scale() - OPEN_SCALE;
    let factor = 10i128.pow(lost.max(0) as u32);
    if numbers.iter().flatten().any(|value| value % factor != 0) {
        return Err(crate::provider::outside(crate::pgtext::digits_lost()));
    }
    let fewer: Decimal128Array = numbers.unary(|value| value / factor);
    Ok(Arc::new(fewer.with_data_type(OPEN_NUMERIC)))
}

/// DOUBLE PRECISION as REAL.
///
/// # Errors
/// 22003: the nearest REAL of a number is infinite, or zero though the number is not.
pub(crate) fn narrowed(doubles: &Float64Array) -> Result<ArrayRef> {
    let floats: Float32Array = doubles.unary(|value| value as f32);
    let mut pairs = doubles
        .iter()
        .zip(&floats)
        .filter_map(|(double, float)| double.zip(float));
    if pairs.any(|(double, float)| float.is_infinite() && double.is_finite()) {
        return Err(crate::arithmetic::out_of_range("value out of range: overflow"));
    }
    let mut pairs = doubles
        .iter()
        .zip(&floats)
        .filter_map(|(double, float)| double.zip(float));
    if pairs.any(|(double, float)| float == 0.0 && double != 0.0) {
        return Err(crate::arithmetic::out_of_range("value out of range: underflow"));
    }
    Ok(Arc::new(floats))
}

/// Rounds floats to whole numbers, or makes NUMERIC or DOUBLE PRECISION a float of fewer digits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Conversion {
    name: &'static str,
    to: DataType,
    signature: Signature,
}

impl Conversion {
    fn new(name: &'static str, to: &DataType) -> Conversion {
        Conversion {
            name,
            to: to.clone(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    fn convert(&self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(match (array.data_type(), &self.to) {
            (DataType::Decimal128(_, _), DataType::Decimal128(_, _)) => open_numerics(array.as_primitive())?,
            (_, DataType::Decimal128(precision, scale)) => numerics_of(array, *precision, *scale)?,
            (DataType::Decimal128(_, _), to) => nearest_floats(array.as_primitive(), to),
            (DataType::Float64, DataType::Float32) => narrowed(array.as_primitive())?,
            _ => round_half_even(array),
        })
    }
}

impl ScalarUDFImpl for Conversion {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.convert(array)?),
            ColumnarValue::Scalar(scalar) => {
                let converted = self.convert(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&converted, 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_become_the_nearest_floats() {
        let numbers = |value: i128, scale| {
            Decimal128Array::from(vec![value])
                .with_precision_and_scale(38, scale)
                .unwrap()
        };
        let nearest = |value, scale| {
            nearest_floats(&numbers(value, scale), &DataType::Float64)
                .as_primitive::<Float64Type>()
                .value(0)
        };
        assert_eq!(nearest(-9191993606146689, 10), -919199.3606146689);
        assert_eq!(nearest(1, 1), 0.1);
        assert_eq!(nearest(i128::from(u64::MAX), 5), 184_467_440_737_095.53);
    }

    #[test]
    fn floats_round_half_to_even() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, -2.5]));
        let rounded = round_half_even(&floats);
        assert_eq!(rounded.as_primitive::<Float64Type>().values(), &[0.0, 2.0, 2.0, -2.0]);
    }
}
