//! Lowers an optimised logical plan to the engine's dataflow IR.
//!
//! # Rules kept here
//! 1. What cannot be maintained is refused by name: "not supported in a materialized view yet: ...".
//! 2. A stateful node is named after the view, what it is, and a hash of its own sub-plan: the same query has the
//!    same state names in every process, wherever in the plan it stands.
//! 3. Equal sub-plans of one view run once.
//!
//! # Not here
//! Planning and optimising (`plan`); running (`cenote_engine`).

mod aggregate;
mod grouping_sets;
mod join;
mod order;
mod single;

use crate::program::{Program, Projection, Step, column_of};
use crate::provider::CollectionTable;
use crate::types::stored_type;
use arrow::datatypes::{Field, Schema, SchemaRef};
use cenote_engine::plan::{CollectionId, Node, NodeId, ViewPlan};
use cenote_statestore::{Changes, Error, ErrorKind, Result, TableSchema};
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A lowered sub-plan.
#[derive(Clone)]
pub(crate) struct Lowered {
    node: NodeId,
    /// Columns with the names and qualifiers that expressions above use, in stored types.
    schema: DFSchemaRef,
    /// Columns that at most one row has equal, if known.
    key: Option<Vec<usize>>,
}

/// Lowers a view.
///
/// # Arguments
/// - `columns`: the names of the view's columns.
///
/// # Errors
/// `Unsupported` 0A000: names the clause that cannot be maintained yet.
pub(crate) fn lower_view(name: &str, plan: &LogicalPlan, columns: &[String]) -> Result<ViewPlan> {
    let mut lowering = Lowering {
        view: name.to_string(),
        nodes: Vec::new(),
        known: HashMap::new(),
        named: HashMap::new(),
    };
    let root = lowering.lower(&grouping_sets::with_set_numbers(plan)?)?;
    let fields: Vec<Field> = root
        .schema
        .fields()
        .iter()
        .zip(columns)
        .map(|(field, name)| Field::new(name, field.data_type().clone(), true))
        .collect();
    let table = TableSchema {
        name: name.to_string(),
        columns: Arc::new(Schema::new(fields)),
        unique: root.key.is_some(),
        key: root.key.clone().unwrap_or_default(),
    };
    let (nodes, root) = prune(lowering.nodes, root.node);
    Ok(ViewPlan { nodes, root, table })
}

/// The error for what is not built.
pub(crate) fn not_supported(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "VIEW-0001",
        format!("not supported in a materialized view yet: {what}"),
    )
    .attempt("run it as an ad-hoc SELECT, or over a materialized view of the part that is supported")
}

struct Lowering {
    view: String,
    nodes: Vec<Node>,
    known: HashMap<LogicalPlan, Lowered>,
    /// How often each name of a stateful node was given.
    named: HashMap<String, usize>,
}

impl Lowering {
    fn lower(&mut self, plan: &LogicalPlan) -> Result<Lowered> {
        if let Some(known) = self.known.get(plan) {
            return Ok(known.clone());
        }
        let lowered = self.lower_new(plan)?;
        self.known.insert(plan.clone(), lowered.clone());
        Ok(lowered)
    }

