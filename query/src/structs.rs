//! STRUCT with the meaning of PostgreSQL's composite types: rows as values, their fields, comparisons.
//!
//! # Rules kept here
//! 1. `(column).field` and `column.field` are NULL where the whole is.
//! 2. A STRUCT becomes another by the places of its fields, as rows do in PostgreSQL; names do not matter.
//! 3. Comparisons take a NULL in a field for a value that equals itself and is above all others; a whole that is NULL
//!    makes the comparison unknown. They go by [`order_of`], bytes that are equal and ordered as the values are.
//! 4. `IS NULL` holds where the whole is NULL or all fields are, `IS NOT NULL` where no field is NULL.
//!
//! # Not here
//! Comparisons of rows that are written `(a, b) = (c, d)`: [`crate::row_values`]. What is refused: [`crate::keys`].

pub(crate) mod stars;

use crate::error::unsupported;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, ListArray, StructArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use cenote_statestore::forms::json;
use cenote_statestore::forms::record::{fields_of, record_type};
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Plans rows, access to fields, and what is compared with a STRUCT.
#[derive(Debug)]
pub(crate) struct StructPlanner;

impl ExprPlanner for StructPlanner {
    fn plan_struct_literal(&self, args: Vec<Expr>, is_named_struct: bool) -> Result<PlannerResult<Vec<Expr>>> {
        if is_named_struct {
            return Ok(PlannerResult::Original(args));
        }
        let row = ScalarFunction::new_udf(Arc::new(Row::function()), args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(row)))
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let GetFieldAccess::NamedStructField { name } = &raw.field_access else {
            return Ok(PlannerResult::Original(raw));
        };
        let name = name.try_as_str().flatten().unwrap_or_default().to_string();
        let data_type = raw.expr.get_type(schema)?;
        if let Some(end) = stars::Star::met(&name, &data_type) {
            return Err(end);
        }
        Ok(PlannerResult::Planned(field(raw.expr, &data_type, &name)?))
    }

    fn plan_compound_identifier(
        &self,
        column: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut expr = Expr::Column(Column::from((qualifier, column)));
        // Of an error the planner would keep nothing: the function's type is one.
        for name in nested_names {
            expr = call(Function::Field(name.clone()), expr);
        }
        Ok(PlannerResult::Planned(expr))
    }

    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
        if !matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship) {
            return Ok(PlannerResult::Original(raw));
        }
        check_operator(&raw, schema)?;
        let RawBinaryExpr { op, left, right } = raw;
        let (left, right) = brought_together(left, right, schema)?;
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Refuses to compare a STRUCT with what is none; texts are told by [`crate::unknowns`].
fn check_operator(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<()> {
    let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return Ok(());
    };
    let is_other = |data_type: &DataType| fields_of(data_type).is_none() && *data_type != DataType::Null;
    let is_mixed = |one: &DataType, other: &DataType| fields_of(one).is_some() && is_other(other);
    if is_mixed(&left, &right) || is_mixed(&right, &left) {
        let (left, right) = (crate::types::type_name(&left), crate::types::type_name(&right));
        return Err(crate::keys::no_operator(&left, &raw.op, &right));
    }
    Ok(())
}

/// Whether an expression is a STRUCT.
pub(crate) fn is_struct(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema)
        .is_ok_and(|data_type| fields_of(&data_type).is_some())
}

/// Two structs as of one type; other expressions as they are.
pub(crate) fn brought_together(left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (Ok(one), Ok(other)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok((left, right));
    };
    if one == other || fields_of(&one).is_none() || fields_of(&other).is_none() {
        return Ok((left, right));
    }
    let both = common_type(&one, &other)?;
    let typed = |expr: Expr, from: &DataType| match *from == both {
        true => expr,
        false => cast(expr, both.clone()),
    };
    Ok((typed(left, &one), typed(right, &other)))
}

