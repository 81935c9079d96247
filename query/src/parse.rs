//! SQL text to statements: PostgreSQL's grammar from sqlparser, plus Cenote's own statements.
//!
//! # Owns
//! Splitting a script, `AS OF EPOCH`, `CREATE SOURCE`, `CREATE SINK`, `SUBSCRIBE TO` and the SHOW family; syntax errors with their
//! position; a bound on how deep a statement may be.
//!
//! # Not here
//! Meaning: names, types and plans (`plan`, `ddl`, `dml`).

mod checkpoints;
mod continued;
mod cursors;
mod depth;
mod dialect;
mod inspect;
mod joins;
mod lines;
mod signs;
mod sinks;
pub(crate) mod structs;
mod swallowed;
mod table_command;

pub(crate) use dialect::Postgres;

use crate::past::{self, Clause, Moment};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
pub(crate) use checkpoints::CheckpointStatement;
pub(crate) use cursors::{CursorStatement, Declaration, Direction};
use datafusion::sql::sqlparser::ast::{ExprWithAlias, ObjectName, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
pub(crate) use inspect::Inspection;
use lines::Lines;
pub(crate) use sinks::{CreateSink, SinkStatement};
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

    /// How many parameters the text has: the highest number behind a `$`.
    pub fn parameters_len(&self) -> usize {
        let tokens = Tokenizer::new(&Postgres, &self.text).tokenize().unwrap_or_default();
        let numbers = tokens.iter().filter_map(|token| match token {
            Token::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Whether it declares a table or a source.
    pub fn is_table_definition(&self) -> bool {
        match &*self.parsed {
            Parsed::CreateSource(_) => true,
            Parsed::Sql { ast, .. } => matches!(**ast, Ast::CreateTable(_)),
            _ => false,
        }
    }

    /// What it does with a cursor, as its command tag tells it; `None`: nothing.
    pub fn cursor_verb(&self) -> Option<&'static str> {
        match &*self.parsed {
            Parsed::Cursor(CursorStatement::Declare(_)) => Some("DECLARE CURSOR"),
            Parsed::Cursor(CursorStatement::Fetch { moves: true, .. }) => Some("MOVE"),
            Parsed::Cursor(CursorStatement::Fetch { .. }) => Some("FETCH"),
            Parsed::Cursor(CursorStatement::Close(_)) => Some("CLOSE"),
            _ => None,
        }
    }

    /// The name of the cursor that it declares.
    pub fn declared_cursor(&self) -> Option<&str> {
        match &*self.parsed {
            Parsed::Cursor(CursorStatement::Declare(declaration)) => Some(&declaration.name),
            _ => None,
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
    /// A statement of sqlparser's grammar; `as_of`: the epoch that it names for all of its tables.
    Sql { ast: Box<Ast>, as_of: Option<Epoch> },
    /// `CREATE SOURCE`, parsed as the CREATE TABLE it resembles.
    CreateSource(Box<Ast>),
    /// `DROP SOURCE`.
    DropSource {
        names: Vec<ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor(CursorStatement),
    /// A look into a view or its errors.
    Inspect(Inspection),
    /// CHECKPOINT, CREATE SAVEPOINT, DROP SAVEPOINT.
    Checkpoint(CheckpointStatement),
    /// CREATE SINK, DROP SINK.
    Sink(SinkStatement),
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
    let lines = Lines::new(sql);
    let tokens = tokenize(sql, &lines)?;
    let mut statements = Vec::new();
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        let mut solid = part.iter().filter(|token| !is_blank(&token.token));
        if let Some(first) = solid.next() {
            let last = solid.next_back().unwrap_or(first);
            statements.push(parse_one(sql, &lines, part, first, last)?);
        }
    }
    if statements.is_empty() {
        statements.push(Statement {
            text: "".into(),
            parsed: Arc::new(Parsed::Empty),
        });
    }
    Ok(statements)
}

fn tokenize(sql: &str, lines: &Lines<'_>) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&Postgres, sql)
        .tokenize_with_location()
        .map(continued::joined)
        .map(signs::cut_off)
        .map(structs::quote_fields)
        .map(structs::name_stars)
        .map_err(|error| syntax(error.message.to_string(), lines.position(error.location)))?;
    match structs::too_deep(&tokens) {
        None => Ok(tokens),
        Some(token) => Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0004",
            "cannot parse statement: its types are too deep",
        )
        .sqlstate("54001")
        .fact("limit", format!("{} levels of STRUCT", structs::DEPTH_MAX))
        .attempt("a flatter type, or JSONB")
        .position(lines.position(token.span.start))),
    }
}

/// Parses one expression: a condition, a default.
///
/// # Errors
/// As [`parse_script`].
pub(crate) fn parse_expression(sql: &str) -> Result<ExprWithAlias> {
    let lines = Lines::new(sql);
    let tokens = lines.place_from(1, &tokenize(sql, &lines)?);
    check_depth(&tokens)?;
    let mut parser = parser(tokens);
    let expr = parser.parse_expr().map_err(|error| parse_error(sql, &parser, error))?;
    check_end(sql, &parser)?;
    Ok(ExprWithAlias { expr, alias: None })
}

fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    match depth::too_deep(tokens) {
        None => Ok(()),
        Some(token) => Err(too_deep(depth::LEVELS_MAX).position(token.span.start.column as usize)),
    }
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::EOF | Token::Whitespace(_))
}

