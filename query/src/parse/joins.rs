//! Joins inside joins without brackets: `a LEFT JOIN b CROSS JOIN c ON ...`, `a JOIN b JOIN c ON ... ON ...`.
//!
//! sqlparser takes every join for one of what stands before it, and finds no place for a second ON. As in PostgreSQL's
//! grammar, an ON or USING belongs to the last join that has none yet, and what stands between the two is joined first: it
//! is put into brackets.

use super::{is_blank, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that end what a join is in; one that is still without a condition there is an error of the grammar.
const ENDS: [&str; 10] = [
    "select",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "union",
    "intersect",
    "except",
    "set",
];

/// A join that has no condition yet.
struct Open {
    /// Where its right side begins.
    right: usize,
    /// Whether its right side has a join in it.
    has_join: bool,
}

/// The tokens of a statement with brackets around such joins.
pub(super) fn with_brackets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|index| !is_blank(&tokens[*index].token))
        .collect();
    let brackets = brackets(&solid.iter().map(|index| &tokens[*index].token).collect::<Vec<_>>());
    if brackets.is_empty() {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + brackets.len());
    let mut place = 0;
    for (index, token) in tokens.into_iter().enumerate() {
        if solid.get(place) == Some(&index) {
            let here = brackets.iter().filter(|(at, _)| *at == place);
            made.extend(here.map(|(_, bracket)| TokenWithSpan {
                token: bracket.clone(),
                span: token.span,
            }));
            place += 1;
        }
        made.push(token);
    }
    made
}

/// The brackets that are missing, each with the place of the token that it stands before.
fn brackets(tokens: &[&Token]) -> Vec<(usize, Token)> {
    let mut found = Vec::new();
    // The open joins of each bracket around the token.
    let mut levels: Vec<Vec<Open>> = vec![Vec::new()];
    for (at, token) in tokens.iter().enumerate() {
        let is = |word: &str| is_word(token, word);
        match token {
            Token::LParen => levels.push(Vec::new()),
            Token::RParen if levels.len() > 1 => drop(levels.pop()),
            _ => {}
        }
        let Some(open) = levels.last_mut() else {
            continue;
        };
        if is("join") {
            if let Some(last) = open.last_mut() {
                last.has_join = true;
            }
            if has_condition(&tokens[..at]) {
                open.push(Open {
                    right: at + 1,
                    has_join: false,
                });
            }
        } else if is("on") || is("using") {
            if let Some(last) = open.pop().filter(|last| last.has_join) {
                found.push((last.right, Token::LParen));
                found.push((at, Token::RParen));
            }
        } else if **token == Token::Comma || ENDS.iter().any(|word| is(word)) {
            open.clear();
        }
    }
    found
}

/// Whether the join whose word JOIN stands behind some tokens takes a condition: CROSS and NATURAL joins do not.
fn has_condition(before: &[&Token]) -> bool {
    let kind = |token: &&&Token| {
        ["inner", "left", "right", "full", "outer"]
            .iter()
            .any(|word| is_word(token, word))
    };
    let mut words = before.iter().rev();
    let first = words.find(|token| !kind(token));
    !first.is_some_and(|token| is_word(token, "cross") || is_word(token, "natural"))
}

#[cfg(test)]
mod tests {
    use super::super::parse_script;

    fn printed(from: &str) -> String {
        let statements = parse_script(&format!("SELECT * FROM {from}")).unwrap();
        match &*statements[0].parsed {
            crate::parse::Parsed::Sql { ast, .. } => ast.to_string().replace("SELECT * FROM ", ""),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_condition_belongs_to_the_last_join_without_one() {
        let forms = [
            ("a LEFT JOIN b CROSS JOIN c ON x", "a LEFT JOIN (b CROSS JOIN c) ON x"),
            ("a JOIN b JOIN c ON x ON y", "a JOIN (b JOIN c ON x) ON y"),
            (
                "a JOIN b JOIN c JOIN d ON x ON y ON z",
                "a JOIN (b JOIN (c JOIN d ON x) ON y) ON z",
            ),
            (
                "a JOIN b NATURAL LEFT JOIN c USING(x)",
                "a JOIN (b NATURAL LEFT JOIN c) USING(x)",
            ),
            (
                "a, b JOIN c LEFT OUTER JOIN d ON x ON y",
                "a, b JOIN (c LEFT OUTER JOIN d ON x) ON y",
            ),
        ];
        for (given, wanted) in forms {
            assert_eq!(printed(given), wanted);
            assert_eq!(printed(wanted), wanted);
        }
    }

    #[test]
    fn other_joins_stay() {
        for from in [
            "a JOIN b ON x LEFT JOIN c ON y CROSS JOIN d",
            "a NATURAL JOIN b JOIN c ON x",
            "a CROSS JOIN b JOIN c ON x",
            "(a CROSS JOIN b) JOIN c USING(x)",
        ] {
            assert_eq!(printed(from), from);
        }
    }
}
