//! Rows that an operator could not work on: told apart from the rest of their batch, and written down.
//!
//! # Rules kept here
//! 1. What an expression fails with belongs to the row, whatever its SQLSTATE: the row is left out, its error is kept,
//!    and the view goes on. What stops the view is a fault of Cenote (a panic, an internal error) or of the machine (no
//!    memory, a file that cannot be read).
//! 2. What is kept is a function of the row alone, with the row's weight: when the row is deleted, so is its error.
//! 3. An error takes bounded space, however long the row ([`text`]).
//!
//! # Not here
//! Where the errors go (`dataflow`); reading them (`query`).

mod text;

use crate::parts;
use crate::plan::{RowProgram, row_error_columns};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use cenote_statestore::{Changes, Error, ErrorKind, Result, Weights};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Characters of an operator's description that are kept with an error.
const OPERATOR_CHARS_MAX: usize = 200;

/// Characters of an error's text that are kept.
const REASON_CHARS_MAX: usize = 300;

/// Errors of one operator's rows, gathered until they are taken.
#[derive(Debug)]
pub(crate) struct RowErrors {
    operator: String,
    /// Names of the columns of its rows; empty: those of the batches.
    names: Vec<String>,
    found: Vec<RowError>,
}

#[derive(Debug)]
struct RowError {
    code: &'static str,
    sqlstate: &'static str,
    reason: String,
    row: String,
    weight: i64,
}

/// What an operator is called in its errors.
pub(crate) fn operator_label(operator: &str) -> String {
    text::cut(operator, OPERATOR_CHARS_MAX)
}

/// Whether an error is that of a row rather than of the operator.
fn is_of_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
}

/// Runs work on rows. Arrow panics where what it makes of them is too much for one batch: of fewer rows it may not be, so
/// that a panic is an error of the rows as long as they are several.
fn attempted<T>(rows: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| match rows > 1 || is_overflow(&*panic) {
        true => Err(too_long("cannot evaluate expression", "2 GiB of text")),
        false => resume_unwind(panic),
    })
}

/// Whether a panic is Arrow's where the texts or elements of a batch are too many.
pub(crate) fn is_overflow(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.is_some_and(|text| {
        text == "overflow" || text.contains("offset overflow") || text.contains("capacity overflow")
    })
}

/// The error of a result that is longer than any can be.
pub(crate) fn too_long(what: &str, most: &str) -> Error {
    let message = format!("{what}: the result is too long");
    let error = Error::new(ErrorKind::Invalid, "EVAL-0009", message).sqlstate("54000");
    error.fact("most", most)
}

impl RowErrors {
    /// # Arguments
    /// - `operator`: what it is called, the same in every run.
    /// - `names`: names of the columns of its rows; empty: those of the batches.
    pub(crate) fn new(operator: &str, names: &[String]) -> RowErrors {
        RowErrors {
            operator: operator_label(operator),
            names: names.to_vec(),
            found: Vec::new(),
        }
    }

    /// Runs a program on changes; rows that it fails on are left out.
    ///
    /// # Returns
    /// What it made of the others, in order, and the errors.
    pub(crate) fn run(
        &mut self,
        program: &dyn RowProgram,
        changes: Changes,
    ) -> Result<(Vec<Changes>, Option<Changes>)> {
        let mut made = Vec::new();
        self.apart(
            changes.rows(),
            &|first, rows| program.run(changes.slice(first, rows.num_rows())),
            &mut |_, part: Changes| made.push(part),
            &|row| changes.weights().get(row),
        )?;
        Ok((parts::changes(&program.schema(), made)?, self.take()?))
    }

    /// Works on a batch; where it fails, on its halves, down to the rows at fault.
    ///
    /// # Arguments
    /// - `run`: the work; it fails on a batch if and only if it fails on one of its rows.
    /// - `done`: given the number of each part's first row, and what `run` made of the part, in order.
    /// - `weight`: the weight of a row that failed.
    ///
    /// # Cost
    /// One run where nothing fails; of the order of `k log n` runs where `k` of `n` rows do.
    ///
    /// # Errors
    /// An error that is not a row's.
    pub(crate) fn apart<T>(
        &mut self,
        rows: &RecordBatch,
        run: &impl Fn(usize, &RecordBatch) -> Result<T>,
        done: &mut impl FnMut(usize, T),
        weight: &impl Fn(usize) -> i64,
    ) -> Result<()> {
        self.part(0, rows, run, done, weight)
    }

    fn part<T>(
        &mut self,
        first: usize,
        rows: &RecordBatch,
        run: &impl Fn(usize, &RecordBatch) -> Result<T>,
        done: &mut impl FnMut(usize, T),
        weight: &impl Fn(usize) -> i64,
    ) -> Result<()> {
        match attempted(rows.num_rows(), || run(first, rows)) {
            Ok(made) => done(first, made),
            Err(error) if !is_of_row(&error) || rows.num_rows() == 0 => return Err(error),
            Err(error) if rows.num_rows() == 1 => self.add(rows, &error, weight(first))?,
            Err(_) => {
                let half = rows.num_rows() / 2;
                self.part(first, &rows.slice(0, half), run, done, weight)?;
                let rest = rows.slice(half, rows.num_rows() - half);
                self.part(first + half, &rest, run, done, weight)?;
            }
        }
        Ok(())
    }

    /// Keeps the error of one row.
    ///
    /// # Arguments
    /// - `row`: a batch of that row alone.
    pub(crate) fn add(&mut self, row: &RecordBatch, error: &Error, weight: i64) -> Result<()> {
        self.found.push(RowError {
            code: error.code(),
            sqlstate: error.state(),
            reason: text::cut(error.message(), REASON_CHARS_MAX),
            row: text::of_row(row, &self.names)?,
            weight,
        });
        Ok(())
    }

    /// What has been gathered since the last time, as rows of [`row_error_columns`].
    pub(crate) fn take(&mut self) -> Result<Option<Changes>> {
        if self.found.is_empty() {
            return Ok(None);
        }
        let found = std::mem::take(&mut self.found);
        let texts =
            |of: fn(&RowError) -> &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(found.iter().map(of))) };
        let operator = StringArray::from_iter_values(found.iter().map(|_| &self.operator));
        let columns = vec![
            Arc::new(operator),
            texts(|error| error.code),
            texts(|error| error.sqlstate),
            texts(|error| &error.reason),
            texts(|error| &error.row),
        ];
        let rows = RecordBatch::try_new(row_error_columns(), columns)?;
        let weights = found.iter().map(|error| error.weight).collect();
        Ok(Some(Changes::new(rows, Weights::Each(weights))))
    }
}

/// The first of errors of rows, for a dataflow that keeps none.
pub(crate) fn first_of(errors: &Changes) -> Error {
    let text = |column: usize| errors.rows().column(column).as_string::<i32>().value(0);
    let known = [
        "22003", "22012", "22P02", "22007", "22008", "22023", "21000", "54000", "0A000",
    ];
    let state = known.into_iter().find(|state| *state == text(2)).unwrap_or("22000");
    Error::new(ErrorKind::Invalid, "ENGINE-0005", text(3)).sqlstate(state)
}

#[cfg(test)]
mod tests;
