//! Functions of numbers whose results or errors are not DataFusion's.
//!
//! A result that DOUBLE PRECISION cannot hold, or that is none, is an error (22003, 2201E, 2201F); DataFusion gives
//! infinities and NaN.

use super::overloads::{Entry, Kind, Overload, Run, failed, gives};
use super::rounding;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int32Array, PrimitiveArray, StringArray};
use arrow::compute::kernels::arity::{try_binary, try_unary};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, i256};
use arrow::error::ArrowError;
use datafusion::error::Result;
use std::sync::Arc;

use Kind::{Any, BigInt, Float, Int, Numeric};

/// What a function of one float is.
macro_rules! of_float {
    ($name:literal, $aliases:expr, $compute:expr) => {
        (
            $name,
            $aliases,
            &[Overload::own(&[Float], gives::FLOAT, |a| float(a, $compute))],
        )
    };
}

pub(super) const FUNCTIONS: &[Entry] = &[
    of_float!("exp", &[], |x| bounded(x.exp(), x.is_finite(), true)),
    of_float!("sqrt", &[], |x| match x < 0.0 {
        true => Err(no_power("cannot take square root of a negative number")),
        false => Ok(x.sqrt()),
    }),
    of_float!("ln", &[], |x| logarithm(x).map(f64::ln)),
    of_float!("log10", &[], |x| logarithm(x).map(f64::log10)),
    (
        "log",
        &[],
        &[
            Overload::own(&[Float], gives::FLOAT, |a| float(a, |x| logarithm(x).map(f64::log10))),
            Overload::own(&[Float, Float], gives::FLOAT, |a| floats(a, log_of_base)),
        ],
    ),
    (
        "power",
        &["pow"],
        &[Overload::own(&[Float, Float], gives::FLOAT, |a| floats(a, power))],
    ),
    of_float!("asin", &[], |x| within(x, x.abs() <= 1.0, f64::asin)),
    of_float!("acos", &[], |x| within(x, x.abs() <= 1.0, f64::acos)),
    of_float!("acosh", &[], |x| within(x, x >= 1.0, f64::acosh)),
    of_float!("atanh", &[], |x| within(x, x.abs() <= 1.0, f64::atanh)),
    of_float!("sin", &[], |x| within(x, x.is_finite(), f64::sin)),
    of_float!("cos", &[], |x| within(x, x.is_finite(), f64::cos)),
    of_float!("tan", &[], |x| within(x, x.is_finite(), f64::tan)),
    of_float!("cot", &[], |x| within(x, x.is_finite(), |x| 1.0 / x.tan())),
    (
        "round",
        &[],
        &[
            Overload::own(&[Float], gives::FLOAT, |a| float(a, |x| Ok(x.round_ties_even()))),
            Overload::inner(&[Numeric]),
            Overload {
                takes: &[Numeric, Int],
                is_variadic: false,
                gives: gives::FIRST,
                run: Run::Adjusted(|_| Ok(())),
            },
        ],
    ),
    (
        "ceil",
        &["ceiling"],
        &[
            Overload::own(&[Float], gives::FLOAT, |a| float(a, |x| Ok(x.ceil()))),
            Overload::own(&[Numeric], rounding::whole_type, |a| {
                rounding::whole(a, |value, one| -((-value).div_euclid(one)))
            }),
        ],
    ),
    (
        "floor",
        &[],
        &[
            Overload::own(&[Float], gives::FLOAT, |a| float(a, |x| Ok(x.floor()))),
            Overload::own(&[Numeric], rounding::whole_type, |a| {
                rounding::whole(a, i128::div_euclid)
            }),
        ],
    ),
    (
        "sign",
        &[],
        &[
            Overload::own(&[Float], gives::FLOAT, |a| {
                float(a, |x| Ok(if x == 0.0 || x.is_nan() { 0.0 } else { x.signum() }))
            }),
            Overload::own(
                &[Numeric],
                |_| DataType::Decimal128(1, 0),
                |a| {
                    let signs: Decimal128Array = a[0].as_primitive::<Decimal128Type>().unary(i128::signum);
                    Ok(Arc::new(signs.with_precision_and_scale(1, 0)?))
                },
            ),
        ],
    ),
    (
        "div",
        &[],
        &[Overload::own(&[Numeric, Numeric], gives::WHOLE, whole_quotients)],
    ),
    ("factorial", &[], &[Overload::own(&[BigInt], gives::WHOLE, factorials)]),
    (
        "to_hex",
        &[],
        &[
            Overload::own(&[Int], gives::TEXT, |a| {
                let numbers = a[0].as_primitive::<Int32Type>();
                Ok(Arc::new(
                    numbers
                        .iter()
                        .map(|n| n.map(|n| format!("{n:x}")))
                        .collect::<StringArray>(),
                ))
            }),
            Overload::own(&[BigInt], gives::TEXT, |a| {
                let numbers = a[0].as_primitive::<Int64Type>();
                Ok(Arc::new(
                    numbers
                        .iter()
                        .map(|n| n.map(|n| format!("{n:x}")))
                        .collect::<StringArray>(),
                ))
            }),
        ],
    ),
    (
        "width_bucket",
        &[],
        &[
            Overload::own(&[Float, Float, Float, Int], gives::INT, float_buckets),
            Overload::own(&[Numeric, Numeric, Numeric, Int], gives::INT, numeric_buckets),
        ],
    ),
    (
        "scale",
        &[],
        &[Overload::own(&[Numeric], gives::INT, |a| scales(a, |_, scale| scale))],
    ),
    (
        "min_scale",
        &[],
        &[Overload::own(&[Numeric], gives::INT, |a| scales(a, min_scale))],
    ),
    (
        "trim_scale",
        &[],
        &[Overload::own(&[Numeric], gives::FIRST, |a| Ok(a[0].clone()))],
    ),
    (
        "num_nulls",
        &[],
        &[Overload::many(&[Any], gives::INT, |a| counted(a, true))],
    ),
    (
        "num_nonnulls",
        &[],
        &[Overload::many(&[Any], gives::INT, |a| counted(a, false))],
    ),
    (
        "cenote_bit_not",
        &[],
        &[
            Overload::own(&[Int], gives::INT, |a| inverted::<Int32Type>(&a[0])),
            Overload::own(&[BigInt], gives::FIRST, |a| inverted::<Int64Type>(&a[0])),
        ],
    ),
];

