//! Cursors: queries of a session whose rows are asked for bit by bit.
//!
//! # Rules kept here
//! 1. A cursor gives the rows of the epoch, and of the transaction's writes, that it was declared at.
//! 2. Its rows stream: what nobody has asked for yet is not computed far ahead.
//! 3. It ends with its transaction; one that is held only if that is rolled back.
//! 4. It goes forward. A FETCH that its client did not read to the end counts as read.
//!
//! # Not here
//! Portals of the protocol that no statement declared (the door for PostgreSQL clients).

use super::{Session, command, transactions};
use crate::names::quoted;
use crate::outcome::{BatchStream, Outcome, Rows};
use crate::parse::{CursorStatement, Declaration, Direction, Parsed, Statement};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Open cursors of one session.
const CURSORS_MAX: usize = 256;

/// The cursors of a session.
#[derive(Default)]
pub(super) struct Cursors {
    open: BTreeMap<String, Cursor>,
    /// Cursors declared so far.
    declared: u64,
}

struct Cursor {
    schema: SchemaRef,
    epoch: Option<Epoch>,
    is_binary: bool,
    holds: bool,
    /// Whether the transaction that declared it has ended.
    outlived: bool,
    /// Cursors declared before it.
    number: u64,
    progress: Arc<Mutex<Progress>>,
}

/// How far a cursor has been read.
struct Progress {
    batches: BatchStream,
    /// Rows that were computed and not asked for yet.
    current: Option<RecordBatch>,
    /// The number of the row that it is on; 0: before the first.
    row: u64,
    /// Rows to leave out before the next: those of a FETCH that its client did not read.
    unread: u64,
    is_ended: bool,
    has_failed: bool,
}

impl Progress {
    /// The next rows, at most so many; `None`: there are no more. Nothing is lost if it is dropped while it waits.
    async fn next(&mut self, rows_max: u64) -> Result<Option<RecordBatch>> {
        while self.current.is_none() {
            if self.is_ended {
                return Ok(None);
            }
            match self.batches.next().await {
                Some(Ok(batch)) => self.current = Some(batch).filter(|batch| batch.num_rows() > 0),
                Some(Err(error)) => {
                    self.has_failed = true;
                    return Err(error);
                }
                None => self.is_ended = true,
            }
        }
        let Some(batch) = self.current.take() else {
            return Ok(None);
        };
        let count = batch.num_rows().min(usize::try_from(rows_max).unwrap_or(usize::MAX));
        if count < batch.num_rows() {
            self.current = Some(batch.slice(count, batch.num_rows() - count));
        }
        self.row += count as u64;
        Ok(Some(batch.slice(0, count)))
    }

    /// Goes over rows.
    ///
    /// # Returns
    /// How many there were.
    async fn skip(&mut self, rows: u64) -> Result<u64> {
        let mut left = rows;
        while left > 0
            && let Some(batch) = self.next(left).await?
        {
            left -= batch.num_rows() as u64;
        }
        Ok(rows - left)
    }

    /// Goes over what the last FETCH asked for and its client did not read.
    async fn catch_up(&mut self) -> Result<()> {
        while self.unread > 0 {
            match self.next(self.unread).await? {
                Some(batch) if self.unread < u64::MAX => self.unread -= batch.num_rows() as u64,
                Some(_) => {}
                None => self.unread = 0,
            }
        }
        Ok(())
    }

    /// Rows to leave out and rows to give for a direction; as PostgreSQL does for a cursor without SCROLL.
    ///
    /// # Errors
    /// `Invalid` 55000: they are behind.
    fn plan(&self, direction: Direction) -> Result<(u64, u64)> {
        let is_on_row = self.row > 0 && !self.is_ended;
        let stay = match is_on_row {
            true => Err(only_forward()),
            false => Ok((0, 0)),
        };
        match direction {
            Direction::Forward(None) => Ok((0, u64::MAX)),
            Direction::Forward(Some(0)) | Direction::Relative(0) => stay,
            Direction::Forward(Some(count)) => Ok((0, count)),
            Direction::Relative(by) if by > 0 => Ok((by.unsigned_abs() - 1, 1)),
            Direction::Absolute(number) if number >= 0 => {
                let passed = self.row + u64::from(self.is_ended);
                match number.unsigned_abs().checked_sub(passed + 1) {
                    Some(between) => Ok((between, 1)),
                    None if number == 0 && passed == 0 => Ok((0, 0)),
                    None => Err(only_forward()),
                }
            }
            Direction::Relative(_) | Direction::Absolute(_) | Direction::Backward => Err(only_forward()),
        }
    }
}

