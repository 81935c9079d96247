//! PostgreSQL's dialect as sqlparser has it, less what makes parsing take exponential time or go wrong.
//!
//! `a IS DISTINCT FROM b OR c` is read as PostgreSQL reads it; sqlparser takes all that follows for the right side.
//!
//! To find arguments such as `'key' : value`, sqlparser reads every argument of a function as an expression and then
//! reads it again, so each level of `f(f(f(x)))` doubles the time. Arguments named by a plain name (`step => 2`) stay.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use std::any::TypeId;

/// The dialect that all SQL is parsed in.
#[derive(Debug)]
pub(crate) struct Postgres;

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// Longest side of a BETWEEN SYMMETRIC.
const SYMMETRIC_BYTES_MAX: usize = 4096;

macro_rules! same_as_postgres {
    ($($flag:ident),* $(,)?) => {
        $(fn $flag(&self) -> bool {
            BASE.$flag()
        })*
    };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        BASE.dialect()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        BASE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        BASE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        BASE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        BASE.is_reserved_for_identifier(kw)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        BASE.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        BASE.get_next_precedence(parser)
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if parser.parse_keywords(&[Keyword::BETWEEN, Keyword::SYMMETRIC]) {
            return Some(symmetric(parser, expr));
        }
        if parser.parse_keywords(&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC]) {
            let negated = |expr| Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(expr),
            };
            return Some(symmetric(parser, expr).map(negated));
        }
        let make = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            Expr::IsNotDistinctFrom
        } else {
            return None;
        };
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| make(Box::new(expr.clone()), Box::new(right))))
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        BASE.prec_value(prec)
    }

    same_as_postgres!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );
}

/// `a BETWEEN SYMMETRIC b AND c`, whose bounds may stand in any order.
fn symmetric(parser: &mut Parser<'_>, expr: &Expr) -> Result<Expr, ParserError> {
    let precedence = BASE.prec_value(Precedence::Between);
    let one = parser.parse_subexpr(precedence)?;
    parser.expect_keyword(Keyword::AND)?;
    let other = parser.parse_subexpr(precedence)?;
    // Each side is written twice, so that nesting would double the statement at every level.
    if [expr, &one, &other]
        .iter()
        .any(|side| side.to_string().len() > SYMMETRIC_BYTES_MAX)
    {
        let message = "a side of BETWEEN SYMMETRIC is too long";
        return Err(ParserError::ParserError(message.into()));
    }
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(expr.clone()),
        negated: false,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    Ok(Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(between(&one, &other)),
        op: BinaryOperator::Or,
        right: Box::new(between(&other, &one)),
    })))
}

#[cfg(test)]
mod tests {
    use super::super::parse_script;
    use super::*;

    #[test]
    fn distinct_from_binds_closer_than_and_and_or() {
        let or = Parser::new(&Postgres)
            .try_with_sql("a IS DISTINCT FROM b OR c")
            .unwrap()
            .parse_expr();
        assert!(matches!(or, Ok(Expr::BinaryOp { .. })), "{or:?}");
        let equal = Parser::new(&Postgres)
            .try_with_sql("a IS DISTINCT FROM b = c")
            .unwrap()
            .parse_expr();
        assert!(matches!(equal, Ok(Expr::IsDistinctFrom(..))), "{equal:?}");
    }

    #[test]
    fn nested_symmetric_ranges_are_bounded() {
        let nested = |depth| {
            format!(
                "SELECT {}1{}",
                "(".repeat(depth),
                " BETWEEN SYMMETRIC 1 AND 2)".repeat(depth)
            )
        };
        assert!(parse_script(&nested(2)).is_ok());
        assert!(parse_script(&nested(40)).is_err());
    }

    #[test]
    fn nested_functions_take_linear_time() {
        let nested = format!("SELECT {}1{}", "abs(".repeat(60), ")".repeat(60));
        assert!(parse_script(&nested).is_ok());
        assert!(parse_script("SELECT f(1, step => 2)").is_ok());
    }
}
