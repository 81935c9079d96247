//! `GET /api/v1/queryable_state/{name}/changes`: server-sent events, one per change.
//!
//! # Rules kept here
//! 1. An event's data is `{"epoch","weight","row"}`, as `cenote run --changes` prints it.
//! 2. **Resumable.** Only the last event of an epoch carries `id:` (the epoch), so a client's `Last-Event-ID` always
//!    names an epoch that it has seen whole. A client that reconnects drops events of later epochs that it had seen.
//! 3. A stream that ends early ends with an event `error` that names the epoch to resume from.

use super::error::{Answer, ApiError, write_error};
use super::parameters::{Kind, NUMBERS, Parameter, Parameters};
use super::request::Name;
use super::respond;
use super::stream::{End, Target, channel};
use super::{App, stopped};
use crate::encode::ChangeLines;
use arrow::array::RecordBatch;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use cenote_query::ChangeStream;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use std::io::Write;
use tokio::sync::watch;

/// What the route takes.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "from_epoch",
        kind: Kind::Integer,
        help: "Send the changes after this epoch; default: from now on. The header `Last-Event-ID` wins over it.",
    },
    Parameter {
        name: "snapshot",
        kind: Kind::Flag,
        help: "`true`: first send the contents, as insertions.",
    },
    NUMBERS,
];

/// The last epoch that the client has seen, by the header that browsers send when they reconnect.
fn last_event(headers: &HeaderMap) -> Result<Option<Epoch>, ApiError> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let epoch = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    epoch.map(|epoch| Some(Epoch(epoch))).ok_or_else(|| {
        ApiError::invalid("HTTP-0004", "cannot read header `Last-Event-ID`: not an epoch")
            .attempt("send back the `id` of the last event as it is")
    })
}

/// Answers with the changes of a collection.
pub async fn changes(
    State(app): State<App>,
    Name(name): Name,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let query = Parameters::parse(query.as_deref(), PARAMETERS)?;
    let (numbers, resumed) = (query.numbers()?, last_event(&headers)?);
    let snapshot = query.flag("snapshot")? && resumed.is_none();
    let mut from = resumed.or(query.integer("from_epoch")?.map(Epoch));
    if from.is_none() && !snapshot {
        from = Some(app.database().readable(&name)?.epoch);
    }
    let stream = app.database().changes(&name, from, snapshot).await?;
    let lines = ChangeLines::new(&stream.schema, numbers);
    let (target, body) = channel(app.limits().write_timeout);
    let events = Events {
        lines,
        complete: if snapshot { None } else { from },
    };
    tokio::spawn(send(events, stream, target, app.0.stopping.clone()));
    Ok(respond::of_type("text/event-stream", from, body))
}

/// Changes as events.
struct Events {
    lines: ChangeLines,
    /// The last epoch that was sent whole.
    complete: Option<Epoch>,
}

impl Events {
    /// What a stream begins with: the epoch to resume from, so that a client that saw no change can.
    fn start(&self, out: &mut Vec<u8>) {
        match self.complete {
            Some(epoch) => write!(out, "id: {epoch}\n\n").expect("a Vec takes every write"),
            None => out.extend_from_slice(b":\n\n"),
        }
    }

    /// Appends the changes of a batch, which ends with the end of an epoch if `whole`.
    fn write(&mut self, batch: &RecordBatch, whole: bool, out: &mut Vec<u8>) -> Result<()> {
        let changes = self.lines.over(batch)?;
        let rows = batch.num_rows();
        for row in 0..rows {
            let epoch = changes.epoch(row);
            let last = if row + 1 < rows {
                changes.epoch(row + 1) != epoch
            } else {
                whole
            };
            if last {
                writeln!(out, "id: {epoch}").expect("a Vec takes every write");
                self.complete = Some(Epoch(epoch));
            }
            out.extend_from_slice(b"data: ");
            changes.write(out, row);
            out.extend_from_slice(b"\n\n");
        }
        Ok(())
    }

    /// The event that says why the stream ends and where to go on.
    fn failure(&self, error: &Error) -> Vec<u8> {
        let mut out = b"event: error\ndata: {\"error\":".to_vec();
        write_error(&mut out, error);
        match self.complete {
            Some(epoch) => write!(out, ",\"resume_from_epoch\":{epoch}").expect("a Vec takes every write"),
            None => out.extend_from_slice(b",\"resume_from_epoch\":null"),
        }
        out.extend_from_slice(b"}\n\n");
        out
    }
}

async fn send(mut events: Events, stream: ChangeStream, target: Target, mut stopping: watch::Receiver<bool>) {
    let ended = tokio::select! {
        ended = send_all(&mut events, stream, &target) => ended,
        () = stopped(&mut stopping) => Err(End::Failed(
            Error::new(ErrorKind::Unavailable, "HTTP-0018", "cannot send more changes: the server is shutting down").sqlstate("57P01"),
        )),
    };
    if let Err(End::Failed(error)) = ended {
        target.close_with(Ok(events.failure(&error).into())).await;
    }
}

async fn send_all(events: &mut Events, mut stream: ChangeStream, target: &Target) -> Result<(), End> {
    let mut out = Vec::new();
    events.start(&mut out);
    target
        .pump(
            &mut stream.batches,
            |batch, whole, out| events.write(batch, whole, out),
            &mut out,
        )
        .await
}

#[cfg(test)]
mod tests;
