//! Functions whose results differ between PostgreSQL and DataFusion.
//!
//! `sum` and `avg` have PostgreSQL's result types: sum of BIGINT and avg of exact numbers are NUMERIC, sum of REAL is
//! REAL, avg of REAL is DOUBLE PRECISION; they are computed by [`crate::sums`]. `min` and `max` are
//! [`crate::extremes`], variances and deviations [`crate::spreads`]; `array_agg` and `string_agg` become
//! [`crate::gathered`] when a plan is made.

mod bounded;
mod fields;
mod joined;
mod making;
mod math;
mod overloads;
mod quoting;
mod rounding;
mod strings;
mod times;
mod zones;

pub(crate) use fields::extract_name;

use crate::arithmetic::quotient_type;
use crate::sums::{DistinctSum, ExactTotal, FloatTotal, GroupedSums, Reading, Sum, SumResult, Total};
use crate::types::NUMERIC_DIGITS_MAX;
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::Epoch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, ReversedUDAF, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, create_udf,
};
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// `sum` or `avg`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Summing {
    mean: bool,
    signature: Signature,
    aliases: Vec<String>,
}

impl Summing {
    fn function(mean: bool) -> AggregateUDF {
        AggregateUDF::from(Summing {
            mean,
            signature: Signature::user_defined(Volatility::Immutable),
            // Every alias of the function replaced, so that none brings that one back.
            aliases: if mean { vec!["mean".into()] } else { Vec::new() },
        })
    }

    fn result(&self, args: &AccumulatorArgs) -> SumResult {
        let scale = match args.expr_fields.first().map(|field| field.data_type()) {
            Some(DataType::Decimal128(_, scale)) => *scale,
            _ => 0,
        };
        SumResult {
            reading: if self.mean { Reading::Mean } else { Reading::Sum },
            scale,
            data_type: args.return_type().clone(),
        }
    }

    fn one<T: Total>(&self, args: &AccumulatorArgs) -> Box<dyn Accumulator> {
        if args.is_distinct {
            Box::new(DistinctSum::<T>::new(self.result(args)))
        } else {
            Box::new(Sum::<T>::new(self.result(args)))
        }
    }
}

