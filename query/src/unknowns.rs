//! Literals of unknown type: a quoted text takes the type of what it is compared with, or of the column that it is
//! inserted into, as PostgreSQL resolves it.
//!
//! DataFusion takes every quoted text for a TEXT, and finds no operator for a UUID and a TEXT. Three places give a
//! literal its type: [`UnknownLiterals`] on both sides of an operator, before it is looked up; [`in_lists`] in IN
//! and BETWEEN, on the plan; [`type_values`] in what an INSERT inserts. [`read`] reads those that stand beside values of
//! another type in arithmetic, CASE, COALESCE and UNION. Only the types that are read by
//! [`crate::pgtext`] alone need it ([`is_read_here`]), dates and timestamps; for others DataFusion's own coercion does the
//! same.
//!
//! # Not here
//! A TEXT that is no literal has no operators with these types, and is refused.

mod operands;

use crate::casts::text::{is_read_here, is_written_here, read_texts, reads_text, write_texts};
use crate::pgtext::{TextStyle, parse_scalar};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use cenote_statestore::forms::{json, record};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr as Ast, Insert, SelectItem, SetExpr, Value,
};

/// Gives a quoted text the type of the other side of its operator.
#[derive(Debug)]
pub(crate) struct UnknownLiterals;

impl ExprPlanner for UnknownLiterals {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if !is_comparison(&raw.op) {
            return Ok(PlannerResult::Original(operands::typed(raw, schema)?));
        }
        let RawBinaryExpr { op, left, right } = raw;
        let typed = RawBinaryExpr {
            left: typed_like(&right, left.clone(), schema)?,
            right: typed_like(&left, right, schema)?,
            op,
        };
        check_operator(&typed, schema)?;
        Ok(PlannerResult::Original(typed))
    }
}

/// Refuses to compare a TEXT with a value of one of the types that it is not coerced to.
fn check_operator(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<()> {
    let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return Ok(());
    };
    let is_refused = |text: &DataType, other: &DataType| *text == DataType::Utf8 && is_read_here(other);
    if is_refused(&left, &right) || is_refused(&right, &left) {
        let (left, right) = (crate::types::type_name(&left), crate::types::type_name(&right));
        return Err(crate::keys::no_operator(&left, &raw.op, &right));
    }
    Ok(())
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
}

/// A quoted text with the type of another expression, if that is one of those that need it.
fn typed_like(other: &Expr, literal: Expr, schema: &DFSchema) -> Result<Expr> {
    match (&literal, other.get_type(schema)) {
        (Expr::Literal(..), Ok(data_type)) => typed(literal, &data_type),
        _ => Ok(literal),
    }
}

/// A quoted text as a value of a type, if that is one of those that need it.
pub(crate) fn typed(literal: Expr, data_type: &DataType) -> Result<Expr> {
    match literal {
        Expr::Literal(value, metadata) => {
            let value = typed_value(&value, Some(data_type)).map_err(crate::provider::outside)?;
            Ok(Expr::Literal(value, metadata))
        }
        other => Ok(other),
    }
}

/// A value given for a parameter as one of the parameter's type.
///
/// A list of an HTTP request comes as its JSON text: for an array it means its elements.
pub(crate) fn parameter_value(
    value: &ScalarValue,
    data_type: Option<&DataType>,
) -> cenote_statestore::Result<ScalarValue> {
    let list = match (value, data_type) {
        (ScalarValue::Utf8(Some(text)), Some(data_type @ (DataType::List(_) | DataType::Struct(_))))
            if json::name_of(data_type).is_none() =>
        {
            let value = serde_json::from_str(text).ok();
            value.and_then(|value| literal_of(&value, data_type).flatten())
        }
        _ => None,
    };
    match list {
        Some(literal) => typed_value(&ScalarValue::Utf8(Some(literal)), data_type),
        None => typed_value(value, data_type),
    }
}

