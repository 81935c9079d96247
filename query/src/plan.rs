//! Planning: a parsed statement, a view of the database at one epoch, and DataFusion between them.
//!
//! # Owns
//! The planner's configuration (PostgreSQL's rules where DataFusion lets us choose), the schemas that names resolve
//! in, and the choice of optimiser rules for views.

mod references;
mod schemas;

use crate::catalog::{CATALOG_SCHEMA, Catalog, Object, PUBLIC, STATE_SCHEMA};
use crate::database::{Database, DatabaseConfig};
use crate::error::from_datafusion;
use crate::inventory::{STATE, StateInventory};
use crate::kept::Kept;
use crate::overlaid::Changed;
use crate::past::{Moment, Named};
use crate::pg_catalog::{self, SystemCatalog};
use crate::provider::{CollectionTable, Contents};
use crate::relations::named_relations;
use crate::row_errors::{ErrorTables, ErrorsTable};
use crate::structs::stars;
use crate::transaction::{Overlay, Transaction};
use crate::types::PostgresTypes;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::is_row_numbered;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Epoch, Error, ErrorKind, Pin, Result, VersionedTable};
use datafusion::catalog::TableProvider;
use datafusion::common::config::Dialect;
use datafusion::common::{DFSchema, ParamValues};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::{GreedyMemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateDefaults};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use references::check_references;
use schemas::Catalogs;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::OnceCell;

/// Name of the one catalog (PostgreSQL: database).
pub const DATABASE: &str = "cenote";

/// Parts of a query that are named when its memory is used up.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).expect("not zero");

/// An optimiser rule that assumes a finite input read once.
const NOT_FOR_VIEWS: &str = "push_down_limit";

/// Optimiser rules that change answers: GROUP BY of constants as a global aggregate, which has a row where there were
/// none; and `count(DISTINCT a)` in two steps, the first of which gives sums types of DataFusion's.
const WRONG_FOR_ALL: [&str; 2] = ["eliminate_group_by_constant", "single_distinct_aggregation_to_group_by"];

/// Physical optimiser rules that change answers: they push filters below a join by the bare names of columns, which both
/// sides may have; and take a column that a filter fixes to have one value, even where no row passes.
const WRONG_PHYSICAL: [&str; 3] = ["FilterPushdown", "FilterPushdown(Post)", "aggregate_statistics"];

/// The physical rule that refuses plans that cannot run.
const SANITY_CHECK: &str = "SanityCheckPlan";

/// The database as one statement reads it.
#[derive(Clone)]
pub(crate) struct ReadView {
    pub(crate) database: Arc<Database>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) pin: Pin,
    /// The epochs that the statement names with AS OF.
    pub(crate) pasts: BTreeMap<Epoch, Pin>,
    /// The epochs of the times that it names so.
    pub(crate) epochs: BTreeMap<Moment, Epoch>,
    /// The checkpoints that it names so.
    pub(crate) kept: BTreeMap<Moment, Arc<Kept>>,
    /// Whether `pin` is one of them.
    pub(crate) is_past: bool,
    pub(crate) overlays: HashMap<CollectionId, Arc<Overlay>>,
    /// State tables that the statement names, read already.
    pub(crate) states: Arc<HashMap<String, (SchemaRef, Vec<RecordBatch>)>>,
    /// State that the statement reads through `cenote_catalog.state`, once it is read.
    pub(crate) inventory: Option<StateInventory>,
    /// Whether the statement reads that.
    pub(crate) names_inventory: Arc<AtomicBool>,
    /// Rows that the statement reads under names of their own.
    pub(crate) given: Arc<HashMap<String, RecordBatch>>,
    /// The table whose row numbers the statement needs.
    pub(crate) row_ids_of: Option<CollectionId>,
    /// The table that rows are planned for, whose columns take NULL until the rows are checked.
    pub(crate) inserts_into: Option<CollectionId>,
    /// Nothing is read: a view that has failed may be named, as by views that are made anew at start.
    pub(crate) plans_only: bool,
    /// Settings that SHOW and current_setting see.
    pub(crate) settings: Arc<std::collections::BTreeMap<String, String>>,
    /// The relations as the system catalog shows them, found when a statement asks.
    pub(crate) relations: Arc<OnceCell<Arc<SystemCatalog>>>,
}

