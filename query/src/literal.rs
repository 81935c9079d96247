//! Number literals with PostgreSQL's types, as a rewrite of the parsed statement.
//!
//! A whole number is INTEGER if it fits, else BIGINT, else NUMERIC; DataFusion's parser knows no INTEGER literals.
//! A number that NUMERIC cannot hold here, such as `1e300`, is DOUBLE PRECISION. The rewrite comes before planning,
//! so that everything the planner derives (columns of VALUES, branches of CASE) has the right type from the start.
//! `INTERVAL 'text'` is a cast of the text: its forms are PostgreSQL's, not DataFusion's.
//!
//! # Left as they are
//! Positions in ORDER BY and GROUP BY, the counts of LIMIT and of window frames, arguments of table functions, and
//! the whole numbers of INSERT's VALUES, which take their columns' types.

use crate::types::NUMERIC_DIGITS_MAX;
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Fetch, GroupByExpr, Interval, LimitClause,
    NamedWindowExpr, OrderByKind, Query, Select, SetExpr, Statement, TableFactor, UnaryOperator, Value, VisitorMut,
    WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Keys of a CUBE whose sets are PostgreSQL's maximum of 4096.
const CUBE_KEYS_MAX: usize = 12;

/// Gives the number literals of a statement their types.
///
/// # Errors
/// `Invalid` 22003: a number has more digits than NUMERIC holds.
pub(crate) fn type_literals(statement: &mut Statement) -> Result<()> {
    let mut literals = Literals {
        whole: true,
        ..Literals::default()
    };
    if let Statement::Insert(insert) = statement
        && let Some(source) = &mut insert.source
        && matches!(*source.body, SetExpr::Values(_))
    {
        literals.whole = false;
    }
    match walk::change(statement, &mut literals) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Literals {
    /// Whole numbers get a type too.
    whole: bool,
    /// Addresses of expressions whose value is a position or a count.
    counts: HashSet<*const Expr>,
    /// How many table functions the visitor is in.
    table_functions: usize,
}

impl Literals {
    fn leave(&mut self, expr: &Expr) {
        self.counts.insert(expr);
    }

    fn leave_bound(&mut self, bound: &WindowFrameBound) {
        if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) = bound {
            self.leave(count);
        }
    }

    fn leave_frame(&mut self, window: &WindowSpec) {
        if let Some(WindowFrame {
            start_bound, end_bound, ..
        }) = &window.window_frame
        {
            self.leave_bound(start_bound);
            end_bound.iter().for_each(|bound| self.leave_bound(bound));
        }
    }
}

impl VisitorMut for Literals {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(order_by) = &query.order_by
            && let OrderByKind::Expressions(items) = &order_by.kind
        {
            items.iter().for_each(|item| self.leave(&item.expr));
        }
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter().for_each(|limit| self.leave(limit));
                offset.iter().for_each(|offset| self.leave(&offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.leave(offset);
                self.leave(limit);
            }
            None => {}
        }
        if let Some(Fetch {
            quantity: Some(count), ..
        }) = &query.fetch
        {
            self.leave(count);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let GroupByExpr::Expressions(items, _) = &select.group_by {
            let is_too_wide = |item: &Expr| matches!(item, Expr::Cube(keys) if keys.len() > CUBE_KEYS_MAX);
            if items.iter().any(is_too_wide) {
                let message = "too many grouping sets present (maximum 4096)";
                return ControlFlow::Break(Error::new(ErrorKind::Invalid, "SQL-0316", message).sqlstate("54001"));
            }
            items.iter().for_each(|item| self.leave(item));
        }
        for window in &select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &window.1 {
                self.leave_frame(window);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.table_functions += is_function(factor) as usize;
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.table_functions -= is_function(factor) as usize;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) => {
                if let Some(WindowType::WindowSpec(window)) = &function.over {
                    self.leave_frame(window);
                }
            }
            Expr::Interval(Interval { value, .. }) => self.leave(value),
            Expr::SimilarTo { .. } => return as_regex(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Interval(interval) = expr
            && let Some(data_type) = plain_interval(interval)
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: interval.value.clone(),
                data_type,
                array: false,
                format: None,
            };
            return ControlFlow::Continue(());
        }
        if self.whole && is_least_integer(expr) {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(
                    Value::Number(i32::MIN.to_string(), false).with_empty_span(),
                )),
                data_type: DataType::Int4(None),
                array: false,
                format: None,
            };
            return ControlFlow::Continue(());
        }
        if self.table_functions == 0
            && !self.counts.contains(&(expr as *const Expr))
            && let Expr::Value(value) = expr
            && let Value::Number(text, _) = &value.value
            && let Some(data_type) = own_type(text).filter(|found| self.whole || *found != DataType::Int4(None))
        {
            if data_type == DataType::DoublePrecision && digits_of(text) > NUMERIC_DIGITS_MAX as usize {
                let error = too_long(text);
                return ControlFlow::Break(match value.span.start.column {
                    0 => error,
                    column => error.position(column as usize),
                });
            }
            // A cast of a text keeps every digit; DataFusion reads whole numbers itself.
            let mut literal = value.clone();
            if data_type != DataType::Int4(None) {
                literal.value = Value::SingleQuotedString(text.clone());
            }
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(literal)),
                data_type,
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression is the least INTEGER, which without its sign would be BIGINT.
fn is_least_integer(expr: &Expr) -> bool {
    let Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: number,
    } = expr
    else {
        return false;
    };
    let mut number = number.as_ref();
    while let Expr::Nested(inner) = number {
        number = inner;
    }
    matches!(number, Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if text == "2147483648"))
}

