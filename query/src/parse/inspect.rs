//! Statements that look into a view: VERIFY, EXPLAIN of one that is there, SHOW ERRORS.

use super::{parse_error, parser};
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What is looked into.
#[derive(Clone, Debug)]
pub(crate) enum Inspection {
    /// `VERIFY MATERIALIZED VIEW v`: whether it holds what its query gives over its inputs.
    Verify(ObjectName),
    /// `EXPLAIN MATERIALIZED VIEW v`: its dataflow.
    Dataflow(ObjectName),
    /// `EXPLAIN ANALYZE MATERIALIZED VIEW v`: what its operators have done.
    Work(ObjectName),
    /// `SHOW ERRORS [FOR name]`: rows that could not be read or worked on.
    Errors(Option<ObjectName>),
}

/// Parses one of them.
///
/// # Errors
/// 42601 with the position of what was not expected.
pub(super) fn parse(text: &str, tokens: &[TokenWithSpan]) -> Result<Inspection> {
    let mut parser = parser(tokens.to_vec());
    let parsed = inspection(&mut parser);
    parsed.map_err(|error| parse_error(text, &parser, error))
}

fn inspection(parser: &mut Parser<'_>) -> std::result::Result<Inspection, ParserError> {
    let verb = word(parser)?;
    let parsed = match verb.as_str() {
        "verify" => Inspection::Verify(view(parser)?),
        "show" => {
            expect(parser, "errors")?;
            let named = is_next(parser, "for");
            if named {
                parser.next_token();
            }
            Inspection::Errors(named.then(|| parser.parse_object_name(false)).transpose()?)
        }
        _ if is_next(parser, "analyze") => {
            parser.next_token();
            Inspection::Work(view(parser)?)
        }
        _ => Inspection::Dataflow(view(parser)?),
    };
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token_ref().token {
        Token::EOF => Ok(parsed),
        _ => parser.expected("the end of the statement", parser.peek_token()),
    }
}

fn view(parser: &mut Parser<'_>) -> std::result::Result<ObjectName, ParserError> {
    expect(parser, "materialized")?;
    expect(parser, "view")?;
    parser.parse_object_name(false)
}

fn word(parser: &mut Parser<'_>) -> std::result::Result<String, ParserError> {
    Ok(parser.next_token().to_string().to_lowercase())
}

fn is_next(parser: &mut Parser<'_>, word: &str) -> bool {
    super::is_word(&parser.peek_token_ref().token, word)
}

fn expect(parser: &mut Parser<'_>, word: &str) -> std::result::Result<(), ParserError> {
    if is_next(parser, word) {
        parser.next_token();
        return Ok(());
    }
    let word = word.to_uppercase();
    parser.expected(&word, parser.peek_token())
}
