//! Where a sink begins: at the contents of its view, or behind what it has written before a restart.

use super::runner::{Begin, Runner};
use super::{Orders, Running, SinkProgress, SinkThread};
use crate::catalog::{Catalog, MaterializedView, Object, SinkObject};
use crate::database::Database;
use arrow::datatypes::SchemaRef;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::Sink;
use cenote_statestore::{Epoch, Error, ErrorKind, Follower, Result, VersionedTable};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::watch;

/// What a sink follows.
pub(super) struct Followed {
    pub(super) id: CollectionId,
    pub(super) name: String,
    pub(super) table: Arc<VersionedTable>,
    pub(super) view: Option<Arc<MaterializedView>>,
    /// Columns that users see.
    pub(super) columns: SchemaRef,
    /// Indices of the key's columns among them.
    pub(super) key: Vec<usize>,
}

impl Followed {
    /// Columns that users see, of all that are stored.
    pub(super) fn projection(&self) -> Vec<usize> {
        (0..self.columns.fields().len()).collect()
    }
}

impl Database {
    /// What a sink can follow, by name.
    ///
    /// # Errors
    /// `Invalid`: there is no such object, or it keeps no rows. `Unavailable`: it is a view that has failed.
    pub(super) fn followed(&self, catalog: &Catalog, sink: &str, name: &str) -> Result<Followed> {
        let object = catalog.get(name).ok_or_else(|| catalog.missing(name))?;
        let Some(table) = object.versioned() else {
            let kind = object.kind();
            let message = format!("cannot create sink \"{sink}\": {kind} \"{name}\" keeps no rows");
            let error = Error::new(ErrorKind::Invalid, "SINK-0102", message).sqlstate("42809");
            return Err(error.attempt(format!(
                "CREATE MATERIALIZED VIEW ... AS SELECT * FROM {name}, and follow that"
            )));
        };
        let view = match object {
            Object::MaterializedView(view) => Some(view.clone()),
            _ => None,
        };
        if let Some(view) = &view {
            self.check_view(view)?;
        }
        let (schema, columns) = (table.schema(), object.columns().clone());
        let is_seen = schema.unique && schema.key.iter().all(|column| *column < columns.fields().len());
        Ok(Followed {
            id: object.id(),
            name: name.to_string(),
            key: if is_seen { schema.key.clone() } else { Vec::new() },
            table: table.clone(),
            view,
            columns,
        })
    }

    /// Starts the sinks of the catalog.
    ///
    /// # Errors
    /// The folder of checkpoints cannot be read.
    pub(crate) async fn start_sinks(self: &Arc<Self>) -> Result<()> {
        let catalog = self.catalog();
        let sinks: Vec<_> = catalog.sinks().cloned().collect();
        if sinks.is_empty() {
            return Ok(());
        }
        let waits = |sink: &Arc<SinkObject>| self.waits_for_checkpoints(&catalog, sink.definition.from);
        if sinks.iter().any(waits) {
            let listed = self.checkpoints().await?;
            let epochs = listed.iter().filter_map(|one| Some(one.manifest.as_ref().ok()?.epoch));
            epochs.for_each(|epoch| self.running_sinks().published(cenote_statestore::Epoch(epoch)));
        }
        sinks.iter().for_each(|sink| self.start_sink(sink));
        Ok(())
    }

    /// Starts a sink that is in the log; if that fails, it is there and says why.
    fn start_sink(self: &Arc<Self>, object: &Arc<SinkObject>) {
        let start = || {
            let catalog = self.catalog();
            let name = catalog.by_id(object.definition.from).map(Object::name);
            let name = name.ok_or_else(|| Error::bug("a sink follows what is not there"))?;
            let from = self.followed(&catalog, &object.definition.name, name)?;
            let sink = self.sink_of(&object.definition, &from)?;
            self.run_sink(object, from, sink, Begin::Again)
        };
        if let Err(error) = start() {
            self.running_sinks().fail(object, error);
        }
    }

    /// Starts the thread of a sink.
    pub(super) fn run_sink(
        self: &Arc<Self>,
        object: &Arc<SinkObject>,
        from: Followed,
        sink: Box<dyn Sink>,
        begin: Begin,
    ) -> Result<()> {
        let (id, waits) = (
            object.definition.id,
            self.waits_for_checkpoints(&self.catalog(), from.id),
        );
        let progress = Arc::new(SinkProgress::new(&object.definition.name, waits));
        let orders = watch::Sender::new(Orders::NONE);
        let runner = Runner::new(self, object, from, sink, begin, progress.clone(), orders.subscribe())?;
        let told = progress.clone();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(format!("cenote-sink-{id}"))
            .spawn(move || {
                let _ended = ended;
                let panicked = |_| Err(Error::bug("the sink panicked: what it says is in the log"));
                let result = std::panic::catch_unwind(AssertUnwindSafe(|| runner.run())).unwrap_or_else(panicked);
                if let Err(error) = result {
                    tracing::error!("sink {}: {}", told.name, error.render());
                    let _ = told.failure.set(error);
                }
                told.ended.send_replace(true);
            })?;
        let running = Running {
            progress,
            orders,
            thread: Some(SinkThread { thread, end }),
        };
        self.running_sinks().running.lock().insert(id, running);
        Ok(())
    }

    /// A reader that goes on behind an epoch that a sink has everything up to.
    ///
    /// # Errors
    /// `Expired` SINK-0103: what came after it is not there any more.
    pub(super) fn follow_on(&self, sink: &str, from: &Followed, after: Epoch) -> Result<Follower> {
        let created = from.view.as_ref().map_or(Epoch::ZERO, |view| view.created);
        if after >= created
            && let Ok(follower) = from.table.follow(after)
        {
            return Ok(follower);
        }
        let newest = created.max(after);
        match self.is_unchanged_since(&self.catalog(), from.id, after) {
            true => from.table.follow(newest),
            false => Err(gone(
                sink,
                &from.name,
                after,
                format!("kept: the contents at epoch {newest}, and what comes then"),
            )),
        }
    }
}

/// SINK-0103: a sink that would have to skip changes.
pub(super) fn gone(sink: &str, from: &str, after: Epoch, kept: String) -> Error {
    let message = format!(
        "cannot go on with sink \"{sink}\" after epoch {after}: the changes of \"{from}\" since then are not there any more"
    );
    Error::new(ErrorKind::Expired, "SINK-0103", message)
        .fact("written", format!("epoch {after}"))
        .telling(kept.replace('\n', ", "))
        .attempt(format!(
            "DROP SINK {sink} and CREATE it again with an empty place to write to: it begins with the whole contents"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_would_skip_changes_says_what_to_do() {
        let error = gone("k", "v", Epoch(7), "kept: epoch 9 and later".to_string());
        assert_eq!(error.kind(), ErrorKind::Expired);
        assert_eq!(
            error.render(),
            "error[SINK-0103]: cannot go on with sink \"k\" after epoch 7: the changes of \"v\" since then are not there any more\n  \
             written: epoch 7\n   detail: kept: epoch 9 and later\n      \
             try: DROP SINK k and CREATE it again with an empty place to write to: it begins with the whole contents"
        );
    }
}
