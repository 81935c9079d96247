//! Columns that a table had: a view goes on with those that were there when it was made.
//!
//! # Rules kept here
//! 1. Columns are added behind those that are there, and none goes or changes its type while a view reads the table: what a
//!    view sees are the table's first columns, under the names that they had.
//! 2. A table with the columns of a time is an object under a name of its own, which no user can write by accident.
//!
//! # Not here
//! Who sees what: a materialized view's plan (`ddl::views`), a plain view's query (`expand`). Changing columns (`ddl::alter`).

use super::{Catalog, Object, Table, TableDefinition};
use crate::database::Points;
use arrow::datatypes::{Field, Schema};
use cenote_engine::plan::CollectionId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The columns of a table up to a change of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// Views up to this number see the table so.
    pub until: CollectionId,
    /// Names of the columns.
    pub columns: Vec<String>,
}

impl TableDefinition {
    /// What a view sees that was made when `sees` was given away; `None`: the newest columns.
    fn layout_at(&self, sees: CollectionId) -> Option<&Layout> {
        self.was.iter().find(|layout| sees <= layout.until)
    }
}

impl Table {
    /// The name of the table with the columns that a view sees, where they are not these.
    pub(crate) fn seen_as(&self, sees: CollectionId) -> Option<String> {
        let layout = self.definition.layout_at(sees)?;
        (self.layout != Some(layout.until)).then(|| layout_name(&self.definition.name, layout))
    }

    fn as_it_was(&self, layout: &Layout) -> Table {
        let names = layout.columns.iter();
        let fields = self.columns.fields().iter().zip(names.clone());
        let fields: Vec<Field> = fields
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect();
        let columns = self.definition.columns.iter().zip(names);
        let columns = columns.map(|(column, name)| super::ColumnDefinition {
            name: name.clone(),
            ..column.clone()
        });
        Table {
            definition: TableDefinition {
                columns: columns.collect(),
                ..self.definition.clone()
            },
            columns: Arc::new(Schema::new(fields)),
            lengths: self.lengths.iter().copied().take(layout.columns.len()).collect(),
            checks: OnceCell::new(),
            points: Points::default(),
            layout: Some(layout.until),
            versioned: self.versioned.clone(),
            offsets: self.offsets.clone(),
        }
    }
}

/// What stands between the name of a table and which columns of it are meant.
const MARK: char = '\u{2}';

/// The table whose earlier columns a name means; `None`: it is a name as users give them.
pub(crate) fn older_columns_of(name: &str) -> Option<&str> {
    name.split_once(MARK).map(|(table, _)| table)
}

fn layout_name(table: &str, layout: &Layout) -> String {
    format!("{table}{MARK}{}", layout.until)
}

impl Catalog {
    /// Takes note of the columns that a table had.
    pub(super) fn note_layouts(&mut self, object: &Object) {
        self.layouts.retain(|_, known| known.id() != object.id());
        if let Object::Table(table) = object {
            for layout in &table.definition.was {
                let was = Object::Table(Arc::new(table.as_it_was(layout)));
                self.layouts.insert(layout_name(&table.definition.name, layout), was);
                self.reserve(layout.until);
            }
        }
    }

    /// The catalog in which tables have the columns that a view sees.
    pub(crate) fn as_seen(&self, sees: CollectionId) -> Catalog {
        let mut seen = self.clone();
        for object in self.objects.values() {
            if let Object::Table(table) = object
                && let Some(name) = table.seen_as(sees)
                && let Some(was) = self.layouts.get(&name)
            {
                seen.objects.insert(table.definition.name.clone(), was.clone());
            }
        }
        seen
    }
}