fn inverted<T: ArrowPrimitiveType>(numbers: &ArrayRef) -> Result<ArrayRef>
where
    T::Native: std::ops::Not<Output = T::Native>,
{
    let inverted: PrimitiveArray<T> = numbers.as_primitive::<T>().unary(|number| !number);
    Ok(Arc::new(inverted))
}

fn external(error: datafusion::error::DataFusionError) -> ArrowError {
    ArrowError::ExternalError(Box::new(crate::error::from_datafusion(error)))
}

fn float(a: &[ArrayRef], compute: fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    let floats = a[0].as_primitive::<Float64Type>();
    let computed: Float64Array = try_unary(floats, |x| compute(x).map_err(external))?;
    Ok(Arc::new(computed))
}

fn floats(a: &[ArrayRef], compute: fn(f64, f64) -> Result<f64>) -> Result<ArrayRef> {
    let (left, right) = (a[0].as_primitive::<Float64Type>(), a[1].as_primitive::<Float64Type>());
    let computed: Float64Array = try_binary(left, right, |x, y| compute(x, y).map_err(external))?;
    Ok(Arc::new(computed))
}

/// A result of finite numbers is finite, and no zero if it cannot be.
fn bounded(result: f64, is_of_finite: bool, is_never_zero: bool) -> Result<f64> {
    match result {
        result if result.is_infinite() && is_of_finite => {
            Err(crate::arithmetic::out_of_range("value out of range: overflow"))
        }
        0.0 if is_of_finite && is_never_zero => Err(crate::arithmetic::out_of_range("value out of range: underflow")),
        result => Ok(result),
    }
}