/// The type that values of two types are compared in; structs go field by field.
///
/// # Errors
/// 42804: one has more fields, or fields at one place cannot be compared.
pub(crate) fn common_type(one: &DataType, other: &DataType) -> Result<DataType> {
    let (Some(left), Some(right)) = (fields_of(one), fields_of(other)) else {
        let is_text =
            |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
        let is_null = *one == DataType::Null || *other == DataType::Null;
        let alike = is_text(one) == is_text(other) || is_null;
        return comparison_coercion(one, other).filter(|_| alike).ok_or_else(|| {
            let (one, other) = (crate::types::type_name(one), crate::types::type_name(other));
            mismatch(format!("cannot compare dissimilar column types {one} and {other}"))
        });
    };
    if left.len() != right.len() {
        return Err(mismatch(
            "cannot compare record types with different numbers of columns".into(),
        ));
    }
    let pairs = left.iter().zip(right);
    let fields = pairs.map(|(a, b)| Ok((a.name().clone(), common_type(a.data_type(), b.data_type())?)));
    Ok(record_type(fields.collect::<Result<Vec<_>>>()?))
}

fn mismatch(message: String) -> datafusion::error::DataFusionError {
    crate::provider::outside(Error::new(ErrorKind::Invalid, "SQL-0322", message).sqlstate("42804"))
}

/// The type of a field.
///
/// # Errors
/// 42809: the value is no STRUCT. 42703: it has no such field.
fn field_type(data_type: &DataType, name: &str) -> Result<DataType> {
    let shown = crate::types::type_name(data_type);
    let Some(fields) = fields_of(data_type) else {
        let message = format!("column notation .{name} applied to type {shown}, which is not a composite type");
        let error = Error::new(ErrorKind::Invalid, "SQL-0323", message).sqlstate("42809");
        return Err(crate::provider::outside(error));
    };
    match fields.find(name) {
        Some((_, field)) => Ok(field.data_type().clone()),
        None => {
            let message = format!("column \"{name}\" not found in data type {shown}");
            let error = Error::new(ErrorKind::Invalid, "SQL-0324", message).sqlstate("42703");
            let names = fields.iter().map(|field| field.name().as_str());
            Err(crate::provider::outside(crate::error::near(error, name, names)))
        }
    }
}

/// A field of a STRUCT.
fn field(expr: Expr, data_type: &DataType, name: &str) -> Result<Expr> {
    field_type(data_type, name)?;
    Ok(call(Function::Field(name.to_string()), expr))
}

/// Bytes that are equal and ordered as the structs, or the arrays, are.
pub(crate) fn order_of(expr: Expr) -> Expr {
    call(Function::Order, expr)
}

/// `IS NULL` or `IS NOT NULL` of a STRUCT.
pub(crate) fn null_test(expr: Expr, is_not: bool) -> Expr {
    call(Function::NullTest { is_not }, expr)
}