/// The planner's configuration, made once.
pub(crate) fn base_state(config: &DatabaseConfig) -> Result<SessionState> {
    let mut options = SessionConfig::new()
        .with_default_catalog_and_schema(DATABASE, PUBLIC)
        .with_target_partitions(config.workers.max(1))
        .with_batch_size(crate::provider::ROWS_PER_BATCH)
        .with_extension(Arc::new(crate::threads::QueryThreads::default()));
    let parser = &mut options.options_mut().sql_parser;
    parser.parse_float_as_decimal = true;
    parser.map_string_types_to_utf8view = false;
    parser.dialect = Dialect::PostgreSQL;
    parser.recursion_limit = 200;
    parser.collect_spans = true;
    options.options_mut().execution.time_zone = Some(crate::types::UTC.into());
    // The planner's idea of which columns can be NULL differs between its logical and its physical plans.
    options.options_mut().execution.skip_physical_aggregate_schema_check = true;
    let mut state = SessionStateBuilder::new()
        .with_config(options)
        .with_default_features()
        .with_type_planner(Arc::new(PostgresTypes))
        .with_expr_planners(expr_planners())
        .with_relation_planners(vec![Arc::new(crate::dependencies::Relations)])
        .with_optimizer_rules(rules_for_all())
        .with_physical_optimizer_rules(physical_rules())
        .with_query_planner(Arc::new(crate::ordered::planning::OrderedPlanning))
        .build();
    state.add_analyzer_rule(Arc::new(crate::ordered::GuardedArguments));
    state.add_analyzer_rule(Arc::new(crate::constants::ConstantsFirst));
    state.add_analyzer_rule(Arc::new(crate::decorrelate::SubqueriesAsJoins));
    state.add_analyzer_rule(Arc::new(crate::arithmetic::CheckedArithmetic));
    state.add_analyzer_rule(Arc::new(crate::zeros::OneZero));
    crate::functions::register(&mut state).map_err(from_datafusion)?;
    Ok(state)
}

/// What gives operators and subscripts their meaning: ours first.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let own: [Arc<dyn ExprPlanner>; 5] = [
        Arc::new(crate::unknowns::UnknownLiterals),
        Arc::new(crate::json_parts::JsonOperators),
        Arc::new(crate::arrays::ArraySubscripts),
        Arc::new(crate::structs::StructPlanner),
        Arc::new(crate::operators::TypedOperators),
    ];
    let others = SessionStateDefaults::default_expr_planners();
    own.into_iter().chain(others).collect()
}

/// A runtime in which one query has `bytes` of memory for itself; files that it spills to are shared with others.
fn with_own_memory(shared: &Arc<RuntimeEnv>, bytes: usize) -> Arc<RuntimeEnv> {
    let mut own = RuntimeEnv::clone(shared);
    let pool = GreedyMemoryPool::new(bytes);
    own.memory_pool = Arc::new(TrackConsumersPool::new(pool, CONSUMERS_NAMED));
    Arc::new(own)
}

/// The optimiser rules of ad-hoc queries.
fn rules_for_all() -> Vec<Arc<dyn datafusion::optimizer::OptimizerRule + Send + Sync>> {
    let rules = Optimizer::new().rules.into_iter();
    let rules = crate::null_equality::kept_apart(rules.filter(|rule| !WRONG_FOR_ALL.contains(&rule.name())));
    crate::pushed::kept_above(crate::dependencies::without(rules))
}

fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let rules = PhysicalOptimizer::new().rules.into_iter();
    let rules = rules.filter(|rule| !WRONG_PHYSICAL.contains(&rule.name()));
    let (checks, rules): (Vec<_>, Vec<_>) = rules.partition(|rule| rule.name() == SANITY_CHECK);
    let rules = rules.into_iter().map(crate::ordered::kept_in_order);
    // What orders conditions comes last: the checks look for columns that a filter fixes, which it hides.
    let rules = rules.chain([crate::resorted::rule()]).chain(checks);
    rules.chain([crate::ordered::rule()]).collect()
}

/// The optimiser rules that are right for inputs that change.
fn view_rules() -> Vec<Arc<dyn datafusion::optimizer::OptimizerRule + Send + Sync>> {
    let rules = rules_for_all().into_iter();
    rules.filter(|rule| rule.name() != NOT_FOR_VIEWS).collect()
}

