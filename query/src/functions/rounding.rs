//! NUMERIC cut to fewer digits, exactly: TRUNC, CEIL and FLOOR.
//!
//! # Not here
//! Floats and whole numbers, which [`super::math`] and DataFusion compute; ROUND is DataFusion's.

use crate::types::{NUMERIC_DIGITS_MAX, numeric_of};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Precision and scale of a NUMERIC.
fn size_of(data_type: &DataType) -> (u8, i8) {
    match numeric_of(data_type) {
        DataType::Decimal128(precision, scale) => (precision, scale),
        _ => (NUMERIC_DIGITS_MAX, 0),
    }
}

/// The type of the whole numbers nearest to a NUMERIC, of which one can have a digit more.
pub(super) fn whole_type(types: &[DataType]) -> DataType {
    let (precision, scale) = size_of(&types[0]);
    match scale {
        0 => DataType::Decimal128(precision, 0),
        _ => DataType::Decimal128((precision - scale as u8 + 1).min(NUMERIC_DIGITS_MAX), 0),
    }
}

/// Whole numbers of a NUMERIC.
///
/// # Arguments
/// - `divide`: the quotient of a value's digits and those of one.
pub(super) fn whole(a: &[ArrayRef], divide: fn(i128, i128) -> i128) -> Result<ArrayRef> {
    let numbers = a[0].as_primitive::<Decimal128Type>();
    let one = 10i128.pow(numbers.scale().max(0) as u32);
    let whole: Decimal128Array = numbers.unary(|value| divide(value, one));
    let data_type = whole_type(&[numbers.data_type().clone()]);
    Ok(Arc::new(whole.with_data_type(data_type)))
}

/// The type of a NUMERIC of which some digits behind the point are left.
///
/// # Arguments
/// - `places`: how many, if that is a constant.
fn truncated_type(data_type: &DataType, places: Option<i32>) -> DataType {
    let (precision, scale) = size_of(data_type);
    let whole = precision - scale.max(0) as u8;
    let room = (NUMERIC_DIGITS_MAX - whole) as i32;
    let scale = places.map_or(scale, |places| places.clamp(0, room.max(0)) as i8);
    DataType::Decimal128((whole + scale as u8).max(1), scale)
}

/// The digits of a value with some behind the point left, at another scale.
fn truncated(value: i128, scale: i8, places: i32, to: i8) -> i128 {
    let cut = i32::from(scale).saturating_sub(places);
    let left = match cut {
        ..=0 => value,
        cut @ 1..=38 => value - value % 10i128.pow(cut as u32),
        _ => 0,
    };
    match to >= scale {
        true => left * 10i128.pow((to - scale) as u32),
        false => left / 10i128.pow((scale - to) as u32),
    }
}

/// `trunc(x)` and `trunc(x, places)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Truncation {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Truncation {
    /// The function in the place of DataFusion's, which makes floats of NUMERIC.
    pub(super) fn function(inner: Arc<ScalarUDF>) -> ScalarUDF {
        ScalarUDF::from(Truncation {
            inner,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

/// Whether a call is one of NUMERIC.
fn is_exact(types: &[DataType]) -> bool {
    match types {
        [DataType::Decimal128(_, _)] => true,
        [DataType::Decimal128(_, _), places] => places.is_integer() || *places == DataType::Null,
        [value, places] => value.is_integer() && places.is_integer(),
        _ => false,
    }
}

impl ScalarUDFImpl for Truncation {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if is_exact(types) {
            let all = [numeric_of(&types[0]), DataType::Int32];
            return Ok(all[..types.len()].to_vec());
        }
        let fields = types.iter().map(|found| Arc::new(Field::new("", found.clone(), true)));
        let fields: Vec<FieldRef> = fields.collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match is_exact(types) {
            true => Ok(truncated_type(&types[0], (types.len() == 1).then_some(0))),
            false => self.inner.return_type(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if !is_exact(&types) {
            return self.inner.return_field_from_args(args);
        }
        let places = match args.scalar_arguments.get(1) {
            None => Some(0),
            Some(None) => None,
            Some(Some(constant)) => match constant.cast_to(&DataType::Int32)? {
                ScalarValue::Int32(places) => places,
                _ => None,
            },
        };
        let data_type = truncated_type(&types[0], places);
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(_, to) = *args.return_type() else {
            return self.inner.invoke_with_args(args);
        };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let numbers = args.args[0].to_array(rows)?;
        let numbers = numbers.as_primitive::<Decimal128Type>();
        let scale = numbers.scale();
        let results: Decimal128Array = match args.args.get(1) {
            None => numbers.unary(|value| truncated(value, scale, 0, to)),
            Some(places) => {
                let places = arrow::compute::cast(&places.to_array(rows)?, &DataType::Int32)?;
                let pairs = numbers.iter().zip(places.as_primitive::<Int32Type>());
                pairs
                    .map(|(value, places)| {
                        value
                            .zip(places)
                            .map(|(value, places)| truncated(value, scale, places, to))
                    })
                    .collect()
            }
        };
        let results = results.with_data_type(args.return_type().clone());
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(Arc::new(results)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_cut_towards_zero_on_both_sides_of_the_point() {
        assert_eq!(truncated(-123_456, 4, 2, 2), -1_234);
        assert_eq!(truncated(123_456, 4, -1, 0), 10);
        assert_eq!(truncated(123_456, 4, -5, 0), 0);
        assert_eq!(truncated(15, 1, 3, 3), 1_500);
        assert_eq!(truncated(123_456, 4, 0, 4), 120_000);
        assert_eq!(truncated(i128::MAX / 10, 38, i32::MIN, 0), 0);
    }

    #[test]
    fn types_have_room_for_what_is_left() {
        let numeric = DataType::Decimal128;
        assert_eq!(truncated_type(&numeric(12, 4), Some(0)), numeric(8, 0));
        assert_eq!(truncated_type(&numeric(12, 4), None), numeric(12, 4));
        assert_eq!(truncated_type(&numeric(4, 4), Some(-3)), numeric(1, 0));
        assert_eq!(truncated_type(&numeric(38, 18), Some(30)), numeric(38, 18));
        assert_eq!(whole_type(&[numeric(38, 38)]), numeric(1, 0));
    }
}
