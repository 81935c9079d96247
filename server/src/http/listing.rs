//! Lists of objects (sinks, checkpoints, savepoints) as JSON, each an object named by its first column.

use super::error::{Answer, ApiError};
use super::respond;
use crate::encode::{Numbers, RowObject};
use arrow::array::{AsArray, RecordBatch};
use axum::http::StatusCode;
use cenote_statestore::{Epoch, Error};

/// Answers with all of them.
pub fn all(rows: &RecordBatch, epoch: Epoch) -> Answer {
    let objects: Vec<Vec<u8>> = objects(rows)?.into_iter().map(|(_, json)| json).collect();
    let mut body = vec![b'['];
    body.extend(objects.join(&b','));
    body.push(b']');
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

/// Answers with the one of a name, or 404 with the error of a name that is none's.
pub fn one(rows: &RecordBatch, name: &str, epoch: Epoch, missing: impl FnOnce() -> Error) -> Answer {
    match objects(rows)?.into_iter().find(|(known, _)| known == name) {
        Some((_, json)) => Ok(respond::json(StatusCode::OK, Some(epoch), json)),
        None => Err(ApiError::new(StatusCode::NOT_FOUND, missing())),
    }
}

fn objects(rows: &RecordBatch) -> Result<Vec<(String, Vec<u8>)>, ApiError> {
    let object = RowObject::new(rows.schema_ref().fields(), Numbers::Exact);
    let (writer, names) = (object.over(rows.columns())?, rows.column(0).as_string::<i32>());
    let of_row = |row: usize| {
        let mut json = Vec::new();
        writer.write(&mut json, row);
        (names.value(row).to_string(), json)
    };
    Ok((0..rows.num_rows()).map(of_row).collect())
}
