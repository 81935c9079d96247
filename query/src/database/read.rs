//! Reads by programs, without SQL: lookups, scans, changes, digests, the inventory and figures.

use super::{Database, LookupRows, Metric, Readable, ReadableKind, ScanCursor, ScanRequest, StateTable};
use crate::catalog::{Catalog, Object, PUBLIC, STATE_SCHEMA};
use crate::error::from_datafusion;
use crate::outcome::BatchStream;
use crate::parse::parse_expression;
use crate::pgtext::parse_array;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use cenote_statestore::{Changes, Digest, Epoch, Error, ErrorKind, Pin, Result, VersionedTable};
use datafusion::common::DFSchema;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use futures::StreamExt;
use std::sync::Arc;

/// Rows of one batch of a scan.
pub(super) const SCAN_ROWS: usize = 8192;

/// What a name means to a reader.
pub(super) enum Target {
    /// A table or a view: versions of many epochs.
    Versioned {
        readable: Readable,
        table: Arc<VersionedTable>,
    },
    /// State of an operator: the newest epoch.
    State { readable: Readable, table: StateTable },
}

impl Target {
    pub(super) fn readable(&self) -> &Readable {
        match self {
            Target::Versioned { readable, .. } | Target::State { readable, .. } => readable,
        }
    }
}

impl Database {
    /// Everything that can be read, sorted by schema and name.
    pub async fn readables(&self) -> Result<Vec<Readable>> {
        let catalog = self.catalog();
        let mut found = Vec::new();
        for object in catalog.objects() {
            if let Some((table, columns, kind)) = contents(object) {
                found.push(self.describe_versioned(PUBLIC, &table, columns, kind));
            }
            if let Object::Table(table) = object
                && let Some(offsets) = &table.offsets
            {
                let columns = offsets.schema().columns.clone();
                found.push(self.describe_versioned(STATE_SCHEMA, offsets, columns, ReadableKind::State));
            }
        }
        for view in catalog.materialized_views() {
            let sizes = self.engine.state_sizes(view.definition.id).await?;
            for state in self
                .state_tables(&catalog)
                .into_iter()
                .filter(|state| state.view.definition.id == view.definition.id)
            {
                let size = sizes
                    .iter()
                    .find(|(node, table, _, _)| (*node, *table) == (state.node, state.table));
                let (rows, bytes) = size.map_or((0, 0), |(_, _, rows, bytes)| (*rows, *bytes));
                found.push(self.describe_state(&state, rows, bytes));
            }
        }
        found.sort_by(|a, b| (&a.schema_name, &a.name).cmp(&(&b.schema_name, &b.name)));
        Ok(found)
    }

    fn describe_versioned(
        &self,
        schema: &str,
        table: &VersionedTable,
        columns: SchemaRef,
        kind: ReadableKind,
    ) -> Readable {
        let statistics = table.statistics();
        let identity = table.schema();
        let key = identity.unique && identity.key.iter().all(|key| *key < columns.fields().len());
        Readable {
            schema_name: schema.to_string(),
            name: identity.name.clone(),
            kind,
            columns,
            key: if key { identity.key.clone() } else { Vec::new() },
            key_unique: key,
            rows: statistics.rows,
            bytes: statistics.bytes,
            epoch: self.epoch(),
        }
    }

    fn describe_state(&self, state: &StateTable, rows: u64, bytes: u64) -> Readable {
        Readable {
            schema_name: STATE_SCHEMA.to_string(),
            name: state.schema.name.clone(),
            kind: ReadableKind::State,
            columns: state.schema.columns.clone(),
            key: state.schema.key.clone(),
            key_unique: state.schema.unique,
            rows,
            bytes,
            epoch: self.epoch(),
        }
    }

    /// One readable collection by name (`view`, `schema.view`, `cenote_state.table`).
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 42P01, with near names. `Unavailable`: the view has failed.
    pub fn readable(&self, name: &str) -> Result<Readable> {
        Ok(self.target(&self.catalog(), name)?.readable().clone())
    }