/// Parses the statement between two tokens.
fn parse_one(
    sql: &str,
    lines: &Lines<'_>,
    tokens: &[TokenWithSpan],
    first: &TokenWithSpan,
    last: &TokenWithSpan,
) -> Result<Statement> {
    let start = lines.position(first.span.start);
    let text: Arc<str> = sql[lines.offset(first.span.start)..lines.offset(last.span.end)]
        .trim()
        .into();
    let parsed = parse_text(&text, &lines.place_from(start, tokens)).map_err(|error| match error.sql_position() {
        Some(position) => error.position(start - 1 + position),
        None => error,
    })?;
    Ok(Statement {
        text,
        parsed: Arc::new(parsed),
    })
}

/// Parses a statement whose tokens are placed by the characters of `text`.
fn parse_text(text: &str, tokens: &[TokenWithSpan]) -> Result<Parsed> {
    check_depth(tokens)?;
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(&token.token)).collect();
    parse_words(text, tokens, &words)
}

fn parse_words(text: &str, tokens: &[TokenWithSpan], words: &[&TokenWithSpan]) -> Result<Parsed> {
    let word = |index: usize| words.get(index).map(|token| word_of(&token.token)).unwrap_or_default();
    match (word(0).as_str(), word(1).as_str()) {
        ("create", "source") => {
            let as_table = replace_word(tokens, "source", "TABLE");
            parse_ast(text, as_table).map(|ast| Parsed::CreateSource(Box::new(ast)))
        }
        ("drop", "source") => match parse_ast(text, replace_word(tokens, "source", "TABLE"))? {
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
        ("subscribe", _) => parse_subscribe(text, tokens),
        ("declare" | "fetch" | "move" | "close", _) => cursors::parse(text, tokens).map(Parsed::Cursor),
        ("verify", _) | ("show", "errors") => inspect::parse(text, tokens).map(Parsed::Inspect),
        ("explain", "materialized") => inspect::parse(text, tokens).map(Parsed::Inspect),
        ("explain", "analyze") if word(2) == "materialized" => inspect::parse(text, tokens).map(Parsed::Inspect),
        ("show", what) if is_own_show(what) => Ok(Parsed::Show(
            words[1..]
                .iter()
                .map(|token| word_of(&token.token))
                .collect::<Vec<_>>()
                .join(" "),
        )),
        ("create" | "drop", "sink") => sinks::parse(text, tokens).map(Parsed::Sink),
        ("checkpoint", _) | ("create" | "drop", "savepoint") => {
            checkpoints::parse(text, tokens).map(Parsed::Checkpoint)
        }
        ("export", _) => Err(not_yet("EXPORT", "exports are not supported yet")),
        _ => {
            let (tokens, clauses) = take_as_of(tokens)?;
            let mut ast = Box::new(parse_ast(text, tokens)?);
            past::put(&mut ast, clauses)?;
            let as_of = past::epoch_of_all(&ast);
            Ok(Parsed::Sql { ast, as_of })
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
        "history",
        "create",
    ]
    .contains(&what)
}

fn not_yet(what: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "SQL-0006",
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

/// Takes every `AS OF EPOCH n`, `AS OF TIMESTAMP '...'`, `AS OF CHECKPOINT 'id'` and `AS OF SAVEPOINT name` out of a statement.
fn take_as_of(tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Vec<Clause>)> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|index| !is_blank(&tokens[*index].token))
        .collect();
    let is = |at: usize, word: &str| solid.get(at).is_some_and(|index| is_word(&tokens[*index].token, word));
    let position = |at: usize| tokens[solid[at]].span.start.column as usize;
    let (mut removed, mut clauses) = (vec![false; tokens.len()], Vec::new());
    for at in 1..solid.len() {
        if !(is(at, "as") && is(at + 1, "of")) {
            continue;
        }
        let word = solid
            .get(at + 2)
            .map(|index| word_of(&tokens[*index].token))
            .unwrap_or_default();
        if !["epoch", "timestamp", "checkpoint", "savepoint"].contains(&word.as_str()) {
            continue;
        }
        let named = solid.get(at + 3).map(|index| &tokens[*index].token);
        if let (true, Some(Token::SingleQuotedString(text))) = (word == "timestamp", named) {
            // A time without a zone is one of the session, whose zone is UTC.
            let time = crate::pgtext::read_timestamp(text, Some(&crate::pgtext::Zone::Utc), "timestamp with time zone");
            let time = time.map_err(|error| error.position(position(at + 3)))?;
            clauses.push(Clause {
                behind: position(at - 1),
                position: position(at),
                moment: Moment::Timestamp(time),
            });
            (at..at + 4).for_each(|word| removed[solid[word]] = true);
            continue;
        }
        let moment = moment(&word, named).ok_or_else(|| {
            let takes = match word.as_str() {
                "epoch" => "a whole number",
                "timestamp" => "a time in quotes",
                _ => "a name",
            };
            syntax(format!("AS OF {} takes {takes}", word.to_uppercase()), position(at))
        })?;
        clauses.push(Clause {
            behind: position(at - 1),
            position: position(at),
            moment,
        });
        (at..at + 4).for_each(|word| removed[solid[word]] = true);
    }
    let kept = tokens.iter().zip(&removed).filter(|(_, removed)| !**removed);
    Ok((kept.map(|(token, _)| token.clone()).collect(), clauses))
}

/// The moment that `AS OF <kind> <named>` names.
fn moment(kind: &str, named: Option<&Token>) -> Option<Moment> {
    let name = match named? {
        Token::Number(number, _) if kind == "epoch" => {
            return number.parse().ok().map(|epoch| Moment::Epoch(Epoch(epoch)));
        }
        Token::SingleQuotedString(name) => name.clone(),
        token @ Token::Word(_) => word_of(token),
        _ => return None,
    };
    match kind {
        "checkpoint" => Some(Moment::Checkpoint(name)),
        "savepoint" => Some(Moment::Savepoint(name)),
        _ => None,
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(&Postgres)
        .with_recursion_limit(DEPTH_MAX)
        .with_tokens_with_locations(tokens)
}

fn parse_ast(text: &str, tokens: Vec<TokenWithSpan>) -> Result<Ast> {
    let tokens = joins::with_brackets(table_command::as_queries(tokens));
    let suspects = swallowed::suspects(&tokens);
    let mut parser = parser(tokens);
    let ast = parser
        .parse_statement()
        .map_err(|error| parse_error(text, &parser, error))?;
    check_end(text, &parser)?;
    swallowed::refuse(&ast, &suspects)?;
    swallowed::refuse_text_names(&ast)?;
    Ok(ast)
}

fn check_end(text: &str, parser: &Parser<'_>) -> Result<()> {
    match parser.peek_token().token {
        Token::EOF => Ok(()),
        _ => {
            let error = parser.expected::<()>("end of statement", parser.peek_token());
            error.map_err(|error| parse_error(text, parser, error))
        }
    }
}

fn parse_subscribe(text: &str, tokens: &[TokenWithSpan]) -> Result<Parsed> {
    let (tokens, clauses) = take_as_of(tokens)?;
    if let Some(second) = clauses.get(1) {
        return Err(syntax("SUBSCRIBE takes one AS OF EPOCH".into(), second.position));
    }
    let from = match clauses.first() {
        None => None,
        Some(Clause {
            moment: Moment::Epoch(epoch),
            ..
        }) => Some(*epoch),
        Some(other) => {
            let reason = format!("SUBSCRIBE goes on from an epoch, not from {}", other.moment);
            return Err(syntax(reason, other.position));
        }
    };
    let mut parser = parser(tokens);
    let mut parse = || -> std::result::Result<Parsed, ParserError> {
        parser.next_token();
        parser.expect_keyword(Keyword::TO)?;
        let name = parser.parse_object_name(false)?;
        // Whoever names an epoch has the contents up to it.
        let mut snapshot = from.is_none();
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
        while parser.consume_token(&Token::SemiColon) {}
        if parser.peek_token_ref().token != Token::EOF {
            return parser.expected("the end of the statement", parser.peek_token());
        }
        Ok(Parsed::Subscribe { name, snapshot, from })
    };
    let parsed = parse();
    parsed.map_err(|error| parse_error(text, &parser, error))
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

fn too_deep(limit: usize) -> Error {
    Error::new(ErrorKind::Invalid, "SQL-0004", "cannot parse statement: it is too deep")
        .sqlstate("54001")
        .fact("limit", format!("{limit} levels"))
        .attempt("write long chains of OR as IN, and split deep expressions")
}

fn parse_error(text: &str, parser: &Parser<'_>, error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => too_deep(DEPTH_MAX),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let (message, position) = split_position(&message);
            let at = position.unwrap_or(parser.peek_token().span.start.column as usize);
            // What has no place is the end of the statement.
            let position = if at == 0 { text.chars().count() + 1 } else { at };
            syntax(message, position)
        }
    }
}

/// Takes sqlparser's ` at Line: 1, Column: c` off a message.
fn split_position(message: &str) -> (String, Option<usize>) {
    match message.rsplit_once(" at Line: 1, Column: ") {
        Some((message, column)) => (message.to_string(), column.trim().parse().ok()),
        None => (message.to_string(), None),
    }
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
