//! SQL text to statements: PostgreSQL's grammar from sqlparser, plus Cenote's own statements.
//!
//! # Owns
//! Splitting a script, `AS OF EPOCH`, `CREATE SOURCE`, `SUBSCRIBE TO` and the SHOW family; syntax errors with their
//! position.
//!
//! # Not here
//! Meaning: names, types and plans (`plan`, `ddl`, `dml`).

use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ast};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// How deeply expressions and queries may nest.
const DEPTH_MAX: usize = 200;

/// Longest statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// A parsed statement with its text, cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) parsed: Arc<Parsed>,
}

impl Statement {
    /// The SQL text of this statement alone.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it declares a table or a source.
    pub fn is_table_definition(&self) -> bool {
        match &*self.parsed {
            Parsed::CreateSource(_) => true,
            Parsed::Sql { ast, .. } => matches!(**ast, Ast::CreateTable(_)),
            _ => false,
        }
    }

    /// Whether it gives rows and changes nothing.
    pub fn is_query(&self) -> bool {
        matches!(&*self.parsed, Parsed::Sql { ast, .. } if matches!(**ast, Ast::Query(_)))
    }
}

/// What a statement is.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Nothing but spaces and comments.
    Empty,
    /// A statement of sqlparser's grammar, read as of an epoch if one is named.
    Sql { ast: Box<Ast>, as_of: Option<Epoch> },
    /// `CREATE SOURCE`, parsed as the CREATE TABLE it resembles.
    CreateSource(Box<Ast>),
    /// `DROP SOURCE`.
    DropSource {
        names: Vec<ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    /// `SUBSCRIBE TO name`.
    Subscribe {
        name: ObjectName,
        snapshot: bool,
        from: Option<Epoch>,
    },
    /// `SHOW <words>`, lower case.
    Show(String),
}

/// Splits a script into statements and parses each.
///
/// # Errors
/// `Invalid` 42601 with the position in `sql`; 54000, 54001: too long, too deep.
pub fn parse_script(sql: &str) -> Result<Vec<Statement>> {
    if sql.len() > STATEMENT_BYTES_MAX {
        let error = Error::new(ErrorKind::Invalid, "SQL-0003", "cannot parse statement: it is too long");
        return Err(error
            .sqlstate("54000")
            .fact("limit", format!("{STATEMENT_BYTES_MAX} bytes")));
    }
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax(error.message.to_string(), position_of(sql, error.location)))?;
    let mut statements = Vec::new();
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        if part
            .iter()
            .all(|token| matches!(token.token, Token::Whitespace(_) | Token::EOF))
        {
            continue;
        }
        statements.push(parse_one(sql, part)?);
    }
    if statements.is_empty() {
        statements.push(Statement {
            text: "".into(),
            parsed: Arc::new(Parsed::Empty),
        });
    }
    Ok(statements)
}

fn parse_one(sql: &str, tokens: &[TokenWithSpan]) -> Result<Statement> {
    let words: Vec<&TokenWithSpan> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::EOF | Token::Whitespace(_)))
        .collect();
    let (first, last) = (words[0], words[words.len() - 1]);
    let text: Arc<str> = sql[offset_of(sql, first.span.start)..offset_of(sql, last.span.end)]
        .trim()
        .into();
    let parsed = parse_words(sql, tokens, &words)?;
    Ok(Statement {
        text,
        parsed: Arc::new(parsed),
    })
}

