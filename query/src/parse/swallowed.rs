//! Words that the parser reads and forgets: of some options of a column it takes the keyword before it looks whether
//! the dialect has the option.

use crate::error::unsupported;
use crate::parse::dialect::Postgres;
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

const WORDS: [&str; 5] = ["AUTO_INCREMENT", "AUTOINCREMENT", "ASC", "DESC", "IDENTITY"];

fn word_of(token: &Token) -> Option<&'static str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            WORDS.into_iter().find(|known| word.value.eq_ignore_ascii_case(known))
        }
        _ => None,
    }
}

/// Such words of a statement, each with its place.
pub(super) fn suspects(tokens: &[TokenWithSpan]) -> Vec<(&'static str, usize)> {
    let place = |token: &TokenWithSpan| Some((word_of(&token.token)?, token.span.start.column as usize));
    tokens.iter().filter_map(place).collect()
}

/// Refuses a CREATE TABLE that does not have all of its words any more.
///
/// # Errors
/// `Unsupported` 0A000: names the word.
pub(super) fn refuse(ast: &Ast, suspects: &[(&'static str, usize)]) -> Result<()> {
    if suspects.is_empty() || !matches!(ast, Ast::CreateTable(_)) {
        return Ok(());
    }
    let printed = ast.to_string();
    let kept = Tokenizer::new(&Postgres, &printed).tokenize().unwrap_or_default();
    let kept: Vec<&str> = kept.iter().filter_map(word_of).collect();
    let count = |word: &str| kept.iter().filter(|kept| **kept == word).count();
    for (word, place) in suspects {
        if suspects.iter().filter(|(other, _)| other == word).count() > count(word) {
            return Err(unsupported(format!("column option {word}")).position(*place));
        }
    }
    Ok(())
}
