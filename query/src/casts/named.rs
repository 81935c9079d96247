//! Casts that show in names.
//!
//! DataFusion leaves casts out of the names of expressions, so `a` and `a::int` in one GROUP BY, or `avg(a)` and
//! `avg(a::int)` in one SELECT, are one name for two values. Casts are planned as a function, whose calls have names
//! of their own, and become casts again when names have been given.
//!
//! A cast to a type with a length cuts what is longer, which DataFusion's casts do not: it becomes a call of `left`, and
//! of `rtrim` for CHAR(n), whose blanks at the end do not count.

use crate::types::{NUMERIC_DIGITS_MAX, numeric_of};
use crate::walk;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Statement, Value, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

const NAME: &str = "cenote_cast";

/// The cast to NUMERIC without precision, whose type is that of the digits that a value of its type can have.
const OPEN_NUMERIC: &str = "cenote_numeric";

/// Puts calls in the place of a statement's casts; casts of constants, whose names meet in aggregates alone, are left
/// elsewhere.
pub(crate) fn name_casts(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Namer { aggregates: 0 });
}

struct Namer {
    /// How many aggregates the visitor is in, in which constants stand in names.
    aggregates: usize,
}

/// Functions whose calls are told apart by their names.
const AGGREGATES: [&str; 15] = [
    "sum",
    "count",
    "min",
    "max",
    "avg",
    "mean",
    "bool_and",
    "bool_or",
    "every",
    "array_agg",
    "string_agg",
    "stddev",
    "variance",
    "bit_and",
    "bit_or",
];

fn is_aggregate(expr: &Ast) -> bool {
    let Ast::Function(function) = expr else {
        return false;
    };
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|last| AGGREGATES.contains(&crate::names::folded(last).as_str()))
}

/// Whether a cast is what a whole number is written as, which its digits tell.
fn is_plain_number(value: &Ast, data_type: &SqlType) -> bool {
    let is_number = matches!(value, Ast::Value(literal) if matches!(literal.value, Value::Number(_, _)));
    is_number && matches!(data_type, SqlType::Int4(None))
}

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<()> {
        self.aggregates += is_aggregate(expr) as usize;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<()> {
        self.aggregates -= is_aggregate(expr) as usize;
        if let Ast::Cast { data_type, .. } = expr
            && let Some(length) = crate::lengths::length_max(data_type)
        {
            let is_char = matches!(data_type, SqlType::Char(_) | SqlType::Character(_));
            *data_type = SqlType::Text;
            let length = Ast::Value(Value::Number(length.to_string(), false).into());
            let cut = call("left", vec![expr.clone(), length]);
            *expr = if is_char { call("rtrim", vec![cut]) } else { cut };
            return ControlFlow::Continue(());
        }
        if let Ast::TypedString(typed) = expr
            && (is_open(&typed.data_type) || self.aggregates > 0)
        {
            *expr = of_cast(Ast::Value(typed.value.clone()), typed.data_type.clone());
        }
        if let Ast::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: value,
            data_type,
            array: false,
            format: None,
        } = expr
            && is_open(data_type)
        {
            match value.as_ref() {
                Ast::Value(literal) => {
                    let text = match &literal.value {
                        Value::Number(text, _) | Value::SingleQuotedString(text) => Some(text),
                        _ => None,
                    };
                    if let Some(own) = text.and_then(|text| size_of(text)) {
                        *data_type = SqlType::Numeric(own);
                    }
                }
                value => {
                    *expr = call(OPEN_NUMERIC, vec![value.clone()]);
                    return ControlFlow::Continue(());
                }
            }
        }
        if let Ast::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: value,
            data_type,
            array: false,
            format: None,
        } = expr
            && (!is_constant(value) || self.aggregates > 0 && !is_plain_number(value, data_type))
        {
            let null = of_cast(Ast::Value(Value::Null.into()), data_type.clone());
            *expr = call(NAME, vec![value.as_ref().clone(), null]);
        }
        ControlFlow::Continue(())
    }
}

fn of_cast(value: Ast, data_type: SqlType) -> Ast {
    Ast::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type,
        array: false,
        format: None,
    }
}

/// Whether a type is NUMERIC without precision and scale.
fn is_open(sql_type: &SqlType) -> bool {
    matches!(
        sql_type,
        SqlType::Numeric(ExactNumberInfo::None)
            | SqlType::Decimal(ExactNumberInfo::None)
            | SqlType::Dec(ExactNumberInfo::None)
    )
}

/// The precision and scale that a number has as it is written, if NUMERIC has as many digits.
fn size_of(text: &str) -> Option<ExactNumberInfo> {
    let (digits, scale) = crate::literal::decimal_size(text.trim().trim_start_matches(['+', '-']))?;
    let digits = digits.max(1);
    (digits <= NUMERIC_DIGITS_MAX as i64).then_some(ExactNumberInfo::PrecisionAndScale(digits as u64, scale))
}

fn is_constant(expr: &Ast) -> bool {
    match expr {
        Ast::Value(_) => true,
        Ast::Cast { expr, .. } | Ast::UnaryOp { expr, .. } | Ast::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

pub(crate) fn call(name: &str, arguments: Vec<Ast>) -> Ast {
    let arguments = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Ast::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `cenote_numeric(value)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpenNumeric {
    signature: Signature,
}

impl OpenNumeric {
    /// The function.
    pub(crate) fn function() -> ScalarUDF {
        ScalarUDF::from(OpenNumeric {
            signature: Signature::any(1, Volatility::Immutable),
        })
    }

    /// The cast that a call stands for; `None`: it is no such call.
    pub(crate) fn cast_of(call: &ScalarFunction, to: &DataType) -> Option<Expr> {
        match call.args.as_slice() {
            [value] if call.name() == OPEN_NUMERIC => Some(datafusion::prelude::cast(value.clone(), to.clone())),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for OpenNumeric {
    fn name(&self) -> &str {
        OPEN_NUMERIC
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(numeric_of(&arguments[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(args.return_type(), None)
    }
}

/// `cenote_cast(value, NULL::type)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamedCast {
    signature: Signature,
}

impl NamedCast {
    /// The function.
    pub(crate) fn function() -> ScalarUDF {
        ScalarUDF::from(NamedCast {
            signature: Signature::any(2, Volatility::Immutable),
        })
    }

    /// The cast that a call stands for; `None`: it is no such call.
    pub(crate) fn cast_of(call: &ScalarFunction) -> Option<Expr> {
        match call.args.as_slice() {
            [value, Expr::Cast(of_null)] if call.name() == NAME => Some(Expr::Cast(Cast::new_from_field(
                Box::new(value.clone()),
                of_null.field.clone(),
            ))),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let shown = args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
        Ok(format!("{NAME}({})", shown.join(", ")))
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[1].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (value, to) = (&args.arg_fields[0], &args.arg_fields[1]);
        Ok(Arc::new(Field::new(NAME, to.data_type().clone(), value.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(args.return_type(), None)
    }
}