    pub(super) fn target(&self, catalog: &Catalog, name: &str) -> Result<Target> {
        let (schema, name) = name.split_once('.').unwrap_or((PUBLIC, name));
        match schema {
            PUBLIC => {
                let object = catalog.get(name).ok_or_else(|| catalog.missing(name))?;
                if let Object::MaterializedView(view) = object {
                    self.check_view(view)?;
                }
                let (table, columns, kind) = contents(object).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Invalid,
                        "READ-0001",
                        format!("cannot read {} \"{name}\" directly: it keeps no rows", object.kind()),
                    )
                    .sqlstate("42809")
                    .attempt("SELECT from it, or make a materialized view of it")
                })?;
                let readable = self.describe_versioned(PUBLIC, &table, columns, kind);
                Ok(Target::Versioned { readable, table })
            }
            STATE_SCHEMA => {
                let offsets = catalog.objects().find_map(|object| match object {
                    Object::Table(table) => table.offsets.clone().filter(|offsets| offsets.schema().name == name),
                    _ => None,
                });
                if let Some(table) = offsets {
                    let columns = table.schema().columns.clone();
                    let readable = self.describe_versioned(STATE_SCHEMA, &table, columns, ReadableKind::State);
                    return Ok(Target::Versioned { readable, table });
                }
                let table = self.state_table(catalog, name)?;
                self.check_view(&table.view)?;
                Ok(Target::State {
                    readable: self.describe_state(&table, 0, 0),
                    table,
                })
            }
            "cenote_catalog" if name == "errors" => {
                let table = self.errors.clone();
                let columns = cenote_engine::visible_columns(&table.schema().columns);
                let readable = self.describe_versioned("cenote_catalog", &table, columns, ReadableKind::Table);
                Ok(Target::Versioned { readable, table })
            }
            _ => Err(catalog.missing(&format!("{schema}.{name}"))),
        }
    }

    /// Looks up keys by the whole key of a collection, or by the named columns.
    ///
    /// # Arguments
    /// - `columns`: names of the columns that `keys` are for; empty: the key columns in order.
    /// - `keys`: one list of texts per key, in the order of `columns`, each in PostgreSQL's input form of its type;
    ///   `None` is NULL.
    ///
    /// # Cost
    /// One hash probe per key where the columns are the key; else one scan of the collection.
    ///
    /// # Errors
    /// - `Invalid` 42P01, 42703: no such collection or column. 22P02: a key does not parse as its type.
    pub async fn lookup(&self, name: &str, columns: &[String], keys: &[Vec<Option<String>>]) -> Result<LookupRows> {
        let target = self.target(&self.catalog(), name)?;
        let readable = target.readable().clone();
        let wanted = wanted_columns(&readable, columns)?;
        let arrays = key_arrays(&readable, &wanted, keys)?;
        match target {
            Target::Versioned { table, .. } => {
                let pin = self.engine.pin_visible()?;
                let (rows, key_of_row) = if readable.key_unique && same_set(&wanted, &readable.key) {
                    let ordered: Vec<ArrayRef> = readable
                        .key
                        .iter()
                        .map(|column| arrays[wanted.iter().position(|w| w == column).expect("same set")].clone())
                        .collect();
                    let found = table.lookup(&ordered, &pin)?;
                    (
                        found
                            .rows
                            .project(&(0..readable.columns.fields().len()).collect::<Vec<_>>())?,
                        found.key_of_row,
                    )
                } else {
                    scan_for(&table, &readable, &pin, &wanted, &arrays)?
                };
                Ok(LookupRows {
                    epoch: pin.epoch(),
                    readable,
                    rows,
                    key_of_row,
                })
            }
            Target::State { table, .. } => {
                let by_key = same_set(&wanted, &readable.key) && !readable.key.is_empty();
                let in_order = wanted == readable.key;
                let probe = (by_key && in_order).then(|| arrays.clone());
                let (epoch, mut rows) = self.engine.read_state(vec![table.read(probe)]).await?;
                self.engine.wait_visible(epoch).await?;
                let all = concat_batches(&readable.columns, &rows.remove(0))?;
                let (rows, key_of_row) = matching(&all, &wanted, &arrays)?;
                Ok(LookupRows {
                    readable,
                    epoch,
                    rows,
                    key_of_row,
                })
            }
        }
    }

    /// A page of a collection.
    ///
    /// # Returns
    /// At most `limit` rows, their epoch, and the cursor to go on with; `None` at the end.
    ///
    /// # Errors
    /// `Expired`: the cursor's epoch is no longer retained.
    pub async fn scan_page(
        &self,
        request: ScanRequest,
        limit: usize,
    ) -> Result<(RecordBatch, Epoch, Option<ScanCursor>)> {
        let limit = limit.max(1);
        let opened = self.open_scan(&request).await?;
        let schema = opened.schema.clone();
        let epoch = opened.epoch;
        let skip = request.cursor.map_or(0, |cursor| cursor.position);
        let (mut stream, mut position) = (opened.batches(SCAN_ROWS), 0u64);
        let (mut parts, mut count) = (Vec::new(), 0usize);
        while count <= limit
            && let Some(batch) = stream.next().await
        {
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            let start = skip.saturating_sub(position).min(rows);
            position += rows;
            let part = batch.slice(start as usize, (rows - start) as usize);
            count += part.num_rows();
            parts.push(part);
        }
        let rows = concat_batches(&schema, &parts)?;
        let more = rows.num_rows() > limit;
        let rows = rows.slice(0, rows.num_rows().min(limit));
        let cursor = more.then(|| ScanCursor {
            epoch,
            position: skip + rows.num_rows() as u64,
        });
        Ok((rows, epoch, cursor))
    }

    /// A whole collection at one epoch, streamed in bounded memory.
    pub async fn scan(&self, request: ScanRequest) -> Result<(SchemaRef, Epoch, BatchStream)> {
        let opened = self.open_scan(&request).await?;
        Ok((opened.schema.clone(), opened.epoch, opened.batches(SCAN_ROWS)))
    }

    async fn open_scan(&self, request: &ScanRequest) -> Result<OpenScan> {
        let target = self.target(&self.catalog(), &request.name)?;
        let columns = target.readable().columns.clone();
        let projection = match &request.columns {
            None => (0..columns.fields().len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| position_of(&columns, name))
                .collect::<Result<Vec<_>>>()?,
        };
        let filter = request
            .filter
            .as_ref()
            .map(|sql| self.predicate(sql, &columns))
            .transpose()?;
        let schema = Arc::new(columns.project(&projection)?);
        let wanted = request.cursor.map(|cursor| cursor.epoch).or(request.epoch);
        match target {
            Target::Versioned { table, .. } => {
                let pin = match wanted {
                    None => self.engine.pin_visible()?,
                    Some(epoch) => self.pin_past(epoch)?,
                };
                let epoch = pin.epoch();
                let all = (0..columns.fields().len()).collect();
                let source = Source::Table(table.scan(pin, all, 0..table.shards()));
                Ok(OpenScan {
                    schema,
                    epoch,
                    projection,
                    filter,
                    source,
                })
            }
            Target::State { table, .. } => {
                let (epoch, mut rows) = self.engine.read_state(vec![table.read(None)]).await?;
                if let Some(wanted) = wanted.filter(|wanted| *wanted != epoch) {
                    return Err(Error::new(
                        ErrorKind::Expired,
                        "STATE-0106",
                        format!("cannot read operator state at epoch {wanted}: only the newest epoch is kept"),
                    )
                    .fact("newest", format!("epoch {epoch}")));
                }
                self.engine.wait_visible(epoch).await?;
                let source = Source::Rows(rows.remove(0).into_iter());
                Ok(OpenScan {
                    schema,
                    epoch,
                    projection,
                    filter,
                    source,
                })
            }
        }
    }

    fn predicate(&self, sql: &str, columns: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(columns.as_ref().clone()).map_err(from_datafusion)?;
        let expr = self
            .planner
            .create_logical_expr_from_sql_expr(parse_expression(sql)?, &schema)
            .map_err(from_datafusion)?;
        let context = datafusion::logical_expr::simplify::SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .build();
        let simplifier = datafusion::optimizer::simplify_expressions::ExprSimplifier::new(context);
        let expr = simplifier.coerce(expr, &schema).map_err(from_datafusion)?;
        let physical = create_physical_expr(&expr, &schema, self.planner.execution_props()).map_err(from_datafusion)?;
        match physical.data_type(columns).map_err(from_datafusion)? {
            DataType::Boolean => Ok(physical),
            other => Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0307",
                format!(
                    "cannot filter rows: the condition is of type {}",
                    crate::types::type_name(&other)
                ),
            )
            .sqlstate("42804")),
        }
    }

    /// Order-independent digest of a collection's contents: hex text, rows, epoch.
    pub async fn digest(&self, name: &str) -> Result<(String, u64, Epoch)> {
        let request = ScanRequest {
            name: name.to_string(),
            ..ScanRequest::default()
        };
        let opened = self.open_scan(&request).await?;
        let epoch = opened.epoch;
        let (mut stream, mut digest, mut rows) = (opened.batches(SCAN_ROWS), Digest::default(), 0);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            digest.update(&batch, None)?;
        }
        Ok((digest.finish_hex(), rows, epoch))
    }

    /// Figures of engine and catalog.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![Metric {
            name: "cenote_epoch",
            help: "Newest epoch that can be read.",
            kind: "gauge",
            labels: Vec::new(),
            value: self.epoch().0 as f64,
        }];
        let mut add = |name, help, kind, label, value: String, figure: u64| {
            metrics.push(Metric {
                name,
                help,
                kind,
                labels: vec![(label, value)],
                value: figure as f64,
            });
        };
        for source in self.sources.progress() {
            let name = || source.name.clone();
            add(
                "cenote_source_rows_total",
                "Rows read by a source.",
                "counter",
                "source",
                name(),
                source.rows(),
            );
            add(
                "cenote_source_bad_rows_total",
                "Rows that could not be read.",
                "counter",
                "source",
                name(),
                source.bad_rows(),
            );
            add(
                "cenote_source_bytes_total",
                "Bytes read by a source.",
                "counter",
                "source",
                name(),
                source.bytes(),
            );
            add(
                "cenote_source_expected_bytes",
                "Bytes there are to read, as far as known.",
                "gauge",
                "source",
                name(),
                source.bytes_expected(),
            );
        }
        for object in self.catalog().objects() {
            if let Some((table, _, _)) = contents(object) {
                let statistics = table.statistics();
                let name = || object.name().to_string();
                add(
                    "cenote_rows",
                    "Rows of a table or view.",
                    "gauge",
                    "name",
                    name(),
                    statistics.rows,
                );
                add(
                    "cenote_memory_bytes",
                    "Bytes of memory of a table or view.",
                    "gauge",
                    "name",
                    name(),
                    statistics.bytes,
                );
            }
            if let Object::MaterializedView(view) = object {
                let failed = view.status.failure().is_some() as u64;
                add(
                    "cenote_view_failed",
                    "1 if a view has failed.",
                    "gauge",
                    "name",
                    object.name().to_string(),
                    failed,
                );
            }
        }
        metrics
    }
}