fn call(function: Function, argument: Expr) -> Expr {
    let function = ScalarUDF::from(StructFunction {
        name: match &function {
            Function::Field(name) => format!("field {name}"),
            Function::Order => "struct order".into(),
            Function::NullTest { is_not: true } => "has all fields".into(),
            Function::NullTest { is_not: false } => "has no field".into(),
        },
        function,
        signature: Signature::any(1, Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![argument]))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Function {
    Field(String),
    Order,
    NullTest { is_not: bool },
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StructFunction {
    name: String,
    function: Function,
    signature: Signature,
}

impl StructFunction {
    fn evaluate(&self, structs: &ArrayRef) -> Result<ArrayRef> {
        match &self.function {
            Function::Field(name) => field_of(structs.as_struct(), name),
            Function::Order => Ok(Arc::new(orders(structs)?)),
            Function::NullTest { is_not } => Ok(Arc::new(null_tests(structs.as_struct(), *is_not))),
        }
    }
}

fn field_of(structs: &StructArray, name: &str) -> Result<ArrayRef> {
    let Some(column) = structs.column_by_name(name) else {
        return Err(crate::provider::outside(Error::bug(format!(
            "a struct has no field {name}"
        ))));
    };
    if structs.null_count() == 0 || *column.data_type() == DataType::Null {
        return Ok(column.clone());
    }
    let nulls = NullBuffer::union(structs.nulls(), column.nulls());
    let data = column.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

fn null_tests(structs: &StructArray, is_not: bool) -> BooleanArray {
    let nulls: Vec<Option<NullBuffer>> = structs.columns().iter().map(|column| column.logical_nulls()).collect();
    let is_null = |nulls: &Option<NullBuffer>, row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let test = |row: usize| match is_not {
        true => structs.is_valid(row) && !nulls.iter().any(|nulls| is_null(nulls, row)),
        false => structs.is_null(row) || nulls.iter().all(|nulls| is_null(nulls, row)),
    };
    (0..structs.len()).map(|row| Some(test(row))).collect()
}

fn orders(structs: &ArrayRef) -> Result<BinaryArray> {
    let plain = canonical(structs)?;
    let nulls_above = SortOptions::new(false, false);
    let field = SortField::new_with_options(plain.data_type().clone(), nulls_above);
    let bytes = RowConverter::new(vec![field])?
        .convert_columns(&[plain])?
        .try_into_binary()?;
    let (offsets, values, _) = bytes.into_parts();
    Ok(BinaryArray::try_new(offsets, values, structs.nulls().cloned())?)
}

/// Values of which equal ones have equal bits: one zero and one NaN, lengths of intervals, values of JSONB.
fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Interval(_) => crate::json_parts::comparable(array),
        DataType::Struct(_) if json::name_of(array.data_type()).is_some() => crate::json_parts::comparable(array),
        DataType::Struct(_) => {
            let structs = array.as_struct();
            let columns = structs.columns().iter().map(canonical).collect::<Result<Vec<_>>>()?;
            let fields = structs.fields().iter().zip(&columns);
            let fields: Fields = fields
                .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
                .collect();
            Arc::new(StructArray::try_new(fields, columns, structs.nulls().cloned())?)
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let values = canonical(lists.values())?;
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let offsets = lists.offsets().clone();
            Arc::new(ListArray::try_new(item, offsets, values, lists.nulls().cloned())?)
        }
        _ => array.clone(),
    })
}

/// Structs as of another type, by the places of their fields, each of which is assigned.
///
/// # Errors
/// 42846: another number of fields. Those of a field's assignment.
pub(crate) fn fields_as(structs: &ArrayRef, to: &Fields) -> cenote_statestore::Result<ArrayRef> {
    let structs = structs.as_struct();
    if structs.num_columns() != to.len() {
        let (from, to) = (structs.data_type(), DataType::Struct(to.clone()));
        return Err(not_castable(from, &to));
    }
    let columns = structs
        .columns()
        .iter()
        .zip(to)
        .map(|(column, field)| crate::dml::assign(column, field));
    let columns = columns.collect::<cenote_statestore::Result<Vec<_>>>()?;
    let rows = structs.len();
    let structs = StructArray::try_new_with_length(to.clone(), columns, structs.nulls().cloned(), rows)?;
    Ok(Arc::new(structs))
}

/// PostgreSQL's error of a row with another number of fields than the type, or of a value that is no row.
pub(crate) fn not_castable(from: &DataType, to: &DataType) -> Error {
    let count = |data_type: &DataType| fields_of(data_type).map_or(0, |fields| fields.len());
    let given = match fields_of(from) {
        Some(_) => "record".to_string(),
        None => crate::types::type_name(from),
    };
    let message = format!("cannot cast type {given} to {}", crate::types::type_name(to));
    let error = Error::new(ErrorKind::Invalid, "SQL-0325", message).sqlstate("42846");
    match fields_of(from) {
        Some(_) => error
            .fact("given", format!("{} fields", count(from)))
            .fact("type has", format!("{} fields", count(to))),
        None => error,
    }
}

impl ScalarUDFImpl for StructFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &self.function {
            Function::Field(name) => field_type(&arguments[0], name),
            Function::Order => Ok(DataType::Binary),
            Function::NullTest { .. } => Ok(DataType::Boolean),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.evaluate(array)?),
            ColumnarValue::Scalar(scalar) => {
                let found = self.evaluate(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
            }
        })
    }
}

/// `ROW(a, b)`, with PostgreSQL's names of its fields: `f1`, `f2` and so on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    signature: Signature,
    aliases: Vec<String>,
}

impl Row {
    /// The function.
    pub(crate) fn function() -> ScalarUDF {
        ScalarUDF::from(Row {
            signature: Signature::variadic_any(Volatility::Immutable),
            aliases: vec!["row".into()],
        })
    }
}

impl ScalarUDFImpl for Row {
    fn name(&self) -> &str {
        "struct"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if arguments.is_empty() {
            return Err(crate::provider::outside(unsupported("a row without fields")));
        }
        let named = arguments.iter().enumerate();
        Ok(record_type(named.map(|(place, argument)| {
            (format!("f{}", place + 1), argument.clone())
        })))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_type() else {
            return Err(crate::provider::outside(Error::bug("a row is no struct")));
        };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows));
        let row = StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, None)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::Struct(Arc::new(row))),
            false => ColumnarValue::Array(Arc::new(row)),
        })
    }
}

#[cfg(test)]
mod tests;
