//! `TABLE name` as the query that it stands for: `SELECT * FROM name`.
//!
//! Only where PostgreSQL has it: where a query can begin, and with nothing but its ORDER BY, LIMIT, set operations and the
//! like behind the name. What else there is stays as it is, and is told of as a syntax error.

use super::{is_blank, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which a query can begin.
const BEFORE: [&str; 10] = [
    "union",
    "intersect",
    "except",
    "all",
    "distinct",
    "as",
    "explain",
    "analyze",
    "verbose",
    "for",
];

/// Words that can stand behind the name.
const BEHIND: [&str; 8] = [
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
];

/// The tokens of a statement in which the commands are queries.
pub(super) fn as_queries(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "table")) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|index| !is_blank(&tokens[*index].token))
        .collect();
    let solid_tokens: Vec<&Token> = solid.iter().map(|index| &tokens[*index].token).collect();
    let found = (0..solid.len()).filter(|at| is_command(&solid_tokens, *at));
    let found: Vec<usize> = found.map(|at| solid[at]).collect();
    let mut made = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.into_iter().enumerate() {
        if !found.contains(&index) {
            made.push(token);
            continue;
        }
        let query = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        made.extend(query.into_iter().map(|part| TokenWithSpan {
            token: part,
            span: token.span,
        }));
    }
    made
}

/// Whether the word at a place is the command.
fn is_command(tokens: &[&Token], at: usize) -> bool {
    if !is_word(tokens[at], "table") {
        return false;
    }
    let can_begin = match at.checked_sub(1).map(|before| tokens[before]) {
        None | Some(Token::LParen | Token::RParen) => true,
        Some(word) => BEFORE.iter().any(|known| is_word(word, known)) || is_target(tokens, at),
    };
    let is_name = |at: usize| matches!(tokens.get(at), Some(Token::Word(_)));
    let mut end = at + 1;
    if !can_begin || !is_name(end) {
        return false;
    }
    while matches!(tokens.get(end + 1), Some(Token::Period)) && is_name(end + 2) {
        end += 2;
    }
    match tokens.get(end + 1) {
        None | Some(Token::RParen) => true,
        Some(word) => BEHIND.iter().any(|known| is_word(word, known)),
    }
}

/// Whether what stands before a place is `INSERT INTO name`.
fn is_target(tokens: &[&Token], at: usize) -> bool {
    let mut start = at - 1;
    while start >= 2 && matches!(tokens[start - 1], Token::Period) {
        start -= 2;
    }
    start >= 2 && is_word(tokens[start - 1], "into") && is_word(tokens[start - 2], "insert")
}
