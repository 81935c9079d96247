//! Functions whose results differ between PostgreSQL and DataFusion.
//!
//! `sum` and `avg` have PostgreSQL's result types: sum(bigint) and avg of integers are NUMERIC, sum of REAL is REAL,
//! avg of REAL is DOUBLE PRECISION. Exact numbers are summed by DataFusion on arguments cast for that, floats by
//! [`crate::float_sum`].

use crate::float_sum::{DistinctFloatSum, FloatResult, FloatSum, GroupedFloatSums};
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::Epoch;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, GroupsAccumulator, ReversedUDAF, ScalarUDF,
    Signature, Volatility, create_udf,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Fractional digits that an average of exact numbers is computed with, at least.
const AVERAGE_DIGITS: i8 = 16;

/// Digits that DataFusion's average adds to its argument's scale.
const AVERAGE_ADDS: i8 = 4;

macro_rules! postgres_aggregate {
    ($name:ident, $inner:ty, $sql_name:literal, $coerce:ident, $mean:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $name {
            inner: $inner,
            signature: Signature,
        }

        impl AggregateUDFImpl for $name {
            fn name(&self) -> &str {
                $sql_name
            }

            // Every alias of the function replaced, so that none brings that one back.
            fn aliases(&self) -> &[String] {
                self.inner.aliases()
            }

            fn signature(&self) -> &Signature {
                &self.signature
            }

            fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
                match arguments {
                    [argument] => Ok(vec![$coerce(argument)?]),
                    _ => Err(DataFusionError::Plan(
                        concat!($sql_name, " takes one argument").into(),
                    )),
                }
            }

            fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
                match arguments {
                    [DataType::Float32] => Ok(DataType::Float32),
                    _ => self.inner.return_type(arguments),
                }
            }

            fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
                match float_result(args.return_type(), $mean) {
                    Some(result) if args.is_distinct => Ok(Box::new(DistinctFloatSum::new(result))),
                    Some(result) => Ok(Box::new(FloatSum::new(result))),
                    None => self.inner.accumulator(args),
                }
            }

            fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
                match float_result(args.return_type(), $mean) {
                    Some(_) => Ok(crate::float_sum::state_fields(args.name)),
                    None => self.inner.state_fields(args),
                }
            }

            fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
                match float_result(args.return_type(), $mean) {
                    Some(_) => !args.is_distinct,
                    None => self.inner.groups_accumulator_supported(args),
                }
            }

            fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
                match float_result(args.return_type(), $mean) {
                    Some(result) => Ok(Box::new(GroupedFloatSums::new(result))),
                    None => self.inner.create_groups_accumulator(args),
                }
            }

            fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
                match float_result(args.return_type(), $mean) {
                    Some(_) => self.accumulator(args),
                    None => self.inner.create_sliding_accumulator(args),
                }
            }

            fn reverse_expr(&self) -> ReversedUDAF {
                ReversedUDAF::Identical
            }
        }
    };
}

postgres_aggregate!(
    PostgresSum,
    Sum,
    "sum",
    sum_argument,
    false,
    "SUM with PostgreSQL's result types."
);
postgres_aggregate!(
    PostgresAvg,
    Avg,
    "avg",
    avg_argument,
    true,
    "AVG with PostgreSQL's result types."
);

/// What a sum of floats gives; `None`: the sum is of exact numbers.
fn float_result(data_type: &DataType, mean: bool) -> Option<FloatResult> {
    data_type.is_floating().then(|| FloatResult {
        mean,
        data_type: data_type.clone(),
    })
}

fn wrong_argument(name: &str, argument: &DataType) -> DataFusionError {
    DataFusionError::Plan(format!(
        "function {name}({}) does not exist",
        crate::types::type_name(argument)
    ))
}

fn sum_argument(argument: &DataType) -> Result<DataType> {
    Ok(match argument {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => DataType::Int64,
        DataType::Int64 | DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(28, 0),
        DataType::Float16 | DataType::Float32 => DataType::Float32,
        DataType::Float64 => DataType::Float64,
        DataType::Decimal128(_, _) | DataType::Decimal256(_, _) => argument.clone(),
        DataType::Null => DataType::Int64,
        other => return Err(wrong_argument("sum", other)),
    })
}

fn avg_argument(argument: &DataType) -> Result<DataType> {
    let scale = AVERAGE_DIGITS - AVERAGE_ADDS;
    Ok(match argument {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64 => DataType::Decimal128(20 + scale as u8, scale),
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
        DataType::Decimal128(precision, own) => {
            let whole = *precision as i8 - own;
            let room = 38 - AVERAGE_ADDS - whole;
            let scale = scale.min(room).max(*own);
            DataType::Decimal128((whole + scale).min(38) as u8, scale)
        }
        other => return Err(wrong_argument("avg", other)),
    })
}

/// Names the casts in aggregates' arguments, which DataFusion leaves out of names: without it `avg(a)` and
/// `avg(a::int)` in one query are one name for two values.
#[derive(Debug)]
pub(crate) struct NamedCasts;

impl ExprPlanner for NamedCasts {
    fn plan_aggregate(&self, mut call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        for argument in &mut call.args {
            if argument.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))))? {
                let name = argument.to_string();
                *argument = std::mem::take(argument).alias(name);
            }
        }
        Ok(PlannerResult::Original(call))
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

/// Replaces functions by their PostgreSQL variants.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    use datafusion::execution::FunctionRegistry;
    state.register_expr_planner(Arc::new(NamedCasts))?;
    let any = || Signature::user_defined(Volatility::Immutable);
    state.register_udaf(Arc::new(AggregateUDF::from(PostgresSum {
        inner: Sum::new(),
        signature: any(),
    })))?;
    state.register_udaf(Arc::new(AggregateUDF::from(PostgresAvg {
        inner: Avg::new(),
        signature: any(),
    })))?;
    Ok(())
}