/// DataFusion's plan of a statement, planned again for each `(...).*` in it.
async fn planned(state: &SessionState, mut ast: Ast) -> Result<LogicalPlan> {
    if !stars::are_in(&ast) {
        let statement = PlanStatement::Statement(Box::new(ast));
        return state.statement_to_plan(statement).await.map_err(from_datafusion);
    }
    let mut met = 0;
    loop {
        let statement = PlanStatement::Statement(Box::new(ast.clone()));
        let error = match state.statement_to_plan(statement).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let Some(star) = stars::Star::behind(&error) else {
            return Err(from_datafusion(error));
        };
        stars::check_number(met)?;
        star.put(&mut ast)?;
        met += 1;
    }
}

impl ReadView {
    /// A planner whose names mean this view's contents.
    pub(crate) fn state(&self) -> SessionState {
        let catalogs = Arc::new(Catalogs { view: self.clone() });
        let planner = self.database.planner().clone();
        let runtime = with_own_memory(planner.runtime_env(), self.database.config().query_memory_bytes);
        let mut state = SessionStateBuilder::new_from_existing(planner)
            .with_catalog_list(catalogs)
            .with_runtime_env(runtime)
            .build();
        // The time that now() stands for in this statement.
        state.mark_start_execution();
        let attached = self.database.attached_cell().get();
        let epoch = attached.map_or(self.pin.epoch(), |attached| attached.epoch);
        let registered = state.register_udf(Arc::new(crate::functions::cenote_epoch(epoch)));
        debug_assert!(registered.is_ok(), "a session's functions can be added to");
        state
    }

    /// A planner for materialized views.
    pub(crate) fn view_state(&self) -> SessionState {
        let state = self.state();
        let analyzer = state.analyzer().rules.iter();
        let analyzer = analyzer.filter(|rule| rule.name() != crate::constants::NAME);
        let analyzer = analyzer.cloned().collect();
        SessionStateBuilder::new_from_existing(state)
            .with_analyzer_rules(analyzer)
            .with_optimizer_rules(view_rules())
            .build()
    }

    /// Plans a statement; names of unnamed columns are PostgreSQL's, plain views are inlined, and in a transaction block
    /// materialized views over tables that it has written to.
    pub(crate) async fn plan(&self, state: &SessionState, ast: &Ast) -> Result<LogicalPlan> {
        let mut ast = ast.clone();
        crate::names::name_outputs(&mut ast);
        crate::synonyms::replace(&mut ast)?;
        let touches = pg_catalog::is_touched(&ast);
        crate::misplaced::check(&ast, state)?;
        if !touches {
            check_references(&ast, self)?;
        }
        let changed = Changed::of(self);
        crate::expand::expand_views(&mut ast, &self.catalog, &changed.inlined)?;
        if touches || pg_catalog::is_touched(&ast) {
            return self.plan_with_catalog(state, ast).await;
        }
        crate::using::name_merged(&mut ast, &self.catalog)?;
        crate::row_values::compare_fields(&mut ast)?;
        crate::operators::rewrite(&mut ast, false)?;
        crate::row_values::name_rest(&mut ast);
        crate::literal::type_literals(&mut ast)?;
        crate::casts::named::name_casts(&mut ast);
        let plan = crate::decorrelate::bounded(planned(state, ast).await?).map_err(from_datafusion)?;
        let plan = crate::values::with_subqueries(plan).map_err(from_datafusion)?;
        crate::postgres::apply_rules(plan).map_err(from_datafusion)
    }

    /// Plans a statement that asks for something of the system catalog.
    async fn plan_with_catalog(&self, state: &SessionState, mut ast: Ast) -> Result<LogicalPlan> {
        let find = || async { SystemCatalog::of(self).await.map(Arc::new) };
        let relations = self.relations.get_or_try_init(find).await?;
        pg_catalog::rewrite(&mut ast);
        crate::operators::rewrite(&mut ast, true)?;
        check_references(&ast, self)?;
        let state = pg_catalog::with_functions(state, relations).map_err(from_datafusion)?;
        let plan = planned(&state, ast).await?;
        let plan = pg_catalog::apply_types(plan, &state).map_err(from_datafusion)?;
        crate::postgres::apply_rules(plan).map_err(from_datafusion)
    }

    /// Whether that is the name a client gave its database when it connected.
    fn is_current_database(&self, name: &str) -> bool {
        self.settings.get("database").is_some_and(|database| database == name)
    }

