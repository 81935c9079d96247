//! CHECK: compiled once per table, evaluated over whole batches.
//!
//! # Rules kept here
//! 1. A row is refused exactly when a condition is false; NULL passes.
//! 2. Of several violations the first row's is told, and of its conditions the first by name, as in PostgreSQL.
//! 3. A condition reads the row alone: subqueries, aggregates and functions whose value changes are refused.

use super::CheckDefinition;
use crate::catalog::{Table, TableDefinition};
use crate::database::Database;
use crate::error::{from_datafusion, unsupported};
use crate::pgtext::{Formatter, TextStyle};
use crate::walk;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan, Projection};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{Query, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name under which a table's rows are planned before there are any.
const ROWS: &str = "\u{2}checked";

/// The conditions of one table, ready to run.
#[derive(Debug)]
pub struct Checks(Vec<Check>);

#[derive(Debug)]
struct Check {
    name: String,
    condition: Arc<dyn PhysicalExpr>,
}

impl Checks {
    /// Compiles the conditions of a table.
    ///
    /// # Errors
    /// 42703, 42804, 42803, 0A000: what a condition cannot be.
    pub(crate) async fn of(
        database: &Arc<Database>,
        definition: &TableDefinition,
        columns: &SchemaRef,
    ) -> Result<Checks> {
        let definitions = &definition.constraints.checks;
        if definitions.is_empty() {
            return Ok(Checks(Vec::new()));
        }
        let mut view = database.read_view(None, None, Arc::default())?;
        view.plans_only = true;
        let columns = crate::dml::nullable(columns);
        let view = view.with_given(ROWS, RecordBatch::new_empty(columns));
        let items: Vec<String> = definitions
            .iter()
            .enumerate()
            .map(|(position, check)| format!("({}) AS \"check {position}\"", check.sql))
            .collect();
        let alias = crate::names::quoted(&definition.name);
        let sql = format!(
            "SELECT {} FROM {} AS {alias}",
            items.join(", "),
            crate::names::quoted(ROWS)
        );
        let statements = crate::parse::parse_script(&sql)?;
        let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug("conditions were not parsed as a query"));
        };
        if holds_subquery(ast) {
            return Err(invalid("0A000", "cannot use subquery in check constraint"));
        }
        let state = view.state();
        let plan = view.plan(&state, ast).await.map_err(Error::unplaced)?;
        if let Some(call) = crate::lower::changing_call(&plan)? {
            return Err(unsupported(format!("CHECK with {call}")));
        }
        let options = state.config_options();
        let analyzed = state.analyzer().execute_and_check(plan, options, |_, _| {});
        compile(&analyzed.map_err(from_datafusion)?, definitions)
    }

    /// Refuses rows for which a condition is false.
    ///
    /// # Arguments
    /// - `rows`: the columns that users see.
    pub(crate) fn check(&self, table: &str, rows: &RecordBatch) -> Result<()> {
        let mut first: Option<(usize, &Check)> = None;
        for check in &self.0 {
            let value = check.condition.evaluate(rows).map_err(from_datafusion)?;
            let holds = value.into_array(rows.num_rows()).map_err(from_datafusion)?;
            let failing = holds.as_boolean_opt().and_then(first_false);
            if let Some(row) = failing.filter(|row| first.is_none_or(|(before, _)| *row < before)) {
                first = Some((row, check));
            }
        }
        let Some((row, check)) = first else { return Ok(()) };
        let error = Error::new(
            ErrorKind::Invalid,
            "TABLE-0107",
            format!(
                "new row for relation \"{table}\" violates check constraint \"{}\"",
                check.name
            ),
        )
        .sqlstate("23514");
        Err(error.telling(failing_row(rows, row)?).of_constraint(table, &check.name))
    }
}

/// The first row that is false; NULL is not.
fn first_false(holds: &BooleanArray) -> Option<usize> {
    if holds.false_count() == 0 {
        return None;
    }
    (0..holds.len()).find(|row| holds.is_valid(*row) && !holds.value(*row))
}

/// PostgreSQL's sentence about a row that is refused.
pub(crate) fn failing_row(rows: &RecordBatch, row: usize) -> Result<String> {
    let mut cells = Vec::with_capacity(rows.num_columns());
    for (field, array) in rows.schema().fields().iter().zip(rows.columns()) {
        let text = Formatter::new(field, array, &TextStyle::default())?.text(row);
        cells.push(text.unwrap_or_else(|| "null".into()));
    }
    Ok(format!("Failing row contains ({}).", cells.join(", ")))
}

impl Table {
    /// The table's conditions, compiled when they are first needed.
    pub(crate) async fn checks(&self, database: &Arc<Database>) -> Result<&Checks> {
        let compile = || Checks::of(database, &self.definition, &self.columns);
        self.checks.get_or_try_init(compile).await
    }
}

fn compile(plan: &LogicalPlan, definitions: &[CheckDefinition]) -> Result<Checks> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Err(unsupported("such a CHECK condition"));
    };
    match input.as_ref() {
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => {}
        LogicalPlan::Aggregate(_) => {
            return Err(invalid(
                "42803",
                "aggregate functions are not allowed in check constraints",
            ));
        }
        LogicalPlan::Window(_) => {
            return Err(invalid(
                "42P20",
                "window functions are not allowed in check constraints",
            ));
        }
        _ => return Err(unsupported("such a CHECK condition")),
    }
    let schema = input.schema();
    let context = SimplifyContext::builder().with_schema(schema.clone()).build();
    let simplifier = ExprSimplifier::new(context);
    let mut checks = Vec::with_capacity(expr.len());
    for (expr, definition) in expr.iter().zip(definitions) {
        let expr = expr.clone().unalias();
        let is = expr.get_type(schema).map_err(from_datafusion)?;
        if !matches!(is, DataType::Boolean | DataType::Null) {
            let is = crate::types::type_name(&is);
            let message = format!("argument of CHECK must be type boolean, not type {is}");
            return Err(invalid("42804", &message));
        }
        let expr = datafusion::prelude::cast(expr, DataType::Boolean);
        let expr = simplifier.simplify(expr).map_err(from_datafusion)?;
        let condition = create_physical_expr(&expr, schema, &ExecutionProps::new())
            .and_then(|expr| crate::ordered::ordered(expr, schema.as_arrow()));
        let condition = condition.map_err(from_datafusion)?;
        let name = definition.name.clone();
        checks.push(Check { name, condition });
    }
    Ok(Checks(checks))
}

fn holds_subquery(ast: &datafusion::sql::sqlparser::ast::Statement) -> bool {
    struct Queries(usize);
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut queries = Queries(0);
    let _ = walk::read(ast, &mut queries);
    queries.0 > 1
}

fn invalid(sqlstate: &'static str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, "SQL-0214", message).sqlstate(sqlstate)
}