fn parse_words(sql: &str, tokens: &[TokenWithSpan], words: &[&TokenWithSpan]) -> Result<Parsed> {
    let word = |index: usize| words.get(index).map(|token| word_of(&token.token)).unwrap_or_default();
    match (word(0).as_str(), word(1).as_str()) {
        ("create", "source") => {
            let as_table = replace_word(tokens, "source", "TABLE");
            parse_ast(sql, as_table).map(|ast| Parsed::CreateSource(Box::new(ast)))
        }
        ("drop", "source") => match parse_ast(sql, replace_word(tokens, "source", "TABLE"))? {
            Ast::Drop {
                names,
                if_exists,
                cascade,
                ..
            } => Ok(Parsed::DropSource {
                names,
                if_exists,
                cascade,
            }),
            other => Err(Error::bug(format!("DROP SOURCE parsed as {other}"))),
        },
        ("subscribe", _) => parse_subscribe(sql, tokens),
        ("show", what) if is_own_show(what) => Ok(Parsed::Show(
            words[1..]
                .iter()
                .map(|token| word_of(&token.token))
                .collect::<Vec<_>>()
                .join(" "),
        )),
        ("create", "sink") | ("drop", "sink") => Err(not_yet("a sink", "sinks are not supported yet")),
        ("checkpoint", "") => Err(not_yet("a checkpoint", "checkpoints are not supported yet")),
        ("export", _) => Err(not_yet("EXPORT", "exports are not supported yet")),
        _ => {
            let (tokens, as_of) = take_as_of(sql, tokens)?;
            Ok(Parsed::Sql {
                ast: Box::new(parse_ast(sql, tokens)?),
                as_of,
            })
        }
    }
}

fn is_own_show(what: &str) -> bool {
    [
        "tables",
        "sources",
        "sinks",
        "views",
        "materialized",
        "state",
        "checkpoints",
        "create",
    ]
    .contains(&what)
}

fn not_yet(what: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "SQL-0002",
        format!("cannot make {what}: {reason}"),
    )
}

fn word_of(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_some() => word.value.clone(),
        Token::Word(word) => word.value.to_lowercase(),
        other => other.to_string(),
    }
}

/// Replaces the first unquoted `word` of the statement.
fn replace_word(tokens: &[TokenWithSpan], word: &str, by: &str) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    let found = tokens
        .iter_mut()
        .find(|token| matches!(&token.token, Token::Word(w) if w.value.eq_ignore_ascii_case(word)));
    if let Some(token) = found {
        token.token = Token::make_keyword(by);
    }
    tokens
}

/// Takes `AS OF EPOCH n` out of a statement: all its tables are read at that epoch.
fn take_as_of(sql: &str, tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Option<Epoch>)> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|index| !matches!(tokens[*index].token, Token::Whitespace(_)))
        .collect();
    let is = |at: usize, word: &str| solid.get(at).is_some_and(|index| is_word(&tokens[*index].token, word));
    let (mut removed, mut as_of) = (vec![false; tokens.len()], None);
    for at in 0..solid.len() {
        if !(is(at, "as") && is(at + 1, "of")) {
            continue;
        }
        let position = position_of(sql, tokens[solid[at]].span.start);
        for kind in ["timestamp", "checkpoint", "savepoint"] {
            if is(at + 2, kind) {
                return Err(not_yet(
                    "a read of the past",
                    &format!("AS OF {} is not supported yet", kind.to_uppercase()),
                )
                .position(position)
                .attempt("use AS OF EPOCH"));
            }
        }
        if !is(at + 2, "epoch") {
            continue;
        }
        let epoch = match solid.get(at + 3).map(|index| &tokens[*index].token) {
            Some(Token::Number(number, _)) => number.parse().ok().map(Epoch),
            _ => None,
        };
        let epoch = epoch.ok_or_else(|| syntax("AS OF EPOCH takes a whole number".into(), position))?;
        if as_of.is_some_and(|before| before != epoch) {
            return Err(not_yet("this query", "one statement reads one epoch").position(position));
        }
        as_of = Some(epoch);
        (at..at + 4).for_each(|word| removed[solid[word]] = true);
    }
    let kept = tokens
        .iter()
        .zip(&removed)
        .filter(|(_, removed)| !**removed)
        .map(|(token, _)| token.clone());
    Ok((kept.collect(), as_of))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};
    Parser::new(&DIALECT)
        .with_recursion_limit(DEPTH_MAX)
        .with_tokens_with_locations(tokens)
}

