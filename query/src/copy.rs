//! COPY ... FROM STDIN: PostgreSQL's text and CSV formats.
//!
//! Rows of one COPY are one commit, or part of the open transaction. Bytes are turned into columns as they come; a row
//! that does not parse refuses the whole COPY, naming line and column.

mod format;

use crate::catalog::Table;
use crate::database::Database;
use crate::ddl::writable_table;
use crate::dml::{check_rows, kept_form};
use crate::error::{no_column, unsupported};
use crate::names::folded;
use crate::outcome::{CopyIn, Outcome};
use crate::pgtext::parse_array;
use crate::session::Session;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_engine::{Commit, OnConflict, TableWrite};
use cenote_statestore::{Changes, Error, Result};
use datafusion::sql::sqlparser::ast::{CopyOption, CopySource, CopyTarget, Statement as Ast};
use format::{Format, Reader};
use parking_lot::Mutex;
use std::sync::Arc;

/// Rows turned into columns at once.
const ROWS_PER_BATCH: usize = 16 * 1024;

/// Rows that a COPY inside a transaction has brought, until the session takes them in.
pub(crate) type Copied = Arc<Mutex<Vec<(Arc<Table>, RecordBatch)>>>;

/// Starts a COPY.
pub(crate) async fn start(session: &mut Session, ast: &Ast) -> Result<Outcome> {
    let Ast::Copy {
        source,
        to: false,
        target: CopyTarget::Stdin,
        options,
        legacy_options,
        values,
    } = ast
    else {
        return Err(unsupported("COPY other than FROM STDIN"));
    };
    if !legacy_options.is_empty() || !values.is_empty() {
        return Err(unsupported("COPY with options in the old form"));
    }
    let CopySource::Table { table_name, columns } = source else {
        return Err(unsupported("COPY of a query"));
    };
    session.refuse_if_only_reads()?;
    let catalog = session.database().catalog();
    let table = writable_table(&catalog, table_name)?;
    let mut positions = Vec::new();
    for column in columns {
        let name = folded(column);
        positions.push(table.columns.index_of(&name).map_err(|_| {
            let names = table.columns.fields().iter().map(|field| field.name().as_str());
            no_column(&table.definition.name, &name, names)
        })?);
    }
    if positions.is_empty() {
        positions = (0..table.columns.fields().len()).collect();
    }
    let reader = Reader::new(format_of(options)?, positions.len());
    let copied = session.copied();
    let database = session.database().clone();
    Ok(Outcome::CopyIn(Box::new(Copy {
        database,
        table,
        positions,
        reader,
        batches: Vec::new(),
        copied,
    })))
}

fn format_of(options: &[CopyOption]) -> Result<Format> {
    let mut format = Format::text();
    for option in options {
        if let CopyOption::Format(name) = option {
            format = match name.value.to_lowercase().as_str() {
                "text" => Format::text(),
                "csv" => Format::csv(),
                other => return Err(unsupported(format!("COPY with format {other}"))),
            };
        }
    }
    for option in options {
        match option {
            CopyOption::Format(_) => {}
            CopyOption::Delimiter(delimiter) if delimiter.is_ascii() => format.delimiter = *delimiter as u8,
            CopyOption::Null(text) => format.null = text.clone().into_bytes(),
            CopyOption::Header(header) => format.header = *header,
            CopyOption::Quote(quote) if quote.is_ascii() => format.quote = *quote as u8,
            CopyOption::Escape(escape) if escape.is_ascii() => format.escape = *escape as u8,
            CopyOption::Encoding(name) if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") => {}
            other => return Err(unsupported(format!("COPY option {other}"))),
        }
    }
    Ok(format)
}

struct Copy {
    database: Arc<Database>,
    table: Arc<Table>,
    positions: Vec<usize>,
    reader: Reader,
    batches: Vec<RecordBatch>,
    /// Where rows go when a transaction is open.
    copied: Option<Copied>,
}

impl Copy {
    /// Turns rows that were read into columns of the table.
    async fn take_rows(&mut self) -> Result<()> {
        let (lines, texts) = self.reader.take();
        let rows = lines.len();
        if rows == 0 {
            return Ok(());
        }
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.table.columns.fields().len()];
        for (position, texts) in self.positions.iter().zip(texts) {
            let field = self.table.columns.field(*position);
            let array = read_column(texts, field, &lines)?;
            columns[*position] = Some(array);
        }
        let complete = columns.into_iter().enumerate().map(|(position, column)| match column {
            Some(column) => Ok(column),
            None => {
                let definition = &self.table.definition.columns[position];
                self.database
                    .default_column(definition.default.as_deref(), self.table.columns.field(position), rows)
            }
        });
        let batch = Changes::batch(nullable(&self.table.columns), complete.collect::<Result<_>>()?, rows)?;
        let batch = kept_form(&self.table, batch)?;
        check_rows(&self.database, &self.table, &batch).await?;
        self.batches.push(batch);
        Ok(())
    }
}

/// The texts of a column as values of its type; `lines`: where each row begins.
fn read_column(texts: Vec<Option<String>>, field: &Field, lines: &[u64]) -> Result<ArrayRef> {
    if *field.data_type() == DataType::Utf8 {
        return Ok(Arc::new(StringArray::from(texts)));
    }
    let borrowed: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
    parse_array(&borrowed, field.data_type()).map_err(|error| {
        let reads = |text: &Option<&str>| parse_array(&[*text], field.data_type()).is_ok();
        let row = borrowed.iter().position(|text| !reads(text)).unwrap_or_default();
        error.fact("line", lines[row]).fact("column", field.name())
    })
}

fn nullable(columns: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = columns
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    Arc::new(Schema::new(fields))
}

#[async_trait::async_trait]
impl CopyIn for Copy {
    fn columns(&self) -> usize {
        self.positions.len()
    }

    async fn data(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.feed(bytes)?;
        if self.reader.rows() >= ROWS_PER_BATCH {
            self.take_rows().await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<u64> {
        self.reader.end()?;
        self.take_rows().await?;
        let rows = concat_batches(&nullable(&self.table.columns), &self.batches)?;
        let count = rows.num_rows() as u64;
        if let Some(copied) = self.copied {
            copied.lock().push((self.table, rows));
            return Ok(count);
        }
        let write = TableWrite {
            table: self.table.definition.id,
            deletes: Vec::new(),
            inserts: vec![Changes::relabel(rows, self.table.columns.clone())?],
            on_conflict: OnConflict::Refuse,
            truncate: false,
        };
        let epoch = self
            .database
            .engine()
            .commit(Commit {
                writes: vec![write],
                planned: self.table.planned(),
                ..Commit::default()
            })
            .await?;
        self.database.engine().wait_visible(epoch).await?;
        Ok(count)
    }

    async fn abort(self: Box<Self>, _reason: Error) {}
}
