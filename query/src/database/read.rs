//! Reads by programs, without SQL: what there is to read, scans, digests.

use super::lookup::position_of;
use super::named::schema_and_name;
use super::{Database, Readable, ReadableKind, ScanCursor, ScanRequest, StateTable};
use crate::catalog::{Catalog, KeptBy, MaterializedView, Object, PUBLIC, STATE_SCHEMA};
use crate::error::from_datafusion;
use crate::outcome::BatchStream;
use crate::parse::parse_expression;
use crate::row_errors::ErrorTables;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use cenote_engine::StateRows;
use cenote_statestore::{Changes, Digest, Epoch, Error, ErrorKind, Result, VersionedTable};
use datafusion::common::DFSchema;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use futures::StreamExt;
use std::sync::Arc;

/// Rows of one batch of a scan.
pub(super) const SCAN_ROWS: usize = 8192;

/// Views whose workers are asked at a time how large their state is.
pub(crate) const SIZES_ASKED: usize = 64;

/// What a name means to a reader.
pub(super) enum Target {
    /// A table or a view: versions of many epochs.
    Versioned {
        readable: Readable,
        table: Arc<VersionedTable>,
        /// The view whose contents they are.
        view: Option<Arc<MaterializedView>>,
    },
    /// What could not be read or worked on, of all sources and views.
    Errors { readable: Readable, tables: ErrorTables },
    /// State of an operator: the newest epoch.
    State { readable: Readable, table: StateTable },
}

impl Target {
    pub(super) fn readable(&self) -> &Readable {
        match self {
            Target::Versioned { readable, .. } | Target::Errors { readable, .. } | Target::State { readable, .. } => {
                readable
            }
        }
    }

    /// The view whose contents or state it is.
    pub(super) fn view(&self) -> Option<&Arc<MaterializedView>> {
        match self {
            Target::Versioned { view, .. } => view.as_ref(),
            Target::Errors { .. } => None,
            Target::State { table, .. } => Some(&table.view),
        }
    }
}

impl Database {
    /// Everything that can be read, sorted by schema and name.
    pub async fn readables(&self) -> Result<Vec<Readable>> {
        self.readables_of(&self.catalog()).await
    }

    /// What can be read of what is in a catalog.
    pub(crate) async fn readables_of(&self, catalog: &Catalog) -> Result<Vec<Readable>> {
        let mut found = Vec::new();
        for object in catalog.objects() {
            if let Some((table, columns, kind)) = contents(object) {
                found.push(sized(self.describe_versioned(PUBLIC, &table, columns, kind), &table));
            }
        }
        for (_, kept) in catalog.kept_states() {
            let columns = kept.schema().columns.clone();
            found.push(sized(
                self.describe_versioned(STATE_SCHEMA, kept, columns, ReadableKind::State),
                kept,
            ));
        }
        let views = catalog.materialized_views().into_iter().map(StateTable::of_view);
        let views = views.filter(|tables| !tables.is_empty());
        let sized = views.map(|tables| async {
            let sizes = self.engine.state_sizes(tables[0].view.definition.id).await?;
            Ok::<_, Error>((tables, sizes))
        });
        let mut sized = futures::stream::iter(sized).buffered(SIZES_ASKED);
        while let Some(view) = sized.next().await {
            let (tables, sizes) = view?;
            for state in tables {
                let size = sizes
                    .iter()
                    .find(|(node, table, _, _)| (*node, *table) == (state.node, state.table));
                let (rows, bytes) = size.map_or((0, 0), |(_, _, rows, bytes)| (*rows, *bytes));
                found.push(self.describe_state(&state, rows, bytes));
            }
        }
        drop(sized);
        found.sort_by(|a, b| (&a.schema_name, &a.name).cmp(&(&b.schema_name, &b.name)));
        Ok(found)
    }

    pub(super) fn describe_versioned(
        &self,
        schema: &str,
        table: &VersionedTable,
        columns: SchemaRef,
        kind: ReadableKind,
    ) -> Readable {
        let identity = table.schema();
        let key = identity.unique && identity.key.iter().all(|key| *key < columns.fields().len());
        Readable {
            schema_name: schema.to_string(),
            name: identity.name.clone(),
            kind,
            columns,
            key: if key { identity.key.clone() } else { Vec::new() },
            key_unique: key,
            rows: 0,
            bytes: 0,
            epoch: self.epoch(),
        }
    }