/// A scan that is set up.
struct OpenScan {
    schema: SchemaRef,
    epoch: Epoch,
    projection: Vec<usize>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    source: Source,
}

enum Source {
    Table(cenote_statestore::Scan),
    Rows(std::vec::IntoIter<RecordBatch>),
}

impl OpenScan {
    fn batches(mut self, rows_max: usize) -> BatchStream {
        let batches = std::iter::from_fn(move || {
            let next = match &mut self.source {
                Source::Table(scan) => scan.next_batch(rows_max).transpose()?,
                Source::Rows(rows) => Ok(rows.next()?),
            };
            Some(next.and_then(|batch| {
                let batch = match &self.filter {
                    None => batch,
                    Some(filter) => {
                        let mask = filter
                            .evaluate(&batch)
                            .and_then(|value| value.into_array(batch.num_rows()));
                        let mask = mask.map_err(from_datafusion)?;
                        arrow::compute::filter_record_batch(&batch, arrow::array::AsArray::as_boolean(&mask))?
                    }
                };
                Changes::relabel(batch.project(&self.projection)?, self.schema.clone())
            }))
        });
        futures::stream::iter(batches).boxed()
    }
}

fn contents(object: &Object) -> Option<(Arc<VersionedTable>, SchemaRef, ReadableKind)> {
    match object {
        Object::Table(table) => table
            .versioned
            .clone()
            .map(|versioned| (versioned, table.columns.clone(), ReadableKind::Table)),
        Object::MaterializedView(view) => Some((
            view.versioned.clone(),
            view.columns.clone(),
            ReadableKind::MaterializedView,
        )),
        Object::View(_) => None,
    }
}

