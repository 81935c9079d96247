//! Scalar functions by the types of their arguments, as PostgreSQL finds them.
//!
//! A function has overloads; a call takes the one whose parameters are nearest to the arguments' types. Numbers widen
//! (to DOUBLE PRECISION before NUMERIC), dates become timestamps, texts whatever is asked for: a quoted text has no type
//! of its own. What an overload leaves to DataFusion is computed by the function of that name which was there before.
//!
//! # Not here
//! What the functions compute: [`super::math`], [`super::strings`], [`super::times`], [`super::zones`].

use crate::types::timestamptz;
use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    BigInt,
    Float,
    Numeric,
    Text,
    Bytes,
    Date,
    Time,
    Stamp,
    StampTz,
    Interval,
    Any,
}

/// How a result is made of arguments of one length.
pub(super) enum Run {
    /// Here.
    Own(fn(&[ArrayRef]) -> Result<ArrayRef>),
    /// By DataFusion's function of that name.
    Inner,
    /// By DataFusion's function, of other arguments.
    Adjusted(fn(&mut [ColumnarValue]) -> Result<()>),
}

/// One way to call a function.
pub(super) struct Overload {
    /// What the arguments are; the last stands for any number of them if `is_variadic`.
    pub(super) takes: &'static [Kind],
    pub(super) is_variadic: bool,
    /// The type of the result, by those of the arguments.
    pub(super) gives: fn(&[DataType]) -> DataType,
    pub(super) run: Run,
}

