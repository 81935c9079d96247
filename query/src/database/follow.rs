//! Changes as they happen: a collection's contents if asked for, then every change, epoch by epoch.
//!
//! # Rules kept here
//! 1. A batch holds whole epochs; only the contents at the start may take several.
//! 2. **Bounded.** A reader that falls behind holds back changes up to the table's limit, and then gets an `Expired`
//!    error that names the epoch it has read up to.
//! 3. A reader of what is dropped or fails is told so: silence would mean that nothing changes.

use super::read::{SCAN_ROWS, Target};
use super::{ChangeStream, Database};
use crate::catalog::{Catalog, MaterializedView, Object};
use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Follower, Result, Scan, VersionedTable};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use std::sync::Arc;

/// Rows after which a batch takes no further epoch.
const BATCH_ROWS: usize = 64 << 10;

/// Tells the epoch after which nothing more comes, if there is one.
pub(crate) type End = BoxFuture<'static, Result<Option<Epoch>>>;

impl Database {
    /// Changes of a collection after `from` (exclusive); `None`: from now on.
    ///
    /// # Arguments
    /// - `snapshot`: first the contents as of the start, as insertions at its epoch.
    pub async fn changes(self: &Arc<Self>, name: &str, from: Option<Epoch>, snapshot: bool) -> Result<ChangeStream> {
        self.changes_now(name, from, snapshot)
    }

    pub(crate) fn changes_now(
        self: &Arc<Self>,
        name: &str,
        from: Option<Epoch>,
        snapshot: bool,
    ) -> Result<ChangeStream> {
        let Target::Versioned { readable, table, view } = self.target(&self.catalog(), name)? else {
            let what = match name {
                "cenote_catalog.errors" => {
                    "all errors together are not supported yet; those of a view are cenote_state.<view>_errors"
                }
                _ => "changes of operator state are not supported yet",
            };
            let message = format!("cannot subscribe to \"{name}\": {what}");
            return Err(Error::new(ErrorKind::Unsupported, "READ-0002", message));
        };
        if let (Some(view), Some(from)) = (&view, from)
            && from < view.created
        {
            let message = format!("cannot follow changes of \"{name}\" after epoch {from}: it was made after that");
            let error = Error::new(ErrorKind::Expired, "READ-0005", message).sqlstate("72000");
            return Err(error
                .fact("first epoch", view.created)
                .attempt("read the contents again (snapshot = true) and resume from their epoch"));
        }
        if let Some(from) = from.filter(|from| *from > self.engine.visible()) {
            // Epochs that this server has not told: its reader would wait for them, and miss those before.
            self.pin_past(from)?;
        }
        let lost = self.clone().lost(name.to_string(), table.clone(), view).boxed();
        self.change_stream(table, readable.columns, from, snapshot, None, lost)
    }

    /// Waits until a collection is dropped, or its view fails; gives what its readers are told.
    pub(crate) async fn lost(
        self: Arc<Self>,
        name: String,
        table: Arc<VersionedTable>,
        view: Option<Arc<MaterializedView>>,
    ) -> Error {
        let mut catalog = self.catalog.subscribe();
        let of_sink = |catalog: &Catalog| catalog.sinks().any(|sink| Arc::ptr_eq(&sink.progress, &table));
        let is_gone =
            |catalog: &Arc<Catalog>| !catalog.objects().any(|object| keeps(object, &table)) && !of_sink(catalog);
        let dropped = catalog.wait_for(is_gone).map(|gone| {
            let is_there = gone.is_ok_and(|catalog| catalog.get(&name).is_some());
            let what = if is_there {
                "its columns are others now"
            } else {
                "it was dropped"
            };
            let message = format!("cannot follow \"{name}\": {what}");
            Error::new(ErrorKind::Invalid, "READ-0006", message).sqlstate("42P01")
        });
        let Some(view) = view else {
            return dropped.await;
        };
        let failed = async {
            let statuses = self.catalog().views_under(&view);
            let failures = statuses.iter().map(|status| status.wait_failure().boxed());
            let (cause, ..) = futures::future::select_all(failures).await;
            self.check_view(&view).err().unwrap_or(cause)
        };
        tokio::select! {
            error = dropped => error,
            error = failed => error,
        }
    }

    pub(crate) fn change_stream(
        self: &Arc<Self>,
        table: Arc<VersionedTable>,
        columns: SchemaRef,
        from: Option<Epoch>,
        snapshot: bool,
        end: Option<End>,
        lost: BoxFuture<'static, Error>,
    ) -> Result<ChangeStream> {
        let schema = labelled_columns(&columns);
        let width = columns.fields().len();
        let pin = match from {
            Some(epoch) if snapshot => self.pin_past(epoch)?,
            _ => self.engine.pin_visible()?,
        };
        let from = from.unwrap_or(pin.epoch());
        // What is asked for must still be there, so that nothing is skipped.
        let follower = table.follow(from).map_err(|error| behind(from, &error, "asks for"))?;
        let scan = snapshot.then(|| table.scan(pin, (0..width).collect(), 0..table.shards()));
        let state = Follow {
            database: self.clone(),
            table,
            schema: schema.clone(),
            width,
            follower,
            scan,
            end,
            lost,
            until: None,
        };
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            let next = state.next().await?;
            Ok(next.map(|batch| (batch, state)))
        });
        Ok(ChangeStream {
            schema,
            batches: batches.boxed(),
        })
    }
}

