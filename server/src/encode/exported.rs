//! Columns as programs outside expect them in Arrow and Parquet: types that Arrow has a name but no type for.
//!
//! | SQL | Arrow | Parquet |
//! |---|---|---|
//! | UUID | 16 bytes, extension `arrow.uuid` | the same |
//! | JSON, JSONB | text, extension `arrow.json` | the same |
//! | STRUCT, arrays | the same, their parts by these rules | the same |
//! | INTERVAL | months, days, nanoseconds | text in PostgreSQL's form: Parquet's own type has milliseconds only |
//!
//! A client takes JSON back as what it was ([`Restored`]), so that it prints what the server would.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use cenote_query::pgtext::{Formatter, TextStyle};
use cenote_statestore::forms::json;
use cenote_statestore::forms::uuid::UUID;
use cenote_statestore::{Changes, Result};
use std::sync::Arc;

/// Key of a field's metadata that names an extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// The extension type of JSON.
const JSON: &str = "arrow.json";

/// Where columns go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Arrow,
    Parquet,
}

/// How the columns of a schema leave.
pub(super) struct Exported {
    target: Target,
    schema: SchemaRef,
}

impl Exported {
    /// The way out for batches of `schema`.
    pub(super) fn new(schema: &SchemaRef, target: Target) -> Exported {
        let fields = schema.fields().iter().map(|field| exported_field(field, target));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        Exported {
            target,
            schema: Arc::new(schema),
        }
    }

    /// The schema that leaves.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch as it leaves.
    ///
    /// # Errors
    /// `Bug`: the batch is of another schema.
    pub(super) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch
            .columns()
            .iter()
            .map(|column| exported_column(column, self.target));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}

/// How columns that came in Arrow become what they were.
pub struct Restored {
    schema: SchemaRef,
}

impl Restored {
    /// The way back for batches of `schema`.
    pub fn new(schema: &SchemaRef) -> Restored {
        let fields = schema.fields().iter().map(|field| restored_field(field));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        Restored {
            schema: Arc::new(schema),
        }
    }

    /// The schema that comes out.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch as it was.
    ///
    /// # Errors
    /// `Bug`: the batch is of another schema.
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| restored_column(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Changes::batch(self.schema.clone(), columns, batch.num_rows())
    }
}

fn restored_field(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    let field = field.clone();
    match field.data_type() {
        DataType::Utf8 if metadata.get(EXTENSION).is_some_and(|name| name == JSON) => {
            metadata.remove(EXTENSION);
            field.with_data_type(json::json_type()).with_metadata(metadata)
        }
        DataType::Struct(fields) => {
            let fields: Fields = fields.iter().map(|field| restored_field(field)).collect();
            field.with_data_type(DataType::Struct(fields))
        }
        DataType::List(item) => {
            let item = Arc::new(restored_field(item));
            field.with_data_type(DataType::List(item))
        }
        _ => field,
    }
}

fn restored_column(column: &ArrayRef, was: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), was) {
        (DataType::Utf8, was) if json::name_of(was).is_some() => {
            Ok(json::column_of(column.as_string::<i32>().clone(), was))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = column.as_struct();
            let columns = structs.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| restored_column(column, field.data_type()));
            let (columns, nulls) = (columns.collect::<Result<Vec<_>>>()?, structs.nulls().cloned());
            let rows = structs.len();
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                nulls,
                rows,
            )?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = column.as_list::<i32>();
            let elements = restored_column(lists.values(), item.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets, elements, nulls)?))
        }
        _ => Ok(column.clone()),
    }
}

fn exported_field(field: &Field, target: Target) -> Field {
    let field = field.clone();
    match field.data_type() {
        DataType::Interval(_) if target == Target::Parquet => field.with_data_type(DataType::Utf8),
        uuid if *uuid == UUID => extension(field, "arrow.uuid"),
        DataType::Struct(_) if json::name_of(field.data_type()).is_some() => {
            extension(field.with_data_type(DataType::Utf8), JSON)
        }
        DataType::Struct(fields) => {
            let fields: Fields = fields.iter().map(|field| exported_field(field, target)).collect();
            field.with_data_type(DataType::Struct(fields))
        }
        DataType::List(item) => {
            let item = Arc::new(exported_field(item, target));
            field.with_data_type(DataType::List(item))
        }
        _ => field,
    }
}

fn extension(field: Field, name: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION.to_string(), name.to_string());
    field.with_metadata(metadata)
}

fn exported_column(column: &ArrayRef, target: Target) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Interval(_) if target == Target::Parquet => texts_of(column),
        DataType::Struct(_) if json::name_of(column.data_type()).is_some() => Ok(Arc::new(json::texts_of(column))),
        DataType::Struct(fields) => {
            let structs = column.as_struct();
            let fields: Fields = fields.iter().map(|field| exported_field(field, target)).collect();
            let columns = structs.columns().iter().map(|column| exported_column(column, target));
            let (columns, nulls) = (columns.collect::<Result<Vec<_>>>()?, structs.nulls().cloned());
            let rows = structs.len();
            Ok(Arc::new(StructArray::try_new_with_length(
                fields, columns, nulls, rows,
            )?))
        }
        DataType::List(item) => {
            let lists = column.as_list::<i32>();
            let item = Arc::new(exported_field(item, target));
            let elements = exported_column(lists.values(), target)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(item, offsets, elements, nulls)?))
        }
        _ => Ok(column.clone()),
    }
}

fn texts_of(column: &ArrayRef) -> Result<ArrayRef> {
    let field = Field::new("", column.data_type().clone(), true);
    let formatter = Formatter::new(&field, column, &TextStyle::default())?;
    let texts: StringArray = (0..column.len()).map(|row| formatter.text(row)).collect();
    Ok(Arc::new(texts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, FixedSizeBinaryArray, IntervalMonthDayNanoArray};
    use arrow::datatypes::IntervalMonthDayNano;

    #[test]
    fn json_that_left_comes_back_as_it_was() {
        let texts = |texts: Vec<Option<&str>>| json::column_of(StringArray::from(texts), &json::json_type());
        let inner = texts(vec![Some("[1]"), None]);
        let fields = Fields::from(vec![Field::new("a", json::json_type(), true)]);
        let nested: ArrayRef = Arc::new(StructArray::new(fields, vec![inner], None));
        let columns = [("j", texts(vec![Some("{}"), None])), ("s", nested)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let left = Exported::new(&batch.schema(), Target::Arrow).batch(&batch).unwrap();
        assert_eq!(*left.schema().field(0).data_type(), DataType::Utf8);
        let back = Restored::new(&left.schema());
        assert_eq!(back.batch(&left).unwrap(), batch);
    }

    #[test]
    fn uuids_are_named_and_intervals_are_texts_in_parquet() {
        let uuids = FixedSizeBinaryArray::from(vec![&[7u8; 16][..]]);
        let spans = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3_000)]);
        let columns = [("u", Arc::new(uuids) as ArrayRef), ("s", Arc::new(spans) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let arrow = Exported::new(&batch.schema(), Target::Arrow);
        assert_eq!(arrow.schema().field(0).metadata()[EXTENSION], "arrow.uuid");
        assert_eq!(arrow.batch(&batch).unwrap().column(1), batch.column(1));
        let parquet = Exported::new(&batch.schema(), Target::Parquet).batch(&batch).unwrap();
        assert_eq!(
            parquet.column(1).as_string::<i32>().value(0),
            "1 mon 2 days 00:00:00.000003"
        );
    }
}
