//! EXPLAIN: the logical plan, and for a view the dataflow with its operators and their state tables.

mod changes;

use crate::error::from_datafusion;
use crate::plan::{ReadView, bind};
use cenote_engine::plan::{Node, ViewPlan};
use cenote_statestore::Result;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use futures::StreamExt;
use std::time::Instant;

/// Lines of the explanation.
pub(crate) async fn explain(view: &ReadView, statement: &Ast, parameters: &[ScalarValue]) -> Result<Vec<String>> {
    let (query, name) = match statement {
        Ast::CreateView(create) if create.materialized => (
            Ast::Query(create.query.clone()),
            Some(crate::ddl::object_name(&create.name)?),
        ),
        Ast::CreateView(create) => (Ast::Query(create.query.clone()), None),
        other => (other.clone(), None),
    };
    let Some(name) = name else {
        let state = view.state();
        let plan = bind(view.plan(&state, &query).await?, parameters)?;
        let optimized = state.optimize(&plan).map_err(from_datafusion)?;
        return Ok(titled("logical plan", &optimized.display_indent().to_string()));
    };
    let state = view.view_state();
    let plan = view.plan(&state, &query).await?;
    crate::lower::check_deterministic(&plan)?;
    let optimized = state.optimize(&plan).map_err(from_datafusion)?;
    let names: Vec<String> = (0..plan.schema().fields().len())
        .map(|column| crate::names::shown_name(plan.schema().field(column).name()).to_string())
        .collect();
    let lowered = crate::lower::lower_view(&name, &optimized, &names)?;
    let mut lines = titled("logical plan", &optimized.display_indent().to_string());
    lines.extend(titled("dataflow", &dataflow(view, &lowered)));
    Ok(lines)
}

fn titled(title: &str, text: &str) -> Vec<String> {
    std::iter::once(format!("{title}:"))
        .chain(text.lines().map(|line| format!("  {line}")))
        .collect()
}

/// The dataflow as text, one node a line, inputs by number, state tables below.
pub(crate) fn dataflow(view: &ReadView, plan: &ViewPlan) -> String {
    let mut lines = Vec::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        let inputs: Vec<String> = node.inputs().iter().map(|input| format!("#{input}")).collect();
        let what = describe(view, node);
        lines.push(
            format!("#{id} {} [{}] {what}", node.kind(), inputs.join(" "))
                .trim_end()
                .to_string(),
        );
        for table in node.state_tables() {
            lines.push(format!("     state: cenote_state.{}", table.name));
        }
    }
    let key: Vec<&str> = plan
        .table
        .key
        .iter()
        .map(|column| plan.table.columns.field(*column).name().as_str())
        .collect();
    let identity = if plan.table.unique {
        format!("key ({})", key.join(", "))
    } else {
        "no key".to_string()
    };
    lines.push(format!("view [#{}] {identity}", plan.root));
    lines.join("\n")
}

/// What an operator does, in one line.
pub(crate) fn describe(view: &ReadView, node: &Node) -> String {
    match node {
        Node::Input { collection, .. } => view
            .catalog
            .by_id(*collection)
            .map_or_else(|| collection.to_string(), |object| object.name().to_string()),
        Node::Constant { rows } => format!("{} rows", rows.len()),
        Node::Map { program, .. } => program.describe(),
        Node::Aggregate(node) => {
            let calls: Vec<&str> = node.calls.iter().map(|call| call.function.name()).collect();
            format!("by {} columns: {}", node.keys.len(), calls.join(", "))
        }
        Node::Join(node) => {
            let residual = node
                .residual
                .as_ref()
                .map(|r| format!(", if {}", r.describe()))
                .unwrap_or_default();
            format!("{:?} on {} keys{residual}", node.kind, node.left_keys.len()).to_lowercase()
        }
        Node::TopN(node) => {
            let limit = node.limit.map_or_else(|| "all".to_string(), |limit| limit.to_string());
            format!("limit {limit} offset {}", node.offset)
        }
        Node::Union { .. } => String::new(),
    }
}

/// Runs a query and tells what each of its operators did.
pub(crate) async fn analyze(view: ReadView, statement: &Ast, parameters: &[ScalarValue]) -> Result<Vec<String>> {
    if !matches!(statement, Ast::Query(_)) {
        return Err(
            crate::error::unsupported("EXPLAIN ANALYZE of a statement that is not a query")
                .attempt("EXPLAIN ANALYZE MATERIALIZED VIEW v tells what a view's operators have done"),
        );
    }
    let (view, state, plan) = view.plan_to_run(statement, parameters).await?;
    let plan = state.optimize(&plan).map_err(from_datafusion)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await;
    let physical = physical.map_err(from_datafusion)?;
    let start = Instant::now();
    let mut batches = crate::threads::compute(&state, physical.clone())?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch.map_err(from_datafusion)?.num_rows();
    }
    let took = start.elapsed();
    let shown = DisplayableExecutionPlan::with_metrics(&*physical)
        .indent(false)
        .to_string();
    let mut lines = titled("plan", &shown);
    lines.push(format!("rows: {rows}"));
    lines.push(format!("epoch: {}", view.pin.epoch()));
    lines.push(format!("time: {:.3} ms", took.as_secs_f64() * 1e3));
    Ok(lines)
}
