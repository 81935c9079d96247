//! CREATE VIEW and CREATE MATERIALIZED VIEW: planned, logged, started.

use super::{duplicate_column, encode, object_name, options_of, take_state_backend};
use crate::catalog::{Catalog, DdlRecord, MaterializedView, Named, Object, PlainView, Table, ViewDefinition};
use crate::database::{Database, Points, spilling};
use crate::error::{from_datafusion, unsupported};
use crate::names::{folded, shown_name};
use crate::session::{Commitment, canceled};
use crate::source::NEWEST;
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use cenote_engine::plan::{CollectionId, Node, ViewPlan};
use cenote_engine::{Commit, NewView, Replaces, ReplayFeed, ViewMeters, ViewState, ViewStatus};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Pin, Result, TableSchema, VersionedTable};
use datafusion::sql::sqlparser::ast::CreateView;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Bytes of past changes that a shard of a view keeps for subscribers.
const VIEW_HISTORY_BYTES: usize = 32 << 20;

/// The same in `cenote run`, whose own printer is the subscriber.
pub(crate) const RUN_HISTORY_BYTES: usize = 1 << 30;

/// What becomes of a row that an expression fails on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRowError {
    /// It is left out, and its error kept: a view.
    Keep,
    /// The whole fails: a query that only runs as a view does.
    Fail,
}

/// How a view runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewSettings {
    /// What becomes of rows that an expression fails on.
    pub(crate) on_row_error: OnRowError,
    /// Bytes of past changes that a shard keeps for those who follow the view; 0 if nobody can.
    pub(crate) history_bytes: usize,
}

/// What a view begins with.
pub(crate) enum Origin {
    /// The contents of its inputs.
    Inputs,
    /// The state that it goes on from.
    State(ViewState),
    /// The contents of its inputs, but for what it keeps of a view whose place it is to take.
    View(Replaces),
}

impl Origin {
    /// The collections whose contents it begins with, once for each node that reads them.
    fn read_anew(&self, plan: &ViewPlan) -> Vec<CollectionId> {
        let is_read = |node: usize| match self {
            Origin::Inputs => true,
            Origin::State(_) => false,
            Origin::View(replaces) => replaces.kept.rebuilt.contains(&node),
        };
        let nodes = plan.nodes.iter().enumerate().filter(|(id, _)| is_read(*id));
        let inputs = nodes.filter_map(|(_, node)| match node {
            Node::Input { collection, .. } => Some(*collection),
            _ => None,
        });
        inputs.collect()
    }
}

/// A view whose parts are there, to be told of when the engine has started it.
pub(crate) struct PreparedView {
    view: MaterializedView,
    replays: Vec<(Arc<Table>, ReplayFeed)>,
    hold: Pin,
}

impl Database {
    /// CREATE VIEW and CREATE MATERIALIZED VIEW. The caller holds the catalog's lock.
    ///
    /// # Arguments
    /// - `commitment`: made once the view is sure to stay.
    /// - `abandoned`: closed when nobody waits for the view any more; a view without contents by then is dropped again.
    ///
    /// # Returns
    /// Whether it was created.
    pub(crate) async fn create_view(
        self: &Arc<Self>,
        create: &CreateView,
        text: &str,
        commitment: &Commitment,
        abandoned: oneshot::Receiver<()>,
    ) -> Result<bool> {
        let mut catalog = (*self.catalog()).clone();
        let definition = view_definition(create, text, &mut catalog)?;
        if create.if_not_exists && catalog.get(&definition.name).is_some() {
            return Ok(false);
        }
        if let Some(Object::MaterializedView(old)) = catalog.get(&definition.name)
            && create.or_replace
            && definition.materialized
        {
            let old = old.clone();
            return self.replace_view(catalog, old, definition, commitment, abandoned).await;
        }
        let replaced = match catalog.get(&definition.name) {
            Some(old @ Object::View(_)) if create.or_replace && !definition.materialized => {
                check_replaceable(&catalog, old, &definition)?;
                Some(old.id())
            }
            _ => {
                catalog.check_free(&definition.name)?;
                None
            }
        };
        if !definition.materialized {
            catalog.insert(Object::View(
                self.log_plain_view(definition, replaced, commitment).await?,
            ));
            self.set_catalog(catalog);
            return Ok(true);
        }
        let view = self.start_logged_view(definition, abandoned).await?;
        let id = view.definition.id;
        catalog.insert(Object::MaterializedView(view));
        self.set_catalog(catalog.clone());
        let stays = match self.start_sources_read(id) {
            Ok(()) => commitment.make(),
            Err(error) => Err(error),
        };
        if let Err(error) = stays {
            catalog.remove(&[id]);
            self.set_catalog(catalog);
            self.forget_view(id).await?;
            return Err(error);
        }
        Ok(true)
    }

