//! Arrays of one dimension with PostgreSQL's meaning: subscripts, `= ANY`, `array_length`.
//!
//! DataFusion's functions on lists differ: a negative position counts from the end, an empty list has the length 0, a
//! NULL in a list is taken for nothing. [`ArraySubscripts`] plans subscripts, [`of_call`] takes the place of the calls.
//!
//! # Not here
//! Slices are refused. `unnest` and `ARRAY[...]` are DataFusion's.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, UInt32Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit, when,
};
use datafusion::prelude::cast as cast_to;
use std::sync::Arc;

/// Plans subscripts of arrays.
#[derive(Debug)]
pub(crate) struct ArraySubscripts;

impl ExprPlanner for ArraySubscripts {
    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let data_type = raw.expr.get_type(schema);
        let Ok(DataType::List(item)) = data_type else {
            return Ok(PlannerResult::Original(raw));
        };
        match raw.field_access {
            GetFieldAccess::ListIndex { key } => {
                let arguments = vec![raw.expr, *key];
                let element = call(Function::Element, item.data_type().clone(), arguments);
                Ok(PlannerResult::Planned(element))
            }
            _ => {
                let error = crate::error::unsupported("a slice of an array");
                Err(crate::provider::outside(error))
            }
        }
    }
}

/// Whether a call is one of DataFusion's functions that mean something else in PostgreSQL.
pub(crate) fn is_replaced(scalar: &ScalarFunction, schema: &DFSchema) -> bool {
    let is_list = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::List(_)));
    matches!(scalar.name(), "array_length" | "array_has") && scalar.args.len() == 2 && is_list(&scalar.args[0])
}

/// The call with PostgreSQL's meaning.
pub(crate) fn of_call(scalar: &ScalarFunction) -> Result<Expr> {
    Ok(match (scalar.name(), scalar.args.as_slice()) {
        ("array_length", [array, dimension]) => {
            let arguments = vec![array.clone(), dimension.clone()];
            call(Function::Length, DataType::Int32, arguments)
        }
        ("array_has", [array, value]) => {
            let has_null = call(Function::HasNull, DataType::Boolean, vec![array.clone()]);
            let found = Expr::ScalarFunction(scalar.clone());
            // A NULL in the array could be the value: what is not found is unknown then.
            let unknown = has_null.and(found.clone().is_false()).and(value.clone().is_not_null());
            let null = lit(ScalarValue::Boolean(None));
            when(unknown, null).otherwise(found)?
        }
        _ => Expr::ScalarFunction(scalar.clone()),
    })
}

/// A plan whose arrays of decimals are of the type of the decimals that are looked for in them: a parameter brings its own.
///
/// # Errors
/// Those of recomputing a plan.
pub(crate) fn with_decimals_alike(plan: LogicalPlan) -> Result<LogicalPlan> {
    let alike = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let alike = expr.transform_up(|part| Ok(decimals_alike(part, &schema)))?;
            Ok(alike.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(alike.data)
}

fn decimals_alike(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(scalar) = &expr else {
        return Transformed::no(expr);
    };
    let ("array_has", [array, value]) = (scalar.name(), scalar.args.as_slice()) else {
        return Transformed::no(expr);
    };
    let (Ok(DataType::List(item)), Ok(wanted)) = (array.get_type(schema), value.get_type(schema)) else {
        return Transformed::no(expr);
    };
    let Some(common) = common_decimal(item.data_type(), &wanted) else {
        return Transformed::no(expr);
    };
    let list = DataType::List(Arc::new(Field::new_list_field(common.clone(), true)));
    let arguments = vec![cast_to(array.clone(), list), cast_to(value.clone(), common)];
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
        scalar.func.clone(),
        arguments,
    )))
}

/// The type that holds the digits of two unlike decimals; `None`: they are alike, or none.
fn common_decimal(one: &DataType, other: &DataType) -> Option<DataType> {
    let (DataType::Decimal128(precision, scale), DataType::Decimal128(other_precision, other_scale)) = (one, other)
    else {
        return None;
    };
    if one == other {
        return None;
    }
    let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    let whole = whole(*precision, *scale).max(whole(*other_precision, *other_scale));
    let scale = *scale.max(other_scale);
    let precision = u8::try_from(whole + i16::from(scale)).ok()?;
    Some(match precision <= DECIMAL128_MAX_PRECISION {
        true => DataType::Decimal128(precision, scale),
        false => DataType::Decimal256(precision, scale),
    })
}