fn no_power(text: &str) -> datafusion::error::DataFusionError {
    failed("2201F", text)
}

/// A number that has a logarithm.
fn logarithm(x: f64) -> Result<f64> {
    match x {
        0.0 => Err(failed("2201E", "cannot take logarithm of zero")),
        x if x < 0.0 => Err(failed("2201E", "cannot take logarithm of a negative number")),
        x => Ok(x),
    }
}

fn log_of_base(base: f64, x: f64) -> Result<f64> {
    let (base, x) = (logarithm(base)?.ln(), logarithm(x)?.ln());
    match base {
        0.0 => Err(failed("22012", "division by zero")),
        base => Ok(x / base),
    }
}

fn power(x: f64, y: f64) -> Result<f64> {
    if x == 0.0 && y < 0.0 {
        return Err(no_power("zero raised to a negative power is undefined"));
    }
    if x < 0.0 && y.is_finite() && y.floor() != y {
        let text = "a negative number raised to a non-integer power yields a complex result";
        return Err(no_power(text));
    }
    bounded(x.powf(y), x.is_finite() && y.is_finite(), x != 0.0)
}

/// A function of what is in its domain; NaN is in all.
fn within(x: f64, is_in: bool, compute: fn(f64) -> f64) -> Result<f64> {
    match is_in || x.is_nan() {
        true => Ok(compute(x)),
        false => Err(crate::arithmetic::out_of_range("input is out of range")),
    }
}

fn factorials(a: &[ArrayRef]) -> Result<ArrayRef> {
    let factorial = |n: i64| match n {
        n if n < 0 => Err(external(failed("22003", "factorial of a negative number is undefined"))),
        n if n > 33 => Err(external(crate::arithmetic::out_of_range(
            "value overflows numeric format",
        ))),
        n => Ok((1..=n as i128).product::<i128>()),
    };
    let computed: Decimal128Array = try_unary(a[0].as_primitive::<Int64Type>(), factorial)?;
    Ok(Arc::new(computed.with_precision_and_scale(38, 0)?))
}

/// The values of two columns of NUMERIC with one scale.
fn on_one_scale(arrays: &[&Decimal128Array]) -> Vec<Vec<Option<i256>>> {
    let scale = arrays.iter().map(|array| array.scale()).max().unwrap_or_default();
    let scaled = arrays.iter().map(|array| {
        let factor = i256::from_i128(10i128.pow((scale - array.scale()) as u32));
        let values = array
            .iter()
            .map(|value| Some(i256::from_i128(value?).wrapping_mul(factor)));
        values.collect()
    });
    scaled.collect()
}

fn whole_quotients(a: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers: Vec<&Decimal128Array> = a.iter().map(|array| array.as_primitive()).collect();
    let scaled = on_one_scale(&numbers);
    let quotient = |(x, y): (&Option<i256>, &Option<i256>)| match (x, y) {
        (Some(_), Some(y)) if *y == i256::ZERO => Err(failed("22012", "division by zero")),
        (Some(x), Some(y)) => {
            let is_numeric = |value: &i128| value.unsigned_abs() < 10u128.pow(38);
            let held = x.wrapping_div(*y).to_i128().filter(is_numeric);
            let overflow = || crate::arithmetic::out_of_range("value overflows numeric format");
            Ok(Some(held.ok_or_else(overflow)?))
        }
        _ => Ok(None),
    };
    let computed: Decimal128Array = scaled[0].iter().zip(&scaled[1]).map(quotient).collect::<Result<_>>()?;
    Ok(Arc::new(computed.with_precision_and_scale(38, 0)?))
}

