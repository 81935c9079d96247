//! Texts that go on on the next line: `'a'` and, behind a line's end, `'b'` are one text, as in PostgreSQL.
//!
//! Between the two may be spaces and comments up to a line's end, and one line's end at least.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

/// Joins such texts to one token each.
pub(super) fn joined(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_text = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let gap = made.iter().rev().take_while(|token| is_gap(&token.token)).count();
        let (before, between) = made.split_at(made.len() - gap);
        let follows = is_text(&token) && between.iter().any(|token| ends_line(&token.token));
        let whole = match before.last() {
            Some(first) if follows => whole(first, &token),
            _ => None,
        };
        let Some(whole) = whole else {
            made.push(token);
            continue;
        };
        made.truncate(made.len() - gap - 1);
        made.push(whole);
    }
    made
}

/// A text with what continues it; `None`: it is no text, or of a kind of which more than quotes would have to be read.
fn whole(first: &TokenWithSpan, next: &TokenWithSpan) -> Option<TokenWithSpan> {
    let Token::SingleQuotedString(more) = &next.token else {
        return None;
    };
    let text = |text: &String| format!("{text}{more}");
    let token = match &first.token {
        Token::SingleQuotedString(before) => Token::SingleQuotedString(text(before)),
        Token::EscapedStringLiteral(before) if !more.contains('\\') => Token::EscapedStringLiteral(text(before)),
        _ => return None,
    };
    let span = Span::new(first.span.start, next.span.end);
    Some(TokenWithSpan { token, span })
}

fn is_gap(token: &Token) -> bool {
    match token {
        Token::Whitespace(Whitespace::MultiLineComment(_)) => false,
        Token::Whitespace(_) => true,
        _ => false,
    }
}

fn ends_line(token: &Token) -> bool {
    match token {
        Token::Whitespace(Whitespace::Newline) => true,
        Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) => comment.ends_with(['\n', '\r']),
        _ => false,
    }
}
