//! Casts from and to text, in PostgreSQL's forms.
//!
//! Text becomes a value of any type by [`crate::pgtext`], with PostgreSQL's errors; values whose form in Arrow is another
//! become the text that a client would be shown. Arrays of one type become arrays of another by their elements, structs by their fields. None of these forms depends on a session's settings.

use crate::pgtext::{Formatter, TextStyle, parse_array};
use crate::structs::{fields_as, not_castable};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use cenote_statestore::forms::json;
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::forms::uuid::UUID;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

/// Whether texts of the type are read by PostgreSQL's rules and not by Arrow's.
pub(crate) fn is_read_here(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time64(_) | DataType::Interval(_))
        || *data_type == UUID
        || json::name_of(data_type).is_some()
        || matches!(data_type, DataType::List(_) | DataType::Struct(_))
}

/// Whether the type's text is that of PostgreSQL's output, made here.
pub(crate) fn is_written_here(data_type: &DataType) -> bool {
    *data_type == DataType::Binary || is_read_here(data_type)
}

/// Whether texts that are cast to a type are read by PostgreSQL's rules.
pub(crate) fn reads_text(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Timestamp};
    is_read_here(data_type)
        || matches!(
            data_type,
            Boolean | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(_, _) | Date32 | Binary
        )
        || matches!(data_type, Timestamp(TimeUnit::Microsecond, _))
}

/// Whether Arrow's text of a type is another than PostgreSQL's.
fn writes_text(data_type: &DataType) -> bool {
    is_written_here(data_type)
        || data_type.is_floating()
        || matches!(
            data_type,
            DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _)
        )
}

/// The cast of a value, if it is one of those made here.
pub(super) fn cast_of(expr: &Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    let is_made_here = match (from, to) {
        (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, to) => reads_text(to),
        (from, DataType::Utf8) => writes_text(from),
        (DataType::List(from), DataType::List(to)) => from.data_type() != to.data_type(),
        (DataType::Struct(_), DataType::Struct(_)) if fields_of(from).is_some() && fields_of(to).is_some() => {
            from != to
        }
        // What can be no STRUCT: refused.
        (from, DataType::Struct(_)) if fields_of(to).is_some() => *from != DataType::Null && from != to,
        // One kind of JSON as the other.
        (from, to) if json::name_of(from).is_some() && json::name_of(to).is_some() => from != to,
        _ => false,
    };
    is_made_here.then(|| {
        let function = ScalarUDF::from(TextCast::new(to));
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr.clone()]))
    })
}

/// A column of texts in the input form of a type.
///
/// # Errors
/// PostgreSQL's for the first text that does not read.
pub(crate) fn read_texts(texts: &ArrayRef, to: &DataType) -> cenote_statestore::Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8)?;
    let texts: Vec<Option<&str>> = texts.as_string::<i32>().iter().collect();
    parse_array(&texts, to)
}

/// A column in the form that a client is shown.
pub(crate) fn write_texts(values: &ArrayRef) -> cenote_statestore::Result<ArrayRef> {
    let field = Field::new("", values.data_type().clone(), true);
    let formatter = Formatter::new(&field, values, &TextStyle::default())?;
    let mut texts = StringBuilder::new();
    for row in 0..values.len() {
        texts.append_option(formatter.text(row));
    }
    Ok(Arc::new(texts.finish()))
}

/// Lists with their elements assigned to another type.
pub(crate) fn elements_as(lists: &ArrayRef, item: &FieldRef) -> cenote_statestore::Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    let elements = crate::dml::assign(lists.values(), item)?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, elements, nulls)?))
}

/// `to_uuid(text)`, `to_text(uuid)` and so on, by names that no user can write.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextCast {
    name: String,
    to: DataType,
    signature: Signature,
}

impl TextCast {
    fn new(to: &DataType) -> TextCast {
        TextCast {
            name: format!("to {}", crate::types::type_name(to)),
            to: to.clone(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    fn convert(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let converted = match self.to {
            DataType::Utf8 => write_texts(array),
            DataType::List(ref item) if matches!(array.data_type(), DataType::List(_)) => elements_as(array, item),
            DataType::Struct(ref to) if fields_of(array.data_type()).is_some() => fields_as(array, to),
            DataType::Struct(_) if fields_of(&self.to).is_some() && !is_text(array.data_type()) => {
                Err(not_castable(array.data_type(), &self.to))
            }
            _ if json::name_of(array.data_type()).is_some() => {
                let texts: ArrayRef = Arc::new(json::texts_of(array));
                read_texts(&texts, &self.to)
            }
            _ => read_texts(array, &self.to),
        };
        converted.map_err(crate::provider::outside)
    }
}

impl ScalarUDFImpl for TextCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
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
    use arrow::array::{BinaryArray, StringArray};

    #[test]
    fn texts_and_values_become_each_other() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None]));
        let texts = write_texts(&bytes).unwrap();
        assert_eq!(
            texts.as_string::<i32>(),
            &StringArray::from(vec![Some("\\x00ff"), None])
        );
        let given: ArrayRef = Arc::new(StringArray::from(vec![
            Some("{123E4567E89B12D3A456426655440000}"),
            None,
        ]));
        let uuids = read_texts(&given, &UUID).unwrap();
        let written = write_texts(&uuids).unwrap();
        assert_eq!(
            written.as_string::<i32>(),
            &StringArray::from(vec![Some("123e4567-e89b-12d3-a456-426655440000"), None])
        );
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["123e4567"]));
        let error = read_texts(&wrong, &UUID).unwrap_err();
        assert_eq!(
            (error.state(), error.message()),
            ("22P02", "invalid input syntax for type uuid: \"123e4567\"")
        );
    }
}