/// A FETCH whose rows are being sent: nobody else reads the cursor meanwhile.
struct Fetch {
    progress: OwnedMutexGuard<Progress>,
    left: u64,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.progress.unread = self.left;
    }
}

fn batches(fetch: Fetch) -> BatchStream {
    let rows = stream::unfold(Some(fetch), |fetch| async move {
        let mut fetch = fetch.filter(|fetch| fetch.left > 0)?;
        let wanted = fetch.left;
        let next = fetch.progress.next(wanted).await;
        match next {
            Ok(Some(batch)) => {
                if fetch.left < u64::MAX {
                    fetch.left -= batch.num_rows() as u64;
                }
                let rest = (fetch.left > 0).then_some(fetch);
                Some((Ok(batch), rest))
            }
            Ok(None) => {
                fetch.left = 0;
                None
            }
            Err(error) => {
                fetch.left = 0;
                Some((Err(error), None))
            }
        }
    });
    rows.boxed()
}

impl Cursors {
    /// How many were declared so far: what [`Cursors::back_to`] goes back to.
    pub(super) fn declared(&self) -> u64 {
        self.declared
    }

    /// Closes those that were declared since.
    pub(super) fn back_to(&mut self, declared: u64) {
        self.open
            .retain(|_, cursor| cursor.outlived || cursor.number < declared);
    }

    /// Closes those that end with the transaction.
    pub(super) fn end_transaction(&mut self, committed: bool) {
        self.open
            .retain(|_, cursor| cursor.outlived || (cursor.holds && committed));
        self.open.values_mut().for_each(|cursor| cursor.outlived = true);
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    fn get(&self, name: &str) -> Result<&Cursor> {
        self.open.get(name).ok_or_else(|| none(name))
    }

    fn check_new(&self, name: &str) -> Result<()> {
        if self.open.contains_key(name) {
            return Err(exists(name));
        }
        if self.open.len() < CURSORS_MAX {
            return Ok(());
        }
        let message = format!("cannot declare cursor {}: too many are open", quoted(name));
        let error = Error::new(ErrorKind::Invalid, "SQL-0426", message).sqlstate("53400");
        let error = error.fact("limit", format!("{CURSORS_MAX} cursors of a session"));
        Err(error.attempt("close those that are no longer used"))
    }
}

impl Session {
    /// Runs a statement about a cursor.
    pub(super) async fn cursor(
        &mut self,
        statement: &Statement,
        of: &CursorStatement,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        match of {
            CursorStatement::Declare(declaration) => self.declare(statement, declaration, parameters).await,
            CursorStatement::Fetch { name, direction, moves } => self.fetch(name, *direction, *moves).await,
            CursorStatement::Close(None) => {
                self.cursors.clear();
                Ok(command("CLOSE CURSOR ALL"))
            }
            CursorStatement::Close(Some(name)) => match self.close_cursor(name) {
                true => Ok(command("CLOSE CURSOR")),
                false => Err(none(name)),
            },
        }
    }