    fn lower_new(&mut self, plan: &LogicalPlan) -> Result<Lowered> {
        match plan {
            LogicalPlan::TableScan(scan) => self.lower_scan(scan),
            LogicalPlan::Projection(projection) => {
                let input = self.lower(&projection.input)?;
                self.project(input, &projection.expr, &projection.schema, &[])
            }
            LogicalPlan::Filter(filter) => {
                let input = self.lower(&filter.input)?;
                self.filter(input, &filter.predicate)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.lower(&alias.input)?;
                Ok(Lowered {
                    schema: requalified(&input.schema, &alias.schema)?,
                    ..input
                })
            }
            LogicalPlan::Aggregate(aggregate) => match self.lower_single_rows(aggregate)? {
                Some(lowered) => Ok(lowered),
                None => self.lower_aggregate(plan, aggregate),
            },
            LogicalPlan::Distinct(Distinct::All(input)) => self.lower_distinct(plan, input),
            LogicalPlan::Join(join) => self.lower_join(plan, join),
            LogicalPlan::Sort(sort) => self.lower_sort(plan, sort),
            LogicalPlan::Limit(limit) => self.lower_limit(plan, limit),
            LogicalPlan::Window(window) => self.lower_window(plan, window),
            LogicalPlan::Union(union) => self.lower_union(union),
            LogicalPlan::EmptyRelation(empty) => self.lower_empty(empty),
            LogicalPlan::Values(values) => self.lower_values(values),
            LogicalPlan::Distinct(Distinct::On(_)) => Err(not_supported("DISTINCT ON")),
            LogicalPlan::RecursiveQuery(_) => Err(not_supported("WITH RECURSIVE")),
            LogicalPlan::Unnest(_) => Err(not_supported("UNNEST")),
            LogicalPlan::Subquery(_) => Err(not_supported("a subquery in this place")),
            other => Err(not_supported(other.display())),
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// A stable name for a stateful node.
    fn state_name(&mut self, kind: &str, plan: &LogicalPlan) -> String {
        let text = crate::names::renumbered(&plan.display_indent().to_string());
        let name = format!("{}_{kind}_{:06x}", self.view, xxh3_64(text.as_bytes()) & 0xff_ffff);
        // Sub-plans that differ in names of the planner alone come in the order of the plan.
        let count = self.named.entry(name.clone()).or_default();
        *count += 1;
        match *count {
            1 => name,
            count => format!("{name}_{count}"),
        }
    }

    fn schema_of(&self, node: NodeId) -> SchemaRef {
        self.nodes[node].schema()
    }

    fn lower_scan(&mut self, scan: &TableScan) -> Result<Lowered> {
        let provider = source_as_provider(&scan.source).map_err(crate::error::from_datafusion)?;
        let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<CollectionTable>() else {
            return Err(not_supported(format!("reading {}", scan.table_name)));
        };
        if table.id == CollectionId(u64::MAX) {
            // Made for one statement: nobody would tell the view of changes.
            return Err(not_supported(format!("reading {}", scan.table_name)));
        }
        let input = self.add_input(table.id, &table.columns);
        if self.nodes[input].schema() != table.columns {
            let name = scan.table_name.table();
            return Err(not_supported(format!(
                "reading {} both as it is and, through a view that is older than its newest columns, as it was",
                crate::catalog::older_columns_of(name).unwrap_or(name)
            )));
        }
        let qualified = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &table.columns)
            .map_err(crate::error::from_datafusion)?;
        let key = (!table.key.is_empty()).then(|| table.key.clone());
        let mut lowered = Lowered {
            node: input,
            schema: Arc::new(qualified),
            key,
        };
        for filter in &scan.filters {
            lowered = self.filter(lowered, filter)?;
        }
        match &scan.projection {
            None => Ok(lowered),
            Some(columns) => {
                let exprs: Vec<Expr> = columns
                    .iter()
                    .map(|column| column_expr(&lowered.schema, *column))
                    .collect();
                self.project(lowered, &exprs, &scan.projected_schema, &[])
            }
        }
    }

    fn add_input(&mut self, collection: CollectionId, schema: &SchemaRef) -> NodeId {
        let known = self
            .nodes
            .iter()
            .position(|node| matches!(node, Node::Input { collection: c, .. } if *c == collection));
        known.unwrap_or_else(|| {
            self.add(Node::Input {
                collection,
                schema: schema.clone(),
            })
        })
    }

    /// Keeps rows. Parts of an AND are steps of their own: whether `b <> 0 AND a / b > 1` fails must not depend on
    /// which rows come in one batch. Those that cannot fail are the first, as the optimiser may have moved them back.
    fn filter(&mut self, mut input: Lowered, predicate: &Expr) -> Result<Lowered> {
        let (last, first): (Vec<&Expr>, Vec<&Expr>) = split_conjunction(predicate)
            .into_iter()
            .partition(|part| crate::fallible::can_fail(part, &input.schema));
        for part in first.into_iter().chain(last) {
            let expr = physical(part, &input.schema)?;
            let schema = self.schema_of(input.node);
            input.node = self.add_steps(&input, Step::Filter(expr), schema);
        }
        Ok(input)
    }

    /// Computes columns.
    ///
    /// # Arguments
    /// - `keys`: positions of results that are compared as keys above.
    fn project(&mut self, input: Lowered, exprs: &[Expr], names: &DFSchema, keys: &[usize]) -> Result<Lowered> {
        let mut fields = Vec::with_capacity(exprs.len());
        let mut physicals = Vec::with_capacity(exprs.len());
        for (index, expr) in exprs.iter().enumerate() {
            let expr = physical(expr, &input.schema)?;
            let given = expr
                .data_type(input.schema.as_arrow())
                .map_err(crate::error::from_datafusion)?;
            let (qualifier, field) = names.qualified_field(index);
            let stored = stored_type(&given).ok_or_else(|| {
                not_supported(format!(
                    "column \"{}\" of type {}",
                    field.name(),
                    crate::types::type_name(&given)
                ))
            })?;
            fields.push((qualifier.cloned(), Arc::new(Field::new(field.name(), stored, true))));
            physicals.push(expr);
        }
        let passed: Vec<Option<usize>> = physicals.iter().map(column_of).collect();
        let schema = df_schema(fields)?;
        let arrow: SchemaRef = Arc::new(schema.as_arrow().clone());
        let key = input.key.as_ref().and_then(|key| {
            key.iter()
                .map(|column| passed.iter().position(|passed| *passed == Some(*column)))
                .collect()
        });
        let is_key = (0..exprs.len()).map(|index| keys.contains(&index)).collect();
        let projection = Projection {
            exprs: physicals,
            schema: arrow.clone(),
            keys: is_key,
        };
        let input_schema = self.schema_of(input.node);
        let node = if projection.is_identity(&input_schema) {
            input.node
        } else {
            self.add_steps(&input, Step::Project(Arc::new(projection)), arrow)
        };
        Ok(Lowered {
            node,
            schema: Arc::new(schema),
            key,
        })
    }

    /// Adds a step, fused with the steps of a map below it.
    fn add_steps(&mut self, input: &Lowered, step: Step, schema: SchemaRef) -> NodeId {
        let mut is_fallible = step.can_fail(&self.schema_of(input.node));
        let mut below = (input.node, Vec::new(), crate::names::known_names(&input.schema));
        if let Node::Map { input, program } = &self.nodes[input.node] {
            is_fallible |= program.is_fallible();
            if let Some(program) = (program.as_ref() as &dyn std::any::Any).downcast_ref::<Program>() {
                below = (*input, program.steps.clone(), program.input_names.clone());
            }
        }
        let (input, mut steps, input_names) = below;
        steps.push(step);
        self.add(Node::Map {
            input,
            program: Arc::new(Program {
                steps,
                schema,
                is_fallible,
                input_names,
            }),
        })
    }

    fn lower_union(&mut self, union: &datafusion::logical_expr::Union) -> Result<Lowered> {
        let mut inputs = Vec::new();
        let mut schema: Option<DFSchemaRef> = None;
        for input in &union.inputs {
            let lowered = self.lower(input)?;
            let exprs: Vec<Expr> = (0..lowered.schema.fields().len())
                .map(|column| {
                    let wanted = union.schema.field(column).data_type();
                    let expr = column_expr(&lowered.schema, column);
                    if wanted == lowered.schema.field(column).data_type() {
                        expr
                    } else {
                        datafusion::prelude::cast(expr, wanted.clone())
                    }
                })
                .collect();
            let projected = self.project(lowered, &exprs, &union.schema, &[])?;
            inputs.push(projected.node);
            schema.get_or_insert(projected.schema);
        }
        let schema = schema.ok_or_else(|| Error::bug("a union has no inputs"))?;
        let arrow: SchemaRef = Arc::new(schema.as_arrow().clone());
        let node = self.add(Node::Union { inputs, schema: arrow });
        Ok(Lowered {
            node,
            schema,
            key: None,
        })
    }

    fn lower_empty(&mut self, empty: &datafusion::logical_expr::EmptyRelation) -> Result<Lowered> {
        let fields = empty.schema.iter().map(|(qualifier, field)| {
            let stored = stored_type(field.data_type()).ok_or_else(|| not_supported(field.data_type()))?;
            Ok((qualifier.cloned(), Arc::new(Field::new(field.name(), stored, true))))
        });
        let schema = df_schema(fields.collect::<Result<Vec<_>>>()?)?;
        let arrow: SchemaRef = Arc::new(schema.as_arrow().clone());
        let columns = arrow
            .fields()
            .iter()
            .map(|f| arrow::array::new_null_array(f.data_type(), empty.produce_one_row as usize));
        let rows = Changes::batch(arrow.clone(), columns.collect(), empty.produce_one_row as usize)?;
        let node = self.add(Node::Constant {
            rows: Changes::insertions(rows),
        });
        Ok(Lowered {
            node,
            schema: Arc::new(schema),
            key: None,
        })
    }

    fn lower_values(&mut self, values: &datafusion::logical_expr::Values) -> Result<Lowered> {
        let one_row = RecordOfNothing::row()?;
        let empty = DFSchema::empty();
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (index, (qualifier, field)) in values.schema.iter().enumerate() {
            let stored = stored_type(field.data_type()).ok_or_else(|| not_supported(field.data_type()))?;
            let cells = values.values.iter().map(|row| {
                let expr = physical(&row[index], &empty)?;
                let value = expr.evaluate(&one_row).and_then(|value| value.into_array(1));
                Ok(arrow::compute::cast(
                    &value.map_err(crate::error::from_datafusion)?,
                    &stored,
                )?)
            });
            let cells = cells.collect::<Result<Vec<_>>>()?;
            let cells: Vec<&dyn arrow::array::Array> = cells.iter().map(|cell| cell.as_ref()).collect();
            columns.push(arrow::compute::concat(&cells)?);
            fields.push((qualifier.cloned(), Arc::new(Field::new(field.name(), stored, true))));
        }
        let schema = df_schema(fields)?;
        let rows = Changes::batch(Arc::new(schema.as_arrow().clone()), columns, values.values.len())?;
        let node = self.add(Node::Constant {
            rows: Changes::insertions(rows),
        });
        Ok(Lowered {
            node,
            schema: Arc::new(schema),
            key: None,
        })
    }
}

struct RecordOfNothing;

impl RecordOfNothing {
    /// One row without columns, to evaluate constants on.
    fn row() -> Result<arrow::array::RecordBatch> {
        Changes::batch(Arc::new(Schema::empty()), Vec::new(), 1)
    }
}

/// A physical expression over columns of that schema.
fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    check_allowed(expr)?;
    let made = create_physical_expr(expr, schema, &ExecutionProps::new())
        .and_then(|expr| crate::ordered::ordered(expr, schema.as_arrow()))
        .map_err(crate::error::from_datafusion)?;
    check_built(&made, schema.as_arrow())?;
    Ok(made)
}

