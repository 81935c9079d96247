//! CREATE and DROP: from a parsed statement to a logged definition and a running object.

use crate::catalog::{
    ColumnDefinition, DdlRecord, MaterializedView, Object, PlainView, Table, TableDefinition, ViewDefinition,
};
use crate::database::Database;
use crate::error::from_datafusion;
use crate::names::{folded, public_name, shown_name};
use arrow::datatypes::{Field, Schema, SchemaRef};
use cenote_engine::plan::{CollectionId, Node, ViewPlan};
use cenote_engine::port::Options;
use cenote_engine::{Commit, NewView, ViewStatus};
use cenote_statestore::{Epoch, Error, ErrorKind, Result, VersionedTable};
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, CreateTableOptions, CreateView, Expr, Ident, ObjectName, ObjectType, SqlOption,
    Statement as Ast, TableConstraint, Value,
};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The same in `cenote run`, whose own printer is the subscriber.
const RUN_HISTORY_BYTES: usize = 1 << 30;

/// Bytes of past changes that a shard of a view keeps for subscribers.
const VIEW_HISTORY_BYTES: usize = 32 << 20;

fn unsupported(clause: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "SQL-0002",
        format!("cannot run statement: {clause} is not supported yet"),
    )
}

/// The name of an object in `public`.
pub(crate) fn object_name(name: &ObjectName) -> Result<String> {
    public_name(name).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "SQL-0203",
            format!("cannot use schema of \"{name}\": objects are made in public"),
        )
        .sqlstate("3F000")
    })
}