fn position_of(columns: &SchemaRef, name: &str) -> Result<usize> {
    columns.index_of(name).map_err(|_| {
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        Error::new(
            ErrorKind::Invalid,
            "SQL-0302",
            format!("column \"{name}\" does not exist"),
        )
        .sqlstate("42703")
        .fact("columns", names.join(", "))
    })
}

fn wanted_columns(readable: &Readable, columns: &[String]) -> Result<Vec<usize>> {
    if !columns.is_empty() {
        return columns
            .iter()
            .map(|name| position_of(&readable.columns, name))
            .collect();
    }
    if readable.key.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "READ-0004",
            format!("cannot look up a key in \"{}\": it has no key", readable.name),
        )
        .sqlstate("42P10")
        .attempt("name a column: ?column=value"));
    }
    Ok(readable.key.clone())
}

/// Keys as columns, parsed as the columns' types.
fn key_arrays(readable: &Readable, wanted: &[usize], keys: &[Vec<Option<String>>]) -> Result<Vec<ArrayRef>> {
    if let Some(key) = keys.iter().find(|key| key.len() != wanted.len()) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "READ-0005",
            format!("cannot look up a key of {} values in \"{}\"", key.len(), readable.name),
        )
        .sqlstate("22023")
        .fact("expected", format!("{} values", wanted.len())));
    }
    let parsed = wanted.iter().enumerate().map(|(index, column)| {
        let texts: Vec<Option<&str>> = keys.iter().map(|key| key[index].as_deref()).collect();
        let field = readable.columns.field(*column);
        parse_array(&texts, field.data_type()).map_err(|error| error.fact("column", field.name()))
    });
    parsed.collect()
}