/// The type to cast an interval literal's text to, if it has no fields of its own: its forms are PostgreSQL's then.
fn plain_interval(interval: &Interval) -> Option<DataType> {
    let is_text =
        matches!(interval.value.as_ref(), Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let fields = [interval.leading_field.is_some(), interval.last_field.is_some()];
    let digits = [interval.leading_precision, interval.fractional_seconds_precision];
    (is_text && fields == [false; 2] && digits == [None; 2]).then_some(DataType::Interval {
        fields: None,
        precision: None,
    })
}

fn is_function(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. } | TableFactor::TableFunction { .. }
    )
}

/// The type that a number literal must be told to have; `None`: the planner's own choice is PostgreSQL's.
fn own_type(text: &str) -> Option<DataType> {
    let max = NUMERIC_DIGITS_MAX as i64;
    if text.parse::<i64>().is_ok() {
        return text.parse::<i32>().is_ok().then_some(DataType::Int4(None));
    }
    let (digits, scale) = decimal_size(text)?;
    if digits > max || scale > max {
        return Some(DataType::DoublePrecision);
    }
    let whole = text.bytes().all(|byte| byte.is_ascii_digit());
    whole.then_some(DataType::Numeric(ExactNumberInfo::PrecisionAndScale(digits as u64, 0)))
}

/// SIMILAR TO as a match of a regular expression, which is what DataFusion would take its pattern for.
fn as_regex(expr: &mut Expr) -> ControlFlow<Error> {
    let refused = || {
        let message = "cannot plan query: SIMILAR TO with a pattern that is no constant is not supported yet";
        ControlFlow::Break(Error::new(ErrorKind::Unsupported, "SQL-0301", message))
    };
    let Expr::SimilarTo {
        negated,
        expr: text,
        pattern,
        escape_char,
    } = expr
    else {
        return ControlFlow::Continue(());
    };
    let Expr::Value(pattern) = pattern.as_mut() else {
        return refused();
    };
    let escape = match escape_char.as_ref().map(|escape| &escape.value) {
        None => '\\',
        Some(Value::SingleQuotedString(escape)) if escape.chars().count() == 1 => escape.chars().next().unwrap_or('\\'),
        Some(_) => return refused(),
    };
    let Value::SingleQuotedString(found) = &pattern.value else {
        return refused();
    };
    pattern.value = Value::SingleQuotedString(crate::postgres::patterns::regex_of_similar(found, escape));
    let op = match negated {
        true => BinaryOperator::PGRegexNotMatch,
        false => BinaryOperator::PGRegexMatch,
    };
    *expr = Expr::BinaryOp {
        left: text.clone(),
        op,
        right: Box::new(Expr::Value(pattern.clone())),
    };
    ControlFlow::Continue(())
}

/// Digits of a number from its first to its last that is not zero.
fn digits_of(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

fn too_long(text: &str) -> Error {
    let message = format!("cannot read number {text}: NUMERIC holds {NUMERIC_DIGITS_MAX} digits");
    Error::new(ErrorKind::Invalid, "SQL-0310", message)
        .sqlstate("22003")
        .fact("digits", digits_of(text))
        .attempt(format!(
            "'{text}'::double precision, if the nearest of its values will do"
        ))
}

/// Digits that a decimal number needs, and how many of them stand after the point.
pub(crate) fn decimal_size(text: &str) -> Option<(i64, i64)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = whole.trim_start_matches('0').len() + fraction.len();
    let scale = fraction.len() as i64 - exponent;
    Some(((written as i64 - scale.min(0)).max(scale), scale.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_the_types_that_postgresql_gives_them() {
        let integer = Some(DataType::Int4(None));
        let numeric = |digits| Some(DataType::Numeric(ExactNumberInfo::PrecisionAndScale(digits, 0)));
        assert_eq!(own_type("2147483647"), integer);
        assert_eq!(own_type("2147483648"), None);
        assert_eq!(own_type("9223372036854775808"), numeric(19));
        assert_eq!(own_type("1.5"), None);
        assert_eq!(own_type("1e300"), Some(DataType::DoublePrecision));
        assert_eq!(own_type("5e-324"), Some(DataType::DoublePrecision));
    }

    #[test]
    fn digits_are_counted_without_zeros_at_the_ends() {
        assert_eq!(digits_of("1e300"), 1);
        assert_eq!(digits_of("0.00120"), 2);
        assert_eq!(digits_of(&"9".repeat(39)), 39);
    }

    #[test]
    fn sizes_count_the_zeros_of_exponents() {
        assert_eq!(decimal_size("1.50"), Some((3, 2)));
        assert_eq!(decimal_size("0.001"), Some((3, 3)));
        assert_eq!(decimal_size("1e5"), Some((6, 0)));
        assert_eq!(decimal_size("25e-1"), Some((2, 1)));
        assert_eq!(decimal_size("1e-4"), Some((4, 4)));
    }
}