impl Database {
    /// CREATE TABLE and CREATE SOURCE.
    ///
    /// # Returns
    /// Whether it was created; `false` if it is there already and IF NOT EXISTS was said.
    pub(crate) async fn create_table(
        self: &Arc<Self>,
        create: &CreateTable,
        text: &str,
        is_source: bool,
    ) -> Result<bool> {
        let _guard = self.lock_catalog().await;
        let mut catalog = (*self.catalog()).clone();
        let definition = table_definition(create, text, is_source, &mut catalog)?;
        if create.if_not_exists && catalog.get(&definition.name).is_some() {
            return Ok(false);
        }
        catalog.check_free(&definition.name)?;
        self.check_defaults(&definition)?;
        let transient = self.config().transient_tables;
        let table = Arc::new(crate::database::new_table(
            definition,
            self.engine().retention(),
            transient,
        )?);
        if table.definition.connector.is_some() {
            // Options and columns are checked before anything is made.
            self.source_of(&table, Default::default(), None)?;
        }
        let mut create_tables: Vec<(CollectionId, Arc<VersionedTable>)> = Vec::new();
        create_tables.extend(
            table
                .versioned
                .clone()
                .map(|versioned| (table.definition.id, versioned)),
        );
        create_tables.extend(table.definition.offsets.zip(table.offsets.clone()));
        let record = DdlRecord::CreateTable(table.definition.clone());
        let commit = Commit {
            ddl: Some(encode(&record)?),
            create_tables,
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        self.engine().wait_visible(epoch).await?;
        catalog.insert(Object::Table(table.clone()));
        self.set_catalog(catalog);
        self.start_source_of(&table).await?;
        Ok(true)
    }

    fn check_defaults(&self, definition: &TableDefinition) -> Result<()> {
        for column in &definition.columns {
            if let Some(sql) = &column.default {
                let schema = datafusion::common::DFSchema::empty();
                self.planner()
                    .create_logical_expr_from_sql_expr(crate::parse::parse_expression(sql)?, &schema)
                    .map_err(|error| from_datafusion(error).unplaced())?;
            }
        }
        Ok(())
    }

    /// CREATE VIEW and CREATE MATERIALIZED VIEW.
    ///
    /// # Arguments
    /// - `abandoned`: closed when nobody waits for the view any more; a view without contents by then is dropped again.
    ///
    /// # Returns
    /// Whether it was created.
    pub(crate) async fn create_view(
        self: &Arc<Self>,
        create: &CreateView,
        text: &str,
        abandoned: oneshot::Receiver<()>,
    ) -> Result<bool> {
        let _guard = self.lock_catalog().await;
        let mut catalog = (*self.catalog()).clone();
        let definition = view_definition(create, text, &mut catalog)?;
        if create.if_not_exists && catalog.get(&definition.name).is_some() {
            return Ok(false);
        }
        let replaced = match catalog.get(&definition.name) {
            Some(Object::View(_)) if create.or_replace && !definition.materialized => true,
            _ => {
                catalog.check_free(&definition.name)?;
                false
            }
        };
        let object = if definition.materialized {
            Object::MaterializedView(self.start_logged_view(definition, abandoned).await?)
        } else {
            let columns = self.columns_of_view(&definition).await?;
            let mut ddl = vec![DdlRecord::CreateView(definition.clone())];
            if replaced {
                ddl.insert(
                    0,
                    DdlRecord::Drop(vec![catalog.get(&definition.name).expect("seen above").id()]),
                );
            }
            for record in &ddl {
                let commit = Commit {
                    ddl: Some(encode(record)?),
                    ..Commit::default()
                };
                self.engine().commit(commit).await?;
            }
            Object::View(Arc::new(PlainView { definition, columns }))
        };
        catalog.insert(object);
        self.set_catalog(catalog);
        self.start_sources_read().await?;
        Ok(true)
    }

    /// Starts sources without a table that a view has begun to read.
    async fn start_sources_read(self: &Arc<Self>) -> Result<()> {
        for object in self.catalog().objects() {
            if let Object::Table(table) = object
                && table.versioned.is_none()
                && table.definition.connector.is_some()
            {
                self.start_passing_source(table).await?;
            }
        }
        Ok(())
    }

    /// Columns of a plain view.
    pub(crate) async fn columns_of_view(self: &Arc<Self>, definition: &ViewDefinition) -> Result<SchemaRef> {
        let (plan, names) = self.plan_view_query(definition).await?;
        let fields = plan.schema().fields().iter().zip(names);
        let fields: Vec<Field> = fields
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Plans a view's query for the engine.
    ///
    /// # Returns
    /// The optimised plan and the names of its columns.
    async fn plan_view_query(
        self: &Arc<Self>,
        definition: &ViewDefinition,
    ) -> Result<(datafusion::logical_expr::LogicalPlan, Vec<String>)> {
        let statements = crate::parse::parse_script(&definition.query)?;
        let crate::parse::Parsed::Sql { ast, as_of: None } = &*statements[0].parsed else {
            return Err(unsupported("AS OF in a view"));
        };
        let mut view = self.read_view(None, None, Arc::default())?;
        view.plans_only = true;
        let state = view.view_state();
        let plan = view.plan(&state, ast).await?;
        let names = view_columns(definition, plan.schema().as_arrow())?;
        if definition.materialized {
            crate::lower::check_deterministic(&plan)?;
        }
        let optimized = state.optimize(&plan).map_err(from_datafusion)?;
        Ok((optimized, names))
    }

    /// Plans a materialized view.
    pub(crate) async fn view_plan(self: &Arc<Self>, definition: &ViewDefinition) -> Result<ViewPlan> {
        let (plan, names) = self.plan_view_query(definition).await?;
        crate::lower::lower_view(&definition.name, &plan, &names)
    }

    /// Starts a view that is in the log already.
    pub(crate) async fn start_view(self: &Arc<Self>, definition: ViewDefinition) -> Result<Arc<MaterializedView>> {
        let plan = self.view_plan(&definition).await?;
        let started = self.launch(definition, plan, None).await?;
        // A view that fails again tells so when it is read; everything else comes up.
        if let Err(error) = started.status.wait_live().await {
            tracing::warn!("materialized view {}: {}", started.definition.name, error.message());
        }
        Ok(started)
    }

    /// Plans, logs and starts a view, and waits until it has its first contents.
    async fn start_logged_view(
        self: &Arc<Self>,
        definition: ViewDefinition,
        abandoned: oneshot::Receiver<()>,
    ) -> Result<Arc<MaterializedView>> {
        let ddl = encode(&DdlRecord::CreateView(definition.clone()))?;
        let plan = self.view_plan(&definition).await?;
        let started = self.launch(definition, plan, Some(ddl)).await?;
        let live = tokio::select! {
            live = started.status.wait_live() => live,
            _ = abandoned => Err(Error::new(ErrorKind::Unavailable, "VIEW-0003", "the creation of the view was canceled").sqlstate("57014")),
        };
        if let Err(error) = live {
            // What cannot even be built from what is there is not created at all.
            let drop = DdlRecord::Drop(vec![started.definition.id]);
            let commit = Commit {
                ddl: Some(encode(&drop)?),
                drops: vec![started.definition.id],
                ..Commit::default()
            };
            self.engine().commit(commit).await?;
            return Err(error);
        }
        Ok(started)
    }

    /// Hands a planned view to the engine.
    pub(crate) async fn launch(
        self: &Arc<Self>,
        definition: ViewDefinition,
        plan: ViewPlan,
        ddl: Option<Vec<u8>>,
    ) -> Result<Arc<MaterializedView>> {
        let reads: Vec<CollectionId> = plan
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Input { collection, .. } => Some(*collection),
                _ => None,
            })
            .collect();
        // Held until the replays have read their offsets as they were just before the view.
        let _hold = self.engine().pin_visible()?;
        let passed = self.passed_on(&reads);
        let (feeds, inputs): (Vec<_>, Vec<_>) = passed.iter().map(|_| self.engine().replay()).unzip();
        let replays = passed.iter().map(|table| table.definition.id).zip(inputs).collect();
        let retention = self.engine().retention().clone();
        let workers = self.engine().workers();
        let history = if self.config().selects_wait_for_sources {
            RUN_HISTORY_BYTES
        } else {
            VIEW_HISTORY_BYTES
        };
        let versioned = Arc::new(VersionedTable::new(
            plan.table.clone(),
            workers,
            true,
            retention,
            history,
        ));
        let status = Arc::new(ViewStatus::default());
        let new = NewView {
            id: definition.id,
            plan: plan.clone(),
            status: status.clone(),
            table: versioned.clone(),
            replays,
        };
        let created: Epoch = self
            .engine()
            .commit(Commit {
                ddl,
                create_view: Some(new),
                ..Commit::default()
            })
            .await?;
        for (table, feed) in passed.iter().zip(feeds) {
            self.start_replay(table, created.previous(), feed);
        }
        Ok(Arc::new(MaterializedView {
            columns: plan.table.columns.clone(),
            plan: Arc::new(plan),
            definition,
            versioned,
            status,
            created,
            reads,
        }))
    }