/// Whether an object's rows are in a table.
fn keeps(object: &Object, table: &Arc<VersionedTable>) -> bool {
    match object {
        Object::Table(found) => {
            let tables = [&found.versioned, &found.offsets];
            tables
                .into_iter()
                .flatten()
                .any(|versioned| Arc::ptr_eq(versioned, table))
        }
        Object::MaterializedView(view) => {
            let tables = [Some(&view.versioned), view.errors.as_ref()];
            tables
                .into_iter()
                .flatten()
                .any(|versioned| Arc::ptr_eq(versioned, table))
        }
        Object::View(_) => false,
    }
}

/// A collection's columns behind the epoch and the weight of a change.
pub(crate) fn labelled_columns(columns: &Schema) -> SchemaRef {
    let mut fields = vec![
        Field::new("epoch", DataType::UInt64, false),
        Field::new("weight", DataType::Int64, false),
    ];
    fields.extend(columns.fields().iter().map(|field| field.as_ref().clone()));
    Arc::new(Schema::new(fields))
}

/// The error for a reader whose next changes are no longer kept.
fn behind(after: Epoch, error: &Error, reader: &str) -> Error {
    let mut told = Error::new(
        ErrorKind::Expired,
        "READ-0003",
        format!("cannot follow changes after epoch {after}: the reader {reader} more than is kept"),
    )
    .sqlstate("72000");
    if let Some(kept) = error.detail() {
        told = told.fact("cause", kept.replace('\n', ", "));
    }
    told.attempt("read the contents again (snapshot = true) and resume from their epoch")
}

/// A reader that follows a collection.
struct Follow {
    database: Arc<Database>,
    table: Arc<VersionedTable>,
    schema: SchemaRef,
    width: usize,
    /// Keeps what is still to be read.
    follower: Follower,
    scan: Option<Scan>,
    end: Option<End>,
    lost: BoxFuture<'static, Error>,
    until: Option<Epoch>,
}

impl Follow {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(scan) = &mut self.scan {
            if let Some(rows) = scan.next_batch(SCAN_ROWS)? {
                return Ok(Some(self.labelled(self.follower.epoch(), &Changes::insertions(rows))?));
            }
            self.scan = None;
        }
        loop {
            let after = self.follower.epoch();
            if self.until.is_some_and(|until| after >= until) {
                return Ok(None);
            }
            let Some(newest) = self.wait().await? else {
                continue;
            };
            let found = self.table.changes(after, newest);
            let found = found.map_err(|error| behind(after, &error, "is too slow: it has left unread"))?;
            if let Some(batch) = self.take(found, newest)? {
                return Ok(Some(batch));
            }
        }
    }

    /// Makes a batch of the first epochs of `found`, which ends with `newest`, and moves on behind them.
    fn take(&mut self, found: Vec<(Epoch, Changes)>, newest: Epoch) -> Result<Option<RecordBatch>> {
        let visible_columns: Vec<usize> = (0..self.width).collect();
        let (mut parts, mut rows, mut through) = (Vec::new(), 0, newest);
        let mut found = found.into_iter().peekable();
        while let Some((epoch, changes)) = found.next() {
            let visible = changes.with_rows(changes.rows().project(&visible_columns)?);
            let visible = match changes.rows().num_columns() > self.width {
                // Rows that differ in their hidden number alone may cancel.
                true => visible.consolidate()?,
                false => visible,
            };
            parts.push(self.labelled(epoch, &visible)?);
            rows += changes.len();
            // The shards of a table have changes of the same epoch each.
            let ends_epoch = found.peek().is_some_and(|(next, _)| *next != epoch);
            if rows >= BATCH_ROWS && ends_epoch {
                through = epoch;
                break;
            }
        }
        self.follower.advance(through);
        match parts.is_empty() {
            true => Ok(None),
            false => Ok(Some(concat_batches(&self.schema, &parts)?)),
        }
    }

    /// Waits for a newer epoch, or for the news that none will come.
    async fn wait(&mut self) -> Result<Option<Epoch>> {
        let mut visible = self.database.engine.progress().subscribe();
        let after = self.follower.epoch();
        let newer = visible.wait_for(|epoch| *epoch > after);
        let stopped = || {
            Error::new(
                ErrorKind::Unavailable,
                "ENGINE-0001",
                "cannot follow changes: the engine has stopped",
            )
        };
        let ends = self.end.is_some();
        let end = self
            .end
            .as_mut()
            .map_or_else(|| futures::future::pending().left_future(), |end| end.right_future());
        tokio::select! {
            biased;
            newest = newer => newest.map(|epoch| Some(*epoch)).map_err(|_| stopped()),
            end = end, if ends => {
                self.until = end?;
                self.end = None;
                Ok(None)
            }
            error = &mut self.lost => Err(error),
        }
    }

    fn labelled(&self, epoch: Epoch, changes: &Changes) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_value(epoch.0, changes.len()))];
        columns.push(changes.weight_column());
        columns.extend(changes.rows().columns().iter().cloned());
        Changes::batch(self.schema.clone(), columns, changes.len())
    }
}