    pub(super) fn describe_state(&self, state: &StateTable, rows: u64, bytes: u64) -> Readable {
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

    /// One readable collection by name (`view`, `schema.view`, `cenote_state.table`). Its rows and bytes are not
    /// counted: they are 0.
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 42P01, with near names. `Unavailable`: the view has failed.
    pub fn readable(&self, name: &str) -> Result<Readable> {
        Ok(self.target(&self.catalog(), name)?.readable().clone())
    }

    pub(super) fn target(&self, catalog: &Catalog, name: &str) -> Result<Target> {
        let (schema, name) = schema_and_name(name);
        let name = name.as_ref();
        match schema {
            PUBLIC => {
                let object = catalog.get(name).ok_or_else(|| catalog.missing(name))?;
                let view = match object {
                    Object::MaterializedView(view) => Some(view.clone()),
                    _ => None,
                };
                if let Some(view) = &view {
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
                Ok(Target::Versioned { readable, table, view })
            }
            STATE_SCHEMA => {
                if let Some((kept_by, table)) = catalog.kept_state(name) {
                    let view = match kept_by {
                        KeptBy::View(view) => Some(view.clone()),
                        KeptBy::Source(_) | KeptBy::Sink(_) => None,
                    };
                    let table = table.clone();
                    let columns = table.schema().columns.clone();
                    let readable = self.describe_versioned(STATE_SCHEMA, &table, columns, ReadableKind::State);
                    return Ok(Target::Versioned { readable, table, view });
                }
                let table = self.state_table(catalog, name)?;
                self.check_view(&table.view)?;
                Ok(Target::State {
                    readable: self.describe_state(&table, 0, 0),
                    table,
                })
            }
            "cenote_catalog" if name == "errors" => {
                let tables = ErrorTables::new(self.errors.clone(), catalog);
                let readable = Readable {
                    schema_name: "cenote_catalog".into(),
                    name: name.into(),
                    kind: ReadableKind::Table,
                    columns: crate::row_errors::columns(),
                    key: Vec::new(),
                    key_unique: false,
                    rows: 0,
                    bytes: 0,
                    epoch: self.epoch(),
                };
                Ok(Target::Errors { readable, tables })
            }
            _ => Err(catalog.missing(&format!("{schema}.{name}"))),
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
            Target::Versioned { table, view, .. } => {
                let pin = match wanted {
                    None => self.engine.pin_visible()?,
                    Some(epoch) => self.pin_past(epoch)?,
                };
                let epoch = pin.epoch();
                if let Some(view) = view {
                    // Behind the pin: of an epoch in which the view failed there may be one worker's share.
                    self.check_view(&view)?;
                    view.check_there_at(epoch)?;
                }
                // Only what is wanted is copied, except that a condition may need any column.
                let (read, projection) = match filter {
                    None => (projection.clone(), (0..projection.len()).collect()),
                    Some(_) => ((0..columns.fields().len()).collect(), projection),
                };
                let source = Source::Table(table.scan(pin, read, 0..table.shards()));
                Ok(OpenScan {
                    schema,
                    epoch,
                    projection,
                    filter,
                    source,
                })
            }
            Target::Errors { tables, .. } => {
                let pin = match wanted {
                    None => self.engine.pin_visible()?,
                    Some(epoch) => self.pin_past(epoch)?,
                };
                Ok(OpenScan {
                    schema,
                    epoch: pin.epoch(),
                    projection,
                    filter,
                    source: Source::Errors(Box::new(tables.read(&pin))),
                })
            }
            Target::State { table, .. } => {
                let (epoch, mut rows) = self.engine.read_state(vec![table.read(StateRows::All)]).await?;
                if let Some(wanted) = wanted.filter(|wanted| *wanted != epoch) {
                    return Err(Error::new(
                        ErrorKind::Expired,
                        "STATE-0107",
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
}

/// A scan that is set up.
pub(super) struct OpenScan {
    schema: SchemaRef,
    epoch: Epoch,
    /// Which of the columns that are read leave.
    projection: Vec<usize>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    source: Source,
}

/// Where the rows of a scan come from.
pub(super) enum Source {
    Table(cenote_statestore::Scan),
    Rows(std::vec::IntoIter<RecordBatch>),
    Errors(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>),
}

impl OpenScan {
    /// All columns of all rows.
    pub(super) fn whole(schema: SchemaRef, epoch: Epoch, source: Source) -> OpenScan {
        OpenScan {
            projection: (0..schema.fields().len()).collect(),
            filter: None,
            schema,
            epoch,
            source,
        }
    }

    pub(super) fn batches(mut self, rows_max: usize) -> BatchStream {
        let batches = std::iter::from_fn(move || {
            let next = match &mut self.source {
                Source::Table(scan) => scan.next_batch(rows_max).transpose()?,
                Source::Rows(rows) => Ok(rows.next()?),
                Source::Errors(rows) => rows.next()?,
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

/// The description of a table with its sizes.
fn sized(readable: Readable, table: &VersionedTable) -> Readable {
    let statistics = table.statistics();
    Readable {
        rows: statistics.rows,
        bytes: statistics.bytes,
        ..readable
    }
}

pub(super) fn contents(object: &Object) -> Option<(Arc<VersionedTable>, SchemaRef, ReadableKind)> {
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