    /// Sources among a new view's inputs that have begun to pass rows on and keep none.
    fn passed_on(&self, reads: &[CollectionId]) -> Vec<Arc<Table>> {
        let catalog = self.catalog();
        let tables = reads.iter().filter_map(|id| match catalog.by_id(*id) {
            Some(Object::Table(table)) if table.versioned.is_none() => Some(table.clone()),
            _ => None,
        });
        tables
            .filter(|table| self.sources().is_started(table.definition.id))
            .collect()
    }

    /// DROP of tables, sources and views.
    ///
    /// # Returns
    /// Notices for objects that are not there, with IF EXISTS.
    pub(crate) async fn drop_objects(
        self: &Arc<Self>,
        names: &[ObjectName],
        wanted: &'static str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<Vec<String>> {
        let _guard = self.lock_catalog().await;
        let mut catalog = (*self.catalog()).clone();
        let mut notices = Vec::new();
        for name in names {
            let name = object_name(name)?;
            let Some(object) = catalog.get(&name).cloned() else {
                if if_exists {
                    notices.push(format!("{wanted} \"{name}\" does not exist, skipping"));
                    continue;
                }
                return Err(catalog.missing(&name));
            };
            if object.kind() != wanted {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "SQL-0204",
                    format!("cannot drop {wanted} \"{name}\": it is a {}", object.kind()),
                )
                .sqlstate("42809")
                .attempt(format!("DROP {} {name}", object.kind().to_uppercase())));
            }
            let doomed = with_readers(&catalog, &object, cascade)?;
            self.drop_all(&doomed).await?;
            let ids: Vec<CollectionId> = doomed.iter().map(Object::id).collect();
            catalog.remove(&ids);
            self.set_catalog(catalog.clone());
        }
        Ok(notices)
    }

    async fn drop_all(&self, doomed: &[Object]) -> Result<()> {
        let mut drops = Vec::new();
        for object in doomed {
            drops.push(object.id());
            if let Object::Table(table) = object {
                self.sources().stop(object.id());
                drops.extend(table.definition.offsets);
            }
        }
        let ddl = Some(encode(&DdlRecord::Drop(drops.clone()))?);
        let epoch = self
            .engine()
            .commit(Commit {
                ddl,
                drops,
                ..Commit::default()
            })
            .await?;
        self.engine().wait_visible(epoch).await
    }
}