impl AggregateUDFImpl for Summing {
    fn name(&self) -> &str {
        if self.mean { "avg" } else { "sum" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [argument] => Ok(vec![summed_type(self.name(), argument)?]),
            _ => Err(DataFusionError::Plan(format!("{} takes one argument", self.name()))),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [argument] = arguments else {
            return Err(DataFusionError::Plan(format!("{} takes one argument", self.name())));
        };
        Ok(if self.mean {
            mean_type(argument)
        } else {
            sum_type(argument)
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(if args.return_type().is_floating() {
            self.one::<FloatTotal>(&args)
        } else {
            self.one::<ExactTotal>(&args)
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(crate::sums::state_fields(args.name))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let result = self.result(&args);
        Ok(if args.return_type().is_floating() {
            Box::new(GroupedSums::<FloatTotal>::new(result))
        } else {
            Box::new(GroupedSums::<ExactTotal>::new(result))
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The type that an argument is summed in.
pub(crate) fn summed_type(name: &str, argument: &DataType) -> Result<DataType> {
    Ok(match argument {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::Null => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(NUMERIC_DIGITS_MAX, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(_, _) => argument.clone(),
        DataType::Float32 | DataType::Float64 => argument.clone(),
        other => {
            let other = crate::types::type_name(other);
            return Err(DataFusionError::Plan(format!(
                "function {name}({other}) does not exist"
            )));
        }
    })
}

fn sum_type(argument: &DataType) -> DataType {
    match argument {
        DataType::Int16 | DataType::Int32 => DataType::Int64,
        DataType::Decimal128(_, scale) => DataType::Decimal128(NUMERIC_DIGITS_MAX, *scale),
        DataType::Float32 | DataType::Float64 => argument.clone(),
        _ => DataType::Decimal128(NUMERIC_DIGITS_MAX, 0),
    }
}

fn mean_type(argument: &DataType) -> DataType {
    match argument {
        DataType::Float32 | DataType::Float64 => DataType::Float64,
        // A mean is a quotient by a whole number.
        DataType::Decimal128(_, scale) => quotient_type(*scale, 0),
        _ => quotient_type(0, 0),
    }
}

/// `cenote_epoch()`: the epoch that a statement reads.
pub(crate) fn cenote_epoch(epoch: Epoch) -> ScalarUDF {
    let value = ColumnarValue::Scalar(ScalarValue::Int64(Some(epoch.0 as i64)));
    let function = Arc::new(move |_: &[ColumnarValue]| Ok(value.clone()));
    create_udf(
        "cenote_epoch",
        Vec::new(),
        DataType::Int64,
        Volatility::Stable,
        function,
    )
}

/// The scalar functions that are PostgreSQL's here.
fn entries() -> impl Iterator<Item = &'static overloads::Entry> {
    [
        math::FUNCTIONS,
        strings::FUNCTIONS,
        times::FUNCTIONS,
        making::FUNCTIONS,
        zones::FUNCTIONS,
        fields::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// One of the scalar functions that are computed here, by its name.
///
/// # Panics
/// If there is none of that name (a caller's bug).
pub(crate) fn own(name: &str) -> Arc<ScalarUDF> {
    static OWN: LazyLock<HashMap<&'static str, Arc<ScalarUDF>>> = LazyLock::new(|| {
        let all = entries().map(|entry| (entry.0, Arc::new(overloads::Function::udf(entry, None))));
        all.collect()
    });
    OWN.get(name).expect("a function of the tables").clone()
}

/// Replaces functions by their PostgreSQL variants.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    use datafusion::execution::FunctionRegistry;
    for function in [Summing::function(false), Summing::function(true)]
        .into_iter()
        .chain(crate::extremes::functions())
        .chain(crate::spreads::functions())
    {
        state.register_udaf(Arc::new(function))?;
    }
    state.register_udf(Arc::new(crate::casts::named::NamedCast::function()))?;
    state.register_udf(Arc::new(crate::casts::named::OpenNumeric::function()))?;
    state.register_udf(Arc::new(crate::structs::Row::function()))?;
    for name in crate::choices::NAMES {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(crate::choices::Choice::function(inner)))?;
    }
    let trunc = state.udf("trunc")?;
    state.register_udf(Arc::new(rounding::Truncation::function(trunc)))?;
    let every = state.udaf("bool_and")?.as_ref().clone().with_aliases(["every"]);
    state.register_udaf(Arc::new(every))?;
    for entry in entries() {
        let before = state.udf(entry.0).ok();
        state.register_udf(Arc::new(overloads::Function::udf(entry, before)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(OctetLength {
        signature: Signature::any(1, Volatility::Immutable),
    })))?;
    bounded::register(state)
}

/// `octet_length(text | bytea)`: bytes; DataFusion's takes texts only.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OctetLength {
    signature: Signature,
}

impl ScalarUDFImpl for OctetLength {
    fn name(&self) -> &str {
        "octet_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &arguments[0] {
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Binary | DataType::Null => {
                Ok(DataType::Int32)
            }
            other => {
                let other = crate::types::type_name(other);
                Err(DataFusionError::Plan(format!(
                    "function octet_length({other}) does not exist"
                )))
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = match &args.args[0] {
            ColumnarValue::Array(array) => array.len(),
            ColumnarValue::Scalar(_) => 1,
        };
        let values = args.args[0].to_array(rows)?;
        let values = match values.data_type() {
            DataType::Binary => values,
            _ => arrow::compute::cast(&values, &DataType::Utf8)?,
        };
        let lengths = arrow::compute::cast(&arrow::compute::kernels::length::length(&values)?, &DataType::Int32)?;
        Ok(match &args.args[0] {
            ColumnarValue::Array(_) => ColumnarValue::Array(lengths),
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
        })
    }
}