    /// Plans and logs a view whose query takes the place of its name.
    async fn log_plain_view(
        self: &Arc<Self>,
        mut definition: ViewDefinition,
        replaced: Option<CollectionId>,
        commitment: &Commitment,
    ) -> Result<Arc<PlainView>> {
        let columns = self.columns_of_view(&definition).await?;
        if !definition.columns.is_empty() {
            // An alias names all columns or none.
            definition.columns = columns.fields().iter().map(|field| field.name().clone()).collect();
        }
        let new = definition.clone();
        let record = match replaced {
            Some(old) => DdlRecord::ReplaceView { old, new },
            None => DdlRecord::CreateView(new),
        };
        let commit = Commit {
            ddl: Some(encode(&record)?),
            ..Commit::default()
        };
        commitment.make()?;
        self.engine().commit(commit).await?;
        Ok(Arc::new(PlainView { definition, columns }))
    }

    /// Starts the sources without a table that a view has begun to read.
    pub(super) fn start_sources_read(self: &Arc<Self>, view: CollectionId) -> Result<()> {
        let catalog = self.catalog();
        let Some(Object::MaterializedView(view)) = catalog.by_id(view) else {
            return Ok(());
        };
        for input in &view.reads {
            if let Some(Object::Table(table)) = catalog.by_id(*input)
                && table.versioned.is_none()
                && table.definition.connector.is_some()
            {
                self.start_passing_source(table)?;
            }
        }
        Ok(())
    }