fn same_set(a: &[usize], b: &[usize]) -> bool {
    a.len() == b.len() && a.iter().all(|column| b.contains(column))
}

/// Finds keys by reading everything.
fn scan_for(
    table: &Arc<VersionedTable>,
    readable: &Readable,
    pin: &Pin,
    wanted: &[usize],
    keys: &[ArrayRef],
) -> Result<(RecordBatch, Vec<usize>)> {
    let all = (0..readable.columns.fields().len()).collect();
    let mut scan = table.scan(pin.clone(), all, 0..table.shards());
    let (mut parts, mut key_of_row) = (Vec::new(), Vec::new());
    while let Some(batch) = scan.next_batch(SCAN_ROWS)? {
        let (rows, keys) = matching(&batch, wanted, keys)?;
        parts.push(rows);
        key_of_row.extend(keys);
    }
    Ok((concat_batches(&readable.columns, &parts)?, key_of_row))
}

/// The rows of a batch that have one of the keys, and which.
fn matching(batch: &RecordBatch, wanted: &[usize], keys: &[ArrayRef]) -> Result<(RecordBatch, Vec<usize>)> {
    let columns: Vec<ArrayRef> = wanted.iter().map(|column| batch.column(*column).clone()).collect();
    let fields = columns
        .iter()
        .map(|column| arrow::row::SortField::new(column.data_type().clone()))
        .collect();
    let converter = arrow::row::RowConverter::new(fields)?;
    let (rows, keys) = (converter.convert_columns(&columns)?, converter.convert_columns(keys)?);
    let positions: std::collections::HashMap<&[u8], usize> = keys
        .iter()
        .enumerate()
        .map(|(position, key)| (key.data(), position))
        .collect();
    let (mut found, mut key_of_row) = (Vec::new(), Vec::new());
    for (row, value) in rows.iter().enumerate() {
        if let Some(position) = positions.get(value.data()) {
            found.push(row as u32);
            key_of_row.push(*position);
        }
    }
    let rows = arrow::compute::take_record_batch(batch, &arrow::array::UInt32Array::from(found))?;
    Ok((rows, key_of_row))
}