/// Refuses an expression that has a value for no row, as a function of it is not built for its arguments: that is seen
/// on a row of NULLs. In a view, every row would be left out for it.
fn check_built(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<()> {
    if !crate::fallible::physical_can_fail(expr, schema) {
        return Ok(());
    }
    let fields = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true));
    let fields: Vec<Field> = fields.collect();
    let nulls = fields
        .iter()
        .map(|field| arrow::array::new_null_array(field.data_type(), 1));
    let nulls = nulls.collect();
    let row = Changes::batch(Arc::new(Schema::new(fields)), nulls, 1)?;
    match expr.evaluate(&row).map_err(crate::error::from_datafusion) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Err(not_supported(error.message())),
        _ => Ok(()),
    }
}

/// Refuses expressions whose value is not a function of the row.
fn check_allowed(expr: &Expr) -> Result<()> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::Volatility;
    let mut refused = None;
    let _ = expr.apply(|expr| {
        match expr {
            Expr::ScalarFunction(function) if function.func.signature().volatility != Volatility::Immutable => {
                refused = Some(format!(
                    "function {}(), whose value changes with time or call",
                    function.name()
                ));
            }
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => {
                refused = Some("a subquery in this place".to_string());
            }
            Expr::OuterReferenceColumn(_, column) => {
                refused = Some(format!("the outer column {column} in a subquery of this form"));
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        }
        Ok(TreeNodeRecursion::Stop)
    });
    refused.map_or(Ok(()), |what| Err(not_supported(what)))
}

