//! Record batches from Parquet files, a row group at a time, only the columns needed.
//!
//! # Rules kept here
//! 1. Columns are found by name; the file's own Arrow schema is not used, the types are those of Parquet.
//! 2. A type is taken for a declared one only where every value arrives unchanged, is rounded as PostgreSQL
//!    rounds, or is refused: see [`cast`].
//! 3. Sizes written in a file are checked against the bytes that are there before anything is allocated for
//!    them (see [`pages`] and [`thrift`]), and a panic of the reader is an error like any other.
//! 4. Every declared column whose values could be refused is read and checked, wanted or not.
//!
//! # Not here
//! Which files are read and what becomes of an error is `file`.

mod cast;
pub(crate) use cast::Cast;
mod pages;
mod thrift;

#[cfg(test)]
mod tests;

use crate::column::{Column, sql_type};
use crate::guard::unpanicked;
use crate::rows::{nearest, projected};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::file::metadata::ParquetMetaData;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;

/// Bytes of decoded values that a batch holds, about.
const BATCH_BYTES: usize = 8 << 20;

/// A row that could not be read.
pub(crate) struct BadValue {
    /// Its number in the file, from 1.
    pub(crate) record: u64,
    /// The value, as `column=value`.
    pub(crate) text: String,
    /// Why.
    pub(crate) reason: String,
    /// Its SQLSTATE.
    pub(crate) sqlstate: &'static str,
}

/// Rows of a file that come after each other.
pub(crate) struct ParquetBatch {
    /// The good ones, with the columns wanted.
    pub(crate) rows: RecordBatch,
    /// The others.
    pub(crate) bad: Vec<BadValue>,
    /// How many there were in the file.
    pub(crate) records: u64,
}

/// A declared column and how it is made from one of the file.
struct Source {
    field: FieldRef,
    wanted: bool,
    /// Index among the root columns of the file.
    root: usize,
    /// Index among those that are read.
    place: usize,
    cast: cast::Cast,
}

/// A Parquet file being read.
pub(crate) struct ParquetFile {
    file: Arc<File>,
    bytes: u64,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    /// Whether any column is read.
    has_columns: bool,
    sources: Vec<Source>,
    schema: SchemaRef,
    batch_rows: usize,
    /// The next row group, and records before it.
    group: usize,
    group_start: u64,
    /// The group being read.
    reader: Option<ParquetRecordBatchReader>,
    /// The next record, from 0.
    record: u64,
}

impl ParquetFile {
    /// Opens a file for the columns `wanted` of `schema`, at record `start`.
    ///
    /// # Errors
    /// A reason: the file is damaged, lacks a column, or has one of another type.
    pub(crate) fn open(
        file: File,
        schema: &SchemaRef,
        wanted: &[usize],
        batch_rows: usize,
        start: u64,
    ) -> Result<ParquetFile, String> {
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let metadata = unpanicked(|| pages::metadata(&file, bytes))??;
        let described = metadata.file_metadata().schema_descr_ptr();
        let roots = unpanicked(|| parquet_to_arrow_schema(&described, None).map_err(|error| error.to_string()))??;
        let mut sources = sources(schema, wanted, &roots)?;
        let needed: BTreeSet<usize> = sources
            .iter()
            .filter(|source| source.is_read())
            .map(|source| source.root)
            .collect();
        for source in &mut sources {
            source.place = needed.range(..source.root).count();
        }
        let has_columns = !needed.is_empty();
        let mask = ProjectionMask::roots(&described, needed);
        let levels =
            unpanicked(|| parquet_to_arrow_field_levels(&described, mask, None).map_err(|error| error.to_string()))??;
        let schema = projected(schema, wanted);
        let batch_rows = batch_rows.min(rows_per_batch(&metadata)).max(1);
        let file = Arc::new(file);
        let mut opened = ParquetFile {
            file,
            bytes,
            metadata,
            levels,
            has_columns,
            sources,
            schema,
            batch_rows,
            group: 0,
            group_start: 0,
            reader: None,
            record: 0,
        };
        opened.skip(start);
        Ok(opened)
    }

    /// Bytes of the file that a number of its records take, about.
    pub(crate) fn bytes_of(&self, records: u64) -> u64 {
        let total: u64 = (0..self.metadata.num_row_groups())
            .map(|group| self.group_rows(group))
            .sum();
        (u128::from(self.bytes) * u128::from(records) / u128::from(total.max(1))) as u64
    }