    fn pg_table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let (columns, rows) = pg_catalog::table(self.relations.get()?, name)?;
        Some(fixed_table(columns, rows))
    }

    /// Whether a statement that was planned reads `cenote_catalog.state`.
    pub(crate) fn names_inventory(&self) -> bool {
        self.names_inventory.load(Ordering::Relaxed)
    }

    /// The epoch of everything that it reads.
    pub(crate) fn epoch(&self) -> Epoch {
        self.pin.epoch()
    }

    /// Makes readable what a statement names beyond tables at this view's epoch: other epochs, and state tables.
    /// These are read here, all at one epoch, which becomes the view's.
    pub(crate) async fn with_named(mut self, ast: &Ast) -> Result<ReadView> {
        for moment in crate::past::moments(ast) {
            // Apart from the statement's own future, which it would make larger for all that name no moment.
            Box::pin(self.reach(moment)).await?;
        }
        let kept = self.named_in_kept_only(ast);
        let mut names = BTreeSet::new();
        for (schema, name) in named_relations(ast) {
            if kept.contains(&(schema.clone(), name.clone())) {
                continue;
            }
            let is_attached = self.database.attached_table(STATE_SCHEMA, &name).is_some();
            if schema.as_deref() == Some(STATE_SCHEMA) && !is_attached && self.catalog.kept_state(&name).is_none() {
                names.insert(name);
            }
        }
        if names.is_empty() {
            return Ok(self);
        }
        self.read_states(names.into_iter().collect(), Vec::new()).await?;
        Ok(self)
    }

    /// Makes a moment that a statement names readable: by a pin on its epoch, or from a checkpoint.
    async fn reach(&mut self, moment: Moment) -> Result<()> {
        if let Some(kept) = self.database.kept(&moment).await? {
            self.kept.insert(moment, kept);
        } else if let Moment::Timestamp(time) = moment {
            match self.database.epoch_at(time)? {
                Some(epoch) => {
                    self.pasts.insert(epoch, self.database.pin_past(epoch)?);
                    self.epochs.insert(moment, epoch);
                }
                None => {
                    let kept = self.database.kept_before(time).await?;
                    self.kept.insert(moment, kept);
                }
            }
        } else if let Moment::Epoch(epoch) = moment {
            match self.database.pin_past(epoch) {
                Ok(pin) => {
                    self.pasts.insert(epoch, pin);
                }
                Err(error) if error.kind() == ErrorKind::Expired => {
                    let kept = self.database.kept_at(epoch).await.ok_or(error)?;
                    self.kept.insert(moment, kept);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Relations that a statement reads from checkpoints and nowhere else.
    fn named_in_kept_only(&self, ast: &Ast) -> BTreeSet<(Option<String>, String)> {
        let is_kept = |named: &Named| {
            named
                .moment
                .as_ref()
                .is_some_and(|moment| self.kept.contains_key(moment))
        };
        let (kept, others): (Vec<Named>, Vec<Named>) = crate::past::named(ast).into_iter().partition(is_kept);
        let name = |named: Named| (named.schema, named.name);
        let others: BTreeSet<_> = others.into_iter().map(name).collect();
        kept.into_iter()
            .map(name)
            .filter(|name| !others.contains(name))
            .collect()
    }

    /// The database as it stood at one of the epochs that the statement names.
    fn at(&self, epoch: Epoch) -> Option<ReadView> {
        let pin = self.pasts.get(&epoch)?.clone();
        Some(ReadView {
            pin,
            is_past: true,
            overlays: HashMap::new(),
            ..self.clone()
        })
    }

    /// Refuses to read the past of what keeps none.
    fn check_newest(&self, schema: &str, name: &str) -> PlanResult<()> {
        if !self.is_past {
            return Ok(());
        }
        let epoch = self.pin.epoch();
        let message = format!("cannot read {schema}.{name} at epoch {epoch}: only the newest epoch is kept");
        Err(crate::provider::outside(
            Error::new(ErrorKind::Expired, "STATE-0107", message).sqlstate("0A000"),
        ))
    }

    fn versioned(&self, id: CollectionId, table: &Arc<VersionedTable>, columns: SchemaRef) -> CollectionTable {
        let schema = table.schema();
        let width = columns.fields().len();
        let key = schema.key.iter().all(|key| *key < width) && schema.unique;
        let mut indexes = if self.plans_only { Vec::new() } else { table.indexes() };
        // Of columns that were added later whoever sees the earlier ones knows nothing.
        indexes.retain(|(_, columns)| columns.iter().all(|column| *column < width));
        CollectionTable {
            indexes,
            id,
            key: if key { schema.key.clone() } else { Vec::new() },
            columns,
            contents: Some(Contents::Versioned {
                table: table.clone(),
                pin: self.pin.clone(),
                overlay: self.overlays.get(&id).cloned(),
            }),
            defaults: HashMap::new(),
        }
    }

    /// The same view in which `name` means these rows.
    pub(crate) fn with_given(mut self, name: &str, rows: RecordBatch) -> ReadView {
        Arc::make_mut(&mut self.given).insert(name.to_string(), rows);
        self
    }

    async fn public_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if let Some(rows) = self.given.get(name) {
            return Ok(Some(fixed_table(rows.schema(), vec![rows.clone()])));
        }
        let Some(object) = self.catalog.get(name) else {
            return Ok(None);
        };
        let provider = match object {
            Object::View(view) => {
                return Err(DataFusionError::Plan(format!(
                    "view {} was not inlined",
                    view.definition.name
                )));
            }
            Object::MaterializedView(view) => {
                if !self.plans_only {
                    self.database.check_view(view).map_err(crate::provider::outside)?;
                    view.check_there_at(self.pin.epoch())
                        .map_err(crate::provider::outside)?;
                }
                if Changed::of(self).computed.contains(&view.definition.id) {
                    let rows = crate::overlaid::rows(self, view).map_err(crate::provider::outside)?;
                    return Ok(Some(fixed_table(view.columns.clone(), rows)));
                }
                self.versioned(view.definition.id, &view.versioned, view.columns.clone())
            }
            Object::Table(table) => match &table.versioned {
                None => CollectionTable {
                    indexes: Vec::new(),
                    id: table.definition.id,
                    columns: table.columns.clone(),
                    contents: None,
                    defaults: HashMap::new(),
                    key: Vec::new(),
                },
                Some(versioned) => {
                    let id = table.definition.id;
                    let is_newest = table.layout.is_none();
                    let numbered =
                        is_newest && self.row_ids_of == Some(id) && is_row_numbered(&versioned.schema().columns);
                    let columns = if numbered {
                        versioned.schema().columns.clone()
                    } else if is_newest && self.inserts_into == Some(id) {
                        crate::dml::nullable(&table.columns)
                    } else {
                        table.columns.clone()
                    };
                    let mut provider = self.versioned(id, versioned, columns);
                    provider.defaults = self.defaults(&table.definition.columns)?;
                    provider
                }
            },
        };
        Ok(Some(Arc::new(provider)))
    }

    fn defaults(&self, columns: &[crate::catalog::ColumnDefinition]) -> PlanResult<HashMap<String, Expr>> {
        let planner = self.database.planner();
        let with_default = columns
            .iter()
            .filter_map(|column| column.default.as_ref().map(|sql| (column, sql)));
        with_default
            .map(|(column, sql)| {
                let parsed = crate::parse::parse_expression(sql).map_err(crate::provider::outside)?;
                let expr = planner.create_logical_expr_from_sql_expr(parsed, &DFSchema::empty())?;
                let wanted = crate::catalog::parse_type(&column.sql_type).map_err(crate::provider::outside)?;
                Ok((column.name.clone(), crate::unknowns::typed(expr, &wanted)?))
            })
            .collect()
    }

    fn state_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if let Some((_, kept)) = self.catalog.kept_state(name) {
            let columns = kept.schema().columns.clone();
            return Ok(Some(Arc::new(self.versioned(CollectionId(u64::MAX), kept, columns))));
        }
        self.check_newest(STATE_SCHEMA, name)?;
        let rows = self.states.get(name);
        Ok(rows.map(|(columns, rows)| fixed_table(columns.clone(), rows.clone())))
    }

    async fn system_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if name == "errors" {
            let tables = ErrorTables::new(self.database.errors().clone(), &self.catalog);
            let pin = self.pin.clone();
            return Ok(Some(Arc::new(ErrorsTable { tables, pin })));
        }
        self.check_newest(CATALOG_SCHEMA, name)?;
        if name == STATE {
            self.names_inventory.store(true, Ordering::Relaxed);
            let inventory = self.inventory.clone();
            return Ok(Some(Arc::new(inventory.unwrap_or_else(StateInventory::unread))));
        }
        let rows = crate::system::system_table(self, name)
            .await
            .map_err(crate::provider::outside)?;
        Ok(rows.map(|rows| fixed_table(rows.schema(), vec![rows])))
    }
}

