//! CREATE SINK, DROP SINK.

use super::{not_yet, parse_error, parser};
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::{ObjectName, SqlOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What is to be done with sinks.
#[derive(Clone, Debug)]
pub(crate) enum SinkStatement {
    /// `CREATE SINK [IF NOT EXISTS] name FROM view WITH (...)`.
    Create(CreateSink),
    /// `DROP SINK [IF EXISTS] name, ...`.
    Drop { names: Vec<ObjectName>, if_exists: bool },
}

/// A sink to be made.
#[derive(Clone, Debug)]
pub(crate) struct CreateSink {
    pub(crate) name: ObjectName,
    pub(crate) if_not_exists: bool,
    /// The view or table that it follows.
    pub(crate) from: ObjectName,
    pub(crate) options: Vec<SqlOption>,
}

/// Parses one of them.
///
/// # Errors
/// 42601 with the position of what was not expected. `Unsupported`: the sink has a query of its own.
pub(super) fn parse(text: &str, tokens: &[TokenWithSpan]) -> Result<SinkStatement> {
    let mut parser = parser(tokens.to_vec());
    let parsed = statement(&mut parser).map_err(|error| parse_error(text, &parser, error))?;
    parsed.ok_or_else(|| {
        let at = parser.peek_token_ref().span.start.column as usize;
        let error = not_yet("a sink", "a sink with a query of its own is not supported yet").position(at);
        error.attempt("CREATE MATERIALIZED VIEW of the query, then CREATE SINK ... FROM that view")
    })
}

/// `None`: a query follows.
fn statement(parser: &mut Parser<'_>) -> std::result::Result<Option<SinkStatement>, ParserError> {
    let verb = parser.next_token().to_string().to_lowercase();
    parser.next_token();
    let parsed = match verb.as_str() {
        "create" => {
            let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
            let name = parser.parse_object_name(false)?;
            if matches!(&parser.peek_token_ref().token, Token::Word(word) if [Keyword::INTO, Keyword::AS].contains(&word.keyword))
            {
                return Ok(None);
            }
            parser.expect_keyword(Keyword::FROM)?;
            let from = parser.parse_object_name(false)?;
            let options = parser.parse_options(Keyword::WITH)?;
            SinkStatement::Create(CreateSink {
                name,
                if_not_exists,
                from,
                options,
            })
        }
        _ => {
            let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
            // Nothing reads a sink, so both mean the same.
            let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
            SinkStatement::Drop { names, if_exists }
        }
    };
    match parser.peek_token_ref().token {
        Token::EOF => Ok(Some(parsed)),
        _ => parser.expected("the end of the statement", parser.peek_token()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_script};

    fn parsed(sql: &str) -> String {
        match parse_script(sql) {
            Err(error) => format!("{} {}", error.state(), error.message()),
            Ok(statements) => match &*statements[0].parsed {
                Parsed::Sink(SinkStatement::Create(create)) => {
                    let options: Vec<String> = create.options.iter().map(ToString::to_string).collect();
                    let missing = if create.if_not_exists { " if missing" } else { "" };
                    format!(
                        "create {}{missing} from {} with {}",
                        create.name,
                        create.from,
                        options.join(", ")
                    )
                }
                Parsed::Sink(SinkStatement::Drop { names, if_exists }) => format!("drop {} {if_exists}", names.len()),
                other => format!("{other:?}"),
            },
        }
    }

    #[test]
    fn sinks_are_created_and_dropped() {
        assert_eq!(
            parsed("create sink k from v with (connector = 'file', roll_rows = 5);"),
            "create k from v with connector = 'file', roll_rows = 5"
        );
        assert_eq!(
            parsed("CREATE SINK IF NOT EXISTS public.\"K\" FROM v WITH (connector = print)"),
            "create public.\"K\" if missing from v with connector = print"
        );
        assert_eq!(parsed("DROP SINK k, j CASCADE"), "drop 2 false");
        assert_eq!(parsed("DROP SINK IF EXISTS k"), "drop 1 true");
    }

    #[test]
    fn what_does_not_belong_is_named() {
        assert_eq!(
            parsed("CREATE SINK k FROM v LIMIT 1"),
            "42601 cannot parse statement: sql parser error: Expected: the end of the statement, found: LIMIT"
                .replace("sql parser error: ", "")
        );
        assert!(parsed("CREATE SINK k INTO x AS SELECT 1").starts_with("0A000"));
        assert!(parsed("CREATE SINK k AS SELECT 1 WITH (connector = 'file')").starts_with("0A000"));
        assert!(parsed("DROP SINK").starts_with("42601"));
    }
}
