//! Signs behind operators: `n>-3` is a comparison with -3.
//!
//! # Source
//! PostgreSQL, Lexical Structure, 4.1.3 Operators: an operator of several characters does not end in `+` or `-` unless it has one of
//! ``~ ! @ # % ^ & | ` ?`` too.

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// Cuts signs off the ends of operators that cannot have them.
pub(super) fn cut_off(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_cut = |token: &TokenWithSpan| parts(&token.token).is_some();
    if !tokens.iter().any(is_cut) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        let Some((operator, signs)) = parts(&token.token) else {
            made.push(token);
            continue;
        };
        let (start, signs_from) = (token.span.start, token.span.end.column - signs.len() as u64);
        let line = start.line;
        let at = |column| Location { line, column };
        made.push(TokenWithSpan::new(operator, Span::new(start, at(signs_from))));
        for (column, sign) in (signs_from..).zip(signs) {
            made.push(TokenWithSpan::new(sign, Span::new(at(column), at(column + 1))));
        }
    }
    made
}

/// The operator and the signs that a token is.
fn parts(token: &Token) -> Option<(Token, Vec<Token>)> {
    let Token::CustomBinaryOperator(text) = token else {
        return None;
    };
    let operator = match text.trim_end_matches(['+', '-']) {
        ">" => Token::Gt,
        ">=" => Token::GtEq,
        "<" => Token::Lt,
        "<=" => Token::LtEq,
        "<>" => Token::Neq,
        "=" => Token::Eq,
        "*" => Token::Mul,
        "/" => Token::Div,
        _ => return None,
    };
    let signs = text.chars().rev().take_while(|sign| "+-".contains(*sign));
    let signs: Vec<Token> = signs
        .map(|sign| if sign == '+' { Token::Plus } else { Token::Minus })
        .collect();
    (!signs.is_empty()).then(|| (operator, signs.into_iter().rev().collect()))
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_script;

    fn normal(sql: &str) -> String {
        match parse_script(sql) {
            Ok(statements) => match &*statements[0].parsed {
                crate::parse::Parsed::Sql { ast, .. } => ast.to_string(),
                other => format!("{other:?}"),
            },
            Err(error) => error.message().to_string(),
        }
    }

    #[test]
    fn comparisons_stand_before_signs_without_a_space() {
        for operator in [">", ">=", "<", "<=", "<>", "=", "*", "/"] {
            for sign in ["-", "+"] {
                let spaced = normal(&format!("SELECT n {operator} {sign}3"));
                assert_eq!(normal(&format!("SELECT n{operator}{sign}3")), spaced);
            }
        }
    }

    #[test]
    fn operators_that_may_end_in_a_sign_are_left() {
        assert!(normal("SELECT a @- b").contains("@-"));
        assert_eq!(normal("SELECT '[1]'::jsonb -> -1"), normal("SELECT '[1]'::jsonb -> -1"));
        assert!(normal("SELECT a->b").contains("->"));
    }
}