fn column_expr(schema: &DFSchema, index: usize) -> Expr {
    Expr::Column(datafusion::common::Column::from(schema.qualified_field(index)))
}

/// A column with its qualifier, as schemas of the planner hold it.
type QualifiedField = (Option<TableReference>, Arc<Field>);

/// The name, with underscores added until no column has it.
fn free_name(taken: &[QualifiedField], mut name: String) -> String {
    while taken.iter().any(|(_, field)| *field.name() == name) {
        name.push('_');
    }
    name
}

fn df_schema(fields: Vec<QualifiedField>) -> Result<DFSchema> {
    DFSchema::new_with_metadata(fields, HashMap::new()).map_err(crate::error::from_datafusion)
}

/// The same columns under the names and qualifiers of another schema.
fn requalified(schema: &DFSchema, names: &DFSchema) -> Result<DFSchemaRef> {
    let fields = schema
        .fields()
        .iter()
        .zip(names.iter())
        .map(|(field, (qualifier, named))| {
            (
                qualifier.cloned(),
                Arc::new(field.as_ref().clone().with_name(named.name())),
            )
        });
    Ok(Arc::new(df_schema(fields.collect())?))
}

/// Drops nodes that the root does not reach.
fn prune(nodes: Vec<Node>, root: NodeId) -> (Vec<Node>, NodeId) {
    let mut reached = vec![false; nodes.len()];
    reached[root] = true;
    for id in (0..nodes.len()).rev() {
        if reached[id] {
            nodes[id].inputs().into_iter().for_each(|input| reached[input] = true);
        }
    }
    let mut moved = vec![0; nodes.len()];
    let mut kept = Vec::new();
    for (id, mut node) in nodes.into_iter().enumerate() {
        if !reached[id] {
            continue;
        }
        renumber(&mut node, &moved);
        moved[id] = kept.len();
        kept.push(node);
    }
    (kept, moved[root])
}

