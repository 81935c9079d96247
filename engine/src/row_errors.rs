//! Rows that an operator could not work on: told apart from the rest of their batch, and written down.
//!
//! # Rules kept here
//! 1. A data exception (SQLSTATE class 22), a cardinality violation (class 21), and an argument that a function does not
//!    take or a group whose result is too long (whatever their SQLSTATE) belong to the row: it is left out, its error is
//!    kept, and the view goes on. Any other error stops the view.
//! 2. What is kept is a function of the row alone, with the row's weight: when the row is deleted, so is its error.
//!
//! # Not here
//! Where the errors go (`dataflow`); reading them (`query`).

use crate::plan::{RowProgram, row_error_columns, unique_fields};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use arrow::json::writer::{JsonArray, WriterBuilder};
use cenote_statestore::{Changes, Error, ErrorKind, Result, Weights};
use std::sync::Arc;

/// Characters of an operator's description that are kept with an error.
const OPERATOR_CHARS_MAX: usize = 200;

/// Errors of evaluation that are a row's though their SQLSTATEs are of other classes.
const CODES_OF_ROWS: [&str; 2] = ["EVAL-0004", "EVAL-0009"];

/// Errors of one operator's rows, gathered until they are taken.
#[derive(Debug)]
pub(crate) struct RowErrors {
    operator: String,
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

/// Whether an error is that of a row rather than of the operator.
fn is_of_row(error: &Error) -> bool {
    let of_data = error.state().starts_with("22") || error.state().starts_with("21");
    of_data || CODES_OF_ROWS.contains(&error.code())
}

impl RowErrors {
    /// # Arguments
    /// - `operator`: what it is called, the same in every run.
    pub(crate) fn new(operator: &str) -> RowErrors {
        RowErrors {
            operator: operator.chars().take(OPERATOR_CHARS_MAX).collect(),
            found: Vec::new(),
        }
    }

    /// Runs a program on changes; rows that it fails on are left out.
    ///
    /// # Returns
    /// What it made of the others, and the errors.
    pub(crate) fn run(&mut self, program: &dyn RowProgram, changes: Changes) -> Result<(Changes, Option<Changes>)> {
        let mut made = Vec::new();
        self.apart(
            changes.rows(),
            &|first, rows| program.run(changes.slice(first, rows.num_rows())),
            &mut |_, part| made.push(part),
            &|row| changes.weights().get(row),
        )?;
        let made = match made.len() {
            1 => made.remove(0),
            _ => Changes::concat(&program.schema(), &made)?,
        };
        Ok((made, self.take()?))
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
        match run(first, rows) {
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
            reason: error.message().to_string(),
            row: json_object(row)?,
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
    let known = ["22003", "22012", "22P02", "21000"];
    let state = known.into_iter().find(|state| *state == text(2)).unwrap_or("22000");
    Error::new(ErrorKind::Invalid, "ENGINE-0005", text(3)).sqlstate(state)
}

/// A row as a JSON object, columns in order, NULL included.
fn json_object(row: &RecordBatch) -> Result<String> {
    if row.num_columns() == 0 {
        return Ok("{}".into());
    }
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, JsonArray>(Vec::new());
    let schema = Schema::new(unique_fields(
        row.schema().fields().iter().map(|field| field.as_ref().clone()),
    ));
    writer.write(&Changes::relabel(row.clone(), Arc::new(schema))?)?;
    writer.finish()?;
    let text = String::from_utf8_lossy(writer.get_ref()).into_owned();
    Ok(text.trim_start_matches('[').trim_end_matches(']').to_string())
}

#[cfg(test)]
mod tests;
