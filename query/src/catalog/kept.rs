//! State tables that are kept as versions of many epochs, and whose they are.

use super::{Catalog, MaterializedView, Object, SinkObject};
use cenote_engine::plan::CollectionId;
use cenote_statestore::VersionedTable;
use std::sync::Arc;

/// What a state table that is kept as versions of many epochs belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeptBy<'a> {
    /// A source's offsets, and their collection.
    Source(CollectionId),
    /// The errors of a view.
    View(&'a Arc<MaterializedView>),
    /// The progress of a sink.
    Sink(&'a Arc<SinkObject>),
}

impl KeptBy<'_> {
    /// What it is called in `cenote_catalog.state_tables`.
    pub(crate) fn operator(&self) -> &'static str {
        match self {
            KeptBy::Source(_) => "source",
            KeptBy::View(_) => "errors",
            KeptBy::Sink(_) => "sink",
        }
    }
}

impl Catalog {
    /// State tables that are kept as versions of many epochs: sources' offsets, views' errors and sinks' progress.
    pub(crate) fn kept_states(&self) -> impl Iterator<Item = (KeptBy<'_>, &Arc<VersionedTable>)> {
        let of_objects = self.objects().filter_map(|object| match object {
            Object::Table(table) => Some((KeptBy::Source(table.definition.offsets?), table.offsets.as_ref()?)),
            Object::MaterializedView(view) => Some((KeptBy::View(view), view.errors.as_ref()?)),
            Object::View(_) => None,
        });
        of_objects.chain(self.sinks().map(|sink| (KeptBy::Sink(sink), &sink.progress)))
    }

    /// A state table that is kept as versions of many epochs.
    pub(crate) fn kept_state(&self, name: &str) -> Option<(KeptBy<'_>, &Arc<VersionedTable>)> {
        self.kept_states().find(|(_, table)| table.schema().name == name)
    }
}
