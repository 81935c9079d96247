//! Statements about cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! sqlparser's own reading of them drops clauses; this one takes what PostgreSQL's grammar takes and refuses the rest.

use super::{Parsed, is_blank, is_word, not_yet, parse_text, syntax, word_of};
use crate::names::quoted;
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// What is done with a cursor.
#[derive(Debug)]
pub(crate) enum CursorStatement {
    /// `DECLARE name CURSOR FOR query`.
    Declare(Declaration),
    /// `FETCH`, or with `moves` `MOVE`, which reads as many rows and shows none.
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    /// `CLOSE name`, or `CLOSE ALL`.
    Close(Option<String>),
}

/// A cursor to be made.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) name: String,
    /// Whether its rows are sent in binary form.
    pub(crate) is_binary: bool,
    /// Whether it outlives its transaction.
    pub(crate) holds: bool,
    /// Its query.
    pub(crate) query: Arc<Parsed>,
}

/// Which rows a FETCH asks for, seen from the row that the cursor is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The next so many; `None`: all that are left.
    Forward(Option<u64>),
    /// The row with that number; from the end if it is negative.
    Absolute(i64),
    /// The row so many behind this one.
    Relative(i64),
    /// Rows before this one.
    Backward,
}

impl Direction {
    fn forward(count: i64) -> Direction {
        u64::try_from(count).map_or(Direction::Backward, |count| Direction::Forward(Some(count)))
    }
}

/// Parses one of them.
///
/// # Errors
/// 42601 with the position of what was not expected; 0A000: a cursor that scrolls.
pub(super) fn parse(text: &str, tokens: &[TokenWithSpan]) -> Result<CursorStatement> {
    let mut words = Words { text, tokens, at: 0 };
    let verb = words.verb();
    match verb.as_str() {
        "declare" => declare(&mut words).map(CursorStatement::Declare),
        "close" => {
            let name = words.name()?;
            words.end()?;
            let is_all = !name.is_quoted && name.text == "all";
            Ok(CursorStatement::Close((!is_all).then_some(name.text)))
        }
        verb => {
            let direction = direction(&mut words)?;
            let name = words.name()?.text;
            words.end()?;
            let moves = verb == "move";
            Ok(CursorStatement::Fetch { name, direction, moves })
        }
    }
}

fn declare(words: &mut Words<'_>) -> Result<Declaration> {
    let name = words.name()?.text;
    let mut is_binary = false;
    loop {
        let position = words.position();
        if words.take("binary") {
            is_binary = true;
        } else if words.take("scroll") {
            let error = not_yet("a cursor", "SCROLL is not supported yet");
            return Err(error.position(position).attempt("leave it out, and read forward"));
        } else if words.take("no") {
            words.expect("scroll")?;
        } else if !(words.take("insensitive") || words.take("asensitive")) {
            break;
        }
    }
    words.expect("cursor")?;
    let mut holds = false;
    if words.take("with") {
        words.expect("hold")?;
        holds = true;
    } else if words.take("without") {
        words.expect("hold")?;
    }
    words.expect("for")?;
    let query = words.query(&name)?;
    Ok(Declaration {
        name,
        is_binary,
        holds,
        query,
    })
}

/// Reads what stands between the verb and the cursor's name.
fn direction(words: &mut Words<'_>) -> Result<Direction> {
    let mut direction = Direction::Forward(Some(1));
    if words.is_last() {
        // Any word is a name there.
        return Ok(direction);
    }
    if let Some(count) = words.integer()? {
        direction = Direction::forward(count);
    } else if words.take("all") {
        direction = Direction::Forward(None);
    } else if words.take("forward") {
        direction = match words.integer()? {
            Some(count) => Direction::forward(count),
            None if words.take("all") => Direction::Forward(None),
            None => direction,
        };
    } else if words.take("backward") {
        direction = match words.integer()? {
            Some(count) => Direction::forward(count.saturating_neg()),
            None => {
                words.take("all");
                Direction::Backward
            }
        };
    } else if words.take("absolute") {
        direction = Direction::Absolute(words.needed_integer()?);
    } else if words.take("relative") {
        direction = Direction::Relative(words.needed_integer()?);
    } else if words.take("first") {
        direction = Direction::Absolute(1);
    } else if words.take("last") {
        direction = Direction::Absolute(-1);
    } else if words.take("prior") {
        direction = Direction::Backward;
    } else {
        words.take("next");
    }
    let _ = words.take("from") || words.take("in");
    Ok(direction)
}