/// An object and everything that reads it, readers first.
fn with_readers(catalog: &crate::catalog::Catalog, object: &Object, cascade: bool) -> Result<Vec<Object>> {
    let readers = catalog.readers(object.id());
    if !cascade && !readers.is_empty() {
        let names: Vec<String> = readers
            .iter()
            .map(|reader| format!("{} {}", reader.kind(), reader.name()))
            .collect();
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0205",
            format!(
                "cannot drop {} \"{}\": other objects depend on it",
                object.kind(),
                object.name()
            ),
        )
        .sqlstate("2BP01")
        .fact("dependents", names.join(", "))
        .attempt("DROP ... CASCADE drops the dependents too"));
    }
    let mut doomed: Vec<Object> = Vec::new();
    for reader in readers {
        for object in with_readers(catalog, reader, true)? {
            if !doomed.iter().any(|known| known.id() == object.id()) {
                doomed.push(object);
            }
        }
    }
    doomed.push(object.clone());
    Ok(doomed)
}

pub(crate) fn encode(record: &DdlRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| Error::bug(error.to_string()))
}

fn table_definition(
    create: &CreateTable,
    text: &str,
    is_source: bool,
    catalog: &mut crate::catalog::Catalog,
) -> Result<TableDefinition> {
    refuse_table_clauses(create)?;
    let name = object_name(&create.name)?;
    let mut primary_key: Vec<String> = Vec::new();
    let mut columns = Vec::new();
    let mut names = HashSet::new();
    for column in &create.columns {
        let column_name = folded(&column.name);
        if !names.insert(column_name.clone()) {
            return Err(duplicate_column(&column_name));
        }
        let mut definition = ColumnDefinition {
            name: column_name.clone(),
            sql_type: column.data_type.to_string(),
            not_null: false,
            default: None,
        };
        crate::types::column_type(&column.data_type)?;
        for option in &column.options {
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => definition.not_null = true,
                ColumnOption::Default(expr) => definition.default = Some(expr.to_string()),
                ColumnOption::PrimaryKey(_) => primary_key.push(column_name.clone()),
                other => return Err(unsupported(format!("column option {other}"))),
            }
        }
        columns.push(definition);
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) if primary_key.is_empty() => {
                for column in &key.columns {
                    match &column.column.expr {
                        Expr::Identifier(ident) => primary_key.push(folded(ident)),
                        other => return Err(unsupported(format!("a primary key over {other}"))),
                    }
                }
            }
            other => return Err(unsupported(format!("constraint {other}"))),
        }
    }
    let key = key_positions(&primary_key, &mut columns)?;
    let options = options_of(&create.table_options)?;
    let connector = (!options.is_empty()).then_some(options);
    check_connector(&name, is_source, &connector)?;
    if columns.is_empty() {
        return Err(unsupported("a table without columns"));
    }
    let (id, offsets) = (catalog.allocate(), connector.is_some().then(|| catalog.allocate()));
    Ok(TableDefinition {
        id,
        name,
        sql: text.to_string(),
        columns,
        primary_key: key,
        connector,
        is_source,
        offsets,
    })
}

fn refuse_table_clauses(create: &CreateTable) -> Result<()> {
    let refused = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.temporary, "TEMPORARY"),
        (create.external, "EXTERNAL"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "PARTITION",
        ),
        (create.on_commit.is_some(), "ON COMMIT"),
        (
            create.location.is_some() || create.file_format.is_some(),
            "STORED AS and LOCATION",
        ),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}

fn key_positions(names: &[String], columns: &mut [ColumnDefinition]) -> Result<Vec<usize>> {
    names
        .iter()
        .map(|name| {
            let position = columns.iter().position(|column| column.name == *name).ok_or_else(|| {
                Error::new(
                    ErrorKind::Invalid,
                    "SQL-0302",
                    format!("column \"{name}\" named in key does not exist"),
                )
                .sqlstate("42703")
            })?;
            columns[position].not_null = true;
            Ok(position)
        })
        .collect()
}

fn check_connector(name: &str, is_source: bool, connector: &Option<Options>) -> Result<()> {
    match connector {
        Some(options) if !options.contains_key("connector") => Err(Error::new(
            ErrorKind::Invalid,
            "CONN-0002",
            format!("cannot create \"{name}\": WITH has no connector"),
        )
        .sqlstate("22023")
        .attempt("add connector = 'file'")),
        None if is_source => Err(Error::new(
            ErrorKind::Invalid,
            "CONN-0002",
            format!("cannot create source \"{name}\": it has no connector"),
        )
        .sqlstate("22023")
        .attempt("add WITH (connector = 'file', ...), or CREATE TABLE to hold rows here")),
        _ => Ok(()),
    }
}