/// The literal of a JSON list or object for an array or a STRUCT; scalars inside as they are.
///
/// # Returns
/// `None`: it is of another shape, or has a field that the type has not. `Some(None)`: NULL.
fn literal_of(value: &serde_json::Value, data_type: &DataType) -> Option<Option<String>> {
    use serde_json::Value;
    match (value, data_type) {
        (Value::Null, _) => Some(None),
        (value, data_type) if json::name_of(data_type).is_some() => Some(Some(value.to_string())),
        (Value::Array(elements), DataType::List(item)) => {
            let element = |value: &Value| {
                let text = literal_of(value, item.data_type())?;
                Some(text.map_or("NULL".to_string(), |text| match value {
                    Value::Bool(_) | Value::Number(_) => text,
                    _ => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
                }))
            };
            let elements: Vec<String> = elements.iter().map(element).collect::<Option<_>>()?;
            Some(Some(format!("{{{}}}", elements.join(","))))
        }
        (Value::Object(members), DataType::Struct(fields)) => {
            if members.keys().any(|name| fields.find(name).is_none()) {
                return None;
            }
            let mut literal = String::from("(");
            for (place, field) in fields.iter().enumerate() {
                if place > 0 {
                    literal.push(',');
                }
                let member = members.get(field.name()).unwrap_or(&Value::Null);
                let item = literal_of(member, field.data_type())?;
                record::write_item(&mut literal, item.as_deref());
            }
            literal.push(')');
            Some(Some(literal))
        }
        (Value::String(text), _) => Some(Some(text.clone())),
        (Value::Bool(_) | Value::Number(_), DataType::List(_) | DataType::Struct(_)) => None,
        (Value::Bool(_) | Value::Number(_), _) => Some(Some(value.to_string())),
        (Value::Array(_) | Value::Object(_), _) => None,
    }
}

/// A quoted text as a value of a type, if that is one of those that need it.
pub(crate) fn typed_value(value: &ScalarValue, data_type: Option<&DataType>) -> cenote_statestore::Result<ScalarValue> {
    match (value, data_type) {
        (ScalarValue::Utf8(text), Some(data_type)) if is_read_here(data_type) || is_coerced_otherwise(data_type) => {
            parse_scalar(text.as_deref(), data_type, &TextStyle::default())
        }
        (value, Some(data_type)) if is_other_json(&value.data_type(), data_type) => {
            let text = write_texts(&value.to_array().map_err(crate::error::from_datafusion)?)?;
            let value = read_texts(&text, data_type)?;
            ScalarValue::try_from_array(&value, 0).map_err(crate::error::from_datafusion)
        }
        // As an assignment does.
        (value, Some(DataType::Utf8)) if is_written_here(&value.data_type()) => {
            let text = write_texts(&value.to_array().map_err(crate::error::from_datafusion)?)?;
            ScalarValue::try_from_array(&text, 0).map_err(crate::error::from_datafusion)
        }
        _ => Ok(value.clone()),
    }
}

/// A quoted text as a value of a type; as NUMERIC it keeps all of its digits.
///
/// # Errors
/// 22P02 and its like: it is none.
pub(crate) fn read(text: &str, data_type: &DataType) -> Result<ScalarValue> {
    let own = match data_type {
        DataType::Decimal128(_, _) => numeric_size(text),
        _ => None,
    };
    let data_type = own.as_ref().unwrap_or(data_type);
    parse_scalar(Some(text), data_type, &TextStyle::default()).map_err(crate::provider::outside)
}

/// The NUMERIC that has as many digits as a number as it is written.
fn numeric_size(text: &str) -> Option<DataType> {
    let (digits, scale) = crate::literal::decimal_size(text.trim().trim_start_matches(['+', '-']))?;
    let digits = u8::try_from(digits.max(1)).ok()?;
    (digits <= crate::types::NUMERIC_DIGITS_MAX).then_some(DataType::Decimal128(digits, scale as i8))
}

/// The quoted text that an expression is.
pub(crate) fn quoted_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        Expr::Alias(alias) => quoted_text(&alias.expr),
        _ => None,
    }
}

/// The type that quoted texts beside values of some types have; `None`: they stay texts.
pub(crate) fn decided_type<'a>(others: impl Iterator<Item = &'a DataType>) -> Option<DataType> {
    let others: Vec<&DataType> = others.filter(|found| **found != DataType::Null).collect();
    let numbers = others.len() > 1 && others.iter().all(|found| found.is_numeric());
    let decided = match others.as_slice() {
        // The wider one; NUMERIC stands above all whole numbers, and floats above it.
        _ if numbers => {
            let is = |is: fn(&DataType) -> bool| others.iter().copied().find(|found| is(found));
            let is_numeric = |found: &DataType| matches!(found, DataType::Decimal128(_, _));
            is(DataType::is_floating)
                .or_else(|| is(is_numeric))
                .or_else(|| others.iter().copied().max_by_key(|found| found.primitive_width()))?
        }
        [first, ..] => first,
        [] => return None,
    };
    let is_text = others
        .iter()
        .any(|found| matches!(found, DataType::Utf8 | DataType::Utf8View));
    (!is_text && reads_text(decided)).then(|| decided.clone())
}

/// Types whose texts DataFusion would coerce by forms of its own.
fn is_coerced_otherwise(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _)
    )
}