fn renumber(node: &mut Node, moved: &[NodeId]) {
    match node {
        Node::Input { .. } | Node::Constant { .. } => {}
        Node::Map { input, .. } => *input = moved[*input],
        Node::Aggregate(node) => node.input = moved[node.input],
        Node::TopN(node) => node.input = moved[node.input],
        Node::Join(node) => (node.left, node.right) = (moved[node.left], moved[node.right]),
        Node::Union { inputs, .. } => inputs.iter_mut().for_each(|input| *input = moved[*input]),
    }
}

/// Refuses functions whose value changes with time or call, before the optimiser computes them once and for all.
pub(crate) fn check_deterministic(plan: &LogicalPlan) -> Result<()> {
    changing_call(plan)?.map_or(Ok(()), |what| Err(not_supported(what)))
}

/// A function in a plan whose value changes with time or call, as messages name it.
pub(crate) fn changing_call(plan: &LogicalPlan) -> Result<Option<String>> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::Volatility;
    let mut found = None;
    let outcome = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                Expr::ScalarFunction(function) if function.func.signature().volatility != Volatility::Immutable => {
                    found = Some(format!(
                        "function {}(), whose value changes with time or call",
                        function.name()
                    ));
                    Ok(TreeNodeRecursion::Stop)
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    });
    outcome.map_err(crate::error::from_datafusion)?;
    Ok(found)
}
