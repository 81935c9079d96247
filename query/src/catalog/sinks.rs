//! Sinks in the catalog. They are no objects: nothing reads them, and they have no rows but their progress.

use super::Catalog;
use arrow::datatypes::{DataType, Field, Schema};
use cenote_engine::plan::CollectionId;
use cenote_engine::port::Options;
use cenote_statestore::{TableSchema, VersionedTable};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A sink as declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SinkDefinition {
    /// A number of its own, as collections have.
    pub id: CollectionId,
    /// Its name in `public`.
    pub name: String,
    /// The statement that made it.
    pub sql: String,
    /// The view or table that it follows.
    pub from: CollectionId,
    /// Options of its connector.
    pub options: Options,
    /// Collection of its progress.
    pub progress: CollectionId,
}

/// A sink with the table of its progress. What runs is told by [`Database::sinks`](crate::Database::sinks).
#[derive(Clone, Debug)]
pub struct SinkObject {
    /// How it was declared.
    pub definition: SinkDefinition,
    /// Its progress.
    pub progress: Arc<VersionedTable>,
}

impl Catalog {
    /// All sinks in the order of their names.
    pub fn sinks(&self) -> impl Iterator<Item = &Arc<SinkObject>> {
        self.sinks.values()
    }

    /// The sink of that name.
    pub fn sink(&self, name: &str) -> Option<&Arc<SinkObject>> {
        self.sinks.get(name)
    }

    /// Adds a sink.
    pub(crate) fn insert_sink(&mut self, sink: Arc<SinkObject>) {
        self.reserve(sink.definition.progress);
        self.sinks.insert(sink.definition.name.clone(), sink);
    }
}

/// Columns of a sink's progress: the newest transaction that is prepared, and the newest that is committed.
pub fn progress_schema(sink: &str) -> TableSchema {
    let fields = vec![
        Field::new("state", DataType::Utf8, false),
        Field::new("epoch", DataType::Int64, false),
        Field::new("token", DataType::Utf8, true),
        Field::new("rows", DataType::Int64, false),
        Field::new("bytes", DataType::Int64, false),
    ];
    let columns = Arc::new(Schema::new(fields));
    TableSchema {
        name: format!("{sink}_progress"),
        columns,
        key: vec![0],
        unique: true,
    }
}
