//! What the parser takes and PostgreSQL does not: words that it reads and forgets, and texts as names.
//!
//! Of some options of a column it takes the keyword before it looks whether the dialect has the option. `SELECT 'a' 'b'` is
//! to it a column named `b`.

use crate::error::unsupported;
use crate::parse::dialect::Postgres;
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{Ident, Select, SelectItem, Statement as Ast, Visitor};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::ops::ControlFlow;

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

/// Refuses a text as the name of a column of a select list.
///
/// # Errors
/// `Invalid` 42601: names the text.
pub(super) fn refuse_text_names(ast: &Ast) -> Result<()> {
    struct Names;
    impl Visitor for Names {
        type Break = Ident;
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Ident> {
            let is_text = |alias: &&Ident| alias.quote_style == Some('\'');
            let mut aliases = select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias),
                _ => None,
            });
            match aliases.find(is_text) {
                Some(text) => ControlFlow::Break(text.clone()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    let ControlFlow::Break(text) = walk::read(ast, &mut Names) else {
        return Ok(());
    };
    let message = format!("cannot parse statement: syntax error at or near {text}");
    let error = Error::new(ErrorKind::Invalid, "SQL-0001", message).sqlstate("42601");
    Err(error
        .position(text.span.start.column as usize)
        .attempt("names are in double quotes; a text goes on in quotes on the next line only"))
}
