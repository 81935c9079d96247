//! The type STRUCT, `STRUCT<a INT, b TEXT>` or `STRUCT(a INT, b TEXT)`, which sqlparser does not read in PostgreSQL's
//! dialect.
//!
//! Before a statement is parsed, the tokens between the brackets become one quoted text: sqlparser reads
//! `STRUCT('a INT, b TEXT')` as a type of that name with a modifier, and prints it as `STRUCT(a INT, b TEXT)`. What
//! is no list of fields, such as a call of the function `struct`, stays as it is.
//!
//! # Not here
//! Which types fields may have: [`crate::types`].

use super::{Postgres, is_blank, is_word};
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Ident};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Name of the type, as a declared type's.
pub(crate) const NAME: &str = "struct";

/// Structs inside one another at most.
pub(super) const DEPTH_MAX: usize = 8;

/// Tokens of one type at most.
const TOKENS_MAX: usize = 8_192;

/// Brackets behind `struct` in a text that are looked into in vain at most, at all depths, so that reading takes linear time.
const MISSES_MAX: usize = 64;

/// Gives `(s).*` the form of an access to a field, of which [`crate::structs::stars`] makes those that there are.
pub(super) fn name_stars(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut last = [None, None];
    for token in tokens.iter_mut().filter(|token| !is_blank(&token.token)) {
        if token.token == Token::Mul && last == [Some(Token::RParen), Some(Token::Period)] {
            token.token = Token::make_word(&crate::structs::stars::new_name(), Some('"'));
        }
        last = [last[1].take(), Some(token.token.clone())];
    }
    tokens
}

/// The fields of a STRUCT, by the text between its brackets.
///
/// # Errors
/// What sqlparser says of a text that is no list of fields.
pub(crate) fn fields(body: &str) -> Result<Vec<(Ident, SqlType)>, ParserError> {
    let tokens = Tokenizer::new(&Postgres, body).tokenize_with_location()?;
    fields_of(with_quoted_fields(tokens, 1, &mut 0))
}

/// Reads a type as it is written or printed.
///
/// # Errors
/// What sqlparser says of a text that is no type.
pub(crate) fn parse_type(text: &str) -> Result<SqlType, ParserError> {
    let tokens = Tokenizer::new(&Postgres, text).tokenize_with_location()?;
    let mut parser = super::parser(with_quoted_fields(tokens, 0, &mut 0));
    let data_type = parser.parse_data_type()?;
    match parser.peek_token_ref().token {
        Token::EOF => Ok(data_type),
        _ => parser.expected("the end of the type", parser.peek_token()),
    }
}

/// The tokens of a statement with the fields of its types quoted.
pub(super) fn quote_fields(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    match tokens.iter().any(|token| is_word(&token.token, NAME)) {
        true => with_quoted_fields(tokens, 0, &mut 0),
        false => tokens,
    }
}

/// Where a STRUCT stands, in tokens whose fields have been quoted, that is one but for its depth.
pub(super) fn too_deep(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let quoted = |at: usize| matches!(tokens[at].token, Token::SingleQuotedString(_));
    let next = |at: usize| (at..tokens.len()).find(|index| !is_blank(&tokens[*index].token));
    let named = (0..tokens.len()).filter(|at| is_word(&tokens[*at].token, NAME));
    let open = named.filter_map(|at| {
        let open = next(at + 1).filter(|open| matches!(tokens[*open].token, Token::Lt | Token::LParen))?;
        next(open + 1).filter(|first| !quoted(*first)).map(|_| (at, open))
    });
    let is_word_at = |at: Option<usize>| at.filter(|at| matches!(tokens[*at].token, Token::Word(_)));
    let is_type = |at: usize, open: usize| {
        let first = is_word_at(next(open + 1)).and_then(|name| is_word_at(next(name + 1)));
        let close = first.and_then(|_| closing(tokens, open));
        close.is_some_and(|close| depth_of(&tokens[at..=close]) > DEPTH_MAX)
    };
    let mut open = open.take(MISSES_MAX);
    open.find(|(at, open)| is_type(*at, *open)).map(|(at, _)| &tokens[at])
}

/// How many STRUCTs stand inside one another.
fn depth_of(tokens: &[TokenWithSpan]) -> usize {
    let (mut open, mut depth, mut deepest, mut is_named) = (Vec::new(), 0usize, 0, false);
    for token in tokens.iter().filter(|token| !is_blank(&token.token)) {
        let closed = match &token.token {
            Token::RParen => 1,
            other => closed_by(other),
        };
        for _ in 0..closed {
            depth -= open.pop().unwrap_or(false) as usize;
        }
        if token.token == Token::LParen || is_named && token.token == Token::Lt {
            open.push(is_named);
            depth += is_named as usize;
            deepest = deepest.max(depth);
        }
        is_named = is_word(&token.token, NAME);
    }
    deepest
}