fn buckets_wrong(text: &str) -> datafusion::error::DataFusionError {
    failed("2201G", text)
}

fn float_buckets(a: &[ArrayRef]) -> Result<ArrayRef> {
    let of = |index: usize| a[index].as_primitive::<Float64Type>();
    let counts = a[3].as_primitive::<Int32Type>();
    let bucket = |row: usize| {
        if a.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (x, low, high, count) = (of(0).value(row), of(1).value(row), of(2).value(row), counts.value(row));
        if count <= 0 {
            return Err(buckets_wrong("count must be greater than zero"));
        }
        if [x, low, high].iter().any(|x| x.is_nan()) {
            return Err(buckets_wrong("operand, lower bound, and upper bound cannot be NaN"));
        }
        if !low.is_finite() || !high.is_finite() {
            return Err(buckets_wrong("lower and upper bounds must be finite"));
        }
        let (x, low, high) = if low > high { (-x, -low, -high) } else { (x, low, high) };
        Ok(Some(match () {
            _ if low == high => return Err(buckets_wrong("lower bound cannot equal upper bound")),
            _ if x < low => 0,
            _ if x >= high => count
                .checked_add(1)
                .ok_or_else(|| crate::arithmetic::out_of_range("integer out of range"))?,
            _ => (count as f64 * ((x - low) / (high - low))) as i32 + 1,
        }))
    };
    let found: Int32Array = (0..counts.len()).map(bucket).collect::<Result<_>>()?;
    Ok(Arc::new(found))
}

fn numeric_buckets(a: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers: Vec<&Decimal128Array> = a[..3].iter().map(|array| array.as_primitive()).collect();
    let (scaled, counts) = (on_one_scale(&numbers), a[3].as_primitive::<Int32Type>());
    let bucket = |row: usize| {
        let (Some(x), Some(low), Some(high), true) =
            (scaled[0][row], scaled[1][row], scaled[2][row], counts.is_valid(row))
        else {
            return Ok(None);
        };
        let count = counts.value(row);
        if count <= 0 {
            return Err(buckets_wrong("count must be greater than zero"));
        }
        let negated = |value: i256| value.wrapping_neg();
        let (x, low, high) = if low > high {
            (negated(x), negated(low), negated(high))
        } else {
            (x, low, high)
        };
        Ok(Some(match () {
            _ if low == high => return Err(buckets_wrong("lower bound cannot equal upper bound")),
            _ if x < low => 0,
            _ if x >= high => count
                .checked_add(1)
                .ok_or_else(|| crate::arithmetic::out_of_range("integer out of range"))?,
            _ => {
                let part = x.wrapping_sub(low).wrapping_mul(i256::from_i128(count as i128));
                part.wrapping_div(high.wrapping_sub(low)).to_i128().unwrap_or_default() as i32 + 1
            }
        }))
    };
    let found: Int32Array = (0..counts.len()).map(bucket).collect::<Result<_>>()?;
    Ok(Arc::new(found))
}

fn scales(a: &[ArrayRef], of: fn(i128, i32) -> i32) -> Result<ArrayRef> {
    let numbers = a[0].as_primitive::<Decimal128Type>();
    let scale = numbers.scale() as i32;
    let found: Int32Array = numbers.unary(|value| of(value, scale));
    Ok(Arc::new(found))
}

fn min_scale(mut value: i128, mut scale: i32) -> i32 {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    scale
}

fn counted(a: &[ArrayRef], nulls: bool) -> Result<ArrayRef> {
    let is_null = |array: &ArrayRef, row| *array.data_type() == DataType::Null || array.is_null(row);
    let rows = a.first().map_or(0, |array| array.len());
    let count = |row| a.iter().filter(|array| is_null(array, row) == nulls).count() as i32;
    Ok(Arc::new(
        (0..rows)
            .map(count)
            .collect::<Vec<i32>>()
            .into_iter()
            .collect::<Int32Array>(),
    ))
}