    /// The number of the next record, from 0.
    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    fn group_rows(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.row_group(group).num_rows()).unwrap_or(0)
    }

    /// Moves to record `start`, passing over whole row groups unread.
    fn skip(&mut self, start: u64) {
        while self.group < self.metadata.num_row_groups() && self.group_start + self.group_rows(self.group) <= start {
            self.group_start += self.group_rows(self.group);
            self.group += 1;
        }
        self.record = start;
    }

    /// The next records, at most `records_max`; `None` at the end.
    ///
    /// # Errors
    /// A reason: the file is damaged. Reading cannot go on.
    pub(crate) fn next(&mut self, records_max: u64) -> Result<Option<ParquetBatch>, String> {
        loop {
            if self.group >= self.metadata.num_row_groups() {
                return Ok(None);
            }
            let group_end = self.group_start + self.group_rows(self.group);
            if self.record >= group_end {
                self.reader = None;
                self.group_start = group_end;
                self.group += 1;
                continue;
            }
            let batch = match self.has_columns {
                true => self.decoded(records_max)?,
                false => self.counted((group_end - self.record).min(records_max))?,
            };
            let records = batch.num_rows() as u64;
            if records > group_end - self.record {
                return Err(format!("row group {} has more rows than its metadata says", self.group));
            }
            let batch = self.converted(&batch)?;
            self.record += records;
            return Ok(Some(batch));
        }
    }

    /// Rows without columns: their number is all there is.
    fn counted(&self, records: u64) -> Result<RecordBatch, String> {
        pages::check_group(&self.metadata, self.group, self.bytes)?;
        let rows = records.min(self.batch_rows as u64) as usize;
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, Vec::new(), &options).map_err(|error| error.to_string())
    }

    fn decoded(&mut self, records_max: u64) -> Result<RecordBatch, String> {
        if self.reader.is_none() {
            self.reader = Some(self.group_reader()?);
        }
        let Some(reader) = &mut self.reader else {
            return Err("no reader".to_string());
        };
        match unpanicked(|| reader.next())? {
            Some(Ok(batch)) if batch.num_rows() as u64 > records_max => {
                // The rest is read again by whoever asks for it, which a replay up to an offset does not.
                self.reader = None;
                Ok(batch.slice(0, records_max as usize))
            }
            Some(Ok(batch)) if batch.num_rows() > 0 => Ok(batch),
            Some(Err(error)) => Err(error.to_string()),
            _ => Err(format!(
                "row group {} has fewer rows than its metadata says",
                self.group
            )),
        }
    }

    /// A reader of the current row group, from the current record on.
    fn group_reader(&self) -> Result<ParquetRecordBatchReader, String> {
        pages::check_group(&self.metadata, self.group, self.bytes)?;
        let group = pages::Group::new(&self.file, &self.metadata, self.group);
        let passed = (self.record - self.group_start) as usize;
        let selection = (passed > 0).then(|| {
            let rest = self.group_rows(self.group) as usize - passed;
            RowSelection::from(vec![RowSelector::skip(passed), RowSelector::select(rest)])
        });
        unpanicked(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, self.batch_rows, selection)
                .map_err(|error| error.to_string())
        })?
    }

    /// The declared columns of a batch of the file, rows that do not fit taken out.
    fn converted(&self, batch: &RecordBatch) -> Result<ParquetBatch, String> {
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        let mut reasons = Reasons::default();
        for source in self.sources.iter().filter(|source| source.is_read()) {
            let array = batch
                .columns()
                .get(source.place)
                .ok_or("the reader left out a column")?;
            let cast = unpanicked(|| source.cast.apply(array, source.field.data_type()))??;
            reasons.collect(source, array, &cast);
            if source.wanted {
                columns.push(cast);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let whole = RecordBatch::try_new_with_options(self.schema_nullable(), columns, &options);
        let whole = whole.map_err(|error| error.to_string())?;
        reasons.split(whole, &self.schema, self.record)
    }

    /// The schema with every column nullable, as long as bad rows are still among the good.
    fn schema_nullable(&self) -> SchemaRef {
        let fields = self
            .schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

impl Source {
    /// Whether its values are needed, to be handed over or to be checked.
    fn is_read(&self) -> bool {
        self.wanted || !self.field.is_nullable() || self.cast.can_refuse()
    }
}

/// Why rows of one batch do not fit, by row.
#[derive(Default)]
struct Reasons(BTreeMap<usize, (String, String, &'static str)>);

impl Reasons {
    /// Notes the rows whose value was lost in the cast, or is missing where it must not.
    fn collect(&mut self, source: &Source, before: &ArrayRef, after: &ArrayRef) {
        let lost = after.null_count() > before.null_count();
        let missing = !source.field.is_nullable() && after.null_count() > 0;
        if !lost && !missing {
            return;
        }
        let name = source.field.name();
        for row in (0..after.len()).filter(|row| after.is_null(*row)) {
            let entry = if before.is_valid(row) {
                let value = array_value_to_string(before, row).unwrap_or_default();
                let declared = sql_type(source.field.data_type());
                let refusal = source.cast.refusal(source.field.data_type());
                let fault = refusal.fault(name, &declared, value.as_bytes());
                (format!("{name}={value}"), fault.reason, fault.kind.sqlstate())
            } else if missing {
                let reason = format!("field `{name}`: NULL in a column that is NOT NULL");
                (format!("{name}="), reason, "23502")
            } else {
                continue;
            };
            self.0.entry(row).or_insert(entry);
        }
    }

    /// The good rows, and the bad ones as numbered from `first` on.
    fn split(self, whole: RecordBatch, schema: &SchemaRef, first: u64) -> Result<ParquetBatch, String> {
        let records = whole.num_rows() as u64;
        let good = match self.0.is_empty() {
            true => whole,
            false => {
                let keep: BooleanArray = (0..whole.num_rows())
                    .map(|row| Some(!self.0.contains_key(&row)))
                    .collect();
                filter_record_batch(&whole, &keep).map_err(|error| error.to_string())?
            }
        };
        let options = RecordBatchOptions::new().with_row_count(Some(good.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(schema), good.columns().to_vec(), &options);
        let bad = self.0.into_iter().map(|(row, (text, reason, sqlstate))| BadValue {
            record: first + row as u64 + 1,
            text: crate::fault::excerpt(text.as_bytes(), 1024),
            reason,
            sqlstate,
        });
        Ok(ParquetBatch {
            bad: bad.collect(),
            rows: rows.map_err(|error| error.to_string())?,
            records,
        })
    }
}

/// Pairs the declared columns with those of the file.
fn sources(schema: &SchemaRef, wanted: &[usize], roots: &Schema) -> Result<Vec<Source>, String> {
    let mut sources = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        Column::new(field, false).map_err(|error| error.message().to_string())?;
        let exact = roots.fields().iter().position(|root| root.name() == field.name());
        let folded = || {
            roots
                .fields()
                .iter()
                .position(|root| root.name().eq_ignore_ascii_case(field.name()))
        };
        let root = exact.or_else(folded).ok_or_else(|| absent(field.name(), roots))?;
        let cast = cast::Cast::between(roots.field(root).data_type(), field.data_type())
            .ok_or_else(|| misfit(field, roots.field(root).data_type()))?;
        sources.push(Source {
            field: Arc::clone(field),
            wanted: wanted.contains(&index),
            root,
            place: 0,
            cast,
        });
    }
    Ok(sources)
}

fn absent(name: &str, roots: &Schema) -> String {
    let hint = match nearest(name, roots.fields().iter().map(|root| root.name().as_str())) {
        Some(near) => format!("; the nearest is `{near}`"),
        None => String::new(),
    };
    format!("the file has no column `{name}`{hint}")
}

fn misfit(field: &FieldRef, found: &DataType) -> String {
    format!(
        "column `{}` is {found} in the file, which cannot be read as {}",
        field.name(),
        sql_type(field.data_type())
    )
}

/// Rows whose decoded values take about [`BATCH_BYTES`].
fn rows_per_batch(metadata: &ParquetMetaData) -> usize {
    let groups = metadata.row_groups().iter();
    let (bytes, rows) = groups.fold((0u64, 0u64), |(bytes, rows), group| {
        (
            bytes + group.total_byte_size().max(0) as u64,
            rows + group.num_rows().max(0) as u64,
        )
    });
    (BATCH_BYTES as u64 / (bytes / rows.max(1)).max(1)).clamp(64, 65_536) as usize
}