fn with_quoted_fields(tokens: Vec<TokenWithSpan>, depth: usize, misses: &mut usize) -> Vec<TokenWithSpan> {
    let mut rewritten = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        rewritten.push(tokens[at].clone());
        at += 1;
        if !is_word(&tokens[at - 1].token, NAME) || *misses >= MISSES_MAX {
            continue;
        }
        let open = (at..tokens.len()).find(|index| !is_blank(&tokens[*index].token));
        let Some(open) = open.filter(|open| matches!(tokens[*open].token, Token::Lt | Token::LParen)) else {
            continue;
        };
        let found = closing(&tokens, open).map(|close| (close, between(&tokens, open, close)));
        let Some((close, body)) = found.filter(|(_, body)| is_fields(body, depth, misses)) else {
            *misses += 1;
            continue;
        };
        let token = |token, at: usize| TokenWithSpan {
            token,
            span: tokens[at].span,
        };
        rewritten.push(token(Token::LParen, open));
        rewritten.push(token(Token::SingleQuotedString(text_of(&body)), open));
        rewritten.push(token(Token::RParen, close));
        at = close + 1;
    }
    rewritten
}

/// Where the bracket that stands at `open` closes.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let is_angular = tokens[open].token == Token::Lt;
    let (mut round, mut angular) = (0usize, 0usize);
    for (index, token) in tokens.iter().enumerate().skip(open).take(TOKENS_MAX) {
        match &token.token {
            Token::LParen => round += 1,
            Token::RParen => round = round.checked_sub(1)?,
            Token::Lt => angular += 1,
            other => angular = angular.checked_sub(closed_by(other))?,
        }
        if round == 0 && angular == 0 {
            return Some(index).filter(|_| is_angular == (closed_by(&token.token) > 0));
        }
    }
    None
}

/// The tokens between two brackets; of a `>>` that closes them, the first closes what is inside.
fn between(tokens: &[TokenWithSpan], open: usize, close: usize) -> Vec<TokenWithSpan> {
    let inner = closed_by(&tokens[close].token).saturating_sub(1);
    let closers = std::iter::repeat_n(TokenWithSpan::wrap(Token::Gt), inner);
    tokens[open + 1..close].iter().cloned().chain(closers).collect()
}

/// How many `>` a token is: the tokenizer takes several for one operator.
fn closed_by(token: &Token) -> usize {
    match token {
        Token::Gt => 1,
        Token::ShiftRight => 2,
        Token::CustomBinaryOperator(text) if text.bytes().all(|byte| byte == b'>') => text.len(),
        _ => 0,
    }
}

/// Whether tokens are fields with their types.
fn is_fields(body: &[TokenWithSpan], depth: usize, misses: &mut usize) -> bool {
    depth < DEPTH_MAX && fields_of(with_quoted_fields(body.to_vec(), depth + 1, misses)).is_ok()
}

fn fields_of(tokens: Vec<TokenWithSpan>) -> Result<Vec<(Ident, SqlType)>, ParserError> {
    let mut parser = super::parser(tokens);
    let mut fields = Vec::new();
    loop {
        let name = parser.parse_identifier()?;
        fields.push((name, parser.parse_data_type()?));
        match parser.next_token().token {
            Token::Comma => {}
            Token::EOF => return Ok(fields),
            _ => return parser.expected("a comma", parser.get_current_token().clone()),
        }
    }
}

fn text_of(tokens: &[TokenWithSpan]) -> String {
    let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
    text.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        parse_type(text).map_or_else(|error| error.to_string(), |found| found.to_string())
    }

    #[test]
    fn both_forms_are_one_type_and_are_read_as_printed() {
        let forms = [
            ("STRUCT<a INT, b TEXT>", "STRUCT(a INT, b TEXT)"),
            ("struct ( a INT,b TEXT )", "struct(a INT,b TEXT)"),
            (
                "STRUCT<a STRUCT<b NUMERIC(10,2)>>[]",
                "STRUCT(a STRUCT<b NUMERIC(10,2)>)[]",
            ),
            ("STRUCT<a STRUCT<b STRUCT<c INT>>>", "STRUCT(a STRUCT<b STRUCT<c INT>>)"),
            (
                "STRUCT(a STRUCT<b INT[]>, \"C d\" DOUBLE PRECISION)",
                "STRUCT(a STRUCT<b INT[]>, \"C d\" DOUBLE PRECISION)",
            ),
        ];
        for (given, wanted) in forms {
            assert_eq!(printed(given), wanted);
            assert_eq!(printed(wanted), wanted);
        }
    }

    #[test]
    fn calls_and_comparisons_stay() {
        for sql in [
            "SELECT struct(1, 2)",
            "SELECT struct(a)",
            "SELECT struct < 5 AND b > 3",
            "SELECT struct",
        ] {
            let statements = super::super::parse_script(sql).unwrap();
            assert!(!format!("{statements:?}").contains("SingleQuotedString"), "{sql}");
        }
    }

    #[test]
    fn nesting_is_bounded_and_takes_little_time() {
        let nested = |depth: usize| format!("{}INT{}", "STRUCT<a ".repeat(depth), ">".repeat(depth));
        assert!(parse_type(&nested(DEPTH_MAX)).is_ok());
        assert!(parse_type(&nested(DEPTH_MAX + 1)).is_err());
        assert!(parse_type(&nested(1_000)).is_err());
        assert!(super::super::parse_script(&"struct<".repeat(100_000)).is_err());
        assert!(super::super::parse_script(&"struct(a ".repeat(100_000)).is_err());
    }
}