impl Overload {
    pub(super) const fn own(
        takes: &'static [Kind],
        gives: fn(&[DataType]) -> DataType,
        run: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Overload {
        Overload {
            takes,
            is_variadic: false,
            gives,
            run: Run::Own(run),
        }
    }

    pub(super) const fn inner(takes: &'static [Kind]) -> Overload {
        Overload {
            takes,
            is_variadic: false,
            gives: |types| types[0].clone(),
            run: Run::Inner,
        }
    }

    pub(super) const fn many(
        takes: &'static [Kind],
        gives: fn(&[DataType]) -> DataType,
        run: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Overload {
        Overload {
            takes,
            is_variadic: true,
            gives,
            run: Run::Own(run),
        }
    }

    fn kind(&self, argument: usize) -> Kind {
        self.takes[argument.min(self.takes.len() - 1)]
    }

    /// How far the arguments are from the parameters; `None`: they do not fit.
    fn distance(&self, types: &[DataType]) -> Option<u32> {
        let fits = match self.is_variadic {
            true => types.len() >= self.takes.len(),
            false => types.len() == self.takes.len(),
        };
        let each = types.iter().enumerate();
        fits.then(|| {
            each.map(|(argument, found)| distance(self.kind(argument), found))
                .sum::<Option<u32>>()
        })
        .flatten()
    }
}

/// A function and its overloads.
pub(super) type Entry = (&'static str, &'static [&'static str], &'static [Overload]);

/// The result types that functions have.
pub(super) mod gives {
    use super::*;

    pub(in crate::functions) const INT: fn(&[DataType]) -> DataType = |_| DataType::Int32;
    pub(in crate::functions) const FLOAT: fn(&[DataType]) -> DataType = |_| DataType::Float64;
    pub(in crate::functions) const TEXT: fn(&[DataType]) -> DataType = |_| DataType::Utf8;
    pub(in crate::functions) const BYTES: fn(&[DataType]) -> DataType = |_| DataType::Binary;
    pub(in crate::functions) const BOOL: fn(&[DataType]) -> DataType = |_| DataType::Boolean;
    pub(in crate::functions) const FIRST: fn(&[DataType]) -> DataType = |types| types[0].clone();
    pub(in crate::functions) const WHOLE: fn(&[DataType]) -> DataType = |_| DataType::Decimal128(38, 0);
    pub(in crate::functions) const INTERVAL: fn(&[DataType]) -> DataType =
        |_| DataType::Interval(IntervalUnit::MonthDayNano);
    pub(in crate::functions) const STAMP: fn(&[DataType]) -> DataType =
        |_| DataType::Timestamp(TimeUnit::Microsecond, None);
    pub(in crate::functions) const STAMPTZ: fn(&[DataType]) -> DataType = |_| timestamptz();
    pub(in crate::functions) const DATE: fn(&[DataType]) -> DataType = |_| DataType::Date32;
    pub(in crate::functions) const TIME: fn(&[DataType]) -> DataType = |_| DataType::Time64(TimeUnit::Microsecond);
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

/// How far a type is from what a parameter takes; `None`: it cannot be given.
fn distance(kind: Kind, found: &DataType) -> Option<u32> {
    use DataType::{
        Binary, Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Interval, Null, Time64, Timestamp,
    };
    Some(match (kind, found) {
        (Kind::Any, _) => 1,
        (_, Null) => 1,
        (Kind::Int, Int32) | (Kind::BigInt, Int64) | (Kind::Float, Float64) | (Kind::Numeric, Decimal128(_, _)) => 0,
        (Kind::Int, Int16 | DataType::Int8) => 1,
        (Kind::BigInt, found) if found.is_integer() => 2,
        (Kind::Float, Float32) => 1,
        (Kind::Float, found) if found.is_integer() => 3,
        (Kind::Float, Decimal128(_, _)) => 3,
        (Kind::Numeric, found) if found.is_integer() => 4,
        (Kind::Text, found) if is_text(found) => 0,
        (Kind::Bytes, Binary) => 0,
        (Kind::Date, Date32) => 0,
        (Kind::Time, Time64(_)) => 0,
        (Kind::Stamp, Timestamp(_, None)) => 0,
        (Kind::StampTz, Timestamp(_, Some(_))) => 0,
        (Kind::StampTz, Date32) => 1,
        (Kind::Stamp, Date32) => 2,
        (Kind::StampTz, Timestamp(_, None)) => 2,
        (Kind::Interval, Interval(_) | DataType::Duration(_)) => 0,
        (Kind::Text, _) => return None,
        (_, found) if is_text(found) => 50,
        _ => return None,
    })
}

/// The type that an argument is cast to.
fn type_for(kind: Kind, found: &DataType) -> DataType {
    match kind {
        Kind::Int => DataType::Int32,
        Kind::BigInt => DataType::Int64,
        Kind::Float => DataType::Float64,
        Kind::Numeric => crate::types::numeric_of(found),
        Kind::Text => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
        Kind::Date => DataType::Date32,
        Kind::Time => DataType::Time64(TimeUnit::Microsecond),
        Kind::Stamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::StampTz => timestamptz(),
        Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Kind::Any => found.clone(),
    }
}

/// A function with overloads.
pub(super) struct Function {
    name: &'static str,
    aliases: Vec<String>,
    overloads: &'static [Overload],
    inner: Option<Arc<ScalarUDF>>,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Function {
    /// # Arguments
    /// - `inner`: the function of that name that was there before.
    pub(super) fn udf(entry: &Entry, inner: Option<Arc<ScalarUDF>>) -> ScalarUDF {
        let (name, aliases, overloads) = *entry;
        let before = inner.iter().flat_map(|inner| inner.aliases().to_vec());
        let volatility = Volatility::Immutable;
        ScalarUDF::from(Function {
            name,
            aliases: aliases.iter().map(|alias| alias.to_string()).chain(before).collect(),
            overloads,
            inner,
            signature: Signature::user_defined(volatility),
        })
    }

    fn overload(&self, types: &[DataType]) -> Option<&'static Overload> {
        let near = self
            .overloads
            .iter()
            .filter_map(|overload| Some((overload.distance(types)?, overload)));
        near.min_by_key(|(distance, _)| *distance).map(|(_, overload)| overload)
    }

    fn inner(&self, types: &[DataType]) -> Result<&Arc<ScalarUDF>> {
        self.inner.as_ref().ok_or_else(|| {
            let types: Vec<String> = types.iter().map(crate::types::type_name).collect();
            let message = format!("function {}({}) does not exist", self.name, types.join(", "));
            let error = cenote_statestore::Error::new(cenote_statestore::ErrorKind::Invalid, "SQL-0305", message);
            crate::provider::outside(error.sqlstate("42883"))
        })
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match self.overload(types) {
            Some(overload) if !matches!(overload.run, Run::Inner) => {
                let each = types.iter().enumerate();
                Ok(each
                    .map(|(argument, found)| type_for(overload.kind(argument), found))
                    .collect())
            }
            _ => {
                let fields = types.iter().map(|found| Arc::new(Field::new("", found.clone(), true)));
                let fields: Vec<FieldRef> = fields.collect();
                let coerced = fields_with_udf(&fields, self.inner(types)?.as_ref())?;
                Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.overload(types) {
            Some(Overload {
                run: Run::Own(_),
                gives,
                ..
            }) => Ok(gives(types)),
            _ => self.inner(types)?.return_type(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.overload(&types) {
            Some(Overload {
                run: Run::Own(_),
                gives,
                ..
            }) => Ok(Arc::new(Field::new(self.name, gives(&types), true))),
            _ => self.inner(&types)?.return_field_from_args(args),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        match self.overload(&types).map(|overload| &overload.run) {
            Some(Run::Own(run)) => called(&args, *run),
            Some(Run::Adjusted(adjust)) => {
                adjust(&mut args.args)?;
                self.inner(&types)?.invoke_with_args(args)
            }
            _ => self.inner(&types)?.invoke_with_args(args),
        }
    }
}

/// Calls what takes arrays of one length; of constants it makes a constant.
pub(super) fn called(args: &ScalarFunctionArgs, run: fn(&[ArrayRef]) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let arrays: Vec<ArrayRef> = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_>>()?;
    let result = if rows == 0 {
        new_null_array(args.return_field.data_type(), 0)
    } else {
        run(&arrays)?
    };
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

/// An error of evaluation with PostgreSQL's text and SQLSTATE.
pub(super) fn failed(state: &'static str, text: impl Into<String>) -> DataFusionError {
    let error = cenote_statestore::Error::new(cenote_statestore::ErrorKind::Invalid, "EVAL-0004", text.into());
    crate::provider::outside(error.sqlstate(state))
}
