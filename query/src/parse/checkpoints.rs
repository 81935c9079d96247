//! CHECKPOINT, CREATE SAVEPOINT, DROP SAVEPOINT.

use super::{parse_error, parser};
use cenote_statestore::Result;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What is to be done with checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointStatement {
    /// `CHECKPOINT`: takes one now.
    Take,
    /// `CREATE SAVEPOINT name`: takes one that is kept under a name.
    CreateSavepoint(String),
    /// `DROP SAVEPOINT [IF EXISTS] name`: forgets the name.
    DropSavepoint { name: String, if_exists: bool },
}

/// Parses one of them.
///
/// # Errors
/// 42601 with the position of what was not expected.
pub(super) fn parse(text: &str, tokens: &[TokenWithSpan]) -> Result<CheckpointStatement> {
    let mut parser = parser(tokens.to_vec());
    let parsed = statement(&mut parser);
    parsed.map_err(|error| parse_error(text, &parser, error))
}

fn statement(parser: &mut Parser<'_>) -> std::result::Result<CheckpointStatement, ParserError> {
    let verb = parser.next_token().to_string().to_lowercase();
    if verb != "checkpoint" {
        parser.next_token();
    }
    let parsed = match verb.as_str() {
        "checkpoint" => CheckpointStatement::Take,
        "create" => CheckpointStatement::CreateSavepoint(name(parser)?),
        _ => {
            let if_exists = super::is_word(&parser.peek_token_ref().token, "if");
            if if_exists {
                parser.next_token();
                if !super::is_word(&parser.next_token().token, "exists") {
                    parser.prev_token();
                    return parser.expected("EXISTS", parser.peek_token());
                }
            }
            let name = name(parser)?;
            CheckpointStatement::DropSavepoint { name, if_exists }
        }
    };
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token_ref().token {
        Token::EOF => Ok(parsed),
        _ => parser.expected("the end of the statement", parser.peek_token()),
    }
}

/// A name, folded to lower case if it is not quoted.
fn name(parser: &mut Parser<'_>) -> std::result::Result<String, ParserError> {
    let name = parser.parse_identifier()?;
    Ok(match name.quote_style {
        Some(_) => name.value,
        None => name.value.to_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use crate::parse::{Parsed, parse_script};

    fn parsed(sql: &str) -> String {
        match parse_script(sql) {
            Err(error) => format!("{} {}", error.state(), error.message()),
            Ok(statements) => match &*statements[0].parsed {
                Parsed::Checkpoint(statement) => format!("{statement:?}"),
                other => format!("{other:?}"),
            },
        }
    }

    #[test]
    fn names_fold_and_what_is_behind_them_is_refused() {
        assert_eq!(parsed("CHECKPOINT;"), "Take");
        assert_eq!(
            parsed("create savepoint Before_Deploy"),
            "CreateSavepoint(\"before_deploy\")"
        );
        assert_eq!(parsed("CREATE SAVEPOINT \"A b\""), "CreateSavepoint(\"A b\")");
        assert_eq!(
            parsed("DROP SAVEPOINT IF EXISTS a"),
            "DropSavepoint { name: \"a\", if_exists: true }"
        );
        assert_eq!(
            parsed("DROP SAVEPOINT a"),
            "DropSavepoint { name: \"a\", if_exists: false }"
        );
        for wrong in [
            "CHECKPOINT now",
            "CREATE SAVEPOINT",
            "DROP SAVEPOINT IF a",
            "CREATE SAVEPOINT a b",
        ] {
            assert!(parsed(wrong).starts_with("42601"), "{wrong}: {}", parsed(wrong));
        }
    }
}