    /// Drops a view that was logged, and that nobody was told of.
    async fn forget_view(&self, id: CollectionId) -> Result<()> {
        let commit = Commit {
            ddl: Some(encode(&DdlRecord::Drop(vec![id]))?),
            drops: vec![id],
            ..Commit::default()
        };
        self.engine().commit(commit).await.map(|_| ())
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
        view.catalog = Arc::new(view.catalog.as_seen(definition.sees()));
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

    /// Starts a view that is in the log already. One that cannot be planned any more, or that fails again, tells so when
    /// it is read; everything else comes up.
    pub(crate) async fn start_view(self: &Arc<Self>, definition: ViewDefinition) -> Result<Arc<MaterializedView>> {
        let plan = match self.checked_view_plan(&definition).await {
            Ok(plan) => plan,
            Err(error) => return self.failed_view(definition, error),
        };
        let started = self.launch(definition, plan, None, self.view_settings()).await?;
        self.warn_unless_live(&started).await;
        Ok(started)
    }

    /// Waits until a view has its first contents, or has failed.
    pub(crate) async fn warn_unless_live(&self, view: &MaterializedView) {
        if let Err(error) = view.status.wait_live().await {
            tracing::warn!("materialized view {}: {}", view.definition.name, error.message());
        }
    }

    /// Plans a materialized view that was planned before.
    ///
    /// # Errors
    /// It cannot be planned any more; that was told.
    pub(crate) async fn checked_view_plan(self: &Arc<Self>, definition: &ViewDefinition) -> Result<ViewPlan> {
        let planned = self.view_plan(definition).await;
        let checked = planned.and_then(|plan| plan.check().map(|()| plan));
        checked.inspect_err(|error| {
            tracing::warn!("materialized view {}: {}", definition.name, error.message());
        })
    }

    /// A view that only tells why it is not there.
    pub(crate) fn failed_view(&self, definition: ViewDefinition, error: Error) -> Result<Arc<MaterializedView>> {
        let columns: SchemaRef = Arc::new(Schema::empty());
        let table = TableSchema {
            name: definition.name.clone(),
            columns: columns.clone(),
            key: Vec::new(),
            unique: false,
        };
        let rows = Changes::insertions(RecordBatch::new_empty(columns.clone()));
        let plan = ViewPlan {
            nodes: vec![Node::Constant { rows }],
            root: 0,
            table: table.clone(),
        };
        let retention = self.engine().retention().clone();
        let meters = Arc::new(ViewMeters::new(plan.nodes.len()));
        Ok(Arc::new(MaterializedView {
            columns,
            plan: Arc::new(plan),
            versioned: Arc::new(VersionedTable::new(table, 1, false, retention, 0)),
            errors: None,
            status: Arc::new(ViewStatus::failed(error)),
            meters,
            created: Epoch::ZERO,
            reads: Vec::new(),
            started_as: definition.id,
            definition,
            points: Points::default(),
        }))
    }

    /// Plans, logs and starts a view, and waits until it has its first contents.
    async fn start_logged_view(
        self: &Arc<Self>,
        definition: ViewDefinition,
        abandoned: oneshot::Receiver<()>,
    ) -> Result<Arc<MaterializedView>> {
        let ddl = encode(&DdlRecord::CreateView(definition.clone()))?;
        let plan = self.view_plan(&definition).await?;
        for column in plan.table.columns.fields() {
            super::check_column_name(column.name())?;
        }
        let started = self.launch(definition, plan, Some(ddl), self.view_settings()).await?;
        let live = tokio::select! {
            biased;
            _ = abandoned => Err(canceled()),
            live = started.status.wait_live() => live,
        };
        self.replays().end(started.definition.id);
        if let Err(error) = live {
            // What cannot even be built from what is there is not created at all.
            self.forget_view(started.definition.id).await?;
            return Err(error);
        }
        Ok(started)
    }

    /// How views of users run.
    pub(crate) fn view_settings(&self) -> ViewSettings {
        ViewSettings {
            on_row_error: OnRowError::Keep,
            history_bytes: match self.config().answers.wait_for_sources() {
                true => RUN_HISTORY_BYTES,
                false => self.config().history_bytes(VIEW_HISTORY_BYTES),
            },
        }
    }

    /// Hands a planned view to the engine.
    pub(crate) async fn launch(
        self: &Arc<Self>,
        definition: ViewDefinition,
        plan: ViewPlan,
        ddl: Option<Vec<u8>>,
        settings: ViewSettings,
    ) -> Result<Arc<MaterializedView>> {
        let (new, prepared) = self.prepare_view(definition, plan, Origin::Inputs, settings)?;
        let commit = Commit {
            ddl,
            create_view: Some(new),
            ..Commit::default()
        };
        let created: Epoch = self.engine().commit(commit).await?;
        Ok(self.started_view(prepared, created, created.previous()))
    }

    /// Makes what a view needs to run.
    ///
    /// # Arguments
    /// - `origin`: what it begins with.
    ///
    /// # Returns
    /// What the engine is to start, and what is made of that then ([`Database::started_view`]).
    pub(crate) fn prepare_view(
        &self,
        definition: ViewDefinition,
        plan: ViewPlan,
        origin: Origin,
        settings: ViewSettings,
    ) -> Result<(NewView, PreparedView)> {
        plan.check()?;
        let reads: Vec<CollectionId> = plan.reads().collect();
        // Held until the replays have read their offsets as they were just before the view.
        let hold = self.engine().pin_visible()?;
        let passed = self.passed_on(&origin.read_anew(&plan))?;
        let (feeds, inputs): (Vec<_>, Vec<_>) = passed.iter().map(|_| self.engine().replay()).unzip();
        let replays = passed.iter().map(|table| table.definition.id).zip(inputs).collect();
        let retention = self.engine().retention().clone();
        let workers = self.engine().workers();
        let spill = self.state_backends().spill(definition.state_backend)?;
        let table = |schema| {
            let (retention, history) = (retention.clone(), settings.history_bytes);
            let table = VersionedTable::new(schema, workers, true, retention, history);
            spilling(table, spill.as_ref()).map(Arc::new)
        };
        let keeps_errors = settings.on_row_error == OnRowError::Keep;
        let errors = plan.errors_table().filter(|_| keeps_errors).map(table).transpose()?;
        let view = MaterializedView {
            columns: plan.table.columns.clone(),
            versioned: table(plan.table.clone())?,
            meters: Arc::new(ViewMeters::new(plan.nodes.len())),
            plan: Arc::new(plan),
            errors,
            status: Arc::new(ViewStatus::default()),
            created: Epoch::ZERO,
            reads,
            started_as: definition.id,
            definition,
            points: Points::default(),
        };
        let (state, replaces) = match origin {
            Origin::Inputs => (None, None),
            Origin::State(state) => (Some(state), None),
            Origin::View(replaces) => (None, Some(replaces)),
        };
        let new = NewView {
            id: view.definition.id,
            plan: (*view.plan).clone(),
            status: view.status.clone(),
            meters: view.meters.clone(),
            table: view.versioned.clone(),
            errors: view.errors.clone(),
            is_followed: settings.history_bytes > 0,
            replays,
            state,
            replaces,
            spill,
        };
        let replays = passed.into_iter().zip(feeds).collect();
        Ok((new, PreparedView { view, replays, hold }))
    }

    /// A view that the engine has started.
    ///
    /// # Arguments
    /// - `created`: the epoch of its first contents.
    /// - `inputs_at`: what sources had passed on by then is in those.
    pub(crate) fn started_view(
        &self,
        prepared: PreparedView,
        created: Epoch,
        inputs_at: Epoch,
    ) -> Arc<MaterializedView> {
        let PreparedView {
            view,
            replays,
            hold: _hold,
        } = prepared;
        for (table, feed) in replays {
            self.start_replay(view.definition.id, &table, inputs_at, feed);
        }
        Arc::new(MaterializedView { created, ..view })
    }

    /// Sources among a new view's inputs that have passed rows on, now or before a restart, and keep none.
    fn passed_on(&self, reads: &[CollectionId]) -> Result<Vec<Arc<Table>>> {
        let catalog = self.catalog();
        let mut passed = Vec::new();
        for id in reads {
            if let Some(Object::Table(table)) = catalog.by_id(*id)
                && table.versioned.is_none()
                && (self.sources().is_started(*id) || !self.stored_offsets(table, NEWEST)?.is_empty())
            {
                passed.push(table.clone());
            }
        }
        Ok(passed)
    }
}

/// A view that others are made of stays as it is: they would change their meaning, some of them only at a restart. Nor
/// can a view be made of itself.
fn check_replaceable(catalog: &Catalog, old: &Object, new: &ViewDefinition) -> Result<()> {
    let name = old.name();
    if catalog.names(old, new) {
        let message = format!("cannot replace view \"{name}\": its new query reads the view itself");
        return Err(Error::new(ErrorKind::Invalid, "SQL-0218", message).sqlstate("42P17"));
    }
    let readers: Vec<&str> = catalog.readers(old.id()).into_iter().map(Object::name).collect();
    if readers.is_empty() {
        return Ok(());
    }
    let message = format!("cannot replace view \"{name}\": other objects depend on it");
    let error = Error::new(ErrorKind::Invalid, "SQL-0217", message).sqlstate("2BP01");
    Err(error.fact("dependents", readers.join(", ")).attempt("DROP them first"))
}

/// A view as a statement declares it.
pub(crate) fn view_definition(create: &CreateView, text: &str, catalog: &mut Catalog) -> Result<ViewDefinition> {
    let refused = [
        (create.or_alter, "OR ALTER"),
        (create.temporary, "TEMPORARY"),
        (create.to.is_some(), "TO"),
        (!create.cluster_by.is_empty(), "CLUSTER BY"),
    ];
    if let Some((_, clause)) = refused.iter().find(|(present, _)| *present) {
        return Err(unsupported(clause));
    }
    let name = object_name(&create.name)?;
    let mut options = options_of(&create.options)?;
    let state_backend = match create.materialized {
        true => take_state_backend(&mut options)?,
        false => None,
    };
    if let Some(option) = options.keys().next() {
        let message = format!("cannot create view \"{name}\": it takes no option \"{option}\"");
        let error = Error::new(ErrorKind::Invalid, "SQL-0208", message).sqlstate("22023");
        return Err(error.attempt("leave WITH (...) out"));
    }
    Ok(ViewDefinition {
        id: catalog.allocate(),
        name,
        sql: text.to_string(),
        query: create.query.to_string(),
        columns: create.columns.iter().map(|column| folded(&column.name)).collect(),
        materialized: create.materialized,
        state_backend,
        sees: None,
        named: Named::default(),
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