/// A table of rows that are there already.
fn fixed_table(columns: SchemaRef, rows: Vec<RecordBatch>) -> Arc<dyn TableProvider> {
    Arc::new(CollectionTable {
        indexes: Vec::new(),
        id: CollectionId(u64::MAX),
        columns,
        contents: Some(Contents::Rows(Arc::new(rows))),
        defaults: HashMap::new(),
        key: Vec::new(),
    })
}

/// Puts values in the place of `$1`, `$2` ...
pub(crate) fn bind(plan: LogicalPlan, parameters: &[ScalarValue]) -> Result<LogicalPlan> {
    if parameters.is_empty() {
        return Ok(plan);
    }
    let types = plan.get_parameter_types().unwrap_or_default();
    let values = parameters.iter().enumerate().map(|(index, value)| {
        let wanted = types.get(&format!("${}", index + 1)).cloned().flatten();
        let value = crate::unknowns::parameter_value(value, wanted.as_ref())?;
        Ok(datafusion::common::metadata::ScalarAndMetadata::new(value, None))
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let is_array = |value: &ScalarValue| matches!(value, ScalarValue::List(_));
    let plan = plan
        .with_param_values(ParamValues::List(values))
        .map_err(from_datafusion)?;
    match parameters.iter().any(is_array) {
        true => crate::arrays::with_decimals_alike(plan).map_err(from_datafusion),
        false => Ok(plan),
    }
}

impl Database {
    /// The database as a statement reads it now.
    ///
    /// # Arguments
    /// - `as_of`: an epoch asked for; else the transaction's, else the newest.
    pub(crate) fn read_view(
        self: &Arc<Self>,
        transaction: Option<&Transaction>,
        as_of: Option<Epoch>,
        settings: Arc<std::collections::BTreeMap<String, String>>,
    ) -> Result<ReadView> {
        let mut catalog = self.catalog();
        let pin = loop {
            let pin = match (as_of, transaction) {
                (Some(epoch), _) => self.pin_past(epoch)?,
                (None, Some(transaction)) => transaction.pin.clone(),
                (None, None) => self.engine().pin_visible()?,
            };
            // Of one moment: a table that got other columns between the two has not all of its rows in either.
            let now = self.catalog();
            if Arc::ptr_eq(&now, &catalog) {
                break pin;
            }
            catalog = now;
        };
        let mut overlays = HashMap::new();
        if let Some(transaction) = transaction.filter(|transaction| !transaction.is_read_only()) {
            for object in catalog.objects() {
                if let Some(overlay) = transaction.overlay(object.id())? {
                    overlays.insert(object.id(), overlay);
                }
            }
        }
        let (states, row_ids_of) = (Arc::default(), None);
        Ok(ReadView {
            database: self.clone(),
            catalog,
            pin,
            overlays,
            states,
            inventory: None,
            names_inventory: Arc::default(),
            given: Arc::default(),
            row_ids_of,
            inserts_into: None,
            plans_only: false,
            settings,
            relations: Arc::default(),
            pasts: BTreeMap::new(),
            epochs: BTreeMap::new(),
            kept: BTreeMap::new(),
            is_past: false,
        })
    }

    /// The newest epoch that was sealed at a time or before; `None`: memory does not hold it.
    ///
    /// # Errors
    /// `Invalid` 22023: the time has not come yet.
    fn epoch_at(&self, time: i64) -> Result<Option<Epoch>> {
        if time > chrono::Utc::now().timestamp_micros() {
            let message = format!(
                "cannot read as of {}: that time has not come yet",
                crate::past::shown_time(time)
            );
            return Err(Error::new(ErrorKind::Invalid, "STATE-0105", message).sqlstate("22023"));
        }
        let found = self.engine().progress().sealed_at(time);
        Ok(found.filter(|epoch| *epoch >= self.engine().retention().horizon()))
    }

    /// Pins an epoch that was asked for.
    ///
    /// # Errors
    /// `Invalid` 22023: it is not sealed yet. `Expired`: it is no longer kept. Both tell the newest epoch.
    pub(crate) fn pin_past(&self, epoch: Epoch) -> Result<Pin> {
        if let Some(attached) = self.attached_cell().get() {
            attached.check_epoch(epoch)?;
            return self.engine().pin_visible();
        }
        let visible = self.engine().visible();
        let pinned = if epoch > visible {
            let message = format!("cannot read at epoch {epoch}: it is not sealed yet");
            Err(Error::new(ErrorKind::Invalid, "STATE-0105", message).sqlstate("22023"))
        } else {
            self.engine().retention().pin(epoch)
        };
        pinned.map_err(|error| error.fact("newest", format!("epoch {visible}")))
    }
}