fn parse_ast(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<Ast> {
    let mut parser = parser(tokens);
    let ast = parser
        .parse_statement()
        .map_err(|error| parse_error(sql, &parser, error))?;
    match parser.peek_token().token {
        Token::EOF => Ok(ast),
        _ => {
            let error = parser
                .expected::<()>("end of statement", parser.peek_token())
                .unwrap_err();
            Err(parse_error(sql, &parser, error))
        }
    }
}

fn parse_subscribe(sql: &str, tokens: &[TokenWithSpan]) -> Result<Parsed> {
    let (tokens, from) = take_as_of(sql, tokens)?;
    let mut parser = parser(tokens);
    let mut parse = || -> std::result::Result<Parsed, ParserError> {
        parser.next_token();
        parser.expect_keyword(Keyword::TO)?;
        let name = parser.parse_object_name(false)?;
        let mut snapshot = true;
        if parser.parse_keyword(Keyword::WITH) {
            for option in parser.parse_options_after_with()? {
                match (option.0.as_str(), option.1.as_str()) {
                    ("snapshot", "true") => snapshot = true,
                    ("snapshot", "false") => snapshot = false,
                    (name, value) => {
                        return Err(ParserError::ParserError(format!(
                            "SUBSCRIBE takes the option snapshot = true or false, found {name} = {value}"
                        )));
                    }
                }
            }
        }
        Ok(Parsed::Subscribe { name, snapshot, from })
    };
    let parsed = parse();
    parsed.map_err(|error| parse_error(sql, &parser, error))
}

/// `(name = value, ...)` with values of any kind, as texts.
trait ParseOptions {
    fn parse_options_after_with(&mut self) -> std::result::Result<Vec<(String, String)>, ParserError>;
}

impl ParseOptions for Parser<'_> {
    fn parse_options_after_with(&mut self) -> std::result::Result<Vec<(String, String)>, ParserError> {
        self.expect_token(&Token::LParen)?;
        let mut options = Vec::new();
        loop {
            let name = self.parse_identifier()?.value.to_lowercase();
            self.expect_token(&Token::Eq)?;
            let value = match self.next_token().token {
                Token::SingleQuotedString(text) | Token::Number(text, _) => text,
                Token::Word(word) => word.value.to_lowercase(),
                other => return self.expected("a value", TokenWithSpan::wrap(other)),
            };
            options.push((name, value));
            if !self.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(options)
    }
}

fn parse_error(sql: &str, parser: &Parser<'_>, error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => {
            Error::new(ErrorKind::Invalid, "SQL-0004", "cannot parse statement: it is too deep")
                .sqlstate("54001")
                .fact("limit", format!("{DEPTH_MAX} levels"))
                .attempt("write long chains of OR as IN, and split deep expressions")
        }
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            let (text, location) = split_location(&text);
            let at = location.unwrap_or_else(|| parser.peek_token().span.start);
            syntax(text, position_of(sql, at))
        }
    }
}

/// Takes sqlparser's ` at Line: l, Column: c` off a message.
fn split_location(text: &str) -> (String, Option<Location>) {
    let Some((message, place)) = text.rsplit_once(" at Line: ") else {
        return (text.to_string(), None);
    };
    let parsed = place.split_once(", Column: ").and_then(|(line, column)| {
        Some(Location {
            line: line.trim().parse().ok()?,
            column: column.trim().parse().ok()?,
        })
    });
    (message.to_string(), parsed)
}

fn syntax(text: String, position: usize) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0001",
        format!("cannot parse statement: {text}"),
    )
    .sqlstate("42601")
    .position(position)
}

/// Byte offset of a location (line and column count from 1, columns in characters).
fn offset_of(sql: &str, location: Location) -> usize {
    let mut offset = 0;
    for _ in 1..location.line {
        match sql[offset..].find('\n') {
            Some(newline) => offset += newline + 1,
            None => return sql.len(),
        }
    }
    let column = location.column.saturating_sub(1) as usize;
    sql[offset..]
        .char_indices()
        .nth(column)
        .map_or(sql.len(), |(at, _)| offset + at)
}

/// 1-based character position of a location.
fn position_of(sql: &str, location: Location) -> usize {
    sql[..offset_of(sql, location)].chars().count() + 1
}
