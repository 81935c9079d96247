//! Comparing intervals as PostgreSQL does: by length, a month as 30 days and a day as 24 hours.
//!
//! The length is an exact number of nanoseconds, so `=`, `<`, joins and ORDER BY over it are exact. What would have to
//! choose one of several equal intervals that look different (`1 mon`, `30 days`) is refused: [`crate::keys`].

use arrow::array::{Array, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

const DAY_NANOS: i128 = 86_400_000_000_000;
const NAME: &str = "interval length";

/// The length of an interval, as an expression.
pub(crate) fn length_of(interval: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Length {
        signature: Signature::any(1, Volatility::Immutable),
    }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![interval]))
}

/// The lengths of a column of intervals.
pub(crate) fn lengths(intervals: &dyn Array) -> Decimal128Array {
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let lengths: Decimal128Array = intervals.unary(length);
    // 38 digits hold every length: the greatest has 26.
    lengths.with_data_type(DataType::Decimal128(38, 0))
}

fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = interval.months as i128 * 30 + interval.days as i128;
    days * DAY_NANOS + interval.nanoseconds as i128
}

/// Nanoseconds of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(Arc::new(lengths(array))),
            ColumnarValue::Scalar(scalar) => {
                let converted = lengths(&scalar.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&converted, 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_30_days_and_a_day_24_hours() {
        let of = |months, days, hours: i64| length(IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000));
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 30, 0), of(0, 0, 720));
        assert_eq!(of(1, -30, 0), of(0, 0, 0));
        assert!(of(0, 31, 0) > of(1, 0, 0));
        let greatest = length(IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX));
        assert!(greatest < 10i128.pow(38));
    }
}