    async fn declare(
        &mut self,
        statement: &Statement,
        declaration: &Declaration,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        if !declaration.holds && self.transaction.is_none() {
            let error = transactions::no_block("DECLARE CURSOR");
            return Err(error.attempt("BEGIN first, or declare it WITH HOLD"));
        }
        self.cursors.check_new(&declaration.name)?;
        let Parsed::Sql { ast, as_of } = &*declaration.query else {
            return Err(Error::bug("a cursor that is not for a query"));
        };
        let Outcome::Rows(rows) = self.query(statement, ast, *as_of, parameters).await? else {
            return Err(Error::bug("a query without rows"));
        };
        let progress = Progress {
            batches: rows.batches,
            current: None,
            row: 0,
            unread: 0,
            is_ended: false,
            has_failed: false,
        };
        let cursor = Cursor {
            schema: rows.schema,
            epoch: rows.epoch,
            is_binary: declaration.is_binary,
            holds: declaration.holds,
            outlived: self.transaction.is_none(),
            number: self.cursors.declared,
            progress: Arc::new(Mutex::new(progress)),
        };
        self.cursors.declared += 1;
        self.cursors.open.insert(declaration.name.clone(), cursor);
        Ok(command("DECLARE CURSOR"))
    }

    async fn fetch(&mut self, name: &str, direction: Direction, moves: bool) -> Result<Outcome> {
        let cursor = self.cursors.get(name)?;
        let mut progress = cursor.progress.clone().try_lock_owned().map_err(|_| busy(name))?;
        if progress.has_failed {
            return Err(failed(name));
        }
        progress.catch_up().await?;
        let (between, count) = progress.plan(direction)?;
        progress.skip(between).await?;
        if moves {
            let moved = progress.skip(count).await?;
            return Ok(command(format!("MOVE {moved}")));
        }
        Ok(Outcome::Rows(Rows {
            schema: cursor.schema.clone(),
            epoch: cursor.epoch,
            verb: "FETCH",
            batches: batches(Fetch { progress, left: count }),
        }))
    }

    /// Closes a cursor. What is being read of it goes on.
    ///
    /// # Returns
    /// Whether there was one of that name.
    pub fn close_cursor(&mut self, name: &str) -> bool {
        self.cursors.open.remove(name).is_some()
    }

    /// Columns of an open cursor; `None`: there is none of that name.
    pub fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.open.get(name).map(|cursor| cursor.schema.clone())
    }

    /// Columns that a FETCH gives now; `None`: it is none, or its cursor is not there.
    pub fn fetched_columns(&self, statement: &Statement) -> Option<SchemaRef> {
        self.cursor_columns(fetched(statement)?)
    }

    /// Whether a statement's rows go out in binary form if the client does not say: a FETCH from a BINARY cursor.
    pub fn sends_binary(&self, statement: &Statement) -> bool {
        let cursor = fetched(statement).and_then(|name| self.cursors.open.get(name));
        cursor.is_some_and(|cursor| cursor.is_binary)
    }
}

/// The cursor that a statement shows rows of.
fn fetched(statement: &Statement) -> Option<&str> {
    match &*statement.parsed {
        Parsed::Cursor(CursorStatement::Fetch { name, moves: false, .. }) => Some(name),
        _ => None,
    }
}

fn none(name: &str) -> Error {
    let message = format!("cursor {} does not exist", quoted(name));
    Error::new(ErrorKind::Invalid, "SQL-0421", message).sqlstate("34000")
}

/// The error of a name that a cursor or a portal has already.
fn exists(name: &str) -> Error {
    let message = format!("cursor {} already exists", quoted(name));
    let error = Error::new(ErrorKind::Invalid, "SQL-0422", message).sqlstate("42P03");
    error.attempt("CLOSE it, or take another name")
}

fn only_forward() -> Error {
    let error = Error::new(ErrorKind::Invalid, "SQL-0423", "cursor can only scan forward").sqlstate("55000");
    error.attempt("CLOSE it and DECLARE it anew to read from its start")
}

fn failed(name: &str) -> Error {
    let message = format!("cursor {} cannot be read: its query failed", quoted(name));
    let error = Error::new(ErrorKind::Invalid, "SQL-0424", message).sqlstate("55000");
    error.attempt("CLOSE it and DECLARE it anew")
}

fn busy(name: &str) -> Error {
    let message = format!(
        "cannot read cursor {}: rows of a FETCH are still being read",
        quoted(name)
    );
    let error = Error::new(ErrorKind::Invalid, "SQL-0425", message).sqlstate("55006");
    error.attempt("read that FETCH to its end, or close its portal")
}