struct Name {
    text: String,
    is_quoted: bool,
}

/// The words of a statement, read one after the other.
struct Words<'t> {
    text: &'t str,
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl<'t> Words<'t> {
    fn solid(&self, after: usize) -> Option<&'t TokenWithSpan> {
        let mut solid = self.tokens[self.at..].iter().filter(|token| !is_blank(&token.token));
        solid.nth(after)
    }

    fn peek(&self) -> Option<&'t Token> {
        self.solid(0).map(|token| &token.token)
    }

    fn step(&mut self) {
        let blanks = self.tokens[self.at..].iter().take_while(|token| is_blank(&token.token));
        self.at = (self.at + blanks.count() + 1).min(self.tokens.len());
    }

    /// Where the next word stands in the statement.
    fn position(&self) -> usize {
        match self.solid(0) {
            Some(token) => token.span.start.column as usize,
            None => self.text.chars().count() + 1,
        }
    }

    fn verb(&mut self) -> String {
        let verb = self.peek().map(word_of).unwrap_or_default();
        self.step();
        verb
    }

    fn is_last(&self) -> bool {
        self.solid(1).is_none()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek().is_some_and(|token| is_word(token, word));
        if is_next {
            self.step();
        }
        is_next
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        let found = self.peek().map_or("EOF".to_string(), ToString::to_string);
        Err(syntax(format!("Expected: {expected}, found: {found}"), self.position()))
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.take(word) {
            true => Ok(()),
            false => self.unexpected(&word.to_uppercase()),
        }
    }

    fn end(&self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.unexpected("end of statement"),
        }
    }

    fn name(&mut self) -> Result<Name> {
        let Some(token @ Token::Word(word)) = self.peek() else {
            return self.unexpected("a cursor's name");
        };
        self.step();
        Ok(Name {
            text: word_of(token),
            is_quoted: word.quote_style.is_some(),
        })
    }

    /// A whole number with its sign; `None`: something else comes.
    fn integer(&mut self) -> Result<Option<i64>> {
        let sign = match self.peek() {
            Some(Token::Minus) => -1,
            Some(Token::Plus) => 1,
            Some(Token::Number(..)) => 0,
            _ => return Ok(None),
        };
        if sign != 0 {
            self.step();
        }
        let number = match self.peek() {
            Some(Token::Number(number, _)) => number.parse::<i64>().ok(),
            _ => None,
        };
        match number {
            Some(number) => {
                self.step();
                Ok(Some(if sign < 0 { -number } else { number }))
            }
            None => self.unexpected("a whole number"),
        }
    }

    fn needed_integer(&mut self) -> Result<i64> {
        match self.integer()? {
            Some(number) => Ok(number),
            None => self.unexpected("a whole number"),
        }
    }

    /// The rest as a query.
    fn query(&mut self, cursor: &str) -> Result<Arc<Parsed>> {
        if self.peek().is_none() {
            return self.unexpected("a query");
        }
        let position = self.position();
        let parsed = parse_text(self.text, &self.tokens[self.at..])?;
        match &parsed {
            Parsed::Sql { ast, .. } if matches!(**ast, Ast::Query(_)) => Ok(Arc::new(parsed)),
            _ => {
                let message = format!("cursor {} is to be for a query", quoted(cursor));
                Err(syntax(message, position))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_script;
    use super::*;

    fn parsed(sql: &str) -> Result<Arc<Parsed>> {
        Ok(parse_script(sql)?.remove(0).parsed)
    }

    #[test]
    fn every_direction_of_postgresql_is_read() {
        use Direction::*;
        for (sql, expected) in [
            ("FETCH c", Forward(Some(1))),
            ("FETCH NEXT FROM c", Forward(Some(1))),
            ("FETCH IN c", Forward(Some(1))),
            ("FETCH 5 c", Forward(Some(5))),
            ("fetch +5 in c", Forward(Some(5))),
            ("FETCH -5 FROM c", Backward),
            ("FETCH ALL IN c", Forward(None)),
            ("FETCH FORWARD c", Forward(Some(1))),
            ("FETCH FORWARD 0 FROM c", Forward(Some(0))),
            ("MOVE FORWARD ALL IN c", Forward(None)),
            ("FETCH BACKWARD -3 c", Forward(Some(3))),
            ("FETCH BACKWARD 3 c", Backward),
            ("FETCH BACKWARD ALL FROM c", Backward),
            ("FETCH BACKWARD FROM c", Backward),
            ("FETCH PRIOR FROM c", Backward),
            ("FETCH FIRST c", Absolute(1)),
            ("FETCH LAST FROM c", Absolute(-1)),
            ("FETCH ABSOLUTE 7 FROM c", Absolute(7)),
            ("FETCH RELATIVE - 2 FROM c", Relative(-2)),
        ] {
            let parsed = parsed(sql).unwrap();
            let Parsed::Cursor(CursorStatement::Fetch { name, direction, moves }) = &*parsed else {
                panic!("{sql}: {parsed:?}");
            };
            assert_eq!((name.as_str(), *direction), ("c", expected), "{sql}");
            assert_eq!(*moves, sql.starts_with("MOVE"), "{sql}");
        }
    }

    #[test]
    fn words_of_the_grammar_are_names_where_nothing_follows() {
        for (sql, expected) in [
            ("FETCH next", "next"),
            ("FETCH \"All\"", "All"),
            ("FETCH FROM Prior", "prior"),
        ] {
            let parsed = parsed(sql).unwrap();
            assert!(
                matches!(&*parsed, Parsed::Cursor(CursorStatement::Fetch { name, .. }) if name == expected),
                "{sql}: {parsed:?}"
            );
        }
        assert!(matches!(
            &*parsed("CLOSE ALL").unwrap(),
            Parsed::Cursor(CursorStatement::Close(None))
        ));
        let quoted = parsed("CLOSE \"all\"").unwrap();
        assert!(matches!(&*quoted, Parsed::Cursor(CursorStatement::Close(Some(name))) if name == "all"));
    }

    #[test]
    fn clauses_of_declare_are_read_or_refused() {
        let parsed = parsed("DECLARE \"C\" BINARY NO SCROLL INSENSITIVE CURSOR WITH HOLD FOR VALUES (1)").unwrap();
        let Parsed::Cursor(CursorStatement::Declare(declared)) = &*parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!(
            (declared.name.as_str(), declared.is_binary, declared.holds),
            ("C", true, true)
        );
        for (sql, state, position) in [
            ("DECLARE c SCROLL CURSOR FOR SELECT 1", "0A000", 11),
            ("DECLARE c CURSOR SELECT 1", "42601", 18),
            ("DECLARE c CURSOR FOR", "42601", 21),
            ("DECLARE c CURSOR FOR DELETE FROM t", "42601", 22),
            ("DECLARE c CURSOR FOR SELECT 1 +", "42601", 32),
            ("FETCH ABSOLUTE FROM c", "42601", 16),
            ("FETCH 1 FROM c d", "42601", 16),
            ("FETCH 1", "42601", 7),
            ("CLOSE", "42601", 6),
        ] {
            let error = parse_script(sql).unwrap_err();
            assert_eq!(
                (error.state(), error.sql_position()),
                (state, Some(position)),
                "{sql}: {error}"
            );
        }
    }
}