fn is_other_json(from: &DataType, to: &DataType) -> bool {
    json::name_of(from).is_some() && json::name_of(to).is_some() && from != to
}

/// Gives the quoted texts of IN and BETWEEN the type of what they are compared with.
pub(crate) fn in_lists(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(match expr {
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(|item| typed_like(&expr, item, schema));
            let list = list.collect::<Result<_>>()?;
            Expr::InList(InList { expr, list, negated })
        }
        Expr::Between(between) => Expr::Between(Between {
            low: Box::new(typed_like(&between.expr, *between.low, schema)?),
            high: Box::new(typed_like(&between.expr, *between.high, schema)?),
            ..between
        }),
        other => other,
    })
}

/// Casts the quoted texts that an INSERT with named columns inserts to the columns' types.
pub(crate) fn type_values(columns: &SchemaRef, insert: &mut Insert) {
    let types: Vec<Option<SqlType>> = insert
        .columns
        .iter()
        .map(|name| {
            let name = name.0.last().and_then(|part| part.as_ident())?;
            let field = columns.field_with_name(&crate::names::folded(name)).ok()?;
            sql_type_of(field.data_type())
        })
        .collect();
    if let Some(source) = &mut insert.source
        && types.iter().any(Option::is_some)
    {
        type_body(&mut source.body, &types);
    }
}

fn sql_type_of(data_type: &DataType) -> Option<SqlType> {
    let name = crate::types::type_name(data_type);
    let parsed = || crate::parse::structs::parse_type(&name);
    is_read_here(data_type).then(parsed)?.ok()
}

fn type_body(body: &mut SetExpr, types: &[Option<SqlType>]) {
    match body {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                let cells: &mut [Ast] = row;
                cells
                    .iter_mut()
                    .zip(types)
                    .for_each(|(cell, wanted)| cast_text(cell, wanted));
            }
        }
        SetExpr::Select(select) => {
            for (item, wanted) in select.projection.iter_mut().zip(types) {
                match item {
                    SelectItem::UnnamedExpr(cell) | SelectItem::ExprWithAlias { expr: cell, .. } => {
                        cast_text(cell, wanted)
                    }
                    // What follows a wildcard is at no place that is known here.
                    _ => return,
                }
            }
        }
        SetExpr::Query(query) => type_body(&mut query.body, types),
        SetExpr::SetOperation { left, right, .. } => {
            type_body(left, types);
            type_body(right, types);
        }
        _ => {}
    }
}

fn cast_text(cell: &mut Ast, wanted: &Option<SqlType>) {
    let is_text = matches!(cell, Ast::Value(value) if is_quoted(&value.value));
    // A row takes the names and types of the column's fields, so that rows beside it are of one type.
    let is_struct = matches!(wanted, Some(SqlType::Custom(_, fields)) if !fields.is_empty());
    let is_row = is_struct
        && !matches!(cell, Ast::Value(value) if matches!(value.value, Value::Null | Value::Placeholder(_)))
        && !crate::dml::is_default(cell);
    if let (true, Some(data_type)) = (is_text || is_row, wanted) {
        *cell = Ast::Cast {
            kind: CastKind::Cast,
            expr: Box::new(cell.clone()),
            data_type: data_type.clone(),
            array: false,
            format: None,
        };
    }
}

fn is_quoted(value: &Value) -> bool {
    matches!(
        value,
        Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_statestore::forms::list;

    #[test]
    fn json_becomes_literals_of_arrays_and_structs() {
        let literal = |text: &str, data_type: &DataType| {
            let value = serde_json::from_str(text).ok()?;
            literal_of(&value, data_type).flatten()
        };
        let numbers = list::array_type(DataType::Int64);
        assert_eq!(literal("[1, null, true]", &numbers).as_deref(), Some("{1,NULL,true}"));
        assert_eq!(literal("[]", &numbers).as_deref(), Some("{}"));
        assert_eq!(
            literal(r#"["a\\\"b", "NULL"]"#, &list::array_type(DataType::Utf8)).as_deref(),
            Some(r#"{"a\\\"b","NULL"}"#)
        );
        assert_eq!(literal("[[1]]", &numbers), None);
        assert_eq!(literal("{1}", &numbers), None);
        let pair = record::record_type([("a", DataType::Int64), ("b", DataType::Utf8)]);
        assert_eq!(literal(r#"{"b": "x, y"}"#, &pair).as_deref(), Some(r#"(,"x, y")"#));
        assert_eq!(literal(r#"{"c": 1}"#, &pair), None);
    }
}