fn duplicate_column(name: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0206",
        format!("column \"{name}\" specified more than once"),
    )
    .sqlstate("42701")
}

/// The options of a WITH clause as texts, names in lower case.
fn options_of(options: &CreateTableOptions) -> Result<Options> {
    let given = match options {
        CreateTableOptions::None => return Ok(Options::new()),
        CreateTableOptions::With(given) | CreateTableOptions::Options(given) | CreateTableOptions::Plain(given) => {
            given
        }
        other => return Err(unsupported(other)),
    };
    let mut named = Options::new();
    for option in given {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unsupported(format!("option {option}")));
        };
        let text = match value {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => text.clone(),
                Value::Boolean(value) => value.to_string(),
                other => other.to_string(),
            },
            Expr::Identifier(Ident { value, .. }) => value.to_lowercase(),
            other => return Err(unsupported(format!("the option value {other}"))),
        };
        let key = key.value.to_lowercase();
        if named.insert(key.clone(), text).is_some() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0207",
                format!("option \"{key}\" is given twice"),
            )
            .sqlstate("42601"));
        }
    }
    Ok(named)
}

fn view_definition(create: &CreateView, text: &str, catalog: &mut crate::catalog::Catalog) -> Result<ViewDefinition> {
    let refused = [
        (create.or_alter, "OR ALTER"),
        (create.temporary, "TEMPORARY"),
        (
            create.or_replace && create.materialized,
            "CREATE OR REPLACE MATERIALIZED VIEW",
        ),
        (create.to.is_some(), "TO"),
        (!create.cluster_by.is_empty(), "CLUSTER BY"),
    ];
    if let Some((_, clause)) = refused.iter().find(|(present, _)| *present) {
        return Err(unsupported(clause));
    }
    let options = options_of(&create.options)?;
    if let Some(name) = options.keys().next() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0208",
            format!("cannot create view: it takes no option \"{name}\""),
        )
        .sqlstate("22023"));
    }
    Ok(ViewDefinition {
        id: catalog.allocate(),
        name: object_name(&create.name)?,
        sql: text.to_string(),
        query: create.query.to_string(),
        columns: create.columns.iter().map(|column| folded(&column.name)).collect(),
        materialized: create.materialized,
    })
}

/// Names of a view's columns: those listed, then those of its query; each once.
fn view_columns(definition: &ViewDefinition, schema: &Schema) -> Result<Vec<String>> {
    let mut names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| shown_name(field.name()).to_string())
        .collect();
    if definition.columns.len() > names.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0209",
            format!(
                "cannot create view \"{}\": it names more columns than its query has",
                definition.name
            ),
        )
        .sqlstate("42601"));
    }
    names.splice(..definition.columns.len(), definition.columns.iter().cloned());
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(duplicate_column(name)),
        None => Ok(names),
    }
}

/// What a DROP names, if we have such things.
pub(crate) fn dropped_kind(object_type: &ObjectType) -> Result<&'static str> {
    match object_type {
        ObjectType::Table => Ok("table"),
        ObjectType::View => Ok("view"),
        ObjectType::MaterializedView => Ok("materialized view"),
        other => Err(unsupported(format!("DROP {other}"))),
    }
}

/// The CREATE TABLE inside a parsed statement.
pub(crate) fn as_create_table(ast: &Ast) -> Result<&CreateTable> {
    match ast {
        Ast::CreateTable(create) => Ok(create),
        other => Err(Error::bug(format!("not a CREATE TABLE: {other}"))),
    }
}

/// A table by name, for writing.
pub(crate) fn writable_table(catalog: &crate::catalog::Catalog, name: &ObjectName) -> Result<Arc<Table>> {
    let name = object_name(name)?;
    match catalog.get(&name) {
        None => Err(catalog.missing(&name)),
        Some(Object::Table(table)) if table.definition.connector.is_none() => Ok(table.clone()),
        Some(object) => Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0210",
            format!(
                "cannot change {} \"{name}\": its rows come from elsewhere",
                match object {
                    Object::Table(_) => "connector-fed table",
                    other => other.kind(),
                }
            ),
        )
        .sqlstate("42809")
        .attempt("change the tables it is made of")),
    }
}
