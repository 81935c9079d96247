//! Result sets on their way to a client: a batch at a time, a buffer at a time.

use super::signals::{Failure, Signals};
use super::wire::Wire;
use cenote_query::pgtext::{BinaryEncoder, Formatter, TextStyle};
use cenote_query::pgtype::ColumnType;
use cenote_query::{BatchStream, Rows};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use futures::{FutureExt, StreamExt};
use std::task::Poll;

/// How the values of a column are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnFormat {
    Text = 0,
    Binary = 1,
}

impl ColumnFormat {
    /// Reads a format code of the protocol.
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 22023: neither 0 nor 1.
    pub(super) fn of(code: i16) -> Result<ColumnFormat> {
        match code {
            0 => Ok(ColumnFormat::Text),
            1 => Ok(ColumnFormat::Binary),
            other => {
                let message = format!("unsupported format code: {other}");
                Err(Error::new(ErrorKind::Invalid, "PG-0010", message).sqlstate("22023"))
            }
        }
    }

    /// The format of column `index`: no codes mean text, one is for all columns, else there is one each.
    pub(super) fn at(formats: &[ColumnFormat], index: usize) -> ColumnFormat {
        match formats {
            [] => ColumnFormat::Text,
            [one] => *one,
            each => each.get(index).copied().unwrap_or(ColumnFormat::Text),
        }
    }
}

/// Adds the row description of a schema.
pub(super) fn describe(wire: &mut Wire, schema: &Schema, formats: &[ColumnFormat]) {
    let fields = schema.fields().iter().enumerate();
    wire.output.row_description(fields.map(|(index, field)| {
        (
            field.name().as_str(),
            ColumnType::of(field),
            ColumnFormat::at(formats, index),
        )
    }));
}

/// A result set that is being sent.
pub(super) struct RowSource {
    pub(super) schema: SchemaRef,
    verb: &'static str,
    batches: BatchStream,
    /// The batch being sent, and its first row not sent yet.
    current: Option<(RecordBatch, usize)>,
    is_done: bool,
}

/// How far [`RowSource::send`] came.
pub(super) struct Sent {
    /// Rows sent by this call.
    pub(super) rows: u64,
    /// Whether the end was reached; else the limit was.
    pub(super) is_done: bool,
}

impl RowSource {
    pub(super) fn new(rows: Rows) -> RowSource {
        RowSource {
            schema: rows.schema,
            verb: rows.verb,
            batches: rows.batches,
            current: None,
            is_done: false,
        }
    }

    /// Whether it never ends, and comes epoch by epoch.
    pub(super) fn is_subscription(&self) -> bool {
        self.verb == "SUBSCRIBE"
    }

    /// The command tag after `rows` rows. As in PostgreSQL, only some verbs tell how many.
    pub(super) fn tag(&self, rows: u64) -> String {
        let word = self.verb.split(' ').next().unwrap_or_default();
        match word {
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "FETCH" | "MOVE" | "COPY" | "VALUES" | "TABLE" => {
                format!("{} {rows}", self.verb)
            }
            _ => self.verb.to_string(),
        }
    }

    /// Sends rows until the end or until `rows_max` of them are sent.
    ///
    /// What is there is sent before the next batch is waited for, so that a subscription's rows arrive as they come.
    /// Nothing is asked of the source while the client does not take what was made.
    pub(super) async fn send(
        &mut self,
        wire: &mut Wire,
        signals: &mut Signals,
        formats: &[ColumnFormat],
        style: &TextStyle,
        rows_max: u64,
    ) -> Result<Sent, Failure> {
        let mut rows = 0;
        while rows < rows_max {
            if let Some((batch, next)) = self.current.take() {
                let count = (batch.num_rows() - next).min(usize::try_from(rows_max - rows).unwrap_or(usize::MAX));
                send_batch(wire, signals, &batch, next..next + count, formats, style).await?;
                rows += count as u64;
                if next + count < batch.num_rows() {
                    self.current = Some((batch, next + count));
                }
                continue;
            }
            match self.next_batch(wire, signals).await? {
                Some(batch) => self.current = Some((batch, 0)).filter(|(batch, _)| batch.num_rows() > 0),
                None => return Ok(Sent { rows, is_done: true }),
            }
        }
        Ok(Sent { rows, is_done: false })
    }

    /// The next batch if it is there already; `None` is the end.
    pub(super) fn ready_batch(&mut self, signals: &mut Signals) -> Result<Poll<Option<RecordBatch>>, Failure> {
        if self.is_done {
            return Ok(Poll::Ready(None));
        }
        // A source that always has something ready would else never be interrupted.
        signals.check()?;
        match self.batches.next().now_or_never() {
            Some(batch) => self.taken(batch).map(Poll::Ready),
            None => Ok(Poll::Pending),
        }
    }

    /// The next batch; what was made of those before is sent while it is waited for.
    pub(super) async fn next_batch(
        &mut self,
        wire: &mut Wire,
        signals: &mut Signals,
    ) -> Result<Option<RecordBatch>, Failure> {
        if let Poll::Ready(batch) = self.ready_batch(signals)? {
            return Ok(batch);
        }
        if wire.output.has_rows {
            flush(wire, signals).await?;
        }
        let batch = tokio::select! {
            biased;
            batch = self.batches.next() => batch,
            failure = signals.raised() => return Err(failure),
            () = wire.hung_up() => return Err(Failure::Gone),
        };
        self.taken(batch)
    }

    fn taken(&mut self, batch: Option<Result<RecordBatch>>) -> Result<Option<RecordBatch>, Failure> {
        self.is_done = !matches!(batch, Some(Ok(_)));
        batch.transpose().map_err(Failure::Statement)
    }
}

/// Sends all output, unless the statement is ended from outside first.
pub(super) async fn flush(wire: &mut Wire, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        biased;
        sent = wire.flush() => sent,
        failure = signals.raised() => Err(failure),
    }
}

enum Column<'a> {
    Text(Formatter<'a>),
    Binary(BinaryEncoder<'a>),
}

impl Column<'_> {
    fn write(&self, out: &mut Vec<u8>, row: usize) -> Result<()> {
        let is_null = match self {
            Column::Text(formatter) => formatter.is_null(row),
            Column::Binary(encoder) => encoder.is_null(row),
        };
        if is_null {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Column::Text(formatter) => formatter.write(out, row),
            Column::Binary(encoder) => encoder.write(out, row)?,
        }
        let length = i32::try_from(out.len() - start - 4).map_err(|_| {
            Error::new(
                ErrorKind::Invalid,
                "PG-0007",
                "cannot send a value: it is longer than 2 GB",
            )
            .sqlstate("54000")
        })?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

/// Sends some rows of a batch.
pub(super) async fn send_batch(
    wire: &mut Wire,
    signals: &mut Signals,
    batch: &RecordBatch,
    rows: std::ops::Range<usize>,
    formats: &[ColumnFormat],
    style: &TextStyle,
) -> Result<(), Failure> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns()).enumerate();
    let columns = fields.map(|(index, (field, array))| match ColumnFormat::at(formats, index) {
        ColumnFormat::Text => Formatter::new(field, array, style).map(Column::Text),
        ColumnFormat::Binary => BinaryEncoder::new(field, array).map(Column::Binary),
    });
    let columns: Vec<Column<'_>> = columns.collect::<Result<_>>()?;
    for row in rows {
        wire.output.row(columns.len(), |out| {
            columns.iter().try_for_each(|column| column.write(out, row))
        })?;
        if wire.is_full() {
            flush(wire, signals).await?;
        }
    }
    Ok(())
}