/// An array, or one whose only element is NULL where it has none.
pub(crate) fn or_one_null(array: Expr, data_type: &DataType) -> Result<Expr> {
    let DataType::List(item) = data_type else {
        return Ok(array);
    };
    let element = new_null_array(item.data_type(), 1);
    let one = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths([1]), element, None)?;
    let length = call(Function::Length, DataType::Int32, vec![array.clone(), lit(1i32)]);
    when(length.is_null(), lit(ScalarValue::List(Arc::new(one)))).otherwise(array)
}

fn call(function: Function, returns: DataType, arguments: Vec<Expr>) -> Expr {
    let function = ScalarUDF::from(ArrayFunction {
        function,
        returns,
        signature: Signature::any(arguments.len(), Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), arguments))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Element,
    Length,
    HasNull,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayFunction {
    function: Function,
    returns: DataType,
    signature: Signature,
}

impl ArrayFunction {
    fn evaluate(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let lists = arguments[0].as_list::<i32>();
        Ok(match self.function {
            Function::Element => elements(lists, &arguments[1])?,
            Function::Length => Arc::new(lengths(lists, &arguments[1])?),
            Function::HasNull => Arc::new(having_null(lists)),
        })
    }
}

/// The elements at positions from 1 on; NULL beyond both ends.
fn elements(lists: &ListArray, positions: &ArrayRef) -> Result<ArrayRef> {
    let positions = cast(positions, &DataType::Int64)?;
    let positions = positions.as_primitive::<Int64Type>();
    let offsets = lists.value_offsets();
    let index = |row: usize| {
        let is_known = lists.is_valid(row) && positions.is_valid(row);
        let position = positions.value(row);
        let length = (offsets[row + 1] - offsets[row]) as i64;
        (is_known && (1..=length).contains(&position)).then(|| offsets[row] as u32 + (position - 1) as u32)
    };
    let indices: UInt32Array = (0..lists.len()).map(index).collect();
    Ok(take(lists.values(), &indices, None)?)
}

/// The number of elements along the first dimension; NULL for an empty array, and for other dimensions.
fn lengths(lists: &ListArray, dimensions: &ArrayRef) -> Result<Int32Array> {
    let dimensions = cast(dimensions, &DataType::Int64)?;
    let dimensions = dimensions.as_primitive::<Int64Type>();
    let length = |row: usize| {
        let is_first = dimensions.is_valid(row) && dimensions.value(row) == 1;
        (lists.is_valid(row) && is_first)
            .then(|| lists.value_length(row))
            .filter(|length| *length > 0)
    };
    Ok((0..lists.len()).map(length).collect())
}

/// Whether one of the elements is NULL.
fn having_null(lists: &ListArray) -> BooleanArray {
    let offsets = lists.value_offsets();
    let has_null = |row: usize| {
        let elements = offsets[row] as usize..offsets[row + 1] as usize;
        lists.values().slice(elements.start, elements.len()).null_count() > 0
    };
    (0..lists.len())
        .map(|row| lists.is_valid(row).then(|| has_null(row)))
        .collect()
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        match self.function {
            Function::Element => "array element",
            Function::Length => "array length",
            Function::HasNull => "array has null",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let found = self.evaluate(&arrays)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    fn lists() -> ListArray {
        ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(7), None]), Some(vec![]), None])
    }

    #[test]
    fn positions_count_from_one_and_end_at_both_ends() {
        let at = |position: i64| {
            let positions: ArrayRef = Arc::new(Int64Array::from(vec![position; 3]));
            let found = elements(&lists(), &positions).unwrap();
            found.as_primitive::<Int64Type>().iter().next().flatten()
        };
        assert_eq!([0, 1, 2, 3, -1].map(at), [None, Some(7), None, None, None]);
    }

    #[test]
    fn an_empty_array_has_no_length() {
        let first: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1]));
        assert_eq!(
            lengths(&lists(), &first).unwrap(),
            Int32Array::from(vec![Some(2), None, None])
        );
        let second: ArrayRef = Arc::new(Int64Array::from(vec![2, 2, 2]));
        assert_eq!(lengths(&lists(), &second).unwrap().null_count(), 3);
        assert_eq!(
            having_null(&lists()),
            BooleanArray::from(vec![Some(true), Some(false), None])
        );
    }
}
