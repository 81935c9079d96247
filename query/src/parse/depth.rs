//! How deep the syntax tree of a statement will be, told from its tokens before the tree is made.
//!
//! The parser bounds how deep parentheses nest. `1 + 1 + 1 ...` and `SELECT .. UNION SELECT ..` nest nothing, but make a
//! tree as deep as they are long, and each walk over a tree (the planner's, the evaluator's, its own drop) takes stack
//! for every level.
//!
//! # Rules kept here
//! The depth told is never below the tree's. It counts one level for every operator between two commas, one for every
//! pair of parentheses or brackets and every CASE, and one for every set operation and join of a query.

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// How deep a tree may be. Threads that handle trees have the stack for it: [`cenote_engine::THREAD_STACK_BYTES`].
pub(super) const LEVELS_MAX: usize = 2_000;

/// Words that put a level on top of the expression before or after them.
const OPERATORS: [&str; 19] = [
    "and", "at", "between", "collate", "ilike", "in", "is", "isnull", "like", "not", "notnull", "operator", "or",
    "overlaps", "pivot", "regexp", "rlike", "similar", "unpivot",
];

/// Words that put a level on top of the query before them.
const QUERIES: [&str; 4] = ["except", "intersect", "join", "union"];

/// Words that begin expressions of their own.
const BEGINNINGS: [&str; 4] = ["having", "select", "values", "where"];

/// One open parenthesis or CASE.
#[derive(Default)]
struct Group {
    is_case: bool,
    /// Operators since the last comma.
    operators: usize,
    /// The deepest group that was closed since the last comma.
    inner: usize,
    /// The deepest of what ended with a comma.
    deepest: usize,
    /// Set operations and joins.
    queries: usize,
}

impl Group {
    fn depth(&self) -> usize {
        self.queries + self.deepest.max(self.operators + self.inner)
    }

    /// Ends an expression.
    fn next_expression(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        (self.operators, self.inner) = (0, 0);
    }
}

struct Groups(Vec<Group>);

impl Groups {
    fn top(&mut self) -> &mut Group {
        if self.0.is_empty() {
            self.0.push(Group::default());
        }
        self.0.last_mut().expect("pushed above")
    }

    fn open(&mut self, is_case: bool) {
        self.top();
        self.0.push(Group {
            is_case,
            ..Group::default()
        });
    }

    fn close(&mut self) {
        let depth = self.top().depth() + 1;
        self.0.pop();
        let around = self.top();
        around.inner = around.inner.max(depth);
    }

    /// Closes a parenthesis; a CASE without END inside it is a syntax error that the parser tells.
    fn close_parenthesis(&mut self) {
        while self.top().is_case {
            self.close();
        }
        self.close();
    }

    fn take(&mut self, token: &Token) {
        match token {
            Token::LParen | Token::LBrace => self.open(false),
            Token::LBracket => {
                // `int[][]...` nests to the left, as an operator does.
                self.top().operators += 1;
                self.open(false);
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.close_parenthesis(),
            Token::Comma => self.top().next_expression(),
            Token::Word(word) if word.quote_style.is_none() => self.take_word(token),
            token if is_operator(token) => self.top().operators += 1,
            _ => {}
        }
    }

    fn take_word(&mut self, token: &Token) {
        let is_any = |words: &[&str]| words.iter().any(|word| is_word(token, word));
        if is_word(token, "case") {
            self.open(true);
        } else if is_word(token, "end") && self.top().is_case {
            self.close();
        } else if self.top().is_case && is_any(&["when", "then", "else"]) || is_any(&BEGINNINGS) {
            self.top().next_expression();
        } else if is_any(&QUERIES) {
            self.top().next_expression();
            self.top().queries += 1;
        } else if is_any(&OPERATORS) {
            self.top().operators += 1;
        }
    }
}

/// Whether a token is neither a value nor a name nor punctuation of lists.
fn is_operator(token: &Token) -> bool {
    !matches!(
        token,
        Token::Whitespace(_)
            | Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF
    )
}

/// The token at which a statement becomes too deep, if it does.
pub(super) fn too_deep(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut groups = Groups(Vec::new());
    tokens.iter().find(|token| {
        groups.take(&token.token);
        groups.top().depth() > LEVELS_MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn depth(sql: &str) -> usize {
        let mut groups = Groups(Vec::new());
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().unwrap();
        tokens.iter().for_each(|token| groups.take(token));
        groups.top().depth()
    }

    #[test]
    fn chains_are_as_deep_as_they_are_long_and_lists_are_flat() {
        assert_eq!(depth(&["1"; 100].join("+")), 99);
        assert_eq!(depth(&["1"; 100].join(" or ")), 99);
        assert_eq!(depth(&["a = 1"; 100].join(",")), 1);
        assert_eq!(depth(&["select 1 + 1"; 100].join(" union ")), 100);
        assert_eq!(depth(&format!("'{{}}'::int{}", "[]".repeat(50))), 52);
    }

    #[test]
    fn groups_add_what_is_in_them() {
        assert_eq!(depth("((1 + 2) + 3) + 4"), 5);
        assert_eq!(depth("f(1 + 1, 2, 3 + 3) * 2"), 3);
    }

    #[test]
    fn branches_of_a_case_are_a_list() {
        let branches = "when a = 1 then b + 1 ".repeat(500);
        assert_eq!(depth(&format!("case {branches} else 0 end")), 2);
    }
}
