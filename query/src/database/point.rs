//! Lookups of one row by the whole of its unique key, the shortest way: no pin, no batch, no description of the
//! collection made anew. The row is read where it lies.
//!
//! # Not here
//! Whatever else a lookup may ask for, and the words for what goes wrong: `lookup`, which whoever gets nothing here is
//! to ask.

use super::Database;
use crate::catalog::{Catalog, MaterializedView, Object, Table};
use crate::pgtext::{has_stored_form, parse_array, write_stored};
use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use cenote_engine::ViewStatus;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Epoch, StoredRow, VersionedTable};
use std::sync::{Arc, OnceLock};

/// What is the same for all lookups in one collection, found out with the first; `None`: there is no short way to its
/// rows.
#[derive(Debug, Default)]
pub(crate) struct Points(OnceLock<Option<Point>>);

#[derive(Debug)]
struct Point {
    table: Arc<VersionedTable>,
    columns: SchemaRef,
    /// The view itself and those that it reads: if one of them fails, none answers.
    views: Vec<Arc<ViewStatus>>,
    /// Sources without a table under the view.
    sources: Vec<CollectionId>,
}

/// A row found by [`Database::read_point`].
pub struct PointRow<'a> {
    /// Name of the collection in `public`.
    pub name: &'a str,
    /// The epoch of the row.
    pub epoch: Epoch,
    /// Columns of the collection.
    pub columns: &'a SchemaRef,
    /// Indices of the key columns.
    pub key: &'a [usize],
    row: StoredRow<'a>,
}

impl PointRow<'_> {
    /// Appends the value of a column as JSON.
    ///
    /// # Arguments
    /// - `numbers_raw`: as in [`crate::pgtext::JsonWriter`].
    pub fn write_json(&self, out: &mut Vec<u8>, column: usize, numbers_raw: bool) {
        let data_type = self.columns.field(column).data_type();
        write_stored(out, data_type, self.row.stored(column), numbers_raw);
    }
}

impl Database {
    /// Shows the row of one key to `read`, which is to be quick: a writer may wait for it.
    ///
    /// # Arguments
    /// - `name`: of a table or a materialized view in `public`.
    /// - `key`: a text for each key column in order, in PostgreSQL's input form of its type.
    ///
    /// # Returns
    /// `None`: there is no such row, or [`Database::lookup`] has to be asked, which also says what is wrong.
    pub fn read_point<T>(&self, name: &str, key: &[&str], read: impl FnOnce(PointRow<'_>) -> T) -> Option<T> {
        let catalog = self.catalog();
        let name = match name.strip_prefix("public.") {
            Some(name) => name,
            // Of another schema.
            None if name.contains('.') => return None,
            None => name,
        };
        let object = catalog.get(name)?;
        let point = match object {
            Object::Table(table) => table.points.0.get_or_init(|| Point::of_table(table)),
            Object::MaterializedView(view) => view.points.0.get_or_init(|| Point::of_view(&catalog, view)),
            Object::View(_) => return None,
        };
        let point = point.as_ref()?;
        let key_columns = &point.table.schema().key;
        if key.len() != key_columns.len() {
            return None;
        }
        let types = key_columns
            .iter()
            .map(|column| point.columns.field(*column).data_type());
        let parsed = types
            .zip(key)
            .map(|(data_type, text)| parse_array(&[Some(*text)], data_type));
        let key: Vec<ArrayRef> = parsed.collect::<Result<_, _>>().ok()?;
        let epoch = self.epoch();
        // Behind the epoch: of one in which the view failed there may be one worker's share.
        if !self.is_sound(point) {
            return None;
        }
        let found = point.table.read_one(&key, epoch, |row| {
            read(PointRow {
                name: object.name(),
                epoch,
                columns: &point.columns,
                key: key_columns,
                row,
            })
        });
        found.ok()?
    }

    fn is_sound(&self, point: &Point) -> bool {
        point.views.iter().all(|view| view.failure().is_none())
            && point
                .sources
                .iter()
                .all(|source| self.sources.unopened(*source).is_none())
    }
}

impl Point {
    fn of_table(table: &Table) -> Option<Point> {
        Point::new(table.versioned.as_ref()?, &table.columns)
    }

    fn of_view(catalog: &Catalog, view: &MaterializedView) -> Option<Point> {
        let point = Point::new(&view.versioned, &view.columns)?;
        let (views, sources) = catalog.failing_with(view);
        Some(Point {
            views,
            sources,
            ..point
        })
    }

    fn new(table: &Arc<VersionedTable>, columns: &SchemaRef) -> Option<Point> {
        let schema = table.schema();
        let is_keyed =
            schema.unique && !schema.key.is_empty() && schema.key.iter().all(|key| *key < columns.fields().len());
        let is_plain = columns.fields().iter().all(|field| has_stored_form(field));
        (is_keyed && is_plain).then(|| Point {
            table: table.clone(),
            columns: columns.clone(),
            views: Vec::new(),
            sources: Vec::new(),
        })
    }
}
