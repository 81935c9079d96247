//! Operators on JSON and JSONB: `->`, `->>`, `#>` and `#>>`, and the equality of JSONB.
//!
//! A part of a JSON value is the text that stands there; of a JSONB value it is in normal form, as its whole is. Other
//! operators on them (`@>`, `?`, `||`, `-` ...) are refused by name.
//!
//! # Not here
//! Finding parts in a text, and the text that equal values share: [`cenote_statestore::forms::json`].

use crate::pgtext::{TextStyle, parse_scalar};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use cenote_statestore::forms::json::{self, access};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// A column whose equal values have equal bits: lengths of intervals, values of JSONB, other columns as they are.
pub(crate) fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Interval(_) => Arc::new(crate::spans::lengths(column)),
        data_type if json::name_of(data_type).is_some() => {
            let texts = json::texts_of(column);
            let keys: StringArray = texts.iter().map(|text| text.map(json::comparable)).collect();
            Arc::new(keys)
        }
        _ => column.clone(),
    }
}

/// The text that equal values of JSONB share, as an expression.
pub(crate) fn value_of(value: Expr) -> Expr {
    call(Function::Value, DataType::Utf8, vec![value])
}

fn call(function: Function, returns: DataType, arguments: Vec<Expr>) -> Expr {
    let function = ScalarUDF::from(JsonFunction {
        function,
        returns,
        signature: Signature::any(arguments.len(), Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), arguments))
}

/// Plans the operators.
#[derive(Debug)]
pub(crate) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let type_of = |expr: &Expr| {
            expr.get_type(schema)
                .ok()
                .filter(|found| json::name_of(found).is_some())
        };
        let Some(data_type) = type_of(&raw.left).or_else(|| type_of(&raw.right)) else {
            return Ok(PlannerResult::Original(raw));
        };
        use BinaryOperator::{Arrow, Eq, Gt, GtEq, HashArrow, HashLongArrow, LongArrow, Lt, LtEq, NotEq, Spaceship};
        let (function, returns) = match raw.op {
            Arrow => (Function::Part, data_type),
            LongArrow => (Function::PartText, DataType::Utf8),
            HashArrow => (Function::AtPath, data_type),
            HashLongArrow => (Function::TextAtPath, DataType::Utf8),
            Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship => return Ok(PlannerResult::Original(raw)),
            op => {
                let name = json::name_of(&data_type).unwrap_or_default();
                let error = crate::error::unsupported(format!("operator {op} of {name}"));
                return Err(crate::provider::outside(error));
            }
        };
        let step = if function.takes_path() {
            path(raw.right)?
        } else {
            untyped_as_text(raw.right)
        };
        Ok(PlannerResult::Planned(call(function, returns, vec![raw.left, step])))
    }
}

/// A parameter without a type is a TEXT.
fn untyped_as_text(expr: Expr) -> Expr {
    match expr {
        Expr::Placeholder(parameter) if parameter.field.is_none() => {
            let field = Arc::new(Field::new("", DataType::Utf8, true));
            Expr::Placeholder(Placeholder::new_with_field(parameter.id, Some(field)))
        }
        other => other,
    }
}

fn path_type() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
}

/// A quoted text as the array of texts that it stands for.
fn path(expr: Expr) -> Result<Expr> {
    match &expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let value = parse_scalar(Some(text), &path_type(), &TextStyle::default());
            Ok(Expr::Literal(
                value.map_err(crate::provider::outside)?,
                metadata.clone(),
            ))
        }
        _ => Ok(expr),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Part,
    PartText,
    AtPath,
    TextAtPath,
    Value,
}

impl Function {
    fn takes_path(self) -> bool {
        matches!(self, Function::AtPath | Function::TextAtPath)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFunction {
    function: Function,
    returns: DataType,
    signature: Signature,
}

impl JsonFunction {
    fn evaluate(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        if self.function == Function::Value {
            return Ok(comparable(&arguments[0]));
        }
        let texts = json::texts_of(&arguments[0]);
        let parts: Vec<Option<&str>> = if self.function.takes_path() {
            let paths = cast(&arguments[1], &path_type())?;
            parts_at_paths(&texts, paths.as_list::<i32>())
        } else if arguments[1].data_type().is_integer() {
            let positions = cast(&arguments[1], &DataType::Int64)?;
            let positions = positions.as_primitive::<Int64Type>().iter();
            let found = texts
                .iter()
                .zip(positions)
                .map(|(text, at)| access::element(text?, at?));
            found.collect()
        } else {
            let keys = cast(&arguments[1], &DataType::Utf8)?;
            let keys = keys.as_string::<i32>().iter();
            let found = texts.iter().zip(keys).map(|(text, key)| access::member(text?, key?));
            found.collect()
        };
        match self.function {
            Function::Part | Function::AtPath => Ok(json::column_of(StringArray::from(parts), &self.returns)),
            _ => shown(&parts),
        }
    }
}

fn parts_at_paths<'a>(texts: &'a StringArray, paths: &ListArray) -> Vec<Option<&'a str>> {
    let at = |row: usize| {
        if texts.is_null(row) || paths.is_null(row) {
            return None;
        }
        let path = paths.value(row);
        let steps: Option<Vec<&str>> = path.as_string::<i32>().iter().collect();
        access::at_path(texts.value(row), steps?)
    };
    (0..texts.len()).map(at).collect()
}

fn shown(parts: &[Option<&str>]) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    for part in parts {
        let text = part.map_or(Ok(None), |part| {
            access::text_of(part).map_err(|fault| crate::pgtext::json_error(fault, part))
        });
        texts.append_option(text.map_err(crate::provider::outside)?);
    }
    Ok(Arc::new(texts.finish()))
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        match self.function {
            Function::Part => "json part",
            Function::PartText => "text of json part",
            Function::AtPath => "json at path",
            Function::TextAtPath => "text of json at path",
            Function::Value => "jsonb value",
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
